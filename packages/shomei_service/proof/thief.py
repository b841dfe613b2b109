"""What a thief does with a database, custody stores old and new, and whatever keys there are. CUSTODY.md §7.

It shares the formats with the engine, and none of its ways: it tries everything it finds on everything.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Row, create_engine, make_url, text

from ..engine.custody.blob import Blob, Draft, Link, grow
from ..engine.custody.keytree import ADDRESS_BITS
from ..engine.custody.providers.protocol import Handle, Provider
from ..engine.custody.sealing import Column, RowPlace, bind, open_dek, open_sealed
from ..engine.errors import Fault, IntegrityFault

# What a thief can make of keys: everything that a wrapped key opens to, asked with its name.
Unwrap = Callable[[Iterable[str], bytes, bytes], Iterator[bytes]]
Ask = Callable[[str], Sequence[Row[tuple[Any, ...]]]]

_EVERYONE: Final = text("SELECT set_config('shomei.tenant', '*', true)")


@dataclass(frozen=True, slots=True, repr=False)
class Loot:
    """Everything of one custody store that the key tree hangs on, as it was at one moment."""

    installation_id: str
    epoch: int
    key_name: str
    wrapped_root: bytes
    names: tuple[str, ...]
    blobs: Mapping[tuple[bytes, int], bytes]

    @classmethod
    def take(cls, url: str) -> "Loot":
        """Read a custody store, whatever its keeper thinks of that."""
        with reading_everything(url) as ask:
            (head,) = ask("SELECT installation_id, epoch, key_name, wrapped_root FROM custody_head")
            named = ask("SELECT name FROM custody_pending UNION SELECT name FROM custody_retiring")
            sealed = ask("SELECT prefix, epoch, sealed FROM custody_blob")
        return cls(
            installation_id=head.installation_id,
            epoch=head.epoch,
            key_name=head.key_name,
            wrapped_root=bytes(head.wrapped_root),
            names=tuple(row.name for row in named),
            blobs={(bytes(row.prefix), row.epoch): bytes(row.sealed) for row in sealed},
        )


@dataclass(frozen=True, slots=True, repr=False)
class SealedRow:
    """A row of a database, as much of it as a key would open."""

    tenant_id: str
    memory_id: str
    address: int
    version: int
    sealed_dek: bytes
    sealed_content: bytes


def rows(url: str) -> list[SealedRow]:
    """Return every row of a database, whoever's it is."""
    names = "tenant_id, memory_id, address, version, sealed_dek, sealed_content"
    with reading_everything(url) as ask:
        found = ask(f"SELECT {names} FROM memories")  # noqa: S608 - names of ours
        return [
            SealedRow(
                row.tenant_id,
                row.memory_id,
                row.address,
                row.version,
                bytes(row.sealed_dek),
                bytes(row.sealed_content),
            )
            for row in found
        ]


def asking(provider: Provider) -> Unwrap:
    """Return what comes of asking the provider for every key that was ever named, as it is now."""

    def unwrap(names: Iterable[str], wrapped: bytes, aad: bytes) -> Iterator[bytes]:
        for name in names:
            try:
                yield provider.unwrap(Handle(name), wrapped, aad)
            except Fault:
                continue

    return unwrap


def reading(keys: Sequence[bytes]) -> Unwrap:
    """Return what comes of trying keys that one holds oneself, such as copies of key files."""

    def unwrap(_names: Iterable[str], wrapped: bytes, aad: bytes) -> Iterator[bytes]:
        for key in keys:
            try:
                yield open_sealed(key, wrapped, aad)
            except IntegrityFault:
                continue

    return unwrap


def key_files(directory: Path) -> list[bytes]:
    """Return the epoch keys that lie in a directory."""
    return [path.read_bytes() for path in sorted(directory.glob("*.key"))]


class Thief:
    """Holds any number of custody stores, and gets out of all of them together whatever keys let it."""

    def __init__(self, loots: Sequence[Loot], *unwraps: Unwrap) -> None:
        self._loots: Final = loots
        self._blobs: dict[tuple[bytes, int], set[bytes]] = {}
        for loot in loots:
            for name, sealed in loot.blobs.items():
                self._blobs.setdefault(name, set()).add(sealed)
        self.secrets: Final = list(dict.fromkeys(self._walked(unwraps)))

    def _walked(self, unwraps: Sequence[Unwrap]) -> Iterator[bytes]:
        """Yield every seed and every key in each blob that can be opened from any head down."""
        names = sorted({name for loot in self._loots for name in (loot.key_name, *loot.names)})
        for loot in self._loots:
            domain = loot.installation_id.encode()
            aad = bind(b"shomei/v1/epoch", domain, loot.epoch.to_bytes(8), loot.key_name.encode())
            for unwrap in unwraps:
                for root in unwrap(names, loot.wrapped_root, aad):
                    yield from self._below(domain, Link(root, loot.epoch))

    def _below(self, domain: bytes, root: Link) -> Iterator[bytes]:
        going = [(b"", root)]
        while going:
            prefix, link = going.pop()
            yield link.key
            blob = self._opened(domain, prefix, link)
            if blob is None:
                continue
            draft = Draft.of(blob, link.epoch)
            yield from draft.seeds.values()
            going += [(prefix + bytes([byte]), below) for byte, below in draft.links.items()]

    def _opened(self, domain: bytes, prefix: bytes, link: Link) -> Blob | None:
        place = bind(b"shomei/v1/tree", domain, bytes([len(prefix)]), prefix, link.epoch.to_bytes(8))
        for sealed in self._blobs.get((prefix, link.epoch), ()):
            try:
                return Blob.decode(open_sealed(link.key, sealed, place))
            except IntegrityFault:
                continue
        return None

    def opened(self, found: Iterable[SealedRow]) -> dict[str, bytes]:
        """Return the content of every row that anything held here leads to, by the row's id."""
        opened: dict[str, bytes] = {}
        domains = {loot.installation_id for loot in self._loots}
        for row in found:
            for domain in domains:
                content = self._content(RowPlace(domain, row.tenant_id, row.memory_id, row.version), row)
                if content is not None:
                    opened[row.memory_id] = content
        return opened

    def _content(self, place: RowPlace, row: SealedRow) -> bytes | None:
        """Try what each secret would make of the address, were it the seed at any height above the leaf."""
        for secret in self.secrets:
            for height in range(ADDRESS_BITS + 1):
                try:
                    keys = open_dek(grow(secret, row.address, height), place, row.sealed_dek)
                    return keys.open(Column.CONTENT, row.sealed_content)
                except IntegrityFault:
                    continue
        return None


@contextmanager
def reading_everything(url: str) -> Generator[Ask]:
    """Yield what answers plain SQL about a database with every tenant's rows."""
    engine = create_engine(url, hide_parameters=True)
    try:
        with engine.connect() as connection:
            if make_url(url).get_backend_name() == "postgresql":
                connection.execute(_EVERYONE)
            yield lambda query: connection.execute(text(query)).all()
    finally:
        engine.dispose()
