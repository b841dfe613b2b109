"""Every mutant still fits the code, so scripts/mutations tries what it says; its result is kept. T-40."""

import json
from pathlib import Path

import pytest

from tests.mutations.mutants import MUTANTS, applied, noticed_by

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fits_and_was_noticed(name: str, request: pytest.FixtureRequest) -> None:
    for path, changes in MUTANTS[name].changes.items():
        text = (ROOT / path).read_text()
        assert applied(text, changes) != text
    result = json.loads(Path(__file__).with_name("result.json").read_text())
    assert result["noticed_by"][name].startswith("tests/")
    if request.config.getoption("--deep"):
        assert noticed_by(ROOT, MUTANTS[name])
