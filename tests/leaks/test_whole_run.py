"""A whole run at the loudest log level, with a canary in everything a caller can write. DEV-32, T-36.

Nothing of it may be in a log, an error, a receipt, a metric, the description, a file or the process list; a
database that breaks, a disk that is full and a wrong key included.
"""

import json
import re
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.fakes import Home, new_home
from tests.residue.scan import forms, sightings
from tests.service import Service, serving

# Different from the first letters on: what is looked for is a word's beginning.
CANARIES: Final = {
    place: f"zq{number:02d}{place}canary"
    for number, place in enumerate(
        (
            "text", "other", "revised", "batch", "user", "kind", "name", "value", "query", "filter", "reason",
            "matter", "evidence", "recipient", "retry", "cursor", "path", "param", "agent", "field", "basis",
            "purpose", "location", "token", "broken", "full",
        )
    )
}  # fmt: skip
STEM: Final = 12
# Where content may come back to whoever may read it: CONTRACT.md §1.
MAY_SHOW: Final = {"add", "list", "show", "search", "update", "forget", "export", "consents"}


@dataclass(slots=True)
class Run:
    """What a run left behind, beside the service's own files and log."""

    home: Home
    service: Service
    shown: list[tuple[str, int, str, dict[str, str]]] = field(default_factory=list)

    def ask(self, name: str, method: str, target: str, body: object = None, *, key: str | None = None) -> Any:
        """Send one request with a canary in its headers, and keep what came back under the name."""
        headers = {
            "authorization": f"Bearer {key or self.home.admin_token}",
            "user-agent": CANARIES["agent"],
            "x-request-id": CANARIES["agent"],
            "referer": f"http://{CANARIES['agent']}/",
            "cookie": f"session={CANARIES['agent']}",
            "x-forwarded-for": CANARIES["agent"],
        }
        if method != "GET":
            headers["idempotency-key"] = f"{CANARIES['retry']}-{len(self.shown)}"
        sent: Any = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        if sent is not None:
            headers["content-type"] = "application/json"
        url = self.service.url + target
        with httpx.Client(trust_env=False, timeout=120) as client:
            answer = client.request(method, url, content=sent, headers=headers)
        self.shown.append((name, answer.status_code, answer.text, dict(answer.headers)))
        return answer.json() if answer.headers["content-type"] == "application/json" else answer.text

    @property
    def log(self) -> str:
        """Everything the process has written."""
        return self.service.log.read_text()


def remembered(run: Run, place: str = "text") -> str:
    """Remember a memory with canaries in every field; return its id."""
    c = CANARIES
    body = {
        "messages": f"The {c[place]} sings.",
        "user_id": c["user"],
        "semantic_type": c["kind"],
        "metadata": {c["name"]: [c["value"], {c["name"]: c["value"]}]},
    }
    return run.ask("add", "POST", "/v1/memories", body, key=run.home.data_token)["results"][0]["id"]


def every_verb(run: Run) -> None:
    c = CANARIES
    data = run.home.data_token
    one, two, three = (remembered(run, place) for place in ("text", "other", "text"))
    run.ask(
        "add", "POST", "/v1/memories/batch", {"memories": [{"messages": c["batch"], "user_id": c["user"]}]}
    )
    run.ask("search", "POST", "/v1/search?explain=true", {"query": c["text"], "user_id": c["user"]}, key=data)
    run.ask("search", "POST", "/v1/search", {"query": c["query"], "semantic_type": c["filter"]}, key=data)
    run.ask("list", "GET", f"/v1/memories?user_id={c['user']}", key=data)
    run.ask("refused", "GET", f"/v1/memories?cursor={c['cursor']}", key=data)
    run.ask("show", "GET", f"/v1/memories/{one}", key=data)
    run.ask("status", "GET", f"/v1/memories/{one}/verify")
    run.ask("lineage", "GET", f"/v1/memories/{one}/lineage/graph")
    updated = run.ask("update", "PUT", f"/v1/memories/{two}", {"data": c["revised"]})["results"][0]["id"]
    run.ask("govern", "POST", f"/v1/memories/{updated}/restrict", {"reason": c["reason"]})
    run.ask("govern", "DELETE", f"/v1/memories/{updated}/restrict")
    hold = {"scope": "memory", "memory_id": three, "authority_code": "litigation", "matter_ref": c["matter"]}
    held = run.ask("govern", "POST", "/v1/holds", hold)["hold_id"]
    run.ask(
        "govern", "POST", "/v1/holds", {**hold, "scope": "subject", "memory_id": None, "user_id": c["user"]}
    )
    run.ask("govern", "DELETE", f"/v1/memories/{three}")
    consent = {
        "user_id": c["user"],
        "purpose": c["purpose"],
        "action": "granted",
        "evidence_ref": c["evidence"],
    }
    run.ask("govern", "POST", "/v1/consent", consent)
    run.ask("consents", "GET", f"/v1/consent?user_id={c['user']}")
    recipient = {"ground_code": "art_15", "recipient": c["recipient"]}
    run.ask("govern", "POST", f"/v1/memories/{one}/disclose", recipient)
    artifact = {"derived_from": [one], "kind": "summary", "location_code": c["location"]}
    run.ask("govern", "POST", "/v1/artifacts", artifact)
    run.ask("export", "POST", "/v1/export", {"user_id": c["user"]})
    run.ask("export", "GET", f"/v1/export?user_id={c['user']}")
    run.ask("govern", "DELETE", f"/v1/memories/{one}")
    run.ask("forget", "POST", "/v1/forget", {"user_id": c["user"]})
    run.ask("govern", "DELETE", f"/v1/holds/{held}?release_code=closed&confirm=true")
    for name, target in (
        ("receipts", "/v1/receipts"),
        ("tombstones", "/v1/tombstones"),
        ("audit", f"/v1/audit?user_id={c['user']}"),
        ("holds", "/v1/holds"),
        ("obligations", "/v1/obligations"),
        ("signer", "/v1/signer"),
        ("metrics", "/metrics"),
        ("description", "/openapi.json"),
        ("ready", "/readyz"),
        ("health", "/healthz"),
    ):
        run.ask(name, "GET", target)


def everything_wrong(run: Run) -> None:
    c = CANARIES
    wrong = f"shm_{16 * '0'}_{c['token']}".ljust(64, "A")
    for target in (f"/v1/memories/{c['path']}", f"/{c['path']}", f"/v1/memories/%2F{c['path']}/restrict"):
        for method in ("GET", "DELETE", "POST", "PROPFIND"):
            run.ask("refused", method, f"{target}?{c['param']}={c['param']}&basis={c['basis']}")
    run.ask("refused", "GET", "/v1/signer", key=wrong)
    run.ask("refused", "GET", "/v1/signer", key=c["token"])
    for body in (
        {c["field"]: c["field"]},
        {"messages": [c["field"]]},
        {"messages": c["field"], c["field"]: 1},
        {"messages": c["field"], "purposes": [c["purpose"]], "lawful_basis": c["basis"]},
        b'{"messages": "' + c["broken"].encode() + b'", "n": NaN}',
        b'{"messages": "' + c["broken"].encode() + b'\\ud800"}',
        b'{"messages": "' + c["broken"].encode(),
    ):
        run.ask("refused", "POST", "/v1/memories", body)


def full_disk(run: Run) -> None:
    """No file of the process may grow while this lasts, its log included."""
    before = resource.prlimit(run.service.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(run.service.process.pid, resource.RLIMIT_FSIZE, (1, before[1]))
    for _ in range(3):
        run.ask("full", "POST", "/v1/memories", {"messages": CANARIES["full"], "user_id": CANARIES["user"]})
    resource.prlimit(run.service.process.pid, resource.RLIMIT_FSIZE, before)


def lost_table(run: Run) -> None:
    """The database is not what the code thinks, so its driver complains, parameters and all."""
    with closing(sqlite3.connect(run.home.settings.data / "shomei.db", isolation_level=None)) as database:
        database.execute("ALTER TABLE memories RENAME TO lost")
    c = CANARIES
    run.ask("failed", "POST", "/v1/memories", {"messages": c["full"], "user_id": c["user"]})
    run.ask("failed", "POST", "/v1/search", {"query": c["query"], "user_id": c["user"]})
    run.ask("failed", "GET", f"/v1/memories?user_id={c['user']}")
    run.ask("failed", "POST", "/v1/forget", {"user_id": c["user"]})
    run.ask("failed", "GET", f"/v1/export?user_id={c['user']}")
    run.ask("failed", "GET", "/metrics")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Everything, once: what must work, what must be refused, what must fail."""
    folder = tmp_path_factory.mktemp("leaks")
    home = new_home(folder)
    loud = {"SHOMEI_LOG_LEVEL": "debug", "SHOMEI_RATE_FAILED_KEYS": "1000", "PYTHONWARNINGS": "default"}
    with serving(home, folder, settings=loud) as service:
        done = Run(home, service)
        every_verb(done)
        everything_wrong(done)
        full_disk(done)
        lost_table(done)
        yield done


def seen_in(text: str) -> list[str]:
    raw = text.encode()
    return [
        place
        for place, word in CANARIES.items()
        if any(spelt in raw for spellings in forms(word[:STEM]).values() for spelt in spellings)
    ]


def test_t_36_the_run_was_a_whole_one(run: Run) -> None:
    """Where the canaries may be shown they are, so this would see them elsewhere."""
    statuses: dict[str, set[int]] = {}
    for name, status, _, _ in run.shown:
        statuses.setdefault(name, set()).add(status)
    for name in MAY_SHOW | {"receipts", "tombstones", "audit", "metrics", "description"}:
        assert statuses[name] == {200}, (name, statuses[name])
    assert min(statuses["refused"]) >= 400
    assert max(statuses["refused"]) < 500
    assert min(statuses["failed"] | statuses["full"]) >= 500
    told = "".join(text for name, _, text, _ in run.shown if name in MAY_SHOW)
    assert {"text", "user", "kind", "name", "value", "revised"} <= set(seen_in(told))


def test_t_36_answers_show_canaries_only_where_content_belongs(run: Run) -> None:
    for name, status, text, headers in run.shown:
        if name not in MAY_SHOW or status >= 400:
            assert seen_in(text) == [], (name, status)
        assert seen_in(repr(headers)) == [], name


def test_t_36_errors_are_fixed_sentences(run: Run) -> None:
    inside = re.compile(
        r"select|insert|sqlite|sqlalchemy|postgres|traceback|\.py|/tmp|File \"", re.IGNORECASE
    )
    errors = [json.loads(text) for _, status, text, _ in run.shown if status >= 400]
    assert len(errors) > 20
    for error in errors:
        assert len(error["detail"]) <= 200
        assert not inside.search(error["detail"])
        assert re.fullmatch("req_[0-9a-f]{32}", error["request_id"])


def test_dev_32_the_log_has_no_canary_no_key_and_no_statement(run: Run) -> None:
    log = run.log
    assert len(log.splitlines()) > len(run.shown)
    assert seen_in(log) == []
    for token in (run.home.admin_token, run.home.data_token):
        assert token.split("_", 2)[2] not in log
    assert not re.search(r"SELECT|INSERT|UPDATE |Traceback|lm_[0-9a-f]{32}|shm_|\[parameters", log)
    assert re.search("shomei.fault fault=.* at=.* request_id=req_", log)


def test_dev_32_a_failure_is_found_in_the_log_by_its_request_id(run: Run) -> None:
    log = run.log
    failed = [json.loads(text)["request_id"] for name, _, text, _ in run.shown if name == "failed"]
    assert len(failed) == 6
    for request_id in failed:
        lines = [line for line in log.splitlines() if line.endswith(f"request_id={request_id}")]
        assert any("shomei.fault" in line for line in lines)
        assert any("shomei.access" in line for line in lines)


def test_t_36_no_file_holds_a_canary_or_a_key(run: Run) -> None:
    words = [*CANARIES.values(), *(t.split("_", 2)[2] for t in (run.home.admin_token, run.home.data_token))]
    assert sightings([run.home.settings.home, run.service.log.parent], words) == []


def test_t_36_the_process_list_shows_nothing(run: Run) -> None:
    seen = Path(f"/proc/{run.service.process.pid}")
    if not seen.exists():
        pytest.skip("must: this system has no /proc")
    told = (seen / "cmdline").read_text() + "".join(one.read_text() for one in seen.glob("task/*/comm"))
    assert seen_in(told) == []
    for token in (run.home.admin_token, run.home.data_token):
        assert token not in told + (seen / "environ").read_text()
    assert re.search(r"^Max core file size +0 +0 ", (seen / "limits").read_text(), re.MULTILINE)
