"""What is peculiar to AWS KMS: dates, states that are judged here, aliases that lead elsewhere, quotas."""

import hashlib
import http.server
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from shomei_service.engine.custody import CustodyMismatch, KeyGone
from shomei_service.engine.custody.providers.aws_kms import AwsKms
from shomei_service.engine.custody.providers.kms_wire import KmsPlace
from shomei_service.engine.custody.providers.protocol import Finality, Handle, KeyState
from shomei_service.engine.errors import CustodyUnavailable, IntegrityFault
from tests.engine.custody.providers import kms
from tests.engine.custody.providers.flaky import Fault, in_front_of
from tests.providers import Aws, Machines

KEY, AAD = b"\x07" * 32, b"bound"
DAY = 86_400
HOME = Path("unused")


@pytest.fixture
def aws(machines: Machines) -> Aws:
    custodian = machines.custodian("aws-kms")
    assert isinstance(custodian, Aws)
    return custodian


@pytest.fixture
def boto(aws: Aws) -> Iterator[Any]:
    """AWS's own client, with which an administrator does things by hand."""
    with closing(aws.client()) as client:
        yield client


def client(url: str, days: int = 7, timeout_s: float = 60) -> AwsKms:
    return AwsKms(KmsPlace(kms.REGION, days, url, timeout_s))


def new() -> str:
    return "epoch-" + secrets.token_hex(16)


def alias(handle: str) -> str:
    return f"alias/shomei/{handle}"


def key_id(boto: Any, handle: str) -> str:
    return boto.describe_key(KeyId=alias(handle))["KeyMetadata"]["KeyId"]


def test_a_key_pending_deletion_is_refused_though_the_service_still_decrypts(aws: Aws, boto: Any) -> None:
    """The control is moto itself, which goes on decrypting: the provider must ask for the state."""
    provider = client(aws.server.url)
    handle = provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    provider.destroy(handle)
    sealed = wrapped.partition(b":")[2]
    context = {"shomei": hashlib.sha256(AAD).hexdigest()}
    answer = boto.decrypt(KeyId=alias(handle), CiphertextBlob=sealed, EncryptionContext=context)
    assert answer["Plaintext"] == KEY
    with pytest.raises(KeyGone):
        provider.unwrap(handle, wrapped, AAD)
    with pytest.raises(KeyGone):
        provider.wrap(handle, KEY, AAD)


@pytest.mark.parametrize("days", [7, 30])
def test_the_date_is_the_services_own_and_a_repeat_does_not_move_it(aws: Aws, boto: Any, days: int) -> None:
    provider = client(aws.server.url, days)
    handle = provider.create(new())
    now = time.time()
    ended = provider.destroy(handle)
    assert ended.finality is Finality.SCHEDULED
    assert ended.final_at is not None
    assert now + days * DAY - 1 <= ended.final_at <= time.time() + days * DAY + 1
    shown = boto.describe_key(KeyId=alias(handle))["KeyMetadata"]["DeletionDate"].timestamp()
    assert ended.final_at - 1 < shown <= ended.final_at, "rounded up, never down"
    time.sleep(1.1)
    assert provider.destroy(handle) == ended
    assert client(aws.server.url, 30).destroy(handle) == ended


def test_the_window_is_open_and_then_it_is_closed(aws: Aws, boto: Any) -> None:
    """Until its date an administrator can cancel; after it nobody can. Receipts say `scheduled` for that."""
    provider = client(aws.server.url)
    handle = provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    provider.destroy(handle)
    ours = key_id(boto, handle)
    boto.cancel_key_deletion(KeyId=ours)
    assert provider.state(handle) is KeyState.ACTIVE, "cancelled is not destroyed, though it is disabled"
    with pytest.raises(CustodyUnavailable, match="disabled"):
        provider.unwrap(handle, wrapped, AAD)
    boto.enable_key(KeyId=ours)
    assert provider.unwrap(handle, wrapped, AAD) == KEY
    provider.destroy(handle)
    aws.let_days_pass(6)
    assert provider.state(handle) is KeyState.PENDING
    aws.let_days_pass(8)
    assert provider.state(handle) is KeyState.GONE
    with pytest.raises(boto.exceptions.NotFoundException):
        boto.cancel_key_deletion(KeyId=ours)
    with pytest.raises(KeyGone):
        provider.unwrap(handle, wrapped, AAD)


def test_a_key_that_is_not_found_is_no_proof_that_it_was_deleted(aws: Aws, boto: Any) -> None:
    """Its date may have passed; somebody may also have taken its alias. So no date is claimed."""
    provider = client(aws.server.url)
    handle = provider.create(new())
    boto.delete_alias(AliasName=alias(handle))
    ended = provider.destroy(handle)
    assert (ended.finality, ended.final_at) == (Finality.SCHEDULED, None)


def test_an_alias_that_leads_to_somebody_elses_key_does_it_no_harm(aws: Aws, boto: Any) -> None:
    provider = client(aws.server.url)
    handle = provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    theirs = boto.create_key(Description="payroll")["KeyMetadata"]["KeyId"]
    boto.update_alias(AliasName=alias(handle), TargetKeyId=theirs)
    for act in (
        lambda: provider.destroy(handle),
        lambda: provider.state(handle),
        lambda: provider.wrap(handle, KEY, AAD),
        lambda: provider.unwrap(handle, wrapped, AAD),
    ):
        with pytest.raises(CustodyMismatch):
            act()
    assert boto.describe_key(KeyId=theirs)["KeyMetadata"]["KeyState"] == "Enabled"


def test_a_disabled_key_is_destroyed_all_the_same(aws: Aws, boto: Any) -> None:
    provider = client(aws.server.url)
    handle = provider.create(new())
    boto.disable_key(KeyId=key_id(boto, handle))
    assert provider.state(handle) is KeyState.ACTIVE
    assert provider.destroy(handle).final_at is not None
    assert provider.state(handle) is KeyState.PENDING


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.LOST, Fault.BROKEN])
def test_a_destruction_that_stopped_anywhere_is_finished_by_a_repeat(aws: Aws, fault: Fault) -> None:
    with in_front_of(aws.server.url) as flaky:
        provider = client(flaky.url)
        for nth in range(1, 4):
            handle = provider.create(new())
            flaky.harm(fault, nth)
            with pytest.raises(CustodyUnavailable):
                provider.destroy(handle)
            assert len(flaky.asked) == nth, "nothing is retried underneath"
            flaky.heal()
            assert provider.destroy(handle).final_at is not None
            assert provider.state(handle) is KeyState.PENDING


@pytest.mark.parametrize(("nth", "is_named"), [(2, False), (3, True), (4, True)])
def test_a_creation_that_stopped_half_way_leaves_what_its_name_finds_or_what_opens_nothing(
    aws: Aws, boto: Any, nth: int, is_named: bool
) -> None:
    """Between key and alias lies a gap: what is left then is a key without alias that wrapped nothing."""
    with in_front_of(aws.server.url) as flaky:
        provider = client(flaky.url)
        name = new()
        flaky.harm(Fault.LOST, nth)
        with pytest.raises(CustodyUnavailable):
            provider.create(name)
        flaky.heal()
        assert (provider.state(Handle(name)) is KeyState.ACTIVE) == is_named
        provider.destroy(Handle(name))
        assert provider.state(Handle(name)) is not KeyState.ACTIVE


# What the service may answer that moto never does

_META = {"KeyId": "11", "KeyState": "Enabled", "Description": "Shomei epoch key epoch-1"}
Answers = Callable[[str], tuple[int, object]]


@contextmanager
def pretender(answers: Answers) -> Iterator[AwsKms]:
    """Yield a client of a server that answers each act as it is told."""

    class Door(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Keep quiet."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = answers(self.headers["X-Amz-Target"].rpartition(".")[2])
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield client(f"http://127.0.0.1:{server.server_address[1]}", timeout_s=60)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _error(code: str) -> tuple[int, object]:
    return 400, {"__type": code, "message": "no"}


MAD: dict[str, tuple[int, object]] = {
    "a page": (200, b"<html>hello</html>"),
    "nothing": (200, b""),
    "a list": (200, []),
    "text": (200, "no"),
    "no key": (200, {}),
    "key is text": (200, {"KeyMetadata": "no"}),
    "an unknown state": (200, {"KeyMetadata": {**_META, "KeyState": "Unavailable"}}),
    "no state": (200, {"KeyMetadata": {"KeyId": "11", "Description": "Shomei epoch key epoch-1"}}),
    "no id": (200, {"KeyMetadata": {"KeyState": "Enabled", "Description": "Shomei epoch key epoch-1"}}),
    "a date that is none": (200, {"KeyMetadata": {**_META, "DeletionDate": "soon"}}),
    "not UTF-8": (200, b'{"KeyMetadata": {"KeyId": "\xff"}}'),
    "an error": (500, {"__type": "KMSInternalException"}),
    "an error of a proxy": (502, b"bad gateway"),
    "denied": _error("AccessDeniedException"),
    "expired": _error("ExpiredTokenException"),
    "throttled": _error("ThrottlingException"),
    "quota": _error("LimitExceededException"),
    "an error without a name": (400, {}),
}


@pytest.mark.parametrize("answer", sorted(MAD))
@pytest.mark.usefixtures("aws")
def test_what_is_no_answer_is_never_taken_for_a_key_that_is_gone(answer: str) -> None:
    name = Handle("epoch-1")
    with pretender(lambda _act: MAD[answer]) as provider:
        for act in (
            lambda: provider.state(name),
            lambda: provider.destroy(name),
            lambda: provider.create("epoch-1"),
            lambda: provider.wrap(name, KEY, AAD),
            lambda: provider.unwrap(name, b"11:sealed", AAD),
        ):
            with pytest.raises(CustodyUnavailable):
                act()


@pytest.mark.usefixtures("aws")
def test_a_quota_says_that_it_is_one() -> None:
    def answers(act: str) -> tuple[int, object]:
        return _error("NotFoundException") if act == "DescribeKey" else _error("LimitExceededException")

    with pretender(answers) as provider, pytest.raises(CustodyUnavailable, match="quota"):
        provider.create("epoch-1")


@pytest.mark.usefixtures("aws")
def test_a_deletion_that_does_not_show_is_none() -> None:
    """KMS is consistent after a while: until it shows the date, nothing is said to be destroyed."""

    def answers(act: str) -> tuple[int, object]:
        return 200, {"KeyMetadata": _META} if act == "DescribeKey" else {}

    with pretender(answers) as provider, pytest.raises(CustodyUnavailable, match="yet"):
        provider.destroy(Handle("epoch-1"))


@pytest.mark.usefixtures("aws")
def test_a_key_that_does_not_show_is_not_used() -> None:
    def answers(act: str) -> tuple[int, object]:
        if act == "DescribeKey":
            return _error("NotFoundException")
        return 200, {"KeyMetadata": _META} if act == "CreateKey" else {}

    with pretender(answers) as provider, pytest.raises(CustodyUnavailable, match="yet"):
        provider.create("epoch-1")


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ({"Plaintext": "AAAA", "KeyId": "11"}, IntegrityFault),
        ({"Plaintext": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=", "KeyId": "12"}, IntegrityFault),
        ({"KeyId": "11"}, CustodyUnavailable),
        ({"Plaintext": 7, "KeyId": "11"}, CustodyUnavailable),
    ],
)
@pytest.mark.usefixtures("aws")
def test_another_plaintext_than_a_key_is_refused(answer: object, fault: type[Exception]) -> None:
    def answers(act: str) -> tuple[int, object]:
        return 200, {"KeyMetadata": _META} if act == "DescribeKey" else answer

    with pretender(answers) as provider, pytest.raises(fault):
        provider.unwrap(Handle("epoch-1"), b"11:sealed", AAD)


@pytest.mark.usefixtures("aws")
def test_without_credentials_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    import boto3

    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with pytest.raises(CustodyUnavailable, match="no AWS credentials"):
        client("http://127.0.0.1:1").state(Handle("epoch-1"))
