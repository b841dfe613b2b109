"""T-28: the published description, walked by a tool that is not ours, with both kinds of key."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import Home, new_home
from tests.service import Service, serving

RESULT = Path(__file__).with_name("schemathesis.json")
EXAMPLES, DEEP_EXAMPLES = 4, 150

# A body of the right shape may still be refused: a code that no tenant registered, a time that is over.
INAPPLICABLE = "positive_data_acceptance"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Service]]:
    folder = tmp_path_factory.mktemp("walked")
    home = new_home(folder)
    with serving(home, folder, settings={"SHOMEI_RATE_FAILED_KEYS": "1000000"}) as running:
        yield home, running


@pytest.mark.parametrize("scope", ["data", "admin"])
def test_t_28_the_description_is_true(
    service: tuple[Home, Service], scope: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    home, running = service
    deep = bool(request.config.getoption("--deep"))
    key = home.admin_token if scope == "admin" else home.data_token
    report = tmp_path / "report.json"
    command = [
        *(Path(sys.executable).with_name("st"), "run", f"{running.url}/openapi.json"),
        *("--header", f"Authorization: Bearer {key}"),
        *("--phases", "examples,coverage,fuzzing,stateful" if deep or scope == "admin" else "coverage"),
        *("--max-examples", str(DEEP_EXAMPLES if deep else EXAMPLES), "--seed", "28"),
        *("--checks", "all", "--exclude-checks", INAPPLICABLE),
        *("--continue-on-failure", "--no-color", "--warnings", "off"),
        *("--report-json-path", str(report)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert running.process.poll() is None
    if deep:
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        before = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        told = next(line for line in done.stdout.splitlines() if "generated" in line).strip()
        RESULT.write_text(
            json.dumps({**before, scope: {"commit": head.stdout.strip(), "cases": told}}, indent=2) + "\n"
        )
