"""The course of a proof: remember, back up, erase, restore, attack; and the controls that have to fall."""

import secrets
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final, cast

from .. import bootstrap, provider
from ..engine.custody.providers.protocol import Finality, Provider
from ..engine.errors import NotFound
from ..engine.model import Caller, JsonObject, NewMemory
from ..engine.parts import Engine
from ..engine.upkeep import upkeep
from ..engine.verbs import access
from ..engine.verbs.add import add_batch
from ..engine.verbs.erase import erase
from ..engine.verbs.forget import forget
from ..engine.verbs.read import get, page
from ..settings import CustodyKind, Settings
from .ground import Ground
from .material import Material
from .ordinary import Ordinary
from .telling import Say, Told, counted, until
from .thief import Loot, Thief, Unwrap, asking, key_files, reading, rows
from .window import Window

_EACH: Final = 3
_SUBJECT: Final = "somebody who asks to be forgotten"


@dataclass(frozen=True, slots=True)
class _Texts:
    """What was remembered, by id: what is to stay and what is to go."""

    kept: dict[str, str]
    gone: dict[str, str]


class Course:
    """One proof, on one ground."""

    def __init__(self, ground: Ground, say: Say, keep: Path | None = None) -> None:
        self._ground: Final = ground
        self._settings: Final = ground.settings
        self._told: Final = Told(say)
        self._keep: Final = keep
        self._ordinary: Final = Ordinary()
        self._asked: Provider | None = None

    def run(self) -> Told:
        """Do all of it, in order."""
        token = self._installed()
        texts = self._remember(token)
        backup = self._ground.back_up("backup")
        self._told.note("2. The database was backed up.")
        then, copied = Loot.take(self._settings.custody_database), self._copied_keys()
        self._control_before(backup, then, texts)
        receipt = self._erase(token, texts)
        loots = [Loot.take(self._settings.custody_database), then]
        self._attack(backup, loots, texts)
        self._control_ordinary(backup, len(texts.gone))
        if copied:
            self._control_copied_key(backup, loots, copied, texts)
        if receipt["finality"] == Finality.SCHEDULED:
            self._window(backup, loots, texts, cast(int, receipt["key_final_at"]))
        elif self._keep is not None:
            self._told.note("   No deletion is scheduled here, so there is no window and nothing to keep.")
        self._restore(token, backup, texts)
        return self._told

    def _installed(self) -> str:
        made = bootstrap.install(self._settings)
        custody = self._provider().describe().key_custody.value
        database = "PostgreSQL" if self._ground.is_postgres else "SQLite"
        self._told.note(f"A throw-away installation: database {database}, key custody {custody}.")
        return made.admin_key.token

    def _provider(self) -> Provider:
        """Return the provider as a thief would ask it, without the notice that init has given."""
        if self._asked is None:
            self._asked = _quietly_opened(self._settings)
        return self._asked

    @contextmanager
    def _opened(self, token: str) -> Generator[tuple[Engine, Caller]]:
        with ExitStack() as stack:
            with redirect_stderr(StringIO()):
                engine = stack.enter_context(bootstrap.opened(self._settings, alone=True))
            yield engine, access.authenticate(engine, token)

    def _remember(self, token: str) -> _Texts:
        kept = [NewMemory(f"to be kept {secrets.token_hex(8)}") for _ in range(_EACH)]
        gone = [NewMemory(f"to be erased {secrets.token_hex(8)}", _SUBJECT) for _ in range(_EACH)]
        with self._opened(token) as (engine, caller):
            (first,) = add_batch(engine, caller, [NewMemory("an earlier one: the tree is not untouched")])
            ids = [one.memory_id for one in add_batch(engine, caller, [*kept, *gone])]
            erase(engine, caller, first.memory_id)
        texts = _Texts(
            dict(zip(ids[:_EACH], (new.text for new in kept), strict=True)),
            dict(zip(ids[_EACH:], (new.text for new in gone), strict=True)),
        )
        self._ordinary.put(self._settings.database, {one: text.encode() for one, text in texts.gone.items()})
        self._told.note(f"1. {len(ids)} memories were remembered; {_EACH} of them are to be erased.")
        self._told.note("   Beside them, as a control, the common design: row keys under one that lives on.")
        return texts

    def _copied_keys(self) -> list[bytes]:
        """Keys in files can be copied; another provider's never leave it."""
        if self._settings.custody is not CustodyKind.LOCAL_FILE:
            return []
        return key_files(self._settings.keys / "custody")

    def _opens(self, backup: str, loots: list[Loot], *more: Unwrap) -> dict[str, bytes]:
        return Thief(loots, asking(self._provider()), *more).opened(rows(backup))

    def _control_before(self, backup: str, then: Loot, texts: _Texts) -> None:
        found = self._opens(backup, [then])
        kept, gone = counted(texts.kept, found), counted(texts.gone, found)
        self._told.expect(
            f"control: before the erasure the attack opens {kept} of {_EACH} to be kept, "
            f"{gone} of {_EACH} to be erased",
            holds=kept == gone == _EACH,
        )

    def _erase(self, token: str, texts: _Texts) -> JsonObject:
        one, *_ = texts.gone
        with self._opened(token) as (engine, caller):
            bodies = [erase(engine, caller, one).receipt.body]
            bodies += [done.receipt.body for done in forget(engine, caller, _SUBJECT).erased]
            add_batch(engine, caller, [NewMemory("a later one, which the backup does not know")])
            upkeep(engine)
        self._ordinary.erase(self._settings.database)
        last = bodies[-1]
        self._told.note(
            f"3. {len(bodies)} were erased, one by itself and the others with their subject: epoch "
            f"{bodies[0]['epoch_before']} to {last['epoch_after']},"
        )
        self._told.note(
            f"   old keys ended by {last['destroy_method']}, finality {last['finality']}"
            f"{until(last['key_final_at'])}. The control's rows were deleted."
        )
        return dict(last)

    def _attack(self, backup: str, loots: list[Loot], texts: _Texts) -> None:
        self._told.note(
            "4. The backup, restored where nothing is known of the erasure, is attacked with all that"
        )
        self._told.note(
            "   custody holds now: the provider, asked for every key there was, and the custody store,"
        )
        self._told.note("   and with a copy of the custody store from before.")
        found = self._opens(backup, loots)
        self._told.expect_opened("kept", texts.kept, found)
        self._told.expect_shut("erased", texts.gone, found)

    def _control_ordinary(self, backup: str, count: int) -> None:
        found = self._ordinary.opened(backup)
        self._told.expect(
            f"control: of the common design, deleted alike, the same backup opens {len(found)} of {count}",
            holds=len(found) == count,
        )

    def _control_copied_key(self, backup: str, loots: list[Loot], copied: list[bytes], texts: _Texts) -> None:
        gone = counted(texts.gone, self._opens(backup, loots, reading(copied)))
        self._told.expect(
            f"control: with a copy of the key's file from before the erasure it opens {gone} of {_EACH}",
            holds=gone == _EACH,
        )
        self._told.note(
            "          (so keys are never snapshotted, or the retention of snapshots is declared)"
        )

    def _window(self, backup: str, loots: list[Loot], texts: _Texts, final_at: int) -> None:
        material = Material(rows(backup), loots, texts.kept, texts.gone, [loots[-1].key_name], final_at)
        tell_window(self._told, Window(self._settings, self._provider()), material, self._provider())
        if self._keep is not None:
            material.write(self._keep)
            self._told.note(
                f"   The attack is kept. Make it again{until(final_at).replace('until', 'after')}."
            )

    def _restore(self, token: str, backup: str, texts: _Texts) -> None:
        with redirect_stderr(StringIO()):
            again = self._ground.restore(backup).done.erased_again
        with self._opened(token) as (engine, caller):
            readable = {one.memory_id for one in page(engine, caller).memories}
            missing = sum(_is_missing(engine, caller, one) for one in texts.gone)
        self._told.note(f"5. The backup was restored for good: {again} rows were erased again.")
        self._told.expect(
            f"what was kept is read, {len(readable)} of {_EACH}, and the others are not found, {missing}",
            holds=readable == set(texts.kept) and again == missing == _EACH,
        )


def tell_window(told: Told, window: Window, material: Material, holder: Provider) -> None:
    """Show the window open, if these credentials reach that far, and shut again by the same attack."""
    each, open_until = len(material.gone), until(material.final_at)
    if window.cancel(material.retired):
        try:
            found = Thief(material.loots, asking(holder)).opened(material.rows)
        finally:
            window.close(material.retired)
        gone = counted(material.gone, found)
        told.expect(
            f"window: open{open_until}, as the receipts say: who cancels the deletion opens {gone} of {each}",
            holds=gone == each,
        )
        found = Thief(material.loots, asking(holder)).opened(material.rows)
        gone = counted(material.gone, found)
        told.expect(f"window: with the deletion scheduled again {gone} of {each} open", holds=gone == 0)
    else:
        told.note(
            f"   The window is open{open_until}: others than these credentials may cancel the deletion."
        )


def attack_again(settings: Settings, file: Path, say: Say) -> Told:
    """Make a kept attack again, cancelling what can still be cancelled; raise StartRefused for no such file.

    Once it finds the window closed, the keys that its control needed are destroyed too.
    """
    told, material = Told(say), Material.read(file)
    holder = _quietly_opened(settings)
    window = Window(settings, holder)
    if window.is_open(material.retired):
        tell_window(told, window, material, holder)
        return told
    told.note("The keys from before the erasure are deleted; nothing is left that could be cancelled.")
    found = Thief(material.loots, asking(holder)).opened(material.rows)
    told.expect_opened("kept", material.kept, found)
    told.expect_shut("erased", material.gone, found)
    window.close([name for loot in material.loots for name in (loot.key_name, *loot.names)])
    return told


def _quietly_opened(settings: Settings) -> Provider:
    with redirect_stderr(StringIO()):
        return provider.opened(settings)


def _is_missing(engine: Engine, caller: Caller, memory_id: str) -> bool:
    try:
        get(engine, caller, memory_id)
    except NotFound:
        return True
    return False
