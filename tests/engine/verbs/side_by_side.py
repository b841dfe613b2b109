"""An engine and its model, asked the same and compared: outcome, receipts, and what holds afterwards.

`Alone` asks the model only and makes up the ids; the documented table is written with it.
"""

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shomei_memory_verify import verify_signed_receipt
from shomei_memory_verify.witness import check
from shomei_service.engine import failpoints
from shomei_service.engine.errors import EngineError, NotFound
from shomei_service.engine.model import (
    ArtifactKind,
    Authority,
    Basis,
    Caller,
    ConsentAction,
    DisclosureGround,
    Ground,
    LawfulBasis,
    NewMemory,
    Policies,
    Release,
    Scope,
)
from shomei_service.engine.store import receipts, tenants
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs import access, artifact, consent, hold, importing, lineage, obligation, read
from shomei_service.engine.verbs import disclose as disclosing
from shomei_service.engine.verbs import erase as erasing
from shomei_service.engine.verbs import export as exporting
from shomei_service.engine.verbs import forget as forgetting
from shomei_service.engine.verbs import restrict as restricting
from shomei_service.engine.verbs import update as updating
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.status import status
from shomei_service.settings import Settings
from tests.fakes import FixedClock, Home, new_home
from tests.model import Life, Outcome, Owed, Receipt, Rules, World, in_order
from tests.recompute_export import disagreements

WORD = "kettle"  # in every text, so that one search finds whatever recall may show
PURPOSES = ("support", "research")
SUBJECTS = ("alice", "bob", "carol", "dave", "erin")

Answer = Mapping[str, object]
Call = Callable[[], Answer]
Rule = Callable[[str], Outcome]


class Running:
    """An open engine that can be closed and opened again, its clock, and its database to look into."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.clock = FixedClock()
        self._opened = ExitStack()

    def open(self) -> None:
        """Open it as the service does, under the standing clock."""
        house = self._opened.enter_context(self.home.opened())
        house.engine.clock = self.clock
        self.engine: Any = house.engine
        looking = sqlite3.connect(f"file:{self.database_file}?mode=ro", uri=True, isolation_level=None)
        self.database = self._opened.enter_context(closing(looking))
        self.database.row_factory = sqlite3.Row

    def close(self) -> None:
        """Close it in peace."""
        self._opened.close()

    @property
    def database_file(self) -> Path:
        """Where the database lies."""
        return self.home.settings.data / "shomei.db"

    def back_up(self) -> None:
        """Copy the database alone, as a backup tool does."""
        with closing(sqlite3.connect(self.home.settings.home / "backup.db")) as target:
            self.database.backup(target)

    def put_back(self, died_at: Sequence[str] = ()) -> None:
        """Close, put the copy in the database's place, and open again: custody stays as it is.

        It may die at armed failpoints first, once for each.
        """
        self.close()
        for path in self.home.settings.data.glob("shomei.db*"):
            path.unlink()
        shutil.copy(self.home.settings.home / "backup.db", self.database_file)
        self.database_file.chmod(0o600)
        usual = self.home
        for spec in died_at:
            armed = usual.settings.model_copy(update={"failpoints": spec})
            self.home = replace(usual, settings=armed)
            with suppress(failpoints.InjectedError):
                self.open()
                self.close()
        self.home = usual
        self.open()


@contextmanager
def in_memory(template: Home | None = None) -> Generator[Running]:
    """Run an installation in memory where the machine can: nothing here is about what a disk keeps.

    A template is copied, not opened.
    """
    with _folder() as folder:
        home = new_home(folder, lineage="on") if template is None else _copied(template, folder / "home")
        running = Running(home)
        running.open()
        try:
            yield running
        finally:
            running.close()


@contextmanager
def template() -> Generator[Home]:
    """Make an installation to copy."""
    with _folder() as folder:
        yield new_home(folder, lineage="on")


@contextmanager
def _folder() -> Generator[Path]:
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def _copied(home: Home, to: Path) -> Home:
    shutil.copytree(home.settings.home, to)
    return replace(home, settings=Settings.model_validate(home.settings.model_dump() | {"home": to}))


class Verbs:
    """Every verb, asked of whoever `ask` asks. Each returns its outcome."""

    world: World

    def ask(self, call: Call, rule: Rule, names: str | None = None) -> Outcome:
        """Ask for one act. `names` says under which name the answer tells a new id."""
        raise NotImplementedError

    def engine(self) -> Any:
        """The engine to ask."""
        raise NotImplementedError

    admin: Any = None
    data: Any = None

    def add(
        self,
        subject: str | None = None,
        *,
        basis: LawfulBasis = LawfulBasis.NOT_RECORDED,
        purposes: tuple[str, ...] = (),
        expires_at: int | None = None,
        sources: tuple[str, ...] = (),
    ) -> Outcome:
        new = NewMemory(
            f"the {WORD} of {subject}",
            subject,
            lawful_basis=basis,
            purposes=purposes,
            expires_at=expires_at,
            derived_from=sources,
        )
        return self.ask(
            lambda: {"memory_id": add(self.engine(), self.data, new).memory_id},
            lambda fresh: self.world.add(
                fresh, subject, basis=basis, purposes=purposes, expires_at=expires_at, sources=sources
            ),
            "memory_id",
        )

    def update(self, memory_id: str) -> Outcome:
        def call() -> Answer:
            done = updating.update(self.engine(), self.admin, memory_id, f"another {WORD}")
            return {"memory_id": done.memory_id, "previous_id": done.previous_id}

        return self.ask(call, lambda fresh: self.world.update(memory_id, fresh), "memory_id")

    def erase(self, memory_id: str, basis: Basis = Basis.UNSPECIFIED, *, cascade: bool = False) -> Outcome:
        def call() -> Answer:
            done = erasing.erase(self.engine(), self.admin, memory_id, basis, cascade=cascade)
            assert done.receipt.body["memory_id"] == memory_id
            return {"erased": done.memory_id}

        return self.ask(call, lambda _: self.world.erase(memory_id, basis, cascade=cascade))

    def forget(self, subject: str) -> Outcome:
        def call() -> Answer:
            done = forgetting.forget(self.engine(), self.admin, subject)
            assert done.closure is not None
            assert done.closure.body["request_id"] == done.request_id
            return {
                "request_id": done.request_id,
                "matched": done.matched_count,
                "erased": frozenset(one.memory_id for one in done.erased),
                "deferred": frozenset(done.deferred_ids),
                "restricted_now": len(done.restricted_now),
                "already_erased": done.already_erased_count,
                "derived_erased": done.derived_erased_count,
                "external_artifacts": done.external_artifact_count,
            }

        return self.ask(call, lambda fresh: self.world.forget(subject, fresh), "request_id")

    def restrict(self, memory_id: str, ground: Ground = Ground.REQUEST) -> Outcome:
        def call() -> Answer:
            done = restricting.restrict(self.engine(), self.admin, memory_id, ground)
            assert (done.receipt is not None) == done.changed
            return {"restricted": done.restricted, "changed": done.changed}

        return self.ask(call, lambda _: self.world.restrict(memory_id, ground))

    def lift(self, memory_id: str, *, notice: bool = False) -> Outcome:
        def call() -> Answer:
            at = 1 if notice else None
            done = restricting.lift(self.engine(), self.admin, memory_id, notice_sent_at=at)
            assert (done.receipt is not None) == done.changed
            return {"restricted": done.restricted, "changed": done.changed, "code": done.code}

        return self.ask(call, lambda _: self.world.lift(memory_id, notice=notice))

    def place(
        self, *, memory_id: str | None = None, subject: str | None = None, expires_at: int | None = None
    ) -> Outcome:
        new = hold.NewHold(Authority.LITIGATION, memory_id, subject, "the matter", expires_at=expires_at)
        return self.ask(
            lambda: {"hold_id": hold.place(self.engine(), self.admin, new).hold.hold_id},
            lambda fresh: self.world.place(
                fresh, memory_id=memory_id, subject=subject, expires_at=expires_at
            ),
            "hold_id",
        )

    def release(self, hold_id: str, *, confirm: bool = True) -> Outcome:
        code = Release.MATTER_CLOSED

        def call() -> Answer:
            done = hold.release(self.engine(), self.admin, hold_id, code, confirm=confirm)
            return {"erased": frozenset(one.memory_id for one in done.disposed.erased)}

        return self.ask(call, lambda _: self.world.release(hold_id, code, confirm=confirm))

    def consent(self, subject: str, purpose: str, action: ConsentAction) -> Outcome:
        def call() -> Answer:
            done = consent.record(self.engine(), self.admin, consent.NewConsent(subject, purpose, action))
            assert (done.receipt is not None) == done.changed
            return {"changed": done.changed, "affected": done.affected}

        return self.ask(call, lambda _: self.world.consent(subject, purpose, action))

    def register(self, sources: tuple[str, ...]) -> Outcome:
        kind = ArtifactKind.SUMMARY
        return self.ask(
            lambda: {"artifact_id": artifact.register(self.engine(), self.data, sources, kind).artifact_id},
            lambda fresh: self.world.register(fresh, sources, kind),
            "artifact_id",
        )

    def acknowledge(self, artifact_id: str) -> Outcome:
        return self.ask(
            lambda: {"news": artifact.acknowledge(self.engine(), self.data, artifact_id)},
            lambda _: self.world.acknowledge(artifact_id),
        )

    def disclose(self, memory_id: str, ground: DisclosureGround = DisclosureGround.LEGAL_CLAIMS) -> Outcome:
        return self.ask(
            lambda: {
                "memory_id": disclosing.disclose(
                    self.engine(), self.admin, memory_id, ground
                ).memory.memory_id
            },
            lambda _: self.world.disclose(memory_id, ground),
        )

    def export(self, subject: str) -> Outcome:
        return self.ask(lambda: self.exported(subject), lambda _: self.world.export(subject))

    def show_export(self, memory_id: str) -> Outcome:
        """Export what is about alice, and say how one memory shows in it."""
        done = self.export("alice")
        records: Any = done.answer["records"]
        tombstones: Any = done.answer["tombstones"]
        if memory_id in records:
            recallable, grounds, consented, expired, held, *_ = records[memory_id]
            words = ["recallable" if recallable else "not_recallable", *sorted(map(str, grounds))]
            flags = {"consent_invalid": consented == "invalid", "expired": expired, "preserved": held}
            shown = "+".join([*words, *(name for name, is_set in flags.items() if is_set)])
        elif memory_id in tombstones:
            shown = "tombstone"
        else:
            shown = "absent" if done.answer["pending"] == (0, 0) else "counted"
        return replace(done, answer={"shown": shown})

    def take_in(self, memory_id: str) -> Outcome:
        """Import a line that bears the memory's id."""
        new = NewMemory(f"the {WORD} of alice", "alice", lawful_basis=LawfulBasis.CONTRACT)

        def call() -> Answer:
            line = importing.Line(1, memory_id, has_id=True, new=new)
            (done,) = importing.take_in(self.engine(), self.admin, "jsonl", [line])
            taken = {"memory_id": done.memory_id} if done.fate is importing.Fate.TAKEN else {}
            return {"fate": done.fate.value, **taken}

        return self.ask(call, lambda fresh: self.world.take_in(fresh, memory_id), "memory_id")

    def exported(self, subject: str) -> Answer:
        """Export what is about a subject and tell it as the model does, every commitment recomputed."""
        raise NotImplementedError

    def cancel(self, owed: Owed) -> Outcome:
        def call() -> Answer:
            obligation.cancel(self.engine(), self.admin, self.obligation_id(owed))
            return {}

        return self.ask(call, lambda _: self.world.cancel(owed))

    def obligation_id(self, owed: Owed) -> str:
        """Return the engine's id of an obligation that the model knows."""
        raise NotImplementedError

    def tick(self) -> Outcome:
        def call() -> Answer:
            upkeep(self.engine())
            return {}

        return self.ask(call, lambda _: self.world.tick())

    def look_for(self, memory_id: str) -> Outcome:
        """Search and page: say whether recall shows the memory."""
        return Outcome(None, {"found": self.world.is_recallable(memory_id)}, ())

    def get(self, memory_id: str) -> Outcome:
        """Read one memory by its id."""
        return Outcome(None if self.world.is_recallable(memory_id) else "not_found", {}, ())

    def say_status(self, memory_id: str) -> Outcome:
        """Verify: what an admin key is told, and what a data key is."""
        told = {name: self.world.status(memory_id, admin=name == "admin") for name in ("admin", "data")}
        return Outcome(None, told, ())

    def show_lineage(self, memory_id: str) -> Outcome:
        """Lineage: the kind of node an admin key and a data key see."""
        told = {name: self.world.lineage(memory_id, admin=name == "admin") for name in ("admin", "data")}
        return Outcome(None, told, ())


class Alone(Verbs):
    """The model alone, with made-up ids."""

    _numbers = count()

    def __init__(self, rules: Rules | None = None) -> None:
        self.world = World(rules, now=1_800_000_000)

    def ask(self, call: Call, rule: Rule, names: str | None = None) -> Outcome:
        return rule(f"{names or 'none'} {next(self._numbers)}")

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.world.now += seconds

    @contextmanager
    def custody_down(self) -> Generator[None]:
        """Nothing can be destroyed inside the block."""
        self.world.custody_is_down = True
        try:
            yield
        finally:
            self.world.custody_is_down = False

    def stranger(self) -> "Alone":
        """Return another tenant."""
        return Alone()


class Beside(Verbs):
    """One tenant of a running engine, and its model."""

    def __init__(self, running: Running, rules: Rules | None = None, label: str = "tenant") -> None:
        self.running = running
        self.world = World(rules, now=running.clock.at)
        tenant = access.create_tenant(self.engine(), label)
        self.tenant = tenant.tenant_id
        self.admin, self.data = (self._caller(scope) for scope in (Scope.ADMIN, Scope.DATA))
        policies = Policies(purposes=frozenset(PURPOSES), **asdict(self.world.rules))
        access.set_policies(self.engine(), self.tenant, policies)
        commitments = self.engine().commitments(tenant)
        self._names = {commitments.subject(name): name for name in SUBJECTS}
        self._origin = ""
        self._seen = -1

    def _caller(self, scope: Scope) -> Caller:
        key = access.create_key(self.engine(), self.tenant, scope)
        return access.authenticate(self.engine(), key.token)

    def engine(self) -> Any:
        return self.running.engine

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.running.clock.at += seconds
        self.world.now = self.running.clock.at

    @contextmanager
    def custody_down(self) -> Generator[None]:
        """The first key that would be destroyed inside the block is not."""
        self.world.custody_is_down = True
        failpoints.arm("e2.pending:raise")
        try:
            yield
        finally:
            failpoints.disarm()
            self.world.custody_is_down = False

    def exported(self, subject: str) -> Answer:
        package = exporting.export(
            self.engine(), self.admin, exporting.Wanted(subject), form=exporting.Form.JSON
        )
        with closing(package):
            answer = b"".join(package.as_json())
        with TemporaryDirectory(dir=self.running.home.settings.home) as folder:
            path = Path(folder) / "answer.json"
            path.write_bytes(answer)
            assert check(str(path), pin=self.running.home.pin)
            _, key = access.commitment_key(self.engine(), self.tenant)
            assert list(disagreements(path, key)) == []
        told = json.loads(answer)["export"]
        ids = [one["id"] for one in told["artifacts"]]
        assert ids == sorted(ids)
        return {
            "records": {one["memory_id"]: _record(one) for one in told["records"]},
            "artifacts": {one["id"]: one["recallable"] for one in told["artifacts"]},
            "tombstones": {one["memory_id"]: one["cause"] for one in told["tombstones"]},
            "pending": (told["erasure_pending_count"], told["update_pending_count"]),
        }

    def stranger(self) -> "Beside":
        """Return another tenant of the same installation."""
        return Beside(self.running, label="stranger")

    def ask(self, call: Call, rule: Rule, names: str | None = None) -> Outcome:
        """Ask the engine, then the model; both must come to the same."""
        self.world.now = self.running.clock.at
        refused, answer = None, dict[str, object]()
        try:
            answer = dict(call())
        except EngineError as refusal:
            refused = refusal.code
        fresh = answer.get(names, self._hidden(names)) if names else None
        got = Outcome(refused, answer, in_order(self.new_receipts()))
        wanted = rule(str(fresh))
        assert got == wanted, f"\n got    {got}\n wanted {wanted}"
        return wanted

    def _hidden(self, names: str) -> object:
        """Return the id that an unfinished act made and could not tell."""
        queries = {
            "memory_id": "SELECT memory_id AS id FROM memories WHERE life = 'pending'",
            "request_id": "SELECT request_id AS id FROM requests",
        }
        known = self.world.memories.keys() | self.world.requests.keys()
        rows = self._rows(queries[names]) if names in queries else []
        return next((row["id"] for row in rows if row["id"] not in known), "none")

    def _rows(self, query: str) -> list[dict[str, Any]]:
        """Read by plain SQL what this tenant has at rest."""
        where = "AND" if "WHERE" in query else "WHERE"
        found = self.running.database.execute(f"{query} {where} tenant_id = ?", [self.tenant])
        return [dict(row) for row in found]

    def new_receipts(self) -> list[Receipt]:
        """Return the receipts put on the log since the last time, each authentic under the pin."""
        with self.engine().reading(self.tenant) as unit:
            origin = tenants.get(unit).log_origin
            if origin != self._origin:  # after a restore the log begins anew
                self._origin, self._seen = origin, -1
            rows = receipts.page(unit, origin, self._seen, 10_000)
        for row in rows:
            assert row.seq == self._seen + 1
            self._seen = row.seq
        return [self._told(self._authentic(row)) for row in rows]

    def _authentic(self, row: receipts.ReceiptRow) -> dict[str, Any]:
        names = ("schema", "receipt_hash", "signer_id", "public_key_hex", "signature_hex")
        body = json.loads(row.body)
        envelope = {name: getattr(row, name) for name in names} | {"body": body}
        assert verify_signed_receipt(envelope, expected_public_key_hex=self.running.home.pin)
        return body

    def _told(self, body: dict[str, Any]) -> Receipt:
        """Return a receipt as the model tells it."""
        kind = body["schema"].removeprefix("shomei.").removesuffix(".v1")
        return (kind, *_FIELDS[kind](body, self._names))

    def look_for(self, memory_id: str) -> Outcome:
        self.compare_recall()
        return super().look_for(memory_id)

    def get(self, memory_id: str) -> Outcome:
        wanted = super().get(memory_id)
        try:
            assert read.get(self.engine(), self.data, memory_id).memory_id == memory_id
            refused = None
        except NotFound as refusal:
            refused = refusal.code
        assert refused == wanted.refused
        return wanted

    def say_status(self, memory_id: str) -> Outcome:
        self.compare_one(memory_id)
        return super().say_status(memory_id)

    def show_lineage(self, memory_id: str) -> Outcome:
        self.compare_one(memory_id)
        return super().show_lineage(memory_id)

    # ---- What holds afterwards

    def obligation_id(self, owed: Owed) -> str:
        listed = obligation.page(self.engine(), self.admin).obligations
        wanted = _owed_key(owed)
        return next(one.obligation_id for one in listed if self._owed(asdict(one)) == wanted)

    def _owed(self, row: Mapping[str, Any]) -> tuple[object, ...]:
        subject = None if row["memory_id"] else self._names.get(row["subject"])
        return (
            row["kind"],
            row["state"],
            row["memory_id"],
            subject,
            row["purpose"],
            row["artifact_id"],
            row["cause"],
            row["due_at"],
        )

    def compare(self) -> None:
        """Assert that what is at rest is what the model says, fact by fact."""
        self._compare_rows()
        assert Counter(self._owed(row) for row in self._rows("SELECT * FROM obligations")) == Counter(
            _owed_key(one) for one in self.world.owed
        )
        assert {row["hold_id"]: row["released_at"] is None for row in self._rows("SELECT * FROM holds")} == {
            one.hold_id: one.is_open for one in self.world.holds.values()
        }
        assert {
            row["request_id"]: (
                row["matched_count"],
                row["erased_count"],
                row["derived_matched_count"],
                row["derived_erased_count"],
            )
            for row in self._rows("SELECT * FROM requests")
        } == {
            one.request_id: (one.matched, one.erased, one.derived_matched, one.derived_erased)
            for one in self.world.requests.values()
        }
        assert {(row["request_id"], row["memory_id"]) for row in self._rows("SELECT * FROM deferrals")} == {
            (one.request_id, memory_id) for one in self.world.requests.values() for memory_id in one.waiting
        }
        assert {
            row["artifact_id"]: (
                row["erasure_requested_at"] is not None,
                row["acknowledged_at"] is not None,
            )
            for row in self._rows("SELECT * FROM artifacts")
        } == {one.artifact_id: (one.is_asked, one.is_acknowledged) for one in self.world.artifacts.values()}

    def _compare_rows(self) -> None:
        grounds = Counter[str]()
        opened: dict[str, set[str]] = {}
        for row in self._rows("SELECT * FROM grounds"):
            opened.setdefault(row["memory_id"], set()).add(row["code"])
            grounds[row["memory_id"]] += 1
        rows = self._rows("SELECT * FROM memories")
        assert {row["memory_id"]: row["grounds"] for row in rows if row["grounds"]} == dict(grounds)
        found = {
            row["memory_id"]: (
                row["life"],
                frozenset(opened.get(row["memory_id"], ())),
                row["life"] == Life.ERASING or bool(row["consented"]),
                row["expires_at"],
            )
            for row in rows
        }
        wanted = {
            one.memory_id: (
                one.life,
                frozenset(ground.value for ground in one.grounds),
                one.life is Life.ERASING or self.world.is_consented(one),  # once on its way, no matter
                one.expires_at,
            )
            for one in self.world.memories.values()
            if one.life is not Life.ERASED
        }
        assert found == wanted
        assert {row["memory_id"]: row["cause"] for row in self._rows("SELECT * FROM tombstones")} == {
            one.memory_id: one.cause for one in self.world.memories.values() if one.life is Life.ERASED
        }

    def compare_recall(self, subject: str | None = None) -> None:
        """Assert that search and pages show what the model says, no more and no less."""
        wanted = self.world.recallable(subject)
        found = search(self.engine(), self.data, WORD, user_id=subject, limit=100).results
        assert {one.memory.memory_id for one in found} == wanted
        shown = read.page(self.engine(), self.data, user_id=subject, limit=500).memories
        assert {one.memory_id for one in shown} == wanted

    def compare_one(self, memory_id: str) -> None:
        """Assert what status and lineage say of a memory, to both kinds of key."""
        for caller, is_admin in ((self.admin, True), (self.data, False)):
            said = status(self.engine(), caller, memory_id)
            assert (said.valid, said.retrieval_safe, said.failures) == self.world.status(
                memory_id, admin=is_admin
            )
            assert said.embedding_retired == ("erased" in said.failures)
            assert self.lineage(caller, memory_id) == self.world.lineage(memory_id, admin=is_admin)

    def lineage(self, caller: Caller, memory_id: str) -> str | None:
        """Return what kind of node lineage shows; None where it says 404."""
        try:
            shown = lineage.graph(self.engine(), caller, memory_id).nodes[0]
        except NotFound:
            return None
        assert shown.recallable == self.world.is_recallable(memory_id)
        return shown.kind


def _owed_key(one: Owed) -> tuple[object, ...]:
    return (
        one.kind,
        one.state,
        one.memory_id,
        one.subject,
        one.purpose,
        one.artifact_id,
        one.cause,
        one.due_at,
    )


def _record(one: dict[str, Any]) -> tuple[object, ...]:
    assert WORD in one["text"]
    state = one["state"]
    assert state["readable"] == "yes"
    return (
        state["recallable"],
        frozenset(state["restricted"]),
        state["consent"],
        state["expired"],
        state["preserved_for_legal_reasons"],
        one["about_others"],
        frozenset(one["derived_from"]),
    )


def _restriction(body: dict[str, Any], _: object) -> Receipt:
    assert body["restricted_state"] == (body["ground_count"] > 0)
    return (body["memory_id"], body["action"], body["reason_code"], body["ground_count"])


def _closure(body: dict[str, Any], _: object) -> Receipt:
    counts = tuple(body[f"{name}_count"] for name in ("matched", "erased", "deferred"))
    return (
        body["request_id"],
        counts,
        body["disposition"],
        body["match_basis"],
        body["derived_erased_count"],
        body["external_artifact_count"],
        body["external_ack_count"],
        body["prior_closure_hash"] is not None,
        body["closed_set_size"],
    )


_FIELDS: dict[str, Callable[[dict[str, Any], Mapping[Any, str]], Receipt]] = {
    "memory_add": lambda body, _: (body["memory_id"], body["held_on_arrival"]),
    "memory_update": lambda body, _: (body["memory_id"], body["previous_id"]),
    "vector_delete": lambda body, _: (
        body["memory_id"],
        body["cause"],
        body["basis"],
        body["derived_affected_count"],
        body["obligation_id"] is not None,
    ),
    "restriction": _restriction,
    "subject_closure": _closure,
    "legal_hold": lambda body, _: (body["hold_id"], body["action"], body["obligations_fired"]),
    "consent": lambda body, names: (
        names[body["subject_pseudonym"]],
        body["purpose_code"],
        body["action"],
        body["affected_count"],
    ),
    "reerase": lambda body, _: (body["memory_id"], body["backup_detected"]),
    "log_restart": lambda _, __: (),
    "access_export": lambda body, _: (
        body["record_count"],
        body["artifact_count"],
        body["tombstone_count"],
    ),
    "disclosure": lambda body, _: (body["memory_id"], body["ground_code"]),
    "derived_artifact": lambda body, _: (body["artifact_id"], body["kind"], tuple(body["source_ids"])),
}
