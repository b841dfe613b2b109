"""Signing seeds in custody: each wrapped by a provider's key that wraps nothing else. CUSTODY.md §2.

A seed lives apart from the tree: no epoch ends it, and whoever holds the store without the provider can not
sign. Names of wrapping keys are written down before the keys exist and before they are destroyed.
"""

import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, func, select

from ..errors import CustodyUnavailable
from .faults import KeyGone
from .heads import Heads
from .holders import code_of
from .ledger import Book, Choice
from .providers.protocol import Handle, KeyCustody
from .records import Named, add_pending, has_pending, strike_pending
from .sealing import bind
from .tables import signers

_LABEL: Final = b"shomei/v1/signer"
_OF: Final = Choice.of(signers, signers.c.key_name == bindparam("wanted"))


@dataclass(frozen=True, slots=True, repr=False)
class _Kept:
    key: Named
    number: int
    wrapped: bytes


class CustodySeeds:
    """The seeds of one installation's signer, oldest first."""

    def __init__(self, heads: Heads) -> None:
        """Use the store and the providers of an open custody."""
        self._heads: Final = heads

    def seeds(self) -> list[bytes]:
        """Return the open seeds; raise CustodyUnavailable, or CustodyMismatch without their provider."""
        return [seed for kept in self._kept() if (seed := self._opened(kept)) is not None]

    def keep(self, seed: bytes, *, beside: int) -> None:
        """Keep one more seed, durable before this returns, if so many are there and no more."""
        with self._wrapped(seed) as (book, key, wrapped):
            if book.connection.execute(select(func.count()).select_from(signers)).scalar_one() != beside:
                add_pending(book, key)  # another process was first; this key wraps nothing
                return
            number = book.connection.execute(select(func.coalesce(func.max(signers.c.number), 0)))
            book.add(signers, [_row(_Kept(key, number.scalar_one() + 1, wrapped))])

    def drop(self, seed: bytes) -> None:
        """Destroy a seed with the key that wraps it; one that is not there is no error."""
        for kept in self._kept():
            if self._opened(kept) == seed:
                with self._heads.writing() as book:
                    if not _is_kept(book, kept):
                        return  # another process was first
                    book.drop(_OF, {"wanted": kept.key.name})
                    add_pending(book, kept.key)
                self._destroy(kept.key)

    def follow(self) -> None:
        """Wrap anew, with the provider in use, what still lies with the one custody was moved from."""
        provider = self._heads.holders.current
        for kept in self._kept():
            if kept.key.key_custody is code_of(provider):
                continue
            seed = self._opened(kept)
            if seed is None:
                continue
            with self._wrapped(seed) as (book, key, wrapped):
                if not _is_kept(book, kept):
                    add_pending(book, key)
                    continue
                book.drop(_OF, {"wanted": kept.key.name})
                book.add(signers, [_row(_Kept(key, kept.number, wrapped))])
                add_pending(book, kept.key)
            self._destroy(kept.key)

    def state(self) -> object:
        """Return which keys wrap seeds now."""
        return [kept.key.name for kept in self._kept()]

    def _kept(self) -> Sequence[_Kept]:
        with self._heads.store.reading() as connection:
            rows = connection.execute(select(signers).order_by(signers.c.number))
            return [
                _Kept(Named(Handle(row.key_name), KeyCustody(row.key_custody)), row.number, row.wrapped_seed)
                for row in rows
            ]

    def _opened(self, kept: _Kept) -> bytes | None:
        """Return a seed, or None when another process has dropped it since it was listed."""
        provider = self._heads.holders.get(kept.key.key_custody)
        try:
            return provider.unwrap(kept.key.name, bytes(kept.wrapped), self._aad(kept.key))
        except KeyGone:
            if kept in self._kept():
                raise
            return None

    @contextmanager
    def _wrapped(self, seed: bytes) -> Generator[tuple[Book, Named, bytes]]:
        """Wrap a seed under a new key, and yield the transaction in which it is written down."""
        provider = self._heads.holders.current
        key = Named(Handle("signer-" + secrets.token_hex(16)), code_of(provider))
        with self._heads.writing() as book:
            add_pending(book, key)
        provider.create(key.name)
        wrapped = provider.wrap(key.name, seed, self._aad(key))
        with self._heads.writing() as book:
            if not has_pending(book.connection, key.name):  # recovery elsewhere has destroyed it
                raise CustodyUnavailable("another process was recovering custody; try again")
            strike_pending(book, [key])
            yield book, key, wrapped

    def _destroy(self, key: Named) -> None:
        """Destroy a key that wraps nothing any more; what fails here is done by the next recovery."""
        self._heads.holders.get(key.key_custody).destroy(key.name)
        with self._heads.writing() as book:
            strike_pending(book, [key])

    def _aad(self, key: Named) -> bytes:
        return bind(_LABEL, self._heads.installation_id.encode(), key.name.encode())


def _is_kept(book: Book, kept: _Kept) -> bool:
    return _OF.found.first(book.connection, {"wanted": kept.key.name}) is not None


def _row(kept: _Kept) -> dict[str, object]:
    return {
        "key_name": kept.key.name,
        "key_custody": kept.key.key_custody.value,
        "number": kept.number,
        "wrapped_seed": kept.wrapped,
    }
