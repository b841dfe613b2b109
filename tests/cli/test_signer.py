"""DEV-38 over HTTP and the command line: the signer over restarts and rotation."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.cli.test_commands import _answer
from tests.fakes import Home, new_home
from tests.service import Service, serving


def _client(home: Home, service: Service) -> httpx.Client:
    headers = {"authorization": f"Bearer {home.admin_token}"}
    return httpx.Client(base_url=service.url, headers=headers, trust_env=False, timeout=60)


def _add(client: httpx.Client, text: str) -> dict[str, Any]:
    answer = client.post("/v1/memories", json={"messages": text, "user_id": "alice"})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]


def _verdict(receipt: dict[str, Any], pin: str) -> tuple[int, str]:
    """Check a receipt as an auditor does, by the command; return exit code and reason."""
    command = [sys.executable, "-m", "shomei_memory_verify", "-", "--pin", pin, "--json"]
    done = subprocess.run(command, input=json.dumps(receipt), capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)["reason"]


def test_the_signer_over_restarts_and_rotation(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    assert home.pin is not None
    before: list[dict[str, Any]] = []
    for number in range(2):
        with serving(home, tmp_path) as service, _client(home, service) as client:
            signer = client.get("/v1/signer").json()
            assert signer["public_key_hex"] == home.pin
            assert signer["retired_keys"] == []
            before.append(_add(client, f"lamp {number}")["signed_receipt"])
            if number == 1:  # while the service runs
                rotated = _answer(home, "signer", "rotate")
                after = _add(client, "a stick")["signed_receipt"]
                signer = client.get("/v1/signer").json()
    assert {one["signer_id"] for one in before} == {rotated["old_signer_id"]}
    assert (signer["signer_id"], signer["public_key_hex"]) == (rotated["signer_id"], rotated["pin"])
    (retired,) = signer["retired_keys"]
    assert (retired["signer_id"], retired["public_key_hex"]) == (rotated["old_signer_id"], home.pin)
    (part,) = retired["ranges"]
    last = after["body"]["log"]["seq"] - 1  # the statement that the new key follows, signed by the old one
    assert part == {"origin": after["body"]["log"]["origin"], "first_seq": 0, "last_seq": last}
    for receipt in before:
        assert _verdict(receipt, home.pin) == (0, "ok")
        assert _verdict(receipt, str(rotated["pin"])) == (1, "public_key_mismatch")
    assert _verdict(after, str(rotated["pin"])) == (0, "ok")
    assert _verdict(after, home.pin) == (1, "public_key_mismatch")
    shown = _answer(home, "signer", "show")
    assert shown["pin"] == rotated["pin"]
    assert [one["pin"] for one in shown["retired"]] == [home.pin]  # type: ignore[union-attr, index]


def test_without_a_signer_nothing_is_signed(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    settings = {"SHOMEI_SIGNER": "none"}
    with serving(home, tmp_path, settings=settings) as service, _client(home, service) as client:
        made = _add(client, "a lamp")
        path = f"/v1/memories/{made['id']}"
        answers = [
            made,
            client.post(path + "/restrict", json={}).raise_for_status().json(),
            client.delete(path + "/restrict").raise_for_status().json(),
            client.put(path, json={"data": "a brighter lamp"}).raise_for_status().json()["results"][0],
            client.post("/v1/forget", json={"user_id": "alice"}).raise_for_status().json(),
        ]
        assert client.get("/v1/signer").status_code == 501
        kept = client.get("/v1/receipts").json()
    for answer in answers:
        # A forget's list of signed receipts is there, and holds none.
        assert {name: value for name, value in answer.items() if "signed" in name and value != []} == {}
    assert "memory_add" in json.dumps(kept)
    assert "signature_hex" not in json.dumps(kept)
