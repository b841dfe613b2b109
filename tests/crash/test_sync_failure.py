"""A sync that fails once and succeeds ever after: the service believes neither. RELIABILITY T-05."""

import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests import oracle
from tests.crash.runs import lapse
from tests.crash.strace import needs_strace
from tests.engine.custody.postgres import Server as PostgreSQL
from tests.fakes import Home, new_home
from tests.service import Service, serving

# Else upkeep might meet the failing sync before the request does.
_MARKS_NO_LOG = "from shomei_service.engine import parts; parts._MARK_EVERY_S = 10**12"
_UNTOLD = "a lamp that nobody was told of"


@contextmanager
def failing_once(service: Service, path: Path) -> Generator[None]:
    """Let the next sync of one file fail with EIO in the running service, and every later one succeed."""
    inject = "inject=fsync,fdatasync:error=EIO:when=1"
    watched = ["-P", str(path), "-P", f"{path}-wal", "-e", "trace=fsync,fdatasync", "-e", inject]
    tracer = subprocess.Popen(
        ["strace", "-f", "-o", "/dev/null", *watched, "-p", str(service.process.pid)], stderr=subprocess.PIPE
    )
    try:
        assert tracer.stderr is not None
        assert b"attached" in tracer.stderr.readline()
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate()


@needs_strace
@pytest.mark.parametrize("store", ["database", "custody", "custody beside a server"])
def test_a_failed_sync_ends_the_service(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    urls: dict[str, str] = {}
    if store == "custody beside a server":
        server: PostgreSQL = request.getfixturevalue("postgres")
        urls = {"database_url": server.database("failing_sync")}
    home = new_home(tmp_path, **urls)
    files = {"database": home.settings.data / "shomei.db"}
    path = files.get(store, home.settings.custody_store / "custody.db")
    settings = {f"SHOMEI_{name.upper()}": url for name, url in urls.items()}
    with (
        serving(home, tmp_path, before=_MARKS_NO_LOG, settings=settings) as service,
        _client(service, home) as client,
    ):
        kept = [_add(client, f"a lamp, number {number}") for number in range(3)]
        assert all(answer.status_code == 200 for answer in kept)
        with failing_once(service, path):
            if store != "database":
                answer = client.delete(f"/v1/memories/{kept.pop().json()['results'][0]['id']}")
            else:
                answer = _add(client, _UNTOLD)
            assert answer.status_code == 503
            assert service.process.wait(timeout=120) == 1
        assert "look at the disk" in service.log.read_text()
    lapse(home)
    with home.opened() as house:
        texts = oracle.settled(house, home.settings)
    answered = {one.json()["results"][0]["id"] for one in kept}
    # What was under way is there or is not: nobody was told either. An erasure that was begun is finished.
    others = {texts[one] for one in texts.keys() - answered}
    assert answered <= texts.keys()
    assert others <= ({_UNTOLD} if store == "database" else set())


def _client(service: Service, home: Home) -> httpx.Client:
    headers = {"authorization": f"Bearer {home.admin_token}"}
    return httpx.Client(base_url=service.url, headers=headers, trust_env=False, timeout=120)


def _add(client: httpx.Client, text: str) -> httpx.Response:
    return client.post("/v1/memories", json={"messages": text, "user_id": "alice"})
