"""From one epoch to the next: E2, E3, P, E4, E5, and recovery from a crash between any two. CUSTODY.md §4."""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from sqlalchemy import Connection

from ..errors import CustodyUnavailable
from ..failpoints import failpoint
from ..reserve import Reserve, is_full
from . import journal, records, roots
from .faults import CustodyMismatch
from .heads import Heads
from .holders import code_of
from .journal import LogMark
from .keytree import KeyTree
from .providers.protocol import Destroyed, Handle, KeyState, Provider
from .records import Ended, Named, Record
from .roots import Head

_ATTEMPTS: Final = 8  # against other processes that recover in between


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be punctured, each path for its cause, and how far tenants' logs have come meanwhile."""

    causes: Mapping[bytes, str]
    marks: Mapping[str, LogMark] = field(default_factory=dict[str, LogMark])


class _NoHead(Enum):
    """Why there is no new head."""

    STRUCK = "another process recovered meanwhile, and struck the name of the key"
    NOTHING_LEFT = "everything that was asked for is punctured already"


@dataclass(frozen=True, slots=True)
class _Advanced:
    """A new head: its tree, its place in the log, what it punctured, which keys it leaves to be destroyed."""

    tree: KeyTree
    record: Record
    causes: Mapping[bytes, str]
    replaced: Sequence[Named]


class Epochs:
    """The writer's side of custody. One call at a time: the caller holds the turn."""

    def __init__(self, heads: Heads) -> None:
        """Work on these heads."""
        self._heads: Final = heads
        self._store: Final = heads.store
        self._reserve: Final = Reserve(heads.store.beside("reserve"))
        self._next: Named | None = None  # whose name is written down
        self._made: Named | None = None  # that key, if it was made ahead of need
        self._torn: bool = False

    def puncture(self, asked: Asked, now: int) -> dict[bytes, Record]:
        """Puncture paths, destroy the old epoch key, and return the epoch that punctured each.

        What is punctured already keeps its epoch; with nothing left to puncture, nothing is done. After a
        failure the next call recovers first.
        """
        try:
            epochs = self._puncture(asked, now)
        except CustodyUnavailable as exc:
            if not (is_full(exc) and self._reserve.release()):
                raise
            epochs = self._puncture(asked, now)
        self._reserve.hold()
        return epochs

    def _puncture(self, asked: Asked, now: int) -> dict[bytes, Record]:
        if self._torn:
            self.recover(now)
        self._torn = True
        # Where the next key is there, E3 itself may find out that nothing is left to do: it costs nothing.
        punctured = {} if self._made is not None else self._punctured(list(asked.causes), now)
        fresh = {steps: cause for steps, cause in asked.causes.items() if steps not in punctured}
        if fresh:
            advanced = self._advance(replace(asked, causes=fresh), now)
            if advanced is not None:
                punctured |= dict.fromkeys(advanced.causes, advanced.record)
            punctured |= self._punctured([steps for steps in fresh if steps not in punctured], now)
        self._torn = False
        return punctured

    def rotate(self, now: int, *, goal: Provider | None = None) -> Record:
        """Go to a fresh key, of another provider if it is named, and destroy the old one."""
        self.recover(now)  # and so no key is left that was only named
        self._torn = True
        if goal is not None:
            self._heads.holders.head_for(goal)
        advanced = self._advance(Asked({}), now, rotate=True, goal=goal)
        assert advanced is not None, "a rotation is never done already"  # noqa: S101
        self._torn = False
        return advanced.record

    def make_room(self) -> None:
        """Give up the room kept for erasing, if the disk has no other, to what is written before it."""
        self._reserve.make_room()

    def begin(self, seed: bytes, now: int) -> None:
        """Make the first head of a new store."""
        provider = self._heads.holders.current
        named = Named(Handle(_new_name()), code_of(provider))
        with self._store.writing() as connection:
            records.add_first_pending(connection, named)
        key = provider.create(named.name)
        dirty = self._heads.plant(seed)
        ledger_key = self._heads.ledger_key(dirty.tree)
        wrapped = provider.wrap(key, dirty.root_key, self._heads.wrap_aad(dirty.tree.epoch, key))
        head = Head(self._heads.installation_id, dirty.tree.epoch, named.key_custody, key, wrapped, b"", b"")
        with self._store.writing() as connection:
            roots.insert_head(connection, head, dirty, ledger_key, now)
        self._heads.adopt(self._heads.probe())
        self._reserve.hold()

    def recover(self, now: int) -> None:
        """Finish or undo what a crash left, by the five rules of CUSTODY.md §4."""
        self._store.settle()
        self._next = self._made = None
        with self._store.writing() as connection:  # rule 3: nobody else moves the head meanwhile
            head = roots.read_head(connection, lock=True)
            self._heads.require_newer(head)
            self._heads.adopt(self._heads.unseal(head))  # rule 1
            self._store.mirrors.bring_up()  # before any key goes that only an older copy needs
            with self._heads.book(connection, head.epoch, head.ledger) as book:
                # Rule 2: these names and no others.
                records.strike_pending(book, self._destroy_pending(head, records.read_pending(connection)))
                ended: dict[Named, Ended] = {}
                for key in records.read_retiring(connection, head.epoch):
                    _require_other(key, head)
                    ended[key] = self._destroy(key), now
                records.finish_epochs(book, ended)
        self._torn = False

    def _destroy_pending(self, head: Head, named: list[Named]) -> list[Named]:
        """Destroy keys that lead nowhere; one that lies with a provider out of reach stays named."""
        reached = [(key, provider) for key in named if (provider := self._find(key)) is not None]
        for key, provider in reached:
            _require_other(key, head)
            provider.destroy(key.name)
        return [key for key, _ in reached]

    def _find(self, key: Named) -> Provider | None:
        return self._heads.holders.find(key.key_custody)

    def _punctured(self, paths: Sequence[bytes], now: int) -> dict[bytes, Record]:
        """Return the epochs of what is punctured already, once the old keys are destroyed."""
        if not paths:
            return {}
        epochs, log = self._read(paths)
        if any(record.ended is None for record in log.values()):
            self.recover(now)
            epochs, log = self._read(paths)
        return {steps: log[epoch] for steps, epoch in epochs.items()}

    def _read(self, paths: Sequence[bytes]) -> tuple[dict[bytes, int], dict[int, Record]]:
        with self._store.reading() as connection:
            self._unstruck(connection)
            found = records.read_punctures(connection, paths)
            epochs = {steps: epoch for steps, (epoch, _) in found.items()}
            return epochs, records.read_epochs(connection, epochs.values())

    def _advance(
        self, asked: Asked, now: int, *, rotate: bool = False, goal: Provider | None = None
    ) -> _Advanced | None:
        """E2, E3, P, E4 and E5, in this order and no other; None if all of it is punctured already."""
        provider = goal or self._heads.holders.current
        for _ in range(_ATTEMPTS):
            # E2: the name first, then the key, so that a crash leaves no key that nobody knows of.
            named, made, self._next, self._made = self._next, self._made, None, None
            if named is None:
                named = self._name_next(provider)
            failpoint("e2.pending")
            key = made or Named(provider.create(named.name), named.key_custody)
            failpoint("e2.created")
            advanced = self._commit(provider, key, asked, now, rotate=rotate)
            if advanced is _NoHead.NOTHING_LEFT:
                self._next, self._made = named, key
                return None
            if advanced is not _NoHead.STRUCK:
                break
            # Another process recovered in between and struck the name, so this key leads nowhere.
            provider.destroy(key.name)
        else:
            raise CustodyUnavailable("other processes kept recovering custody; try again")
        failpoint("e3.after")
        # P: what was written must open before anything is destroyed.
        if self._heads.confirm(advanced.tree) != advanced.tree.epoch:
            self._store.mirrors.bring_up()  # whoever wrote the newer head may not have come to it yet
        failpoint("p.readback")
        return replace(advanced, record=self._finish(advanced, now))

    def prepare(self) -> None:
        """Make the next key now, so that nobody has to wait for it; do without where it can not be made.

        Its name is written down: like every other that leads nowhere, it goes when custody is opened.
        """
        if self._next is None or self._made is not None:
            return
        with self._store.reading() as connection:
            named = self._unstruck(connection)
        self._next = None
        if named is not None:
            with suppress(CustodyUnavailable):
                provider = self._heads.holders.current
                made = self._made = Named(provider.create(named.name), named.key_custody)
                self._next = named
                with self._store.writing() as connection:
                    roots.read_head(connection, lock=True)  # whoever recovers has this, and is waited for
                    is_struck = self._unstruck(connection) is None
                if is_struck:  # by another process's recovery, which found no key to destroy
                    provider.destroy(made.name)

    def _unstruck(self, connection: Connection) -> Named | None:
        """Return the next key's name, unless another process's recovery struck it and destroyed the key."""
        if self._next is not None and not records.has_pending(connection, self._next.name):
            self._next = self._made = None
        return self._next

    def _commit(
        self, provider: Provider, key: Named, asked: Asked, now: int, *, rotate: bool
    ) -> _Advanced | _NoHead:
        """E3: the new head in one transaction, unless there is a reason why not."""
        with self._store.writing() as connection:
            head = roots.read_head(connection, lock=True)
            if not records.has_pending(connection, key.name):
                return _NoHead.STRUCK
            tree = self._heads.current(head)
            already = records.read_punctures(connection, list(asked.causes))
            causes = {steps: cause for steps, cause in asked.causes.items() if steps not in already}
            if already and not causes:
                return _NoHead.NOTHING_LEFT
            epoch = head.epoch + 1
            dirty = tree.cut(causes, epoch=epoch)
            wrapped = provider.wrap(key.name, dirty.root_key, self._heads.wrap_aad(epoch, key.name))
            with self._heads.book(connection, head.epoch, head.ledger) as book:
                roots.advance(book, head, key, wrapped, dirty)
                record = Record(epoch, now, rotate, head.key_custody, key.key_custody, None)
                records.log_epoch(book, record, causes)
                for tenant, mark in asked.marks.items():
                    journal.mark(book, tenant, mark.origin, mark.seq)
            replaced = records.read_retiring(connection, epoch)
            failpoint("e3.before_fsync")
        return _Advanced(dirty.tree, record, causes, replaced)

    def _finish(self, advanced: _Advanced, now: int) -> Record:
        """E4: destroy the keys of older heads; E5: record it, drop their blobs, name the next key."""
        failpoint("e4.before")
        # No key but those that the head replaced which was read back: P holds for each head.
        ended = {key: (self._destroy(key), now) for key in advanced.replaced}
        failpoint("e4.after")
        following = Named(Handle(_new_name()), code_of(self._heads.holders.current))
        with self._heads.writing() as book:
            records.finish_epochs(book, ended)
            records.add_pending(book, following)
        self._next = following
        failpoint("e5.after")
        own = next(done for key, done in ended.items() if key.epoch == advanced.record.epoch)
        return replace(advanced.record, ended=own)

    def _destroy(self, key: Named) -> Destroyed:
        provider = self._heads.holders.get(key.key_custody)
        destroyed = provider.destroy(key.name)
        if provider.state(key.name) is KeyState.ACTIVE:
            raise CustodyUnavailable("the provider still lets the old epoch key be used")
        return destroyed

    def _name_next(self, provider: Provider) -> Named:
        named = Named(Handle(_new_name()), code_of(provider))
        with self._heads.writing() as book:
            records.add_pending(book, named)
        return named


def _require_other(key: Named, head: Head) -> None:
    """Raise rather than destroy the key that opens the head, whatever a list says."""
    if key.name == head.key_name:
        raise CustodyMismatch("the custody store lists its own key as one to destroy; it was altered")


def _new_name() -> str:
    return "epoch-" + secrets.token_hex(16)
