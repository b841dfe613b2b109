"""Proof 7, RELIABILITY T-26: whatever is altered or moved is an error of that row alone. I-16."""

import json
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from shomei_service.engine.custody import Address, Punctured, address
from shomei_service.engine.custody.sealing import Column, RowPlace, column_key, open_dek, open_sealed, seal
from shomei_service.engine.errors import Blocked, ErasurePending, NotFound, RowDamaged
from shomei_service.engine.model import Caller, DisclosureGround, NewMemory
from shomei_service.engine.recall.features import Floats
from shomei_service.engine.shared_embedder import SharedEmbedder
from shomei_service.engine.upkeep import embedding_backlog, upkeep
from shomei_service.engine.verbs.add import add_batch
from shomei_service.engine.verbs.disclose import disclose
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.read import get, page
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.status import status
from shomei_service.engine.verbs.update import update
from tests.fakes import Home, House
from tests.proofs.raw import Raw, Row

SEALED = ("sealed_dek", "sealed_content", "sealed_recall")
MASKS = (0x01, 0x80)
TEXT = "a stone under the lamp"
RESULT = Path(__file__).with_name("deep-result.json")


@dataclass(slots=True)
class Shelf:
    """An open installation with a row that things are done to, and rows beside it."""

    house: House
    raw: Raw
    stranger: Caller
    victim: str = ""
    others: dict[str, str] = field(default_factory=dict[str, str])
    leaves: dict[str, Address] = field(default_factory=dict[str, Address])

    def remember(self, text: str, user_id: str | None = None, caller: Caller | None = None) -> str:
        (added,) = add_batch(self.house.engine, caller or self.house.data, [NewMemory(text, user_id)])
        self.leaves[added.memory_id] = Address(self.raw.row(added.memory_id)["address"])
        return added.memory_id

    def shown(self, caller: Caller | None = None) -> tuple[set[str], set[str]]:
        """Return what search and what the list show of everything there is."""
        engine, who = self.house.engine, caller or self.house.data
        found = search(engine, who, "stone lamp kettle ladder", limit=50).results
        return {one.memory.memory_id for one in found}, {one.memory_id for one in page(engine, who).memories}

    def reads_nothing(self, memory_id: str, admin: Caller | None = None) -> None:
        """Assert that every way of reading the row is an integrity error, and that all else is well."""
        engine, who = self.house.engine, admin or self.house.admin
        self.opens_not(memory_id, who)
        with pytest.raises(RowDamaged):
            disclose(engine, who, memory_id, DisclosureGround.SUBJECT_ACCESS)
        with pytest.raises(Blocked):
            update(engine, who, memory_id, "new words")
        self.leaves_the_others(memory_id)

    def opens_not(self, memory_id: str, who: Caller | None = None) -> None:
        engine, who = self.house.engine, who or self.house.admin
        told = status(engine, who, memory_id)
        assert (told.valid, told.retrieval_safe, told.failures) == (False, False, ("integrity_error",))
        with pytest.raises(RowDamaged):
            get(engine, who, memory_id)

    def leaves_the_others(self, *but: str) -> None:
        wanted = self.others.keys() - set(but)
        assert self.shown() == (wanted, wanted)
        for memory_id in wanted:
            assert get(self.house.engine, self.house.data, memory_id).content.text == self.others[memory_id]

    def is_whole(self) -> None:
        """Assert that nothing but the bytes had changed. An index in memory does not look again unasked."""
        assert get(self.house.engine, self.house.data, self.victim).content.text == TEXT
        assert self.shown()[1] == {self.victim, *self.others}

    def is_alive(self, leaf: Address) -> bool:
        try:
            self.house.engine.custody.derive(leaf)
        except Punctured:
            return False
        return True


@pytest.fixture
def shelf(home: Home) -> Iterator[Shelf]:
    """One tenant with a victim and two others, and another tenant."""
    with home.opened() as house, closing(Raw(home)) as raw:
        shelf = Shelf(house, raw, house.stranger())
        shelf.others = {shelf.remember(text, "bob"): text for text in ("a kettle of bob", "a ladder of bob")}
        shelf.victim = shelf.remember(TEXT, "alice")
        yield shelf


def signed(number: int, size: int) -> int:
    """Return the number as the database keeps it: two's complement."""
    return int.from_bytes(number.to_bytes(size), signed=True)


def flips(row: Row) -> Iterator[tuple[str, object]]:
    """Yield each byte of everything that is sealed, or that a seal is bound to, altered in turn."""
    for column in SEALED:
        whole = bytes(row[column])
        for at in range(len(whole)):
            yield column, whole[:at] + bytes([whole[at] ^ MASKS[at % 2]]) + whole[at + 1 :]
        yield column, whole[:-1]
        yield column, whole + b"\x00"
        yield column, b""
    for column, size in (("address", 8), ("version", 4)):
        for at in range(size):
            yield from ((column, signed(row[column] ^ mask << 8 * at, size)) for mask in MASKS)


def test_without_the_tag_an_altered_byte_would_be_read_as_text(shelf: Shelf) -> None:
    """The control: AES-GCM's own keystream without its tag, which is what an unauthenticated cipher is."""
    row, custody = shelf.raw.row(shelf.victim), shelf.house.engine.custody
    place = RowPlace(custody.installation_id, shelf.house.data.tenant, shelf.victim, row["version"])
    keys = open_dek(custody.derive(Address(row["address"])), place, bytes(row["sealed_dek"]))
    sealed = bytes(row["sealed_content"])
    altered = sealed[:20] + bytes([sealed[20] ^ 1]) + sealed[21:]
    start = sealed[:12] + (2).to_bytes(4)
    stream = Cipher(AES(column_key(keys.dek, Column.CONTENT)), CTR(start)).decryptor()
    text = keys.open(Column.CONTENT, sealed)
    assert stream.update(altered[12:-16]) == text[:8] + bytes([text[8] ^ 1]) + text[9:]


def test_without_its_place_a_moved_seal_would_be_read_as_another_rows_text() -> None:
    """The control: one key for all rows and nothing bound to them, as many stores have it."""
    key = bytes(32)
    rows = {"alice": seal(key, b"of alice", b""), "bob": seal(key, b"of bob", b"")}
    rows["alice"], rows["bob"] = rows["bob"], rows["alice"]
    assert open_sealed(key, rows["alice"], b"") == b"of bob"


def test_every_altered_byte_of_a_row_is_that_rows_error(shelf: Shelf, request: pytest.FixtureRequest) -> None:
    """Exhaustive on SQLite; on PostgreSQL, which stores the same bytes, every fifth unless --deep."""
    row = shelf.raw.row(shelf.victim)
    exhaustive = shelf.raw.is_sqlite or request.config.getoption("--deep")
    altered = list(flips(row))[:: 1 if exhaustive else 5]
    for count, (column, value) in enumerate(altered):
        shelf.raw.put(shelf.victim, **{column: value})
        shelf.opens_not(shelf.victim)
        if count % 10 == 0:
            shelf.reads_nothing(shelf.victim)
        shelf.raw.put(shelf.victim, **{column: row[column]})
    assert not exhaustive or len(altered) > sum(len(row[column]) for column in SEALED)
    shelf.is_whole()
    note(request, alterations=len(altered))


def test_every_altered_character_of_an_id_is_that_rows_error(shelf: Shelf) -> None:
    for at in range(3, len(shelf.victim), 1 if shelf.raw.is_sqlite else 7):
        altered = shelf.victim[:at] + ("1" if shelf.victim[at] == "0" else "0") + shelf.victim[at + 1 :]
        shelf.raw.put(shelf.victim, memory_id=altered)
        shelf.reads_nothing(altered)
        with pytest.raises(NotFound):
            get(shelf.house.engine, shelf.house.data, shelf.victim)
        shelf.raw.put(altered, memory_id=shelf.victim)
    shelf.is_whole()


def test_a_word_that_is_none_is_that_rows_error(shelf: Shelf) -> None:
    for column in ("life", "lawful_basis", "source_kind"):
        was = shelf.raw.row(shelf.victim)[column]
        shelf.raw.put(shelf.victim, **{column: was[:-1] + "~"})
        shelf.reads_nothing(shelf.victim)
        shelf.raw.put(shelf.victim, **{column: was})
        shelf.is_whole()
        one = shelf.remember("a stone")
        shelf.raw.put(one, **{column: "~"})
        assert erase(shelf.house.engine, shelf.house.admin, one).memory_id == one
        assert not shelf.is_alive(shelf.leaves[one])


def test_exchanged_seals_are_both_rows_errors(shelf: Shelf) -> None:
    mine = shelf.raw.row(shelf.victim)
    for caller, admin in ((shelf.house.data, None), (shelf.stranger, shelf.stranger)):
        partner = shelf.remember("a lantern", caller=caller)
        theirs = shelf.raw.row(partner)
        for columns in (*((one,) for one in SEALED), SEALED, ("version", *SEALED)):
            shelf.raw.put(shelf.victim, **{name: theirs[name] for name in columns})
            shelf.raw.put(partner, **{name: mine[name] for name in columns})
            shelf.reads_nothing(shelf.victim)
            shelf.reads_nothing(partner, admin)
            shelf.raw.put(shelf.victim, **{name: mine[name] for name in columns})
            shelf.raw.put(partner, **{name: theirs[name] for name in columns})
            assert get(shelf.house.engine, caller, partner).content.text == "a lantern"
        erase(shelf.house.engine, admin or shelf.house.admin, partner)
    shelf.is_whole()


def test_exchanged_columns_are_that_rows_error(shelf: Shelf) -> None:
    row = shelf.raw.row(shelf.victim)
    for one, other in combinations(SEALED, 2):
        shelf.raw.put(shelf.victim, **{one: row[other], other: row[one]})
        shelf.reads_nothing(shelf.victim)
        shelf.raw.put(shelf.victim, **{name: row[name] for name in SEALED})
    shelf.is_whole()


def test_a_row_moved_to_another_tenant_is_an_error_there_and_takes_no_key_along(shelf: Shelf) -> None:
    engine = shelf.house.engine
    shelf.raw.put(shelf.victim, tenant_id=shelf.stranger.tenant)
    shelf.reads_nothing(shelf.victim, shelf.stranger)
    with pytest.raises(NotFound):
        get(engine, shelf.house.data, shelf.victim)
    with pytest.raises(ErasurePending):  # to erase it there would destroy the first tenant's key
        erase(engine, shelf.stranger, shelf.victim)
    assert shelf.is_alive(shelf.leaves[shelf.victim])
    assert shelf.shown(shelf.stranger) == (set(), set())


def test_a_row_put_back_after_its_erasure_stays_unreadable(shelf: Shelf) -> None:
    row = shelf.raw.row(shelf.victim)
    receipt = erase(shelf.house.engine, shelf.house.admin, shelf.victim).receipt
    upkeep(shelf.house.engine)
    shelf.raw.insert(row)
    assert status(shelf.house.engine, shelf.house.admin, shelf.victim).failures == ("integrity_error",)
    for read in (get, lambda *asked: disclose(*asked, DisclosureGround.SUBJECT_ACCESS)):
        with pytest.raises(RowDamaged):
            read(shelf.house.engine, shelf.house.admin, shelf.victim)
    shelf.leaves_the_others()
    # To erase it again finds what is on record, and nobody waits for it.
    again = erase(shelf.house.engine, shelf.house.admin, shelf.victim)
    assert again.receipt.receipt_hash == receipt.receipt_hash
    assert not status(shelf.house.engine, shelf.house.admin, shelf.victim).physically_purged
    shelf.raw.insert(row)
    assert forget(shelf.house.engine, shelf.house.admin, "alice").matched_count == 1
    assert shelf.raw.ids() == set(shelf.others)
    upkeep(shelf.house.engine)
    purged = status(shelf.house.engine, shelf.house.admin, shelf.victim).physically_purged
    assert purged == shelf.raw.is_sqlite


def test_an_older_state_of_a_column_is_that_rows_error(shelf: Shelf) -> None:
    """The words and vectors are sealed anew when the vectors are made: the older seal was genuine once."""
    before = shelf.raw.row(shelf.victim)
    embedding(shelf.house)
    upkeep(shelf.house.engine)
    after = shelf.raw.row(shelf.victim)
    assert (before["embedded"], after["embedded"]) == (False, True)
    shelf.raw.put(shelf.victim, sealed_recall=before["sealed_recall"])
    told = status(shelf.house.engine, shelf.house.admin, shelf.victim)
    assert told.failures == ("integrity_error",)
    shelf.raw.put(shelf.victim, sealed_recall=after["sealed_recall"])
    assert status(shelf.house.engine, shelf.house.admin, shelf.victim).valid


# Erasing needs no plaintext, and destroys the key of the row it is asked about, and no other.

Damage = Callable[[Shelf, str, Row], dict[str, object]]


def _turned(column: str, at: int) -> Damage:
    def damage(_shelf: Shelf, _id: str, row: Row) -> dict[str, object]:
        whole = bytes(row[column])
        return {column: whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]}

    return damage


def _numbered(column: str, size: int, at: int, mask: int) -> Damage:
    return lambda _shelf, _id, row: {column: signed(row[column] ^ mask << 8 * at, size)}


def _named_after(row_number: int) -> Damage:
    """Let the row name a leaf of its tenant's own: the first is what its commitments hang on."""
    return lambda shelf, memory_id, _row: {"address": address(shelf.leaves[memory_id] >> 40, row_number)}


def _number(shelf: Shelf) -> int:
    return shelf.leaves[shelf.victim] >> 40


DAMAGES: dict[str, Damage] = {
    **{f"{column} {at}": _turned(column, at) for column in SEALED for at in (0, 30, -1)},
    **{f"address {at} {mask}": _numbered("address", 8, at, mask) for at in range(8) for mask in MASKS},
    **{f"version {at}": _numbered("version", 4, at, 1) for at in range(4)},
    **{f"reserved leaf {row}": _named_after(row) for row in (0, 1, 255)},
    "no leaf": lambda _shelf, _id, _row: {"address": -1},
    "a leaf nobody was given": _named_after(1 << 39),
}


@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
def test_a_damaged_row_can_be_erased_and_its_own_key_dies(shelf: Shelf) -> None:
    engine = shelf.house.engine
    shelf.others[shelf.victim] = TEXT
    for name, damage in DAMAGES.items():
        victim = shelf.remember("a stone", "alice")
        shelf.raw.put(victim, **damage(shelf, victim, shelf.raw.row(victim)))
        body = erase(engine, shelf.house.admin, victim).receipt.body
        assert body["memory_id"] == victim, name
        assert not shelf.is_alive(shelf.leaves[victim]), name
        assert status(engine, shelf.house.admin, victim).failures == ("erased",), name
        assert shelf.raw.ids() == set(shelf.others), name
        shelf.leaves_the_others()
        upkeep(engine)


def test_damaged_rows_can_be_forgotten(shelf: Shelf) -> None:
    engine, more = shelf.house.engine, shelf.remember("a second stone", "alice")
    damaged = [shelf.remember("a broken stone", "alice") for _ in range(5)]
    names = ("sealed_dek 0", "address 0 128", "address 2 1", "address 5 128", "no leaf")
    for memory_id, name in zip(damaged, names, strict=True):
        shelf.raw.put(memory_id, **DAMAGES[name](shelf, memory_id, shelf.raw.row(memory_id)))
    done = forget(engine, shelf.house.admin, "alice")
    assert {one.memory_id for one in done.erased} == {shelf.victim, more, *damaged}
    for memory_id in (shelf.victim, more, *damaged):
        assert not shelf.is_alive(shelf.leaves[memory_id])
    shelf.leaves_the_others()


def test_rows_that_name_each_others_leaves_each_lose_their_own(shelf: Shelf) -> None:
    """Believed, the first erasure would destroy the other row's key and leave its own to a backup."""
    engine, partner = shelf.house.engine, shelf.remember("a lantern")
    mine, theirs = shelf.leaves[shelf.victim], shelf.leaves[partner]
    shelf.raw.put(partner, address=address(_number(shelf), 1 << 38))
    shelf.raw.put(shelf.victim, address=theirs)
    shelf.raw.put(partner, address=mine)
    shelf.reads_nothing(shelf.victim)
    erase(engine, shelf.house.admin, shelf.victim)
    assert (shelf.is_alive(mine), shelf.is_alive(theirs)) == (False, True)
    shelf.raw.put(partner, address=theirs)
    assert get(engine, shelf.house.data, partner).content.text == "a lantern"


def test_damage_in_many_rows_is_found_in_each(shelf: Shelf, request: pytest.FixtureRequest) -> None:
    """Sampled: one byte, somewhere, in each of many rows."""
    count = 1000 if request.config.getoption("--deep") else 25
    chance = random.Random(26)
    shelf.others[shelf.victim] = TEXT
    for _ in range(count):
        memory_id = shelf.remember("a stone")
        row = shelf.raw.row(memory_id)
        given = range(shelf.leaves[shelf.victim], shelf.leaves[shelf.victim] + 4096)  # each address once
        possible = [(column, value) for column, value in flips(row) if value not in given]
        shelf.raw.put(memory_id, **dict([chance.choice(possible)]))
        shelf.reads_nothing(memory_id)
    assert len(shelf.raw.ids()) == count + 3
    note(request, rows=count)


def test_damaged_rows_keep_no_other_from_its_vectors(shelf: Shelf) -> None:
    """They stand at the head of the queue, more of them than one round looks at."""
    engine = shelf.house.engine
    damaged = [shelf.remember("a broken stone") for _ in range(40)]
    for number, memory_id in enumerate(damaged):
        row = shelf.raw.row(memory_id)
        shelf.raw.put(memory_id, **DAMAGES[list(DAMAGES)[number % 9]](shelf, memory_id, row))
    behind = [shelf.remember(f"a lamp {number}") for number in range(20)]
    embedder = embedding(shelf.house)
    rounds = 1
    while upkeep(engine):
        rounds += 1
    assert rounds < 10
    assert all(shelf.raw.row(memory_id)["embedded"] for memory_id in [*behind, *shelf.others])
    unembedded = [memory_id for memory_id in damaged if not shelf.raw.row(memory_id)["embedded"]]
    assert unembedded == damaged
    assert embedding_backlog(engine) == 0
    # What comes later is not kept waiting either, and what is no longer there is not counted.
    made = embedder.made
    erase(engine, shelf.house.admin, damaged[0])
    new = shelf.remember("a new lamp")
    assert embedding_backlog(engine) >= 1
    while upkeep(engine):
        pass
    assert shelf.raw.row(new)["embedded"]
    assert embedder.made == made + 1
    assert embedding_backlog(engine) == 0


def note(request: pytest.FixtureRequest, **figures: int) -> None:
    """Keep what the last deep run came to beside the test."""
    if request.config.getoption("--deep"):
        head = ["git", "-C", str(RESULT.parent), "rev-parse", "HEAD"]
        commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
        known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        known |= {"test": "tests/proofs/test_proof_7_swaps.py", "commit": commit}
        known[request.node.name] = {"passed": True} | figures
        RESULT.write_text(json.dumps(known, indent=2) + "\n")


class Hashing:
    """An embedder that costs nothing: what it makes of a text means nothing, and is always the same."""

    model_id = "test-hashing"
    dimensions = 8
    cosine_low, cosine_high, semantic_share = 0.0, 1.0, 0.1

    def __init__(self) -> None:
        self.made = 0

    def passages(self, texts: Sequence[str]) -> Floats:
        self.made += len(texts)
        return np.array([self.query(text) for text in texts], dtype=np.float32)

    def query(self, text: str) -> Floats:
        floats = np.frombuffer(sha256(text.encode()).digest(), dtype=np.uint8)[: self.dimensions] + 1.0
        return (floats / np.linalg.norm(floats)).astype(np.float32)

    def self_test(self) -> None:
        """There is nothing that could be another model."""


def embedding(house: House) -> Hashing:
    embedder = Hashing()
    house.engine.embedder = SharedEmbedder(embedder)
    return embedder
