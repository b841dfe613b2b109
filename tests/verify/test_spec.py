"""docs/spec/receipt.md says what the code does, where the two can be compared."""

import re
from pathlib import Path

from shomei_memory_verify.certificate import NON_CLAIMS
from shomei_memory_verify.statements import STATEMENTS
from shomei_memory_verify.text import MAX_BYTES, MAX_DEPTH
from tests.verify.examples import EXAMPLES

SPEC = (Path(__file__).parents[2] / "docs" / "spec" / "receipt.md").read_text("utf-8")


def rows(heading: str) -> dict[str, str]:
    """Return the rows of a section's tables, by the first cell's code."""
    section = SPEC.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.M))


def test_the_non_claims_are_verbatim() -> None:
    listed = SPEC.split("The non-claims, verbatim:\n\n")[1].split("\n\n")[0]
    assert listed.split("\n") == [f"- {claim}" for claim in NON_CLAIMS]


def test_the_schemas_are_the_ones_with_wording() -> None:
    assert {name for name in rows("7. Schemas") if name.startswith("shomei.")} == set(STATEMENTS)


def test_every_field_of_every_example_is_in_the_specification() -> None:
    header = set(rows("6. Body: header and grammar"))
    custody = set(re.findall(r"`(\w+)`", SPEC.split("**Custody** fields")[1].split("\n\n")[0]))
    for body in EXAMPLES.values():
        fields = set(re.findall(r"`(\w+)`", rows("7. Schemas")[str(body["schema"])]))
        assert set(body) <= fields | header | custody


def test_the_caps() -> None:
    assert f"at most {MAX_BYTES:,} bytes" in SPEC
    assert f"at most {MAX_DEPTH} levels" in SPEC
