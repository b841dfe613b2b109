"""T-34: keys are random, kept as hashes, looked up by id, compared in constant time, and revoked at once."""

import json
import math
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from shomei_service.engine.errors import Unauthenticated
from shomei_service.engine.model import Scope
from shomei_service.engine.verbs import access
from tests.api.house import House
from tests.fakes import new_home
from tests.residue.scan import sightings
from tests.service import environment, serving

RESULT = Path(__file__).with_name("key_timing.json")
SAMPLES = 50_000
LIMIT = 4.5  # of |t|: what side-channel testing takes for a difference (ISO/IEC 17825)


def test_t_34_no_file_holds_a_secret(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    with home.opened() as opened:
        made = access.create_key(opened.engine, home.tenant, Scope.DATA)
        access.authenticate(opened.engine, made.token)
    secrets = [token.split("_", 2)[2] for token in (home.admin_token, home.data_token, made.token)]
    assert {len(secret) for secret in secrets} == {43}  # 256 bits
    assert sightings([tmp_path], secrets) == []


def test_t_34_a_key_revoked_beside_the_server_is_refused_at_once(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    key_id = home.data_token.split("_")[1]
    with serving(home, tmp_path) as service, httpx.Client(base_url=service.url, trust_env=False) as client:
        headers = {"authorization": f"Bearer {home.data_token}"}
        assert client.get("/v1/signer", headers=headers).status_code == 200
        command = [sys.executable, "-m", "shomei_service.cli.main", "keys", "revoke", key_id]
        subprocess.run(command, env=environment(home), check=True, capture_output=True)
        assert client.get("/v1/signer", headers=headers).status_code == 401


def changed(token: str, at: int) -> str:
    """Return the token with one character of its secret changed."""
    place = len(token) - 43 + at
    return token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]


def seconds(house: House, token: str) -> float:
    started = time.perf_counter_ns()
    with pytest.raises(Unauthenticated):
        access.authenticate(house.engine, token)
    return (time.perf_counter_ns() - started) / 1e9


def test_t_34_where_a_key_is_wrong_takes_no_other_time(house: House, request: pytest.FixtureRequest) -> None:
    """Measured when asked to go deep, and written down; otherwise only that both are refused."""
    early, late = changed(house.data, 0), changed(house.data, 41)
    count = SAMPLES if request.config.getoption("--deep") else 20
    taken: dict[str, list[float]] = {early: [], late: []}
    chance = random.Random(34)
    for _ in range(count):
        for token in chance.sample([early, late], 2):
            taken[token].append(seconds(house, token))
    # The slowest tenth is what the machine did meanwhile.
    one, two = (sorted(times)[: count * 9 // 10] for times in taken.values())
    spread = math.sqrt(statistics.variance(one) / len(one) + statistics.variance(two) / len(two))
    t = (statistics.mean(one) - statistics.mean(two)) / spread
    if request.config.getoption("--deep"):
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        told = {"commit": head.stdout.strip(), "samples": count, "t": round(t, 2), "limit": LIMIT}
        RESULT.write_text(json.dumps(told, indent=2) + "\n")
        assert abs(t) < LIMIT
