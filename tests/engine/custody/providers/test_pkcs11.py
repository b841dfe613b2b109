"""What is peculiar to tokens: what never leaves them, logins of a whole process, PINs that lock, sessions."""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from shomei_service.engine.custody import CustodyMismatch
from shomei_service.engine.custody.providers.pkcs11 import Pkcs11, TokenPlace
from shomei_service.engine.custody.providers.protocol import Finality, Handle, KeyState
from shomei_service.engine.errors import CustodyUnavailable
from tests.engine.custody.providers import softhsm
from tests.providers import TOKEN, Machines, Token

KEY, AAD = b"\x07" * 32, b"bound"
ROOT = Path(__file__).resolve().parents[4]

# python-pkcs11 ends an unfinished search when it is collected, and complains of a session closed by then.
closes_late = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def token(machines: Machines) -> Token:
    custodian = machines.custodian("pkcs11")
    assert isinstance(custodian, Token)
    return custodian


@pytest.fixture
def provider(token: Token) -> Pkcs11:
    return Pkcs11(TokenPlace(token.module, TOKEN), lambda: softhsm.PIN)


def new() -> str:
    return "epoch-" + secrets.token_hex(16)


def objects(provider: Pkcs11, label: str) -> list[object]:
    with provider._using() as session:
        return list(provider._named(session, label))


def test_an_epoch_key_can_not_be_read_taken_out_or_changed(provider: Pkcs11) -> None:
    import pkcs11

    handle = provider.create(new())
    (key,) = objects(provider, f"shomei-{handle}")
    attribute = pkcs11.Attribute
    wanted = {
        attribute.SENSITIVE: True,
        attribute.ALWAYS_SENSITIVE: True,
        attribute.EXTRACTABLE: False,
        attribute.NEVER_EXTRACTABLE: True,
        attribute.PRIVATE: True,
        attribute.LOCAL: True,
        attribute.MODIFIABLE: False,
        attribute.SIGN: True,
        attribute.ENCRYPT: False,
        attribute.DECRYPT: False,
        attribute.WRAP: False,
        attribute.DERIVE: False,
    }
    assert {name: key[name] for name in wanted} == wanted  # type: ignore[index]
    with pytest.raises(pkcs11.AttributeSensitive):
        key[attribute.VALUE]  # type: ignore[index]
    with pytest.raises(pkcs11.PKCS11Error):
        key[attribute.EXTRACTABLE] = True  # type: ignore[index]


def test_the_keys_file_goes_with_the_key(token: Token, provider: Pkcs11) -> None:
    def files() -> set[Path]:
        return set(token.folder.rglob("*.object"))

    before = files()
    handle = provider.create(new())
    assert len(files() - before) == 1
    provider.destroy(handle)
    assert files() == before


@pytest.mark.parametrize(
    ("maker", "finality", "is_development"),
    [("SoftHSM project", Finality.UNASSURED, True), ("Thales", Finality.FINAL, False)],
)
def test_a_token_in_software_does_not_pass_for_one_in_hardware(
    provider: Pkcs11, maker: str, finality: Finality, is_development: bool
) -> None:
    """All that tells them apart is what the token says of its maker."""

    class Made(Pkcs11):
        def _maker(self, session: object) -> str:
            return maker

    made = Made(TokenPlace(provider._place.module, TOKEN), lambda: softhsm.PIN)
    assert made.describe().is_development is is_development
    assert made.destroy(Handle(new())).finality is finality


@closes_late
def test_a_lost_session_is_unavailable_once_and_opened_again(provider: Pkcs11) -> None:
    handle = provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    assert provider._session is not None
    provider._session.close()
    with pytest.raises(CustodyUnavailable):
        provider.unwrap(handle, wrapped, AAD)
    assert provider.unwrap(handle, wrapped, AAD) == KEY


def test_a_name_that_two_objects_have_opens_nothing_and_both_are_destroyed(provider: Pkcs11) -> None:
    """A creation whose answer was lost and that was made again, or somebody's copy."""
    handle = provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    with provider._using() as session:
        provider._generate(session, f"shomei-{handle}")
    with pytest.raises(CustodyMismatch):
        provider.unwrap(handle, wrapped, AAD)
    provider.destroy(handle)
    assert provider.state(handle) is KeyState.GONE
    assert objects(provider, f"shomei-{handle}") == []


SCRIPT = """
import json, sys
from pathlib import Path
from shomei_service.engine.custody.providers.pkcs11 import Pkcs11, TokenPlace
from shomei_service.engine.errors import EngineError
import pkcs11
module, label, acts = json.loads(sys.argv[1])
provider, said = None, []
for act, *words in acts:
    try:
        match act:
            case "open" | "init":
                pin = words[0]
                provider = Pkcs11(TokenPlace(Path(module), label), lambda: pin, initialise=act == "init")
                said.append("opened")
            case "pin":
                pin = words[0]
                said.append("changed")
            case "log out":
                with provider._using() as session:
                    session.close()
                said.append("out")
            case "drop anchor":
                with provider._using() as session:
                    for key in provider._named(session, "shomei-custody"):
                        key.destroy()
                said.append("dropped")
            case "hide":
                provider._session = provider._session.token.open(rw=True)  # and nobody is logged in
                said.append("hidden")
            case _:
                said.append(str(getattr(provider, act)(*words)))
    except EngineError as exc:
        said.append(f"{type(exc).__name__}: {exc}")
print(json.dumps(said))
"""


def alone(token: Token, folder: Path, *acts: list[str], label: str = TOKEN) -> list[str]:
    """Do these in a process that has its own login, on a token of its own."""
    configuration = softhsm.configured(folder)
    path = os.pathsep.join([str(ROOT / "packages"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([str(token.module), label, acts])],
        env={**os.environ, "SOFTHSM2_CONF": str(configuration), "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert softhsm.PIN not in done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder(token: Token, tmp_path: Path) -> Path:
    """A directory with an empty token in it."""
    with softhsm.tokens(tmp_path / "softhsm"):
        softhsm.new_token(TOKEN)
    return tmp_path / "softhsm"


def test_a_wrong_pin_is_tried_once_and_does_not_lock_the_token(token: Token, folder: Path) -> None:
    said = alone(
        token,
        folder,
        ["init", softhsm.PIN],
        ["log out"],
        ["pin", "0000"],
        ["state", "epoch-1"],
        ["state", "epoch-1"],
    )
    assert said[:3] == ["opened", "out", "changed"]
    assert all(one.startswith("CustodyUnavailable") for one in said[3:]), said
    (refused,) = alone(token, folder, ["open", "0000"])
    assert refused == "StartRefused: the token refuses the PIN; look at SHOMEI_PKCS11_PIN_FILE"
    assert alone(token, folder, ["open", softhsm.PIN]) == ["opened"]


def test_a_token_that_was_never_ours_is_refused_by_serve_but_not_by_init(token: Token, folder: Path) -> None:
    (refused,) = alone(token, folder, ["open", softhsm.PIN])
    assert refused.startswith("StartRefused: the token holds no Shomei custody")
    assert alone(token, folder, ["init", softhsm.PIN], ["init", softhsm.PIN]) == ["opened", "opened"]
    assert alone(token, folder, ["open", softhsm.PIN]) == ["opened"]


def test_nothing_is_taken_for_gone_by_a_session_that_sees_nothing(token: Token, folder: Path) -> None:
    """Logged out, a token shows no private object: every key would look destroyed."""
    said = alone(
        token,
        folder,
        ["init", softhsm.PIN],
        ["create", "epoch-1"],
        ["log out"],
        ["hide"],
        ["state", "epoch-1"],
        ["destroy", "epoch-1"],
        ["log out"],
        ["state", "epoch-1"],
    )
    assert said[4].startswith("CustodyUnavailable"), said
    assert said[5].startswith("CustodyUnavailable"), said


def test_a_cleared_token_is_not_one_whose_keys_were_destroyed(token: Token, folder: Path) -> None:
    said = alone(
        token,
        folder,
        ["init", softhsm.PIN],
        ["drop anchor"],
        ["state", "epoch-1"],
        ["destroy", "epoch-1"],
    )
    assert all(one.startswith("CustodyUnavailable: the token shows none of our keys") for one in said[2:])


def test_without_the_extra_it_says_which(tmp_path: Path) -> None:
    """An interpreter in which the package can not be imported."""
    code = (
        "import sys; sys.modules['pkcs11'] = None; sys.modules['boto3'] = None\n"
        "from pathlib import Path\n"
        "from shomei_service.engine.custody.providers.pkcs11 import Pkcs11, TokenPlace\n"
        "from shomei_service.engine.custody.providers.aws_kms import AwsKms\n"
        "from shomei_service.engine.custody.providers.kms_wire import KmsPlace\n"
        "from shomei_service.engine.errors import StartRefused\n"
        "for make in (lambda: Pkcs11(TokenPlace(Path('x'), 't'), str), lambda: AwsKms(KmsPlace('r', 7))):\n"
        "    try: make()\n"
        "    except StartRefused as exc: print(exc)\n"
    )
    path = os.pathsep.join([str(ROOT / "packages"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "PKCS#11 custody needs the extra: pip install 'shomei-governed-memory[pkcs11]'",
        "KMS custody needs the extra: pip install 'shomei-governed-memory[aws]'",
    ]
