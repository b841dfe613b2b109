"""Statements are built once, with these parameters: building one costs several times what running it does."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from sqlalchemy import BindParameter, bindparam

from .unit import Unit

_Item = TypeVar("_Item")
AT_ONCE: Final = 500  # bound parameters in one statement; SQLite's old default allows 999

TENANT: Final[BindParameter[str]] = bindparam("tenant")
WANTED: Final[BindParameter[str]] = bindparam("wanted")
ANY: Final[BindParameter[str]] = bindparam("any", expanding=True)


def within(unit: Unit, wanted: object) -> dict[str, object]:
    """Return the parameters of a statement about one thing of the unit's tenant."""
    return {"tenant": unit.tenant, "wanted": wanted}


def among(unit: Unit, items: Sequence[_Item]) -> Iterable[dict[str, object]]:
    """Yield the parameters of a statement about any of the items, as often as it has to be run."""
    for start in range(0, len(items), AT_ONCE):
        yield {"tenant": unit.tenant, "any": items[start : start + AT_ONCE]}
