"""What a thief does with a database, a custody store and whatever keys there are. CUSTODY.md §7."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from shomei_service.engine.custody.blob import Blob, Draft, Link, grow
from shomei_service.engine.custody.keytree import ADDRESS_BITS
from shomei_service.engine.custody.sealing import Column, RowPlace, bind, open_dek, open_sealed
from shomei_service.engine.errors import IntegrityFault


def rows(database: Path, query: str) -> list[sqlite3.Row]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(query).fetchall()


class Thief:
    """Holds one custody store and one directory of epoch keys, and gets out of them all there is."""

    def __init__(self, custody: Path, keys: Path) -> None:
        (self._head,) = rows(custody, "SELECT * FROM custody_head")
        self._blobs = {
            (row["prefix"], row["epoch"]): row["sealed"]
            for row in rows(custody, "SELECT * FROM custody_blob")
        }
        self._keys = {path.stem: path.read_bytes() for path in keys.glob("*.key")}
        self.secrets = list(self._walked())

    def _walked(self) -> Iterator[bytes]:
        """Yield every seed and every key that lies in a blob which can be opened from the head down."""
        epoch = self._head["epoch"]
        domain = self._head["installation_id"].encode()
        aad = bind(b"shomei/v1/epoch", domain, epoch.to_bytes(8), self._head["key_name"].encode())
        going: list[tuple[bytes, Link]] = []
        for key in self._keys.values():
            try:
                going.append((b"", Link(open_sealed(key, self._head["wrapped_root"], aad), epoch)))
            except IntegrityFault:
                continue
        while going:
            prefix, link = going.pop()
            place = bind(b"shomei/v1/tree", domain, bytes([len(prefix)]), prefix, link.epoch.to_bytes(8))
            blob = Blob.decode(open_sealed(link.key, self._blobs[prefix, link.epoch], place))
            draft = Draft.of(blob, link.epoch)
            yield link.key
            yield from draft.seeds.values()
            going += [(prefix + bytes([byte]), below) for byte, below in draft.links.items()]

    def opened(self, database: Path) -> dict[str, bytes]:
        """Return the content of every row of a database for which anything held here leads to the key."""
        (installation,) = rows(database, "SELECT installation_id FROM installation")
        found: dict[str, bytes] = {}
        for row in rows(database, "SELECT * FROM memories"):
            place = RowPlace(installation[0], row["tenant_id"], row["memory_id"], row["version"])
            for leaf in self._leaves(row["address"]):
                try:
                    keys = open_dek(leaf, place, row["sealed_dek"])
                except IntegrityFault:
                    continue
                found[row["memory_id"]] = keys.open(Column.CONTENT, row["sealed_content"])
                break
        return found

    def _leaves(self, address: int) -> Iterator[bytes]:
        """Yield what each secret would make of the address, were it the seed at any height above the leaf."""
        for secret in [*self.secrets, *self._keys.values()]:
            for height in range(ADDRESS_BITS + 1):
                yield grow(secret, address, height)


class Ordinary:
    """The common design: a DEK for each row, wrapped by one key that lives on. It deletes as it should."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self.database = folder / "ordinary.db"
        self.key = key
        self._connection = sqlite3.connect(self.database, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            self._connection.execute("PRAGMA " + pragma)
        self._connection.execute("CREATE TABLE rows (id TEXT PRIMARY KEY, dek BLOB, sealed BLOB)")

    def put(self, name: str, wrapped: bytes, sealed: bytes) -> None:
        """Store a row."""
        self._connection.execute("INSERT INTO rows VALUES (?, ?, ?)", [name, wrapped, sealed])

    def erase(self, name: str) -> None:
        """Delete a row."""
        self._connection.execute("DELETE FROM rows WHERE id = ?", [name])

    def tidy(self) -> None:
        """Empty the log."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the database."""
        self._connection.close()
