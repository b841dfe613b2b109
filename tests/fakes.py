"""Real classes that stand in for slow or fickle ones, and a whole installation in a folder. No mocks."""

import io
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path

from shomei_memory_verify import verify_signed_receipt
from shomei_service import bootstrap
from shomei_service.engine.model import Attested, Caller, Json, NewMemory, Scope, TenantId
from shomei_service.engine.parts import Engine
from shomei_service.engine.receipts.bodies import Draft
from shomei_service.engine.store.unit import Unit
from shomei_service.engine.verbs import access
from shomei_service.engine.verbs.add import add
from shomei_service.settings import Settings

# Every receipt that an engine opened here has issued, and the pin it must verify under.
ISSUED: list[tuple[dict[str, Json], str]] = []


def _take_down_receipts(engine: Engine) -> None:
    attest = engine.attest

    def attest_and_note(unit: Unit, drafts: Sequence[Draft], *, actor: str | Sequence[str]) -> list[Attested]:
        attested = attest(unit, drafts, actor=actor)
        available = engine.signing.available
        if available is not None:  # two keys sign while one follows the other
            pins = [one.public_key_hex for one in (available.current, available.coming) if one is not None]
            for one in attested:
                if one.envelope is not None:
                    own = [pin for pin in pins if pin == one.envelope["public_key_hex"]]
                    ISSUED.append((dict(one.envelope), (own or pins)[0]))
        return attested

    engine.attest = attest_and_note


@dataclass(slots=True)
class FixedClock:
    """A clock that stands until it is moved."""

    at: int = 1_800_000_000

    def now(self) -> int:
        """Return the time it was set to."""
        return self.at


@dataclass(frozen=True, slots=True)
class Home:
    """An installation in a folder: its settings, its pin and its first tenant's keys."""

    settings: Settings
    pin: str | None
    admin_token: str
    data_token: str
    tenant: TenantId

    @contextmanager
    def opened(self) -> Generator["House"]:
        """Open it as the service does, recovery included; the development notice is kept quiet."""
        with redirect_stderr(io.StringIO()), bootstrap.opened(self.settings) as engine:
            _take_down_receipts(engine)
            admin = access.authenticate(engine, self.admin_token)
            yield House(engine, admin, access.authenticate(engine, self.data_token), self.pin)


@dataclass(frozen=True, slots=True)
class House:
    """An open engine and the two callers of its first tenant."""

    engine: Engine
    admin: Caller
    data: Caller
    pin: str | None

    def remember(self, text: str, user_id: str | None = None) -> str:
        """Add one memory and return its id."""
        return add(self.engine, self.data, NewMemory(text, user_id)).memory_id

    def stranger(self, label: str = "stranger") -> Caller:
        """Return an admin of a new tenant."""
        tenant = access.create_tenant(self.engine, label)
        key = access.create_key(self.engine, tenant.tenant_id, Scope.ADMIN)
        return access.authenticate(self.engine, key.token)


def new_home(folder: Path, **settings: object) -> Home:
    """Make an installation below the folder; recall goes by words alone unless an embedder is named."""
    chosen = Settings.model_validate({"home": folder / "home", "embedder": "none", **settings})
    with redirect_stderr(io.StringIO()):
        made = bootstrap.install(chosen)
    return Home(chosen, made.public_key_hex, made.admin_key.token, made.data_key.token, made.tenant.tenant_id)


def authentic(receipt: Attested, pin: str | None) -> bool:
    """Say whether a receipt carries an envelope that verifies under the pin."""
    if receipt.envelope is None or pin is None:
        return False
    return bool(verify_signed_receipt(dict(receipt.envelope), expected_public_key_hex=pin))
