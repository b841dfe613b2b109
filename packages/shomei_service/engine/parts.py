"""What an engine is made of, and the two things every verb needs of it: a unit and an attested statement."""

import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field

from .audit import Audit
from .custody import Custody, address
from .custody.journal import WITHDRAWN, not_withdrawn
from .custody.sealing import commitment_key
from .duties import Duties
from .errors import CustodyUnavailable, Fault, IntegrityFault, StorageUnavailable
from .failpoints import failpoint
from .indexes import Indexes, Keep
from .model import Attested, Clock, JsonObject, Tenant, TenantId
from .recall.embedder import Embedder, EmbedderFault
from .recall.features import Floats
from .recall.queries import QueryVectors
from .receipts.bodies import Draft
from .receipts.commitments import Commitments, SetCommitments
from .receipts.content_free import GENERIC, Screen
from .receipts.signer import ReceiptSigner, Signers
from .rows import Rows
from .shared_embedder import SharedEmbedder
from .signing import Signing, signed
from .store import commitments, receipts, tenants
from .store.receipts import ReceiptRow
from .store.unit import Store, Unit
from .turns import Entrances, Flights, Slots

_MARK_EVERY_S = 5  # RECEIPTS.md §2: how far custody's log marks may lag behind
_QUERIES_KEPT = 2048  # 3 MiB of vectors
_NAMING_KEY_ROW = 0  # the tenant's first leaf; CUSTODY.md §3 reserves 256


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Return whole seconds since the epoch."""
        return int(time.time())


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator may set about the engine itself."""

    snapshot_retention_days: int | None = None
    lineage: bool = False
    strict_audit: bool = False
    indexes: Keep = field(default_factory=Keep)


class Engine:
    """Custody, signer, store, embedder and clock, opened and in step with each other."""

    def __init__(
        self,
        *,
        store: Store,
        custody: Custody,
        signers: Signers | None,
        embedder: Embedder | None,
        clock: Clock,
        options: Options,
        background_embedder: Embedder | None = None,
    ) -> None:
        self.store = store
        self.custody = custody
        self.signing = Signing(signers)
        self.embedder = SharedEmbedder(embedder, background_embedder) if embedder else None
        self.queries = QueryVectors(_QUERIES_KEPT)
        self.clock = clock
        self.options = options
        self.rows = Rows(custody)
        self.indexes = Indexes(store, self.rows, embedder, options.indexes)
        self.slots = Slots(custody)
        self.flights = Flights()
        self.entrances = Entrances()
        self.duties = Duties(store, clock)
        self.audit = Audit(store, clock, strict=options.strict_audit)
        self.wake = threading.Event()  # there is something to tend
        self.embed_now = threading.Event()  # there are rows without vectors
        self.swept_at = 0
        self._heard_at_start = custody.newest_line()
        self._moved: set[TenantId] = set()  # whose log custody has not heard of since its last commit
        self._marked_at: dict[TenantId, int] = {}

    @contextmanager
    def unit(self, tenant: TenantId, *, replaying: bool = False) -> Generator[Unit]:
        """Open a writing transaction in one tenant; it commits when the block ends."""
        opened: Unit | None = None
        try:
            with self.store.unit(tenant, replaying=replaying) as opened:
                if not self.store.is_sqlite:
                    tenants.lock(opened)  # first of all locks, so that no two units wait for each other
                try:
                    yield opened
                except BaseException:
                    if opened.journaled_after:  # under the lock: another process's replay waits for it
                        self._take_back(opened.journaled_after[0])
                        opened.journaled_after.clear()
                    raise
        except BaseException:
            if opened is not None and opened.journaled_after:
                self._take_back_unless_kept()
            raise
        self._moved.add(tenant)

    def _take_back(self, seen: int) -> None:
        """Take back what custody was told and nobody did: it was answered that nothing was done, or nothing.

        No opening may do it later, among what came after. Raises StorageUnavailable where the database has
        not seen what it had when this process began: only an opening may deal with a restored one.
        """
        for line in not_withdrawn(self.custody.journal_after(seen)):
            if line.seq <= self._heard_at_start:
                raise StorageUnavailable("the database went back while in use; stop, and start again")
            codes = {"line": line.seq}
            self.custody.journal_append(tenant=line.tenant, kind=WITHDRAWN, codes=codes, at=self.clock.now())

    def _take_back_unless_kept(self) -> None:
        """Do so unless the commit that failed to answer did happen, which the database says.

        Where it does not answer, the line stands: whoever writes the next one asks again.
        """
        with suppress(StorageUnavailable), self.store.transaction() as connection:
            self._take_back(tenants.journal_seen(connection, lock=True))

    def reading(self, tenant: TenantId) -> AbstractContextManager[Unit]:
        """Open a reading transaction in one tenant."""
        return self.store.reading(tenant)

    def commitments(self, tenant: Tenant) -> Commitments:
        """Return the tenant's keyed names; their key is a leaf of custody's tree, and stays."""
        return Commitments(self._commitment_key(tenant, _NAMING_KEY_ROW))

    def set_commitments(self, unit: Unit, tenant: Tenant, commit_key_id: str) -> SetCommitments:
        """Return commitments to sets under one of the tenant's keys. Raise IntegrityFault for another key."""
        key = self.commitment_key(unit, tenant, commit_key_id)
        if key is None:
            raise IntegrityFault("a receipt names a commitment key that the tenant never had")
        return SetCommitments(key)

    def commitment_key(self, unit: Unit, tenant: Tenant, commit_key_id: str) -> bytes | None:
        """Return one of the tenant's commitment keys; None for one that it never had."""
        row = commitments.leaves(unit).get(commit_key_id)
        return None if row is None else self._commitment_key(tenant, row)

    def _commitment_key(self, tenant: Tenant, row: int) -> bytes:
        return commitment_key(self.custody.derive(address(tenant.number, row)))

    def journal(
        self,
        unit: Unit,
        kind: str,
        ids: Sequence[str] = (),
        *,
        pseudonym: str | None = None,
        codes: Mapping[str, str | int] | None = None,
        at: int | None = None,
    ) -> None:
        """Tell custody what a restored database would forget, before the unit commits. CUSTODY.md §4.

        The line is durable first: a crash in between makes the act happen on the next open. It bears the
        act's own time where that is on record, so that what is replayed equals what was.
        """
        if unit.is_replaying:
            return  # new lines would hide those to come
        seen = tenants.journal_seen(unit.connection, lock=True)  # nobody is between line and commit now
        self._take_back(seen)
        unit.journaled_after.append(seen)  # from here on there may be a line, whatever custody answers
        number = self.custody.journal_append(
            tenant=unit.tenant,
            kind=kind,
            ids=ids,
            pseudonym=pseudonym,
            codes=codes,
            at=self.clock.now() if at is None else at,
        )
        failpoint("journal.after")
        tenants.advance_journal(unit.connection, number)

    def attest(self, unit: Unit, drafts: Sequence[Draft], *, actor: str | Sequence[str]) -> list[Attested]:
        """Put the statements on the tenant's log, in order, inside the unit; they exist once it commits.

        They are all one actor's, or each has its own. Raises EgressFault if a body is not content-free,
        SigningFault if the signer fails; then nothing of the unit is kept.
        """
        now = self.clock.now()
        tenant = tenants.take_sequence(unit, len(drafts), now=now)
        header = {
            "tenant_id_hash": self.commitments(tenant).tenant(tenant.tenant_id),
            "applied_at": tenant.last_applied_at,
            "commit_key_id": tenant.commit_key_id,
        }
        signer = self.signing.of(unit, tenant) if drafts else None
        screen = Screen(GENERIC | tenant.policies.semantic_types)
        actors = [actor] * len(drafts) if isinstance(actor, str) else actor
        rows: list[ReceiptRow] = []
        bodies: list[JsonObject] = []
        for offset, (draft, whose) in enumerate(zip(drafts, actors, strict=True)):
            seq = tenant.next_seq + offset
            log: JsonObject = {"issued_at": tenant.last_applied_at, "origin": tenant.log_origin, "seq": seq}
            own: JsonObject = {"schema": draft.schema.value, "actor_ref": whose, "log": log}
            body: JsonObject = {**header, **own, **draft.fields}
            # In the order of the stored text: whoever asks again is shown the same, byte for byte.
            ordered, text = screen.written(body)
            bodies.append(ordered)
            rows.append(signed(signer, text, draft, tenant.log_origin, seq))
        if rows:
            receipts.put(unit, rows)
        return [receipts.stated(row, body) for row, body in zip(rows, bodies, strict=True)]

    @property
    def signer(self) -> ReceiptSigner | None:
        """Who signs receipts; None where they are not signed."""
        return self.signing.current

    def probe_signer(self) -> None:
        """Raise SigningFault if the signer cannot sign; asked before anything is destroyed."""
        self.signing.probe()

    def custody_failure(self) -> CustodyUnavailable | None:
        """Return why no key could be destroyed now, if so. Ask with no lock held: it may take long."""
        try:
            self.custody.require_usable()
        except CustodyUnavailable as exc:
            return exc
        return None

    @property
    def key_custody(self) -> str:
        """Who holds the epoch key, as receipts say it."""
        return self.custody.provider.describe().key_custody.value

    @property
    def embedder_id(self) -> str | None:
        """Which model compares meanings; None when words alone decide."""
        return self.embedder.model_id if self.embedder else None

    def query_vector(self, tenant: TenantId, query: str) -> tuple[Floats | None, bool]:
        """Return the query's vector, and whether it is missing although an embedder is configured."""
        if self.embedder is None:
            return None, False
        vector = self.queries.get(tenant, query)
        if vector is None:
            try:
                vector = self.embedder.query(query)
            except EmbedderFault:
                return None, True
            self.queries.put(tenant, query, vector)
        return vector, False

    def mark_log(self, tenant_id: TenantId) -> None:
        """Tell custody how far the tenant's log has come, so that a restored database is noticed."""
        self._moved.discard(tenant_id)  # first: a commit from here on counts again
        try:
            with self.reading(tenant_id) as unit:
                tenant = tenants.get(unit)
            if tenant.next_seq:
                self.custody.set_log_mark(tenant_id, tenant.log_origin, tenant.next_seq - 1)
        except Fault:
            self._moved.add(tenant_id)
            raise
        self._marked_at[tenant_id] = self.clock.now()

    def mark_moved_logs(self, *, at_once: bool = False) -> None:
        """Mark every log that has moved, each at most every five seconds unless at once."""
        now = self.clock.now()
        for tenant_id in sorted(self._moved):
            waited = now - self._marked_at.get(tenant_id, 0)
            if at_once or not 0 <= waited < _MARK_EVERY_S:
                self.mark_log(tenant_id)

    @property
    def is_broken(self) -> bool:
        """A disk failed to keep what was written: only a new opening can find out what is there."""
        return self.store.is_fatal or self.custody.is_fatal

    def close(self) -> None:
        """Write the log marks, then close database and custody, whatever fails on the way."""
        with closing(self.custody), closing(self.store):
            if not self.is_broken:
                self.audit.flush()
                self.mark_moved_logs(at_once=True)
