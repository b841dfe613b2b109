"""A real service whose keys a real OpenBao holds, and what callers hear while that is away. T-11."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.engine.custody.providers.flaky import Fault, Flaky, in_front_of
from tests.fakes import Home, new_home
from tests.providers import Machines, Transit
from tests.service import serving

_DONE_S = 120


@pytest.fixture
def vault(machines: Machines) -> Transit:
    custodian = machines.custodian("vault")
    assert isinstance(custodian, Transit)
    return custodian


@pytest.fixture
def flaky(vault: Transit) -> Iterator[Flaky]:
    with in_front_of(vault.bao.url) as proxy:
        yield proxy


class Caller:
    """An admin of a running service."""

    def __init__(self, url: str, token: str) -> None:
        self._client = httpx.Client(
            base_url=url + "/v1", headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=120
        )

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def remember(self, text: str, user_id: str) -> str:
        body = {"messages": text, "user_id": user_id}
        answer = self._client.post("/memories", json=body)
        assert answer.is_success, answer.text
        return answer.json()["results"][0]["id"]

    def delete(self, memory_id: str) -> httpx.Response:
        return self._client.delete(f"/memories/{memory_id}")

    def ask(self, method: str, path: str, body: object) -> httpx.Response:
        return self._client.request(method, path, json=body)

    def erasures(self) -> list[str]:
        """Return the memories that the receipts on record call erased."""
        entries = self._client.get("/receipts").json()["results"]
        return [one["receipt"]["memory_id"] for one in entries if "vector_delete" in one["receipt"]["schema"]]


def test_custody_that_is_away_is_a_503_that_names_itself_and_nothing_is_half_done(
    vault: Transit, flaky: Flaky, tmp_path: Path
) -> None:
    home: Home = new_home(tmp_path, **{**vault.settings, "vault_url": flaky.url})
    environ = {**vault.environ, "SHOMEI_VAULT_URL": flaky.url, "SHOMEI_CUSTODY_TIMEOUT_S": "30"}
    with (
        serving(home, tmp_path, settings=environ) as service,
        Caller(service.url, home.admin_token) as caller,
    ):
        first, second = caller.remember("a kettle of alice", "alice"), caller.remember("a lamp of bob", "bob")

        # 1. Down: refused before anything begins; what needs no new key goes on.
        flaky.harm(Fault.REFUSED, to_last=True)
        for answer in (
            caller.delete(first),
            caller.ask("PUT", f"/memories/{first}", {"data": "another"}),
            caller.ask("POST", "/forget", {"user_id": "alice"}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "custody_unavailable")
            assert answer.headers["retry-after"] == "2"
            assert vault.token not in answer.text
        assert caller.delete("lm_" + "0" * 32).status_code == 404, "404 comes before 503"
        found = caller.ask("POST", "/search", {"query": "kettle"}).json()["results"]
        assert [one["id"] for one in found] == [first]
        assert caller.remember("a chair of bob", "bob")
        assert caller.erasures() == []
        flaky.heal()
        done = caller.delete(first)
        assert done.status_code == 200
        assert done.json()["key_custody"] == "vault_transit"
        assert done.json()["receipt"]["finality"] == "final"

        # 2. It goes away in the middle: pending, and out of recall at once; it finishes by itself.
        flaky.harm(Fault.REFUSED, of="/rotate", to_last=True)  # the first step of the old key's end
        answer = caller.delete(second)
        assert (answer.status_code, answer.json()["code"]) == (503, "erasure_pending")
        assert caller.ask("POST", "/search", {"query": "lamp"}).json()["results"] == []
        assert second not in caller.erasures()
        flaky.heal()
        deadline = time.monotonic() + _DONE_S
        while second not in caller.erasures() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert caller.erasures() == [first, second]
        assert caller.delete(second).status_code == 404
    assert 1 <= len(vault.living(tmp_path)) <= 2  # the head's, and perhaps the next one, made ahead
    assert vault.token not in service.log.read_text()
