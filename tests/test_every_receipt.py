"""Every receipt that a module's engines issue is looked at by both verifiers as it ends (tests/published.py).

Here is the control: what one of them refuses would not go unseen.
"""

from pathlib import Path

from shomei_service.engine.model import NewMemory
from shomei_service.engine.verbs.add import add
from tests.fakes import ISSUED, new_home
from tests.published import Published, refusals


def test_a_receipt_that_is_not_authentic_is_seen(published: Published, tmp_path: Path) -> None:
    with new_home(tmp_path).opened() as house:
        before = len(ISSUED)
        add(house.engine, house.data, NewMemory("a fact", "somebody"))
    [(receipt, pin)] = ISSUED[before:]
    assert refusals([(receipt, pin)], published) == {}
    changed = {**receipt, "body": {**dict(receipt["body"]), "at": "2020-01-01T00:00:00Z"}}  # type: ignore[call-overload]
    for wrong in ((changed, pin), (receipt, "00" * 32)):
        told = refusals([(receipt, pin), wrong], published)
        assert [said.split(":")[0] for said in told.elements()] == ["ours", "published"]
