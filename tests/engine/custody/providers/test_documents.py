"""The pages about custody say what is tested: settings, policy, codes, and the tests they name."""

import re
from pathlib import Path

import pytest

from shomei_service.settings import Settings
from tests.engine.custody.providers import openbao
from tests.providers import Custodian

ROOT = Path(__file__).resolve().parents[4]
CUSTODY = (ROOT / "docs" / "custody.md").read_text()
THREATS = (ROOT / "docs" / "threat-model.md").read_text()
OURS = ("custody", "pkcs11", "vault", "aws", "snapshot")
ELSEWHERE = {"custody_dir", "custody_url", "custody_mirrors"}  # where the store is: docs/operate.md


def test_every_setting_of_a_provider_is_documented_and_none_besides() -> None:
    ours = {name for name in Settings.model_fields if name.startswith(OURS)} - ELSEWHERE
    named = set(re.findall(r"SHOMEI_([A-Z0-9_]+)", CUSTODY))
    assert {name.upper() for name in ours} <= named
    assert {name.lower() for name in named} <= set(Settings.model_fields)


def test_the_policy_that_is_printed_is_the_one_that_is_tested() -> None:
    (printed,) = re.findall(r"```hcl\n(.*?)```", CUSTODY, re.DOTALL)
    assert printed.strip() == openbao.POLICY.strip().replace("MOUNT", "transit")


def test_each_provider_has_its_line(custodian: Custodian) -> None:
    (line,) = [one for one in CUSTODY.splitlines() if one.startswith(f"| `{custodian.kind}` |")]
    assert f"`{custodian.code}`" in line
    assert f"`{custodian.finality}`" in line


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[\w/.]+)`", THREATS))))
def test_a_defence_that_is_claimed_has_its_tests(named: str) -> None:
    assert (ROOT / named).is_file()
