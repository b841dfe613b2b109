"""From one epoch to the next: E2, E3, P, E4, E5, and recovery from a crash between any two. CUSTODY.md §4."""

import secrets
from collections.abc import Mapping
from typing import Final

from ..errors import CustodyUnavailable
from ..failpoints import failpoint
from . import records
from .faults import CustodyMismatch
from .heads import Heads
from .keytree import DirtyBlobs
from .providers.protocol import Destroyed, Handle, KeyState
from .records import Head
from .reserve import Reserve, is_full

_ATTEMPTS: Final = 8  # against other processes that recover in between


class Epochs:
    """The writer's side of custody. One call at a time: the caller holds the turn."""

    def __init__(self, heads: Heads) -> None:
        """Work on these heads."""
        self._heads: Final = heads
        self._store: Final = heads.store
        self._provider: Final = heads.provider
        self._reserve: Final = Reserve(heads.store.beside("reserve"))
        self._next_name: str | None = None
        self._torn: bool = False

    def puncture(self, causes: Mapping[bytes, str], now: int, *, rotate: bool = False) -> dict[bytes, int]:
        """Puncture these paths, destroy the old epoch key, and return the epoch that punctured each.

        What is punctured already keeps its epoch; with nothing left to puncture and no wish to rotate,
        nothing is done. After a failure the next call recovers first.
        """
        try:
            epochs = self._puncture(causes, now, rotate=rotate)
        except CustodyUnavailable as exc:
            if not (is_full(exc) and self._reserve.release()):
                raise
            epochs = self._puncture(causes, now, rotate=rotate)
        self._reserve.hold()
        return epochs

    def _puncture(self, causes: Mapping[bytes, str], now: int, *, rotate: bool) -> dict[bytes, int]:
        if self._torn:
            self.recover(now)
        self._torn = True
        punctured = self._punctured(causes, now)
        fresh = {steps: cause for steps, cause in causes.items() if steps not in punctured}
        if fresh or rotate:
            self._advance(fresh, now)
            punctured |= self._punctured(fresh, now)
        self._torn = False
        return punctured

    def begin(self, seed: bytes, now: int) -> None:
        """Make the first head of a new store."""
        key = self._provider.create(self._record_name())
        dirty = self._heads.plant(seed)
        wrapped = self._provider.wrap(key, dirty.root_key, self._heads.wrap_aad(dirty.tree.epoch, key))
        with self._store.writing() as connection:
            records.insert_head(connection, self._heads.installation_id, key, wrapped, dirty, now)
        self._heads.adopt(self._heads.probe())
        self._reserve.hold()

    def recover(self, now: int) -> None:
        """Finish or undo what a crash left, by the five rules of CUSTODY.md §4."""
        self._store.settle()
        self._next_name = None
        with self._store.writing() as connection:  # rule 3: nobody else moves the head meanwhile
            head = records.read_head(connection, lock=True)
            self._heads.require_newer(head)
            self._heads.adopt(self._heads.unseal(head))  # rule 1
            unused = records.read_pending(connection)  # rule 2: these names and no others
            for name in unused:
                _require_other(name, head)
                self._provider.destroy(name)
            records.strike_pending(connection, unused)
            ended: dict[Handle, tuple[int, Destroyed]] = {}
            for name, epoch in records.read_retiring(connection, head.epoch).items():
                _require_other(name, head)
                ended[name] = (epoch, self._destroy(name))
            records.finish_epochs(connection, ended, now)
        self._torn = False

    def _punctured(self, causes: Mapping[bytes, str], now: int) -> dict[bytes, int]:
        """Return the epochs of what is punctured already, once the old keys are destroyed."""
        with self._store.reading() as connection:
            found = records.read_punctures(connection, list(causes))
            epochs = {steps: epoch for steps, (epoch, _) in found.items()}
            log = records.read_epochs(connection, epochs.values())
        if any(record.ended is None for record in log.values()):
            self.recover(now)
        return epochs

    def _advance(self, fresh: Mapping[bytes, str], now: int) -> None:
        """E2, E3, P, E4 and E5, in this order and no other."""
        for _ in range(_ATTEMPTS):
            # E2: the name first, then the key, so that a crash leaves no key that nobody knows of.
            name, self._next_name = self._next_name or self._record_name(), None
            failpoint("e2.pending")
            key = self._provider.create(name)
            failpoint("e2.created")
            dirty = self._commit(key, fresh, now)
            if dirty is not None:
                break
            # Another process recovered in between and struck the name, so this key leads nowhere.
            self._provider.destroy(key)
        else:
            raise CustodyUnavailable("other processes kept recovering custody; try again")
        failpoint("e3.after")
        # P: what was written must open before anything is destroyed.
        opened = self._heads.confirm(dirty.tree)
        failpoint("p.readback")
        # E4, E5: no key that a head needs which this process has not opened.
        self._finish(opened, now)

    def _commit(self, key: Handle, fresh: Mapping[bytes, str], now: int) -> DirtyBlobs | None:
        """E3: the new head in one transaction. None if another process struck the key's name."""
        with self._store.writing() as connection:
            head = records.read_head(connection, lock=True)
            if not records.has_pending(connection, key):
                return None
            tree = self._heads.current(head)
            already = records.read_punctures(connection, list(fresh))
            causes = {steps: cause for steps, cause in fresh.items() if steps not in already}
            dirty = tree.cut(causes, epoch=head.epoch + 1)
            wrapped = self._provider.wrap(key, dirty.root_key, self._heads.wrap_aad(head.epoch + 1, key))
            records.advance(connection, head, key, wrapped, dirty)
            records.log_epoch(connection, head.epoch + 1, now, causes)
            failpoint("e3.before_fsync")
        return dirty

    def _finish(self, opened: int, now: int) -> None:
        """E4: destroy the keys of older heads; E5: record it, drop their blobs, name the next key."""
        with self._store.reading() as connection:
            replaced = records.read_retiring(connection, opened)
        failpoint("e4.before")
        ended = {name: (epoch, self._destroy(name)) for name, epoch in replaced.items()}
        failpoint("e4.after")
        name = _new_name()
        with self._store.writing() as connection:
            records.finish_epochs(connection, ended, now)
            records.add_pending(connection, name)
        self._next_name = name
        failpoint("e5.after")

    def _destroy(self, name: Handle) -> Destroyed:
        destroyed = self._provider.destroy(name)
        if self._provider.state(name) is KeyState.ACTIVE:
            raise CustodyUnavailable("the provider still lets the old epoch key be used")
        return destroyed

    def _record_name(self) -> str:
        name = _new_name()
        with self._store.writing() as connection:
            records.add_pending(connection, name)
        return name


def _require_other(name: Handle, head: Head) -> None:
    """Raise rather than destroy the key that opens the head, whatever a list says."""
    if name == head.key_name:
        raise CustodyMismatch("the custody store lists its own key as one to destroy; it was altered")


def _new_name() -> str:
    return "epoch-" + secrets.token_hex(16)
