"""What a restored database would forget: governance lines and log marks. CUSTODY.md §4."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from sqlalchemy import Connection, bindparam, func, select

from ..prepared import Prepared
from .ledger import Book, Choice
from .tables import journal, log_marks

WITHDRAWN: Final = "withdrawn"  # a line that takes another one back
_MARKED: Final = Prepared(
    select(log_marks.c.origin, log_marks.c.seq).where(log_marks.c.tenant_id == bindparam("whose"))
)
_MARK: Final = Choice.of(log_marks, log_marks.c.tenant_id == bindparam("whose"))
_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")  # ids and codes: no text of a person fits in unnoticed


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One governance act, content-free."""

    seq: int
    tenant: str
    kind: str
    ids: tuple[str, ...]
    pseudonym: str | None
    codes: Mapping[str, str | int]
    at: int


@dataclass(frozen=True, slots=True)
class LogMark:
    """How far a tenant's receipt log had come, and under which origin."""

    origin: str
    seq: int


def append(
    book: Book,
    *,
    tenant: str,
    kind: str,
    ids: Sequence[str],
    pseudonym: str | None,
    codes: Mapping[str, str | int],
    at: int,
) -> int:
    """Write one line and return its number, without gaps; raise ValueError for anything but ids and codes."""
    words = [tenant, kind, *ids, *codes, *(word for word in codes.values() if isinstance(word, str))]
    if pseudonym is not None:
        words.append(pseudonym)
    if not all(_CODE.fullmatch(word) for word in words):
        raise ValueError("the journal takes ids and codes only")
    seq = newest(book.connection) + 1
    row = {
        "seq": seq,
        "tenant": tenant,
        "kind": kind,
        "ids": json.dumps(list(ids)),
        "pseudonym": pseudonym,
        "codes": json.dumps(dict(codes), sort_keys=True),
        "at": at,
    }
    book.add(journal, [row])
    return seq


def newest(connection: Connection) -> int:
    """Return the number of the newest line; 0 while there is none."""
    return connection.execute(select(func.coalesce(func.max(journal.c.seq), 0))).scalar_one()


def after(connection: Connection, seq: int, kind: str | None = None) -> list[JournalEntry]:
    """Return every later line, or those of one kind, in order."""
    query = select(journal).where(journal.c.seq > seq).order_by(journal.c.seq)
    if kind is not None:
        query = query.where(journal.c.kind == kind)
    return [
        JournalEntry(
            row.seq,
            row.tenant,
            row.kind,
            tuple(cast("list[str]", json.loads(row.ids))),
            row.pseudonym,
            cast("dict[str, str | int]", json.loads(row.codes)),
            row.at,
        )
        for row in connection.execute(query)
    ]


def not_withdrawn(lines: Sequence[JournalEntry]) -> list[JournalEntry]:
    """Return the lines that nobody took back, of a run that goes to the newest."""
    withdrawn = {line.codes["line"] for line in lines if line.kind == WITHDRAWN}
    return [line for line in lines if line.kind != WITHDRAWN and line.seq not in withdrawn]


def mark(book: Book, tenant_id: str, origin: str, seq: int) -> None:
    """Write down how far a tenant's log has come; within one origin it never goes back."""
    for known, reached in _MARKED.rows(book.connection, {"whose": tenant_id}):
        if known == origin and reached >= seq:
            return
    book.drop(_MARK, {"whose": tenant_id})
    book.add(log_marks, [{"tenant_id": tenant_id, "origin": origin, "seq": seq}])


def marks(connection: Connection) -> dict[str, LogMark]:
    """Return the mark of every tenant that has one."""
    return {row.tenant_id: LogMark(row.origin, row.seq) for row in connection.execute(select(log_marks))}
