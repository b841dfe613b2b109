"""What every verb does in every state, as plain rules over five facts. SEMANTICS.md §3-§13, §21.

A reference to compare the engine with: nothing comes from there but its closed sets of words, and everything
that the engine stores (standing, recall, who is held) is computed here. One `World` is one tenant. A verb
returns an `Outcome`: the code it refuses with, or what it answers, and the receipts it leaves. Where a verb
makes something, its id comes in as `fresh`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import Concatenate, ParamSpec

from shomei_service.engine.model import (
    PRESERVE_GROUNDS,
    SYSTEM_GROUNDS,
    ArtifactKind,
    Basis,
    Cause,
    ConsentAction,
    DisclosureGround,
    Ground,
    LawfulBasis,
    ObligationKind,
    PostForget,
    Release,
    Withdrawal,
)

DAY = 86_400
MONTH = 30 * DAY
GRANTED, WITHDRAWN = ConsentAction.GRANTED, ConsentAction.WITHDRAWN
ON_RELEASE, ON_LIFT = ObligationKind.ERASE_ON_HOLD_RELEASE, ObligationKind.ERASE_ON_RESTRICTION_LIFT
REVIEW = ObligationKind.REVIEW_AFTER_CONSENT_WITHDRAWAL
ERASE_LATER = ObligationKind.ERASE_AFTER_CONSENT_WITHDRAWAL
ACKNOWLEDGE = ObligationKind.EXTERNAL_ERASURE_ACK
WAITING = (ON_RELEASE, ON_LIFT)  # erasures owed for a memory: one at most is open

# §6: what says that erasing is the subject's own wish or the law's, though it was opposed before.
BASES_AGAINST_PRESERVATION = {Basis.SUBJECT_REQUEST, Basis.LEGAL_OBLIGATION, Basis.RESTRICTION_CONSENT}
BASIS_OF = {
    Cause.SUBJECT_FORGET: Basis.SUBJECT_REQUEST,
    Cause.RETENTION_EXPIRED: Basis.NO_LONGER_NECESSARY,
    Cause.CONSENT_WITHDRAWN: Basis.CONSENT_WITHDRAWN,
    Cause.DERIVED_CASCADE: Basis.UNSPECIFIED,
}

Receipt = tuple[object, ...]  # the schema's name and the fields that matter
Params = ParamSpec("Params")


class Life(StrEnum):
    """The one-way life of a memory; `pending` is an update's successor that nobody sees yet."""

    PENDING = "pending"
    LIVE = "live"
    ERASING = "erasing"
    ERASED = "erased"


class State(StrEnum):
    """The named states of SEMANTICS §3: views of the facts, in the words of its table."""

    UNKNOWN = "S0"
    ACTIVE = "S1"
    HELD = "S2"
    RESTRICTED = "S3"
    RESTRICTED_AND_HELD = "S4"
    CONSENT_INVALID = "S5"
    EXPIRED = "S6"
    ERASING = "S7"
    ERASED = "S8"


@dataclass(slots=True)
class Memory:
    """One memory's facts. `about` is everyone it concerns: its own subject and those of its sources."""

    memory_id: str
    subject: str | None = None
    about: frozenset[str] = frozenset()
    basis: LawfulBasis = LawfulBasis.NOT_RECORDED
    purposes: frozenset[str] = frozenset()
    expires_at: int | None = None
    sources: tuple[str, ...] = ()
    life: Life = Life.LIVE
    grounds: set[Ground] = field(default_factory=set[Ground])
    cause: Cause | None = None  # of its erasure


@dataclass(slots=True)
class Hold:
    """One legal hold: over a memory, or over a subject with everything there will be."""

    hold_id: str
    memory_id: str | None
    subject: str | None
    expires_at: int | None
    is_open: bool = True


@dataclass(slots=True)
class Owed:
    """One obligation about a memory, a subject's purpose or an artifact."""

    kind: ObligationKind
    memory_id: str | None = None
    subject: str | None = None
    purpose: str | None = None
    artifact_id: str | None = None
    cause: Cause | None = None
    due_at: int | None = None
    state: str = "open"


@dataclass(slots=True)
class Artifact:
    """Something made from memories that lies outside the store."""

    artifact_id: str
    sources: tuple[str, ...]
    is_asked: bool = False
    is_acknowledged: bool = False


@dataclass(slots=True)
class Request:
    """A forget request; counts are cumulative. `waiting` says of each held memory whether it is derived."""

    request_id: str
    subject: str
    matched: int
    derived_matched: int
    artifacts: tuple[str, ...]
    waiting: dict[str, bool]
    erased: int = 0
    derived_erased: int = 0
    is_closed: bool = False  # whether a closure was stated before


@dataclass(slots=True)
class Intent:
    """An erasure that is durable and not finished: its rows, and an update's successor or a request."""

    ids: list[str]
    cause: Cause
    basis: dict[str, Basis]
    successor: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The tenant's policies that decide something here."""

    post_forget: PostForget = PostForget.ALLOW
    withdrawal: Withdrawal = Withdrawal.SUPPRESS
    withdrawal_days: int = 30
    consent_required: bool = False
    notice_before_lift: bool = False
    erase_when_expired: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to: the code of its refusal or its answer, and the receipts, in no order."""

    refused: str | None
    answer: Mapping[str, object]
    receipts: tuple[Receipt, ...]


class Refused(Exception):
    """A verb says no, or not yet; the code is SEMANTICS §20's."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


Answer = Mapping[str, object]


def verb(
    rule: Callable[Concatenate["World", Params], Answer],
) -> Callable[Concatenate["World", Params], Outcome]:
    """Make an outcome of what a rule answers or refuses, and of the receipts it issued on the way."""

    @wraps(rule)
    def called(world: "World", *args: Params.args, **kwargs: Params.kwargs) -> Outcome:
        world.issued = []
        try:
            code, answer = None, rule(world, *args, **kwargs)
        except Refused as refusal:
            code, answer = refusal.code, {}
        return Outcome(code, answer, in_order(world.issued))

    return called


def in_order(receipts: Iterable[Receipt]) -> tuple[Receipt, ...]:
    """Return receipts in an order of their own; which of one call comes first is not law."""
    return tuple(sorted(receipts, key=lambda receipt: [str(field) for field in receipt]))


class World:
    """One tenant: what it holds, what was said about it, and what is owed."""

    def __init__(self, rules: Rules | None = None, *, now: int = 0) -> None:
        self.rules = rules or Rules()
        self.now = now
        self.custody_is_down = False
        self.memories: dict[str, Memory] = {}
        self.artifacts: dict[str, Artifact] = {}
        self.holds: dict[str, Hold] = {}
        self.said: dict[tuple[str, str], ConsentAction] = {}
        self.owed: list[Owed] = []
        self.requests: dict[str, Request] = {}
        self.intents: list[Intent] = []
        self.issued: list[Receipt] = []

    # ---- The five facts, and what follows from them. §3

    def is_held(self, memory: Memory) -> bool:
        """Say whether any open hold covers the memory, by itself or by anyone it is about."""
        return any(
            one.is_open and (one.memory_id == memory.memory_id or one.subject in memory.about)
            for one in self.holds.values()
        )

    def is_consented(self, memory: Memory) -> bool:
        """Say whether the memory has the consent it rests on. §13."""
        if memory.basis is LawfulBasis.NOT_RECORDED:
            return not self.rules.consent_required
        if memory.basis is not LawfulBasis.CONSENT or memory.subject is None:
            return True
        return any(self.said.get((memory.subject, one)) is GRANTED for one in memory.purposes)

    def is_within(self, memory: Memory) -> bool:
        """Say whether the memory's time is not over."""
        return memory.expires_at is None or self.now < memory.expires_at

    def hidden_because(self, memory: Memory) -> tuple[str, ...]:
        """Return why recall passes a live memory over; a source out of recall hides what was made from it."""
        reasons = {
            "restricted": bool(memory.grounds),
            "consent_invalid": not self.is_consented(memory),
            "expired": not self.is_within(memory),
        }
        found = tuple(reason for reason, applies in reasons.items() if applies)
        if not found and any(not self.is_usable(one) for one in memory.sources):
            return ("restricted",)
        return found

    def is_recallable(self, memory_id: str) -> bool:
        """Say whether recall may return the memory."""
        memory = self.memories.get(memory_id)
        return memory is not None and memory.life is Life.LIVE and not self.hidden_because(memory)

    def is_usable(self, node: str) -> bool:
        """Say the same of a memory or an artifact."""
        artifact = self.artifacts.get(node)
        if artifact is None:
            return self.is_recallable(node)
        return not artifact.is_asked and all(self.is_usable(one) for one in artifact.sources)

    def recallable(self, subject: str | None = None) -> set[str]:
        """Return what a search may find."""
        return {
            one.memory_id
            for one in self.memories.values()
            if self.is_recallable(one.memory_id) and subject in {None, one.subject}
        }

    def state(self, memory_id: str) -> State:
        """Return the state's name; the hold column wins over consent and retention, as for destruction."""
        memory = self.memories.get(memory_id)
        if memory is None or memory.life is Life.PENDING:
            return State.UNKNOWN
        if memory.life is not Life.LIVE:
            return State.ERASED if memory.life is Life.ERASED else State.ERASING
        if self.is_held(memory):
            return State.RESTRICTED_AND_HELD if memory.grounds else State.HELD
        if memory.grounds:
            return State.RESTRICTED
        if not self.is_consented(memory):
            return State.CONSENT_INVALID
        return State.ACTIVE if self.is_within(memory) else State.EXPIRED

    # ---- Lookups

    def present(self, memory_id: str) -> Memory:
        """Return a live memory; unknown, foreign, erased and on its way are one refusal. §4."""
        memory = self.memories.get(memory_id)
        if memory is None or memory.life is not Life.LIVE:
            raise Refused("not_found")
        return memory

    def below(self, ids: Iterable[str]) -> list[str]:
        """Return everything made from these, transitively, erased things included."""
        found: list[str] = []
        level = set(ids)
        nodes = {one.memory_id: one.sources for one in self.memories.values()} | {
            one.artifact_id: one.sources for one in self.artifacts.values()
        }
        while level := {one for one, sources in nodes.items() if level & set(sources)} - set(found):
            found += sorted(level)
        return found

    def owing(self, memory_id: str) -> Owed | None:
        """Return the open erasure that is owed for a memory."""
        return next((one for one in self.open() if one.memory_id == memory_id and one.kind in WAITING), None)

    def open(self) -> Iterator[Owed]:
        """Return what is still owed."""
        return (one for one in self.owed if one.state == "open")

    def issue(self, *receipt: object) -> None:
        """Put a receipt on record."""
        self.issued.append(receipt)

    # ---- Memories: in and out

    @verb
    def add(
        self,
        fresh: str,
        subject: str | None = None,
        *,
        basis: LawfulBasis = LawfulBasis.NOT_RECORDED,
        purposes: Iterable[str] = (),
        expires_at: int | None = None,
        sources: tuple[str, ...] = (),
    ) -> Answer:
        """Store a memory. A derived one is about its sources' subjects and for what all of them are for."""
        about = {subject} - {None}
        ends = {expires_at} - {None}
        declared = [frozenset(purposes)] if purposes else []
        for source in sources:
            made_of = self.present(source)
            if not self.is_recallable(source):
                raise Refused("blocked")
            about |= made_of.about
            ends |= {made_of.expires_at} - {None}
            declared += [made_of.purposes] if made_of.purposes else []
        memory = Memory(
            memory_id=fresh,
            subject=subject,
            about=frozenset(one for one in about if one is not None),
            basis=basis,
            purposes=frozenset.intersection(*declared) if declared else frozenset(),
            expires_at=min((one for one in ends if one is not None), default=None),
            sources=sources,
        )
        self._store(memory)
        return {"memory_id": fresh}

    @verb
    def take_in(self, fresh: str, memory_id: str) -> Answer:
        """Take in a line with a memory's id: what is here is not taken again, nor what was erased. §16."""
        memory = self.memories.get(memory_id)
        if memory is not None:
            return {"fate": "erased" if memory.life is Life.ERASED else "already_here"}
        self._store(Memory(fresh, "alice", frozenset({"alice"}), LawfulBasis.CONTRACT))
        return {"fate": "taken", "memory_id": fresh}

    def _store(self, memory: Memory) -> None:
        self._require_rememberable(memory)
        self.memories[memory.memory_id] = memory
        self.issue("memory_add", memory.memory_id, self.is_held(memory))

    def _require_rememberable(self, memory: Memory) -> None:
        if memory.basis is LawfulBasis.CONSENT and not self.is_consented(memory):
            answers = {self.said.get((str(memory.subject), one)) for one in memory.purposes}
            if WITHDRAWN in answers:
                raise Refused("blocked")
        if not memory.about & {one.subject for one in self.requests.values()}:
            return
        rests_on_consent = memory.basis is LawfulBasis.CONSENT and self.is_consented(memory)
        if self.rules.post_forget is PostForget.BLOCK:
            raise Refused("blocked")
        if self.rules.post_forget is PostForget.REQUIRE_CONSENT and not rests_on_consent:
            raise Refused("blocked")

    @verb
    def update(self, memory_id: str, fresh: str) -> Answer:
        """Erase a memory and put its successor in its place; the successor carries its governance. §9."""
        memory = self.present(memory_id)
        if self.is_held(memory):
            raise Refused("held")
        if not self.is_recallable(memory_id):
            raise Refused("blocked")
        self.memories[fresh] = Memory(
            memory_id=fresh,
            subject=memory.subject,
            about=memory.about,
            basis=memory.basis,
            purposes=memory.purposes,
            expires_at=memory.expires_at,
            sources=memory.sources,
            life=Life.PENDING,
        )
        intent = Intent([memory_id], Cause.SUPERSEDED_UPDATE, {}, successor=fresh)
        self._intend(intent)
        self._carry_out(intent)
        return {"memory_id": fresh, "previous_id": memory_id}

    @verb
    def erase(self, memory_id: str, basis: Basis = Basis.UNSPECIFIED, *, cascade: bool = False) -> Answer:
        """Destroy a memory; what was made from it leaves recall, or goes too. Begun is joined. §5, §11."""
        begun = next((one for one in self.intents if memory_id in one.ids), None)
        if begun is not None:
            self._carry_out(begun)
            if begun.successor is not None:
                raise Refused("not_found")  # superseded, not deleted
            return {"erased": memory_id}
        memory = self.present(memory_id)
        if self.is_held(memory):
            raise Refused("held")
        if memory.grounds & PRESERVE_GROUNDS and basis not in BASES_AGAINST_PRESERVATION:
            raise Refused("blocked")
        intents = [Intent([memory_id], Cause.DELETE_REQUEST, {memory_id: basis})]
        if cascade:
            intents += self._cascade(memory_id, basis)
        for one in intents:
            self._mark(one)
        for one in intents:
            self._suppress(one)
        for one in intents:
            self._carry_out(one)
        return {"erased": memory_id}

    def _cascade(self, memory_id: str, basis: Basis) -> list[Intent]:
        rows = [one for one in self.below([memory_id]) if self.state(one) not in _GONE]
        for one in rows:
            if self.is_held(self.memories[one]):
                self._defer(one, Cause.DERIVED_CASCADE)
        going = [
            one
            for one in rows
            if not self.is_held(self.memories[one])
            and (not self.memories[one].grounds & PRESERVE_GROUNDS or basis in BASES_AGAINST_PRESERVATION)
        ]
        return [Intent(going, Cause.DERIVED_CASCADE, dict.fromkeys(going, basis))] if going else []

    @verb
    def forget(self, subject: str, fresh: str) -> Answer:
        """Erase all that is about a subject, derived memories of others included; held ones are owed. §8."""
        about = [one.memory_id for one in self.memories.values() if subject in one.about]
        whole = list(dict.fromkeys([*about, *self.below(about)]))
        leaving = [one for one in self.intents if set(one.ids) & set(whole)]
        if leaving and self.custody_is_down:
            raise Refused("custody_unavailable")
        for begun in leaving:  # what is on its way out is finished, not counted
            self._carry_out(begun)
        rows = [self.memories[one] for one in whole if self.state(one) not in _GONE]
        held = [one for one in rows if self.is_held(one)]
        going = [one for one in rows if not self.is_held(one)]
        artifacts = tuple(one for one in whole if one in self.artifacts)
        already = sum(one.life is Life.ERASED and subject in one.about for one in self.memories.values())
        self.requests[fresh] = Request(
            request_id=fresh,
            subject=subject,
            matched=len(rows),
            derived_matched=sum(one.subject != subject for one in rows),
            artifacts=artifacts,
            waiting={one.memory_id: one.subject != subject for one in held},
        )
        newly = [self._defer(one.memory_id, Cause.SUBJECT_FORGET) for one in held]
        ids = [one.memory_id for one in going]
        intent = Intent(
            ids, Cause.SUBJECT_FORGET, dict.fromkeys(ids, Basis.SUBJECT_REQUEST), request_id=fresh
        )
        self._intend(intent)
        self._ask(artifacts)
        self._carry_out(intent)
        return {
            "request_id": fresh,
            "matched": len(rows),
            "erased": frozenset(ids),
            "deferred": frozenset(one.memory_id for one in held),
            "restricted_now": sum(newly),
            "already_erased": already,
            "derived_erased": sum(one.subject != subject for one in going),
            "external_artifacts": len(artifacts),
        }

    # ---- The erase engine. §10

    def _intend(self, intent: Intent) -> None:
        self._mark(intent)
        self._suppress(intent)

    def _mark(self, intent: Intent) -> None:
        self.intents.append(intent)
        for one in intent.ids:
            self.memories[one].life = Life.ERASING

    def _suppress(self, intent: Intent) -> None:
        """What was made from the rows leaves recall, and owners of artifacts are asked to erase them. §11."""
        is_update = intent.cause is Cause.SUPERSEDED_UPDATE
        for child in self.memories.values():
            if child.life in {Life.LIVE, Life.PENDING} and set(child.sources) & set(intent.ids):
                self._restrict(child, Ground.SOURCE_SUPERSEDED if is_update else Ground.SOURCE_ERASED)
        if not is_update:
            self._ask(one for one in self.below(intent.ids) if one in self.artifacts)

    def _ask(self, artifacts: Iterable[str]) -> None:
        for one in artifacts:
            if not self.artifacts[one].is_asked:
                self.artifacts[one].is_asked = True
                state = "done" if self.artifacts[one].is_acknowledged else "open"
                self.owed.append(Owed(ACKNOWLEDGE, artifact_id=one, due_at=self.now + MONTH, state=state))

    def _carry_out(self, intent: Intent) -> None:
        if not intent.ids:
            self._close(intent)
            return
        if self.custody_is_down:
            raise Refused("erasure_pending")
        for memory_id in intent.ids:
            memory = self.memories[memory_id]
            memory.life, memory.cause = Life.ERASED, intent.cause
            memory.grounds.clear()
        for memory_id in intent.ids:
            self._prove(intent, memory_id)
        for memory_id in intent.ids:
            owed = self.owing(memory_id)
            if owed is not None:
                owed.state = "done"
        if intent.successor is not None:
            self.memories[intent.successor].life = Life.LIVE
        self._close(intent)

    def _prove(self, intent: Intent, memory_id: str) -> None:
        if intent.successor is not None:
            self.issue("memory_update", intent.successor, memory_id)
            return
        affected = sum(self.state(one) not in _GONE for one in self.below([memory_id]))
        owed = self.owing(memory_id)
        basis = intent.basis.get(memory_id)
        if basis is None:
            basis = BASIS_OF[owed.cause] if owed and owed.cause else Basis.UNSPECIFIED
        self.issue("vector_delete", memory_id, intent.cause, basis, affected, owed is not None)

    def _close(self, intent: Intent) -> None:
        """State a closure for every request that this erasure serves: m = e + d, cumulative. §8."""
        self.intents.remove(intent)
        for request in self.requests.values():
            served = [one for one in intent.ids if one in request.waiting]
            derived = sum(request.waiting.pop(one) for one in served)
            if request.request_id == intent.request_id:
                served = intent.ids
                derived = sum(self.memories[one].subject != request.subject for one in served)
            elif not served:
                continue
            request.erased += len(served)
            request.derived_erased += derived
            self._state_closure(request)

    def _state_closure(self, request: Request) -> None:
        m, e = request.matched, request.erased
        words = {(True, True): "noop_no_match", (False, False): "partial"}
        word = words.get((m == 0, m == e or e == 0), "complete" if m == e else "deferred")
        self.issue(
            "subject_closure",
            request.request_id,
            (m, e, m - e),
            word,
            "subject_exact_plus_derived" if request.derived_matched else "subject_exact",
            request.derived_erased,
            len(request.artifacts),
            sum(self.artifacts[one].is_acknowledged for one in request.artifacts),
            request.is_closed,
            sum(one.life is Life.ERASED and request.subject in one.about for one in self.memories.values()),
        )
        request.is_closed = True

    def _defer(self, memory_id: str, cause: Cause, kind: ObligationKind = ON_RELEASE) -> bool:
        """Owe an erasure, once; a forget or a cascade takes the memory out of recall meanwhile."""
        owed = self.owing(memory_id)
        if owed is None:
            self.owed.append(Owed(kind, memory_id=memory_id, cause=cause, due_at=self.now + MONTH))
        elif cause is Cause.SUBJECT_FORGET:
            owed.cause = cause  # the subject's own wish outranks the clock
        if cause in {Cause.SUBJECT_FORGET, Cause.DERIVED_CASCADE}:
            return self._restrict(self.memories[memory_id], Ground.DEFERRED_HOLD)
        return False

    # ---- Restriction. §6

    def _restrict(self, memory: Memory, ground: Ground) -> bool:
        if ground in memory.grounds:
            return False
        memory.grounds.add(ground)
        self.issue("restriction", memory.memory_id, "applied", ground, len(memory.grounds))
        return True

    def _lift(self, memory: Memory, grounds: Iterable[Ground]) -> bool:
        closing = memory.grounds & set(grounds)
        memory.grounds -= closing
        if closing:
            self.issue("restriction", memory.memory_id, "lifted", "art18_lifted", len(memory.grounds))
        return bool(closing)

    @verb
    def restrict(self, memory_id: str, ground: Ground = Ground.REQUEST) -> Answer:
        """Take a memory out of recall; each ground is opened once."""
        if ground in SYSTEM_GROUNDS:
            raise Refused("invalid_request")
        return {"restricted": True, "changed": self._restrict(self.present(memory_id), ground)}

    @verb
    def lift(self, memory_id: str, *, notice: bool = False) -> Answer:
        """Lift the callers' grounds, none while forgetting is put off. An erasure that waited follows."""
        memory = self.present(memory_id)
        if Ground.DEFERRED_HOLD in memory.grounds:
            return {"restricted": True, "changed": False, "code": "erasure_deferred"}
        mine = memory.grounds - SYSTEM_GROUNDS
        if mine and self.rules.notice_before_lift and not notice:
            raise Refused("blocked")
        changed = self._lift(memory, mine)
        restricted = bool(memory.grounds)
        owed = self.owing(memory_id)
        if changed and owed and owed.cause and not self.is_held(memory) and self._may_go(memory, owed.cause):
            intent = Intent([memory_id], owed.cause, {})
            self._intend(intent)
            self._carry_out(intent)
        return {"restricted": restricted, "changed": changed, "code": "art18_lifted" if changed else None}

    def _may_go(self, memory: Memory, cause: Cause | None) -> bool:
        """Say whether what goes by itself may go: retention never erases a restricted row (§18, 11), and
        nothing that the subject did not ask for erases what the subject wants kept (§6)."""
        if cause is Cause.RETENTION_EXPIRED:
            return not memory.grounds
        return cause is not Cause.CONSENT_WITHDRAWN or not memory.grounds & PRESERVE_GROUNDS

    # ---- Legal hold. §7

    @verb
    def place(
        self,
        fresh: str,
        *,
        memory_id: str | None = None,
        subject: str | None = None,
        expires_at: int | None = None,
    ) -> Answer:
        """Forbid erasure; too late for a memory whose erasure has begun."""
        if memory_id is not None:
            memory = self.memories.get(memory_id)
            if memory is not None and memory.life is Life.ERASING:
                raise Refused("erasure_in_progress")
            self.present(memory_id)
        self.holds[fresh] = Hold(fresh, memory_id, subject, expires_at)
        self.issue("legal_hold", fresh, "placed", 0)
        return {"hold_id": fresh}

    @verb
    def release(
        self, hold_id: str, code: Release = Release.MATTER_CLOSED, *, confirm: bool = False
    ) -> Answer:
        """End a hold; the erasures it was the last to forbid follow, if they are confirmed."""
        hold = self.holds.get(hold_id)
        if hold is None or not hold.is_open:
            raise Refused("not_found")
        return {"erased": frozenset(self._end_hold(hold, confirm=confirm))}

    def _end_hold(self, hold: Hold, *, confirm: bool) -> list[str]:
        hold.is_open = False
        going = [
            one.memory_id
            for one in self.memories.values()
            if one.life is Life.LIVE
            and (one.memory_id == hold.memory_id or hold.subject in one.about)
            and (owed := self.owing(one.memory_id)) is not None
            and not self.is_held(one)
            and self._may_go(one, owed.cause)
        ]
        if going and not confirm:
            hold.is_open = True
            raise Refused("confirm_required")
        self.issue("legal_hold", hold.hold_id, "released", len(going))
        if going:
            intent = Intent(going, Cause.DEFERRED_HOLD_RELEASE, {})
            self._intend(intent)
            self._carry_out(intent)
        return going

    # ---- Consent. §13

    @verb
    def consent(self, subject: str, purpose: str, action: ConsentAction) -> Answer:
        """Record what a subject said; it holds for every memory that rests on it, at once."""
        if self.said.get((subject, purpose)) is action:
            return {"changed": False, "affected": 0}
        resting = [
            one
            for one in self.memories.values()
            if one.life in {Life.LIVE, Life.PENDING}
            and one.basis is LawfulBasis.CONSENT
            and one.subject == subject
            and purpose in one.purposes
        ]
        before = [self.is_consented(one) for one in resting]
        self.said[subject, purpose] = action
        affected = [one for one, was in zip(resting, before, strict=True) if self.is_consented(one) != was]
        self.issue("consent", subject, purpose, action, len(affected))
        if action is GRANTED:
            self._regrant(subject, purpose, affected)
        elif self.rules.withdrawal is Withdrawal.ERASE_NOW:
            if any(
                one.life is Life.PENDING for one in affected
            ):  # an update's successor goes once it is there
                self._owe(ERASE_LATER, subject, purpose, self.now)
            self._erase_all((one for one in affected if one.life is Life.LIVE), Cause.CONSENT_WITHDRAWN)
        else:
            kind = ERASE_LATER if self.rules.withdrawal is Withdrawal.ERASE_AFTER else REVIEW
            self._owe(kind, subject, purpose, self.now + self.rules.withdrawal_days * DAY)
        return {"changed": True, "affected": len(affected)}

    def _regrant(self, subject: str, purpose: str, affected: list[Memory]) -> None:
        for owed in list(self.open()):
            if (owed.subject, owed.purpose) == (subject, purpose):
                owed.state = "cancelled"
        for memory in affected:
            owed = self.owing(memory.memory_id)
            if owed is not None and owed.cause is Cause.CONSENT_WITHDRAWN:
                owed.state = "cancelled"

    def _owe(self, kind: ObligationKind, subject: str, purpose: str, due_at: int) -> None:
        cause = Cause.CONSENT_WITHDRAWN if kind is ERASE_LATER else None
        self.owed.append(Owed(kind, subject=subject, purpose=purpose, cause=cause, due_at=due_at))

    def _erase_all(self, rows: Iterable[Memory], cause: Cause) -> None:
        """Erase what nothing forbids to go by itself; owe the rest."""
        going: list[str] = []
        for memory in rows:
            if self.is_held(memory):
                self._defer(memory.memory_id, cause)
            elif not self._may_go(memory, cause):
                self._defer(memory.memory_id, cause, ON_LIFT)
            else:
                going.append(memory.memory_id)
        if going:
            intent = Intent(going, cause, dict.fromkeys(going, BASIS_OF[cause]))
            self._intend(intent)
            self._carry_out(intent)

    # ---- Lineage, disclosure, obligations

    @verb
    def register(self, fresh: str, sources: tuple[str, ...], kind: ArtifactKind) -> Answer:
        """Record what was made outside the store; all its sources must be in recall."""
        for source in sources:
            if source not in self.artifacts:
                self.present(source)
            if not self.is_usable(source):
                raise Refused("blocked")
        self.artifacts[fresh] = Artifact(fresh, sources)
        self.issue("derived_artifact", fresh, kind, tuple(sorted(sources)))
        return {"artifact_id": fresh}

    @verb
    def acknowledge(self, artifact_id: str) -> Answer:
        """Record that an artifact's owner erased it."""
        artifact = self.artifacts.get(artifact_id)
        if artifact is None:
            raise Refused("not_found")
        news = not artifact.is_acknowledged
        artifact.is_acknowledged = True
        for owed in self.open():
            if owed.artifact_id == artifact_id:
                owed.state = "done"
        return {"news": news}

    @verb
    def disclose(self, memory_id: str, ground: DisclosureGround) -> Answer:
        """Read a memory in whatever state it is kept."""
        self.present(memory_id)
        self.issue("disclosure", memory_id, ground)
        return {"memory_id": memory_id}

    @verb
    def cancel(self, owed: Owed | None) -> Answer:
        """Take back what is owed; a deferred memory returns to recall. Too late once its erasing began."""
        if owed is None or owed.state != "open":
            raise Refused("not_found")
        if owed.kind is ACKNOWLEDGE:
            raise Refused("invalid_request")
        if owed.memory_id is None:
            owed.state = "cancelled"
            return {}
        memory = self.memories[owed.memory_id]
        if memory.life is Life.ERASING:
            raise Refused("erasure_in_progress")
        owed.state = "cancelled"
        for request in self.requests.values():
            request.waiting.pop(owed.memory_id, None)
        self._lift(memory, {Ground.DEFERRED_HOLD})
        return {}

    # ---- Reading

    def status(self, memory_id: str, *, admin: bool) -> tuple[bool | None, bool, tuple[str, ...]]:
        """Return valid, safe to recall and why not. A data key is not told of hidden memories. §5, §18 3."""
        memory = self.memories.get(memory_id)
        if memory is None or memory.life is Life.PENDING:
            return None, False, ()
        if memory.life is Life.ERASED:
            return False, False, ("erased",)
        if memory.life is Life.ERASING:
            return False, False, ("erasure_pending",)
        hidden = self.hidden_because(memory)
        if hidden and not admin:
            return None, False, ()
        return True, not hidden, hidden

    def lineage(self, memory_id: str, *, admin: bool) -> str | None:
        """Return what kind of node lineage shows; None where it says 404."""
        memory = self.memories.get(memory_id)
        if memory is None or not (admin or self.is_recallable(memory_id)):
            return None
        return {Life.LIVE: "memory", Life.ERASED: "tombstone"}.get(memory.life)

    @verb
    def export(self, subject: str) -> Answer:
        """Show everything about a subject, whatever state it is kept in. §12, T-44."""
        about = [one for one in self.memories.values() if subject in one.about]
        lives = {life: [one for one in about if one.life is life] for life in Life}
        made = [one for one in self.below(one.memory_id for one in about) if one in self.artifacts]
        records = {one.memory_id: self._exported(one) for one in lives[Life.LIVE]}
        self.issue("access_export", len(records), len(made), len(lives[Life.ERASED]))
        return {
            "records": records,
            "artifacts": {one: self.is_usable(one) for one in made},
            "tombstones": {one.memory_id: one.cause for one in lives[Life.ERASED]},
            "pending": (len(lives[Life.ERASING]), len(lives[Life.PENDING])),
        }

    def _exported(self, memory: Memory) -> tuple[object, ...]:
        consent = "valid" if self.is_consented(memory) else "invalid"
        if memory.basis is LawfulBasis.NOT_RECORDED:
            consent = "basis_not_recorded"
        elif memory.basis is not LawfulBasis.CONSENT:
            consent = "not_needed"
        return (
            self.is_recallable(memory.memory_id),
            frozenset(memory.grounds),
            consent,
            not self.is_within(memory),
            self.is_held(memory),
            len(memory.about) > 1,
            frozenset(memory.sources),
        )

    # ---- What goes on by itself

    @verb
    def restart(self) -> Answer:
        """Close and open again: every erasure that was begun is finished."""
        self._finish()
        return {}

    @verb
    def tick(self) -> Answer:
        """One round of upkeep: finish, end holds whose time is over, then retention, then due withdrawals."""
        self._finish()
        ended = [
            (one.expires_at, hold_id)
            for hold_id, one in self.holds.items()
            if one.is_open and one.expires_at is not None and one.expires_at <= self.now
        ]
        for _, hold_id in sorted(ended):
            self._end_hold(self.holds[hold_id], confirm=True)
        if self.rules.erase_when_expired:
            over = [
                one for one in self.memories.values() if one.life is Life.LIVE and not self.is_within(one)
            ]
            self._erase_all(over, Cause.RETENTION_EXPIRED)
        for owed in list(self.open()):
            if owed.kind is ERASE_LATER and owed.due_at is not None and owed.due_at <= self.now:
                owed.state = "done"
                self._erase_all(self._unconsented(owed), Cause.CONSENT_WITHDRAWN)
        return {}

    def _finish(self) -> None:
        for intent in list(self.intents):
            self._carry_out(intent)

    def _unconsented(self, owed: Owed) -> list[Memory]:
        return [
            one
            for one in self.memories.values()
            if one.life is Life.LIVE
            and one.basis is LawfulBasis.CONSENT
            and one.subject == owed.subject
            and owed.purpose in one.purposes
            and not self.is_consented(one)
        ]


_GONE = {State.UNKNOWN, State.ERASING, State.ERASED}  # not matched, not counted, not to be acted on
