"""One installation's custody in a directory, and what an attacker may do with copies of it."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sqlalchemy import select

from shomei_service.engine.custody import Address, Custody, KeyGone, Puncture, Punctured, Seen, address
from shomei_service.engine.custody.blob import Blob, Draft, Link
from shomei_service.engine.custody.keytree import path
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.providers.protocol import (
    Description,
    Destroyed,
    Handle,
    KeyState,
    Provider,
)
from shomei_service.engine.custody.sealing import bind, open_sealed
from shomei_service.engine.custody.store import CustodyStore
from shomei_service.engine.custody.tables import blobs, head
from shomei_service.engine.errors import IntegrityFault
from tests.engine.custody.reference import children

INSTALLATION = "ab" * 16
CAUSE = "delete_request"


class Home:
    """`custody/` and `keys/` below one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.custody_dir = directory / "custody"
        self.keys_dir = directory / "keys"
        self.url = f"sqlite:///{self.custody_dir / 'custody.db'}"

    def create(self, **changes: object) -> Custody:
        provider = LocalFile.initialise(self.keys_dir)
        return Custody.create(self.url, provider, installation_id=INSTALLATION, now=1, **changes)  # type: ignore[arg-type]

    def open(self, provider: Provider | None = None, **changes: object) -> Custody:
        wanted: dict[str, object] = {"installation_id": INSTALLATION, "now": 50, "seen": Seen()} | changes
        return Custody.open(self.url, provider or LocalFile(self.keys_dir), **wanted)  # type: ignore[arg-type]

    def copy(self, to: Path) -> "Home":
        """Take what a snapshot of both volumes at this moment holds."""
        shutil.copytree(self.directory, to)
        return Home(to)

    def key_names(self) -> set[str]:
        return {entry.name for entry in self.keys_dir.iterdir()}

    def bytes(self) -> dict[str, bytes]:
        """Return every file, but SQLite's shared memory, which is no data."""
        files = (entry for entry in self.directory.rglob("*") if entry.is_file())
        data = [entry for entry in files if entry.suffix != ".db-shm"]
        return {str(entry.relative_to(self.directory)): entry.read_bytes() for entry in data}


def punctures(rows: Iterable[int], tenant: int = 1) -> list[Puncture]:
    return [Puncture(address(tenant, row), CAUSE) for row in rows]


def leaves(custody: Custody, rows: Iterable[int], tenant: int = 1) -> dict[int, bytes | None]:
    """Return what each row's leaf is now; None where it is punctured."""
    found: dict[int, bytes | None] = {}
    for row in rows:
        try:
            found[row] = custody.derive(address(tenant, row))
        except Punctured:
            found[row] = None
    return found


class Attacker:
    """Holds any number of custody stores and key directories, combines them, and may ask every provider."""

    def __init__(
        self,
        stores: Iterable[Home],
        key_dirs: Iterable[Path] = (),
        providers: Iterable[Provider] = (),
        domain: str = INSTALLATION,
    ) -> None:
        self.providers = list(providers)
        self.domain = domain.encode()
        self.keys = {entry.name: entry.read_bytes() for place in key_dirs for entry in place.glob("*.key")}
        self.wrapped: set[tuple[int, str, bytes]] = set()
        self.blobs: dict[tuple[bytes, int], set[bytes]] = {}
        for home in stores:
            self._take(home)

    def _take(self, home: Home) -> None:
        store = CustodyStore.open(home.url)
        with store.reading() as connection:
            for row in connection.execute(select(head)):
                self.wrapped.add((row.epoch, row.key_name, bytes(row.wrapped_root)))
            for row in connection.execute(select(blobs)):
                self.blobs.setdefault((bytes(row.prefix), row.epoch), set()).add(bytes(row.sealed))
        store.close()

    def leaves(self, wanted: Iterable[Address]) -> dict[Address, bytes]:
        """Return every wanted leaf that some root, opened by any key at all, leads to."""
        found: dict[Address, bytes] = {}
        for epoch, name, wrapped in self.wrapped:
            for root_key in self._unwrapped(epoch, name, wrapped):
                for leaf in wanted:
                    seed = self._walk(leaf, Link(root_key, epoch))
                    if seed is not None:
                        found[leaf] = seed
        return found

    def _unwrapped(self, epoch: int, name: str, wrapped: bytes) -> Iterator[bytes]:
        aad = bind(b"shomei/v1/epoch", self.domain, epoch.to_bytes(8), name.encode())
        for key in self.keys.values():
            try:
                yield open_sealed(key, wrapped, aad)
            except IntegrityFault:
                continue
        for provider in self.providers:
            try:
                yield provider.unwrap(Handle(name), wrapped, aad)
            except (KeyGone, IntegrityFault):
                continue

    def _walk(self, leaf: Address, link: Link) -> bytes | None:
        steps = path(leaf)
        for level in range(8):
            prefix = steps[:level]
            blob = self._opened(prefix, link)
            if blob is None:
                return None
            below = Draft.of(blob, link.epoch).links.get(steps[level]) if level < 7 else None
            if below is None:
                covering = blob.covering(256 | steps[level])
                if covering is None:
                    return None
                node, seed = covering
                depth = level * 8 + node.bit_length() - 1
                return _grow(seed, leaf, depth)
            link = below
        return None

    def _opened(self, prefix: bytes, link: Link) -> Blob | None:
        place = bytes([len(prefix)]), prefix, link.epoch.to_bytes(8)
        aad = bind(b"shomei/v1/tree", self.domain, *place)
        for sealed in self.blobs.get((prefix, link.epoch), set()):
            try:
                return Blob.decode(open_sealed(link.key, sealed, aad))
            except IntegrityFault:
                continue
        return None


def _grow(seed: bytes, leaf: int, depth: int) -> bytes:
    for shift in range(55 - depth, -1, -1):
        seed = children(seed)[leaf >> shift & 1]
    return seed


class Meddling:
    """A provider that is another one, with something done around its calls: no mock, a real class."""

    def __init__(self, inner: Provider, **around: Callable[[], None]) -> None:
        self.inner = inner
        self.around = around
        self.calls: list[str] = []

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self.around.get(call, lambda: None)()

    def create(self, name: str) -> Handle:
        self.around.get("create_later", lambda: None)()
        handle = self.inner.create(name)
        self._note("create")
        return handle

    def wrap(self, handle: Handle, key: bytes, aad: bytes) -> bytes:
        self._note("wrap")
        return self.inner.wrap(handle, key, aad)

    def unwrap(self, handle: Handle, blob: bytes, aad: bytes) -> bytes:
        self._note("unwrap")
        return self.inner.unwrap(handle, blob, aad)

    def destroy(self, handle: Handle) -> Destroyed:
        self._note("destroy")
        return self.inner.destroy(handle)

    def state(self, handle: Handle) -> KeyState:
        self._note("state")
        return self.inner.state(handle)

    def describe(self) -> Description:
        return self.inner.describe()
