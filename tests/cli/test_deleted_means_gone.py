"""DEV-16: deleted means gone, at once and on disk, over HTTP and over a kill."""

import signal
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from shomei_memory_verify import verify_signed_receipt
from tests.fakes import Home, new_home
from tests.residue import markers
from tests.residue.scan import sightings
from tests.service import Service, serving

_PURGED_WITHIN_S = 30.0  # two, by the report's figure; the rest is for a busy machine
_TEXT = f"The {markers.LATIN} sings, and so does {markers.CYRILLIC}."


class Desk:
    """One admin at a running service."""

    def __init__(self, home: Home, service: Service) -> None:
        headers = {"authorization": f"Bearer {home.admin_token}"}
        self._client = httpx.Client(base_url=service.url, headers=headers, trust_env=False, timeout=60)

    def close(self) -> None:
        """Leave."""
        self._client.close()

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, str]:
        """Return status and body as text: whatever field it might be in, it is seen."""
        answer = self._client.request(method, path, json=body)
        return answer.status_code, answer.text

    def done(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        answer = self._client.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


def test_deleted_means_gone_at_once_and_on_disk(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    places = [tmp_path]  # data, custody and key directories, the temporary one, and the logs
    settings = {"TMPDIR": str(temporary), "SHOMEI_LOG_LEVEL": "debug"}
    with serving(home, tmp_path, settings=settings) as service, closing(Desk(home, service)) as desk:
        body = {"messages": _TEXT, "user_id": markers.SUBJECT}
        (made,) = desk.done("POST", "/v1/memories", body)["results"]
        found = desk.done("POST", "/v1/search", {"query": markers.ASKED, "user_id": markers.SUBJECT})
        assert [one["memory"] for one in found["results"]] == [_TEXT]
        assert sightings(places, markers.WORDS) == []
        path = f"/v1/memories/{made['id']}"
        deleted = desk.done("DELETE", path)
        answered = time.monotonic()
        proof = verify_signed_receipt(deleted["signed_receipt"], expected_public_key_hex=home.pin)
        assert proof.authenticated
        shown = nobody_returns_it(desk, path)
        while not shown["physically_purged"] and time.monotonic() < answered + _PURGED_WITHIN_S:
            shown = desk.done("GET", path + "/verify")
        assert shown["physically_purged"]
        assert sightings(places, markers.WORDS) == []
        service.process.send_signal(signal.SIGKILL)
    assert sightings(places, markers.WORDS) == []
    with serving(home, tmp_path, settings=settings) as service, closing(Desk(home, service)) as desk:
        assert nobody_returns_it(desk, path)["physically_purged"]
    assert sightings(places, markers.WORDS) == []


def nobody_returns_it(desk: Desk, path: str) -> dict[str, Any]:
    """Ask every verb that reads; return what the status says."""
    search = {"query": markers.ASKED, "user_id": markers.SUBJECT}
    asked: list[tuple[str, str, dict[str, Any] | None]] = [
        ("POST", "/v1/search", search),
        ("GET", path, None),
        ("GET", path + "/verify", None),
        ("GET", path + "/lineage/neighbors", None),
        ("GET", path + "/lineage/graph", None),
        ("GET", "/v1/memories", None),
        ("GET", "/v1/receipts", None),
        ("GET", "/v1/tombstones", None),
        ("GET", "/v1/audit", None),
        ("POST", "/v1/export", {"user_id": markers.SUBJECT}),
    ]
    for method, where, body in asked:
        status, text = desk.ask(method, where, body)
        assert status in {200, 404}, (where, status, text)
        assert markers.LATIN not in text, where
        assert markers.CYRILLIC not in text, where
    status, text = desk.ask("DELETE", path)
    assert (status, '"deleted":false' in text.replace(" ", ""), "receipt" in text) == (404, True, False)
    shown = desk.done("GET", path + "/verify")
    assert shown["embedding_retired"]
    return shown
