"""The state table as a page: every cell with what it comes to and the test that holds the engine to it.

What a cell comes to is told by the model alone: the page says what is meant, and the tests that it is so.
"""

from collections.abc import Mapping

from tests.engine.verbs.cells import CELLS, ROWS, Cell
from tests.engine.verbs.side_by_side import Alone
from tests.model import Outcome, Rules, State

TESTS = "tests/laws/test_state_table.py"
PAGE = "docs/spec/state-table.md"
NAMES: Mapping[State, str] = {
    State.UNKNOWN: "unknown",
    State.ACTIVE: "active",
    State.HELD: "held",
    State.RESTRICTED: "restricted",
    State.RESTRICTED_AND_HELD: "restricted, held",
    State.CONSENT_INVALID: "consent invalid",
    State.EXPIRED: "expired",
    State.ERASING: "erasing",
    State.ERASED: "erased",
}
STATUS = {
    None: "done",
    "not_found": "404 not_found",
    "held": "423 held",
    "blocked": "409 blocked",
    "erasure_in_progress": "409 erasure_in_progress",
    "confirm_required": "409 confirm_required",
    "invalid_request": "422 invalid_request",
    "erasure_pending": "503 erasure_pending",
    "custody_unavailable": "503 custody_unavailable",
}
_COLUMNS = ("state", "policy", "outcome", "answer", "receipts", "then", "test")
_HEAD = f"""# The state table: every verb in every state

Written by `scripts/state_table` from the model in `tests/model.py`; do not edit. What each verb does to a
memory in each state, the receipts it leaves and the state the memory is in afterwards. Each line is a test,
`{TESTS}::test_cell[<test>]`: it puts a fresh memory into the state, runs the verb on the engine, and
compares answer, receipts (each authentic under the pin) and everything at rest with the model. A verb
without a test in some state fails the build.

States are names for five facts (life, grounds of restriction, holds, consent, retention); where several
apply, a hold names the state, for it decides what may be destroyed. A memory here belongs to alice, rests
on her consent to `support`, and is kept for a while. `foreign` is another tenant's memory, `superseded` one
that an update replaced, `by_subject` one under a hold on everything of alice's, `deferred` one that was
forgotten under a hold, `derived` bob's, made from alice's; `superseding` is one whose update has begun and
is not finished. In the cases `with_derived` and `cascade` the verb goes to the source, and what stands
under "then" is the memory derived from it.

| state | name |
|---|---|
"""


def page() -> str:
    """Return the whole page."""
    states = "".join(f"| {state} | {NAMES[state]} |\n" for state in State)
    rows = dict.fromkeys([*ROWS, *(cell.row for cell in CELLS)])
    return _HEAD + states + "".join(_section(row) for row in rows)


def _section(row: str) -> str:
    lines = [f"\n## {row}\n", f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    cells = [cell for cell in CELLS if cell.row == row]
    lines += [_line(cell) for cell in sorted(cells, key=lambda cell: cell.state)]
    return "\n".join(lines) + "\n"


def _line(cell: Cell) -> str:
    tenant = Alone(cell.rules)
    target = cell.build(tenant)
    outcome = cell.act(tenant, target)
    fields = (
        f"{cell.state} {cell.case}".strip(),
        _policy(cell.rules),
        STATUS[outcome.refused],
        _answer(outcome),
        _receipts(outcome),
        tenant.world.state(target).value,
        f"`{cell.name}`",
    )
    return "| " + " | ".join(fields) + " |"


def _policy(rules: Rules) -> str:
    usual = Rules()
    names = Rules.__dataclass_fields__
    return ", ".join(
        f"{name}={getattr(rules, name)}" for name in names if getattr(rules, name) != getattr(usual, name)
    )


def _answer(outcome: Outcome) -> str:
    told = {name: value for name, value in outcome.answer.items() if not name.endswith("_id")}
    return ", ".join(f"{name}: {_word(value)}" for name, value in told.items() if value != frozenset())


def _word(value: object) -> str:
    match value:
        case frozenset():
            return str(len(value))
        case str() if " " in value:
            return "1"
        case (bool() | None as valid, bool() as safe, reasons):
            words = "+".join(reasons) if isinstance(reasons, tuple) else ""
            return f"valid={_word(valid)} safe={_word(safe)} {words}".strip()
        case True | False | None:
            return str(value).lower()
        case _:
            return str(value)


def _receipts(outcome: Outcome) -> str:
    kinds = [_receipt(one) for one in outcome.receipts]
    return ", ".join(
        f"{kinds.count(kind)} x {kind}" if kinds.count(kind) > 1 else kind for kind in dict.fromkeys(kinds)
    )


def _receipt(receipt: tuple[object, ...]) -> str:
    """Return a receipt's name and what tells it from others of its kind, without ids."""
    kind, *fields = receipt
    match kind:
        case "vector_delete":
            return f"vector_delete ({fields[1]})"
        case "restriction":
            return f"restriction ({fields[1]} {fields[2]})"
        case "subject_closure":
            return f"subject_closure ({fields[2]})"
        case "legal_hold":
            return f"legal_hold ({fields[1]})"
        case "consent":
            return f"consent ({fields[2]})"
        case _:
            return str(kind)
