"""Every verb in every state does what the table says. SEMANTICS.md §5, RELIABILITY.md §8.3."""

import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from shomei_service.engine import verbs
from tests.engine.verbs.cells import CELLS, COLUMNS, ROWS, Cell
from tests.engine.verbs.side_by_side import Beside, Running, in_memory
from tests.engine.verbs.table import PAGE, page

# Where the engine's verbs stand in the table, by module.
VERBS = {
    "add": {"add", "derive"},
    "artifact": {"register", "acknowledge"},
    "consent": {"withdraw", "regrant"},
    "disclose": {"disclose"},
    "erase": {"delete"},
    "export": {"export"},
    "forget": {"forget"},
    "importing": {"import"},
    "hold": {"hold-memory", "hold-subject", "release"},
    "lineage": {"lineage"},
    "obligation": {"cancel"},
    "read": {"get"},
    "restrict": {"restrict", "unrestrict"},
    "search": {"search"},
    "status": {"verify"},
    "update": {"update"},
}
ABOUT_NO_MEMORY = {
    "access",
    "signer",
    "records",
    "recompute",
}  # keys and tenants; the log and tombstones as they are


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """One installation for the whole table; each cell has a tenant of its own."""
    with in_memory() as running:
        yield running


@pytest.mark.parametrize("cell", CELLS, ids=[cell.name for cell in CELLS])
def test_cell(running: Running, cell: Cell) -> None:
    tenant = Beside(running, cell.rules)
    target = cell.build(tenant)
    assert tenant.world.state(target) is cell.state
    cell.act(tenant, target)
    tenant.compare()
    tenant.compare_recall()
    tenant.compare_recall("alice")
    for memory_id in {target, *tenant.world.memories}:
        tenant.compare_one(memory_id)


def test_no_cell_is_without_a_test() -> None:
    covered = {(cell.row, cell.state) for cell in CELLS}
    assert {(row, state) for row in ROWS for state in COLUMNS} <= covered
    assert len({cell.name for cell in CELLS}) == len(CELLS)


def test_no_verb_is_without_a_row() -> None:
    """A new verb of the engine has to say what it does in every state before the build is whole again."""
    modules = {module.name for module in pkgutil.iter_modules(verbs.__path__)}
    assert modules - ABOUT_NO_MEMORY == VERBS.keys()
    assert {row for rows in VERBS.values() for row in rows} == {cell.row for cell in CELLS} - {"retention"}


def test_the_page_is_current() -> None:
    """Written by scripts/state_table; what stands there is what is tested here."""
    assert (Path(__file__).resolve().parents[2] / PAGE).read_text() == page()
