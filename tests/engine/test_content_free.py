"""The last gate before a signature lets only known fields in content-free forms through."""

import pytest

from shomei_service.engine.errors import EgressFault
from shomei_service.engine.model import Json
from shomei_service.engine.receipts.content_free import require_content_free

GOOD: dict[str, Json] = {
    "schema": "shomei.memory_add.v1",
    "memory_id": "lm_" + "0" * 32,
    "subject_pseudonym": None,
    "retirement_hashes": ["hmac-sha256:" + "a" * 64],
    "log": {"origin": "shomei/" + "0" * 32, "seq": 0, "issued_at": 1},
    "matched_count": 2**53 - 1,
}


def test_a_content_free_body_passes() -> None:
    require_content_free(GOOD)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("note", "x"),
        ("memory_id", "alice"),
        ("memory_id", "lm_" + "0" * 31 + "A"),
        ("memory_id", "lm_" + "0" * 32 + "\n"),
        ("subject_pseudonym", "alice@example.com"),
        ("subject_pseudonym", "sha256:" + "a" * 64),
        ("semantic_type", "HEALTH"),
        ("cause", "because"),
        ("matched_count", 1.0),
        ("matched_count", True),
        ("matched_count", 2**53),
        ("matched_count", "1"),
        ("embedding_retired", False),
        ("retirement_hashes", ["x"]),
        ("retirement_hashes", "hmac-sha256:" + "a" * 64),
        ("log", {"origin": "shomei/" + "0" * 32, "seq": 0}),
        ("log", {"origin": "shomei/" + "0" * 32, "seq": 0, "issued_at": 1, "note": "x"}),
        ("log", None),
    ],
)
def test_anything_else_is_held_back(field: str, value: Json) -> None:
    with pytest.raises(EgressFault):
        require_content_free(GOOD | {field: value})
