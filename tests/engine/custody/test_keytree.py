"""The sealed tree against the flat one, its vectors, and every altered byte."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shomei_service.engine.custody.blob import FANOUT, Blob, Draft, Link
from shomei_service.engine.custody.faults import BlobMissing, Punctured
from shomei_service.engine.custody.keytree import (
    Address,
    BlobName,
    DirtyBlobs,
    KeyTree,
    address,
    path,
    tenant_path,
)
from shomei_service.engine.custody.sealing import open_sealed
from shomei_service.engine.errors import IntegrityFault
from tests.engine.custody import vectors
from tests.engine.custody.reference import FlatTree

DOMAIN = "ab" * 16
SEED = vectors.SEED
VECTORS = Path(__file__).parents[2] / "vectors" / "keytree.json"


class Shelf:
    """A tree with its blobs in a dictionary, committed as the vault would."""

    def __init__(self, seed: bytes = SEED) -> None:
        self.blobs: dict[BlobName, bytes] = {}
        self.reads = 0
        self.commit(KeyTree.plant(self.read, domain=DOMAIN, seed=seed))

    def read(self, names: Sequence[BlobName]) -> Mapping[BlobName, bytes]:
        self.reads += 1
        return {name: self.blobs[name] for name in names if name in self.blobs}

    def commit(self, dirty: DirtyBlobs) -> None:
        for name in dirty.replaced:
            del self.blobs[name]
        for cut in dirty.cut:
            self.blobs = {name: blob for name, blob in self.blobs.items() if not name[0].startswith(cut)}
        self.blobs |= {(prefix, dirty.tree.epoch): sealed for prefix, sealed in dirty.sealed.items()}
        self.tree, self.root_key = dirty.tree, dirty.root_key

    def cut(self, *targets: bytes) -> None:
        self.commit(self.tree.cut(targets, epoch=self.tree.epoch + 1))

    def reopened(self) -> KeyTree:
        epoch = self.tree.epoch
        sealed = self.blobs[b"", epoch]
        return KeyTree.open(self.read, domain=DOMAIN, epoch=epoch, root_key=self.root_key, sealed_root=sealed)

    def frontier(self) -> dict[tuple[int, int], bytes]:
        """Open every blob that can be reached and list every seed; nothing else may lie on the shelf."""
        found: dict[tuple[int, int], bytes] = {}
        names: set[BlobName] = set()
        todo = [(b"", Link(self.root_key, self.tree.epoch))]
        while todo:
            prefix, link = todo.pop()
            names.add((prefix, link.epoch))
            blob = _open(self.blobs[prefix, link.epoch], prefix, link)
            draft = Draft.of(blob, link.epoch)
            for node, seed in draft.seeds.items():
                depth = node.bit_length() - 1
                found[len(prefix) * 8 + depth, int.from_bytes(prefix) << depth | node - (1 << depth)] = seed
            todo += [(prefix + bytes([byte]), child) for byte, child in draft.links.items()]
        assert names == set(self.blobs)
        return found


def _open(sealed: bytes, prefix: bytes, link: Link) -> Blob:
    from tests.engine.custody.reference import bind

    aad = bind(b"shomei/v1/tree", DOMAIN.encode(), bytes([len(prefix)]), prefix, link.epoch.to_bytes(8))
    return Blob.decode(open_sealed(link.key, sealed, aad))


def derived(tree: KeyTree, leaf: int) -> bytes | None:
    try:
        return tree.derive(Address(leaf))
    except Punctured:
        return None


# Few bytes, so that paths share prefixes at every level and whole blobs run empty.
steps = st.sampled_from([0, 1, 2, 3, 255])
leaves = st.lists(steps, min_size=7, max_size=7).map(bytes)
prefixes = st.lists(steps, min_size=1, max_size=7).map(bytes)
batches = st.lists(st.one_of(leaves, leaves, leaves, prefixes), max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(batches, max_size=5), st.lists(leaves, min_size=1, max_size=12))
def test_equals_the_flat_tree_after_any_punctures(history: list[list[bytes]], probes: list[bytes]) -> None:
    shelf, flat = Shelf(), FlatTree(SEED)
    for batch in history:
        shelf.cut(*batch)
        for target in batch:
            flat.puncture(len(target) * 8, int.from_bytes(target))
        assert shelf.frontier() == flat.frontier
        reopened = shelf.reopened()
        for probe in [*probes, *(target for target in batch if len(target) == 7)]:
            number = int.from_bytes(probe)
            wanted = flat.derive(number)
            assert derived(shelf.tree, number) == wanted  # with what is cached
            assert derived(shelf.tree, number) == wanted  # and again, warm
            assert derived(reopened, number) == wanted


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 255), min_size=1), st.integers(0, 255))
def test_a_block_can_be_punctured_leaf_by_leaf(rows: set[int], probe: int) -> None:
    shelf, flat = Shelf(), FlatTree(SEED)
    shelf.cut(*(path(address(9, row)) for row in rows))
    for row in rows:
        flat.puncture(56, address(9, row))
    assert derived(shelf.tree, address(9, probe)) == flat.derive(address(9, probe))
    assert shelf.frontier() == flat.frontier


def test_a_wholly_punctured_block_leaves_no_blob() -> None:
    shelf = Shelf()
    shelf.cut(path(address(9, 0)))
    with_one = len(shelf.blobs)
    shelf.cut(*(path(address(9, row)) for row in range(1, 256)))
    assert (with_one, len(shelf.blobs)) == (7, 6)
    assert derived(shelf.tree, address(9, 256)) == FlatTree(SEED).derive(address(9, 256))


def test_everything_can_be_punctured() -> None:
    shelf = Shelf()
    shelf.cut(*(bytes([byte]) for byte in range(FANOUT)))
    assert shelf.frontier() == {}
    assert derived(shelf.reopened(), 0) is None
    shelf.cut(path(address(1, 1)))
    assert shelf.frontier() == {}


def test_a_successor_leaves_the_older_state_alone() -> None:
    shelf = Shelf()
    leaf = address(1, 300)
    old, before = shelf.tree, shelf.tree.derive(leaf)
    dirty = old.puncture([leaf], epoch=1)
    assert old.derive(leaf) == before
    with pytest.raises(Punctured):
        dirty.tree.derive(leaf)


def test_no_cache_of_the_old_frontier_survives_a_puncture() -> None:
    shelf = Shelf()
    for row in range(512):
        shelf.tree.derive(address(1, row))
    shelf.cut(tenant_path(1))
    for row in range(512):
        assert derived(shelf.tree, address(1, row)) is None


def test_a_repeat_punctures_nothing_but_moves_the_root() -> None:
    shelf = Shelf()
    shelf.cut(path(address(1, 1)))
    before, key = shelf.frontier(), shelf.root_key
    dirty = shelf.tree.puncture([address(1, 1)], epoch=2)
    assert set(dirty.sealed) == {b""}
    shelf.commit(dirty)
    assert shelf.frontier() == before
    assert shelf.root_key != key


def test_the_old_root_key_opens_no_new_blob() -> None:
    shelf = Shelf()
    shelf.cut(path(address(1, 1)))
    key, old_links = shelf.root_key, Draft.of(shelf.tree._root, 1).links
    shelf.cut(path(address(1, 2)))
    new_links = Draft.of(shelf.tree._root, 2).links
    assert key != shelf.root_key
    assert old_links[0].key != new_links[0].key
    with pytest.raises(IntegrityFault):
        _open(shelf.blobs[b"\x00", 2], b"\x00", old_links[0])


def test_warm_paths_read_nothing() -> None:
    shelf = Shelf()
    shelf.cut(path(address(1, 300)))
    tree = shelf.reopened()
    tree.derive(address(1, 301))
    reads = shelf.reads
    for row in (301, 302, 255, 511):
        tree.derive(address(1, row))
    assert shelf.reads == reads


def test_a_batch_reads_each_level_once() -> None:
    shelf = Shelf()
    shelf.cut(*(path(address(1, row)) for row in range(0, 65536, 256)))
    tree = shelf.reopened()
    before = shelf.reads
    tree.puncture([address(1, row) for row in range(1, 65536, 256)], epoch=2)
    assert shelf.reads - before == 6


def test_every_altered_byte_is_an_integrity_fault() -> None:
    shelf = Shelf()
    shelf.cut(path(address(1, 300)))
    for name, whole in list(shelf.blobs.items()):
        for at in range(len(whole)):
            shelf.blobs[name] = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
            with pytest.raises(IntegrityFault):
                shelf.reopened().derive(address(1, 301))
        shelf.blobs[name] = whole
    assert shelf.reopened().derive(address(1, 301)) == FlatTree(SEED).derive(address(1, 301))


def test_a_blob_moved_or_of_another_epoch_is_an_integrity_fault() -> None:
    shelf = Shelf()
    shelf.cut(path(address(1, 300)), path(address(2, 300)))
    one, two = (b"\x00\x01", 1), (b"\x00\x02", 1)
    shelf.blobs[one], shelf.blobs[two] = shelf.blobs[two], shelf.blobs[one]
    with pytest.raises(IntegrityFault):
        shelf.reopened().derive(address(1, 301))


def test_a_lost_blob_is_told_from_a_punctured_leaf() -> None:
    shelf = Shelf()
    shelf.cut(path(address(1, 300)))
    del shelf.blobs[b"\x00\x01", 1]
    with pytest.raises(BlobMissing):
        shelf.reopened().derive(address(1, 300))


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\x01",
        b"\x01" + bytes(96) + b"\x00",
        b"\x02" + bytes(96),
        b"\x01" + bytes(63) + b"\x01" + bytes(32) + bytes(32),
        b"\x01" + bytes(63) + b"\x02" + bytes(32) + bytes(31),
        b"\x01" + bytes(64) + bytes(31) + b"\x01" + bytes(39),
    ],
)
def test_a_blob_in_no_format_of_ours_is_refused(packed: bytes) -> None:
    with pytest.raises(IntegrityFault):
        Blob.decode(packed)


@pytest.mark.parametrize(("tenant", "row"), [(-1, 0), (1 << 16, 0), (0, -1), (0, 1 << 40)])
def test_an_address_has_its_bits(tenant: int, row: int) -> None:
    with pytest.raises(ValueError, match="16 bits"):
        address(tenant, row)


def test_the_caches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shomei_service.engine.custody.keytree._BLOCKS_KEPT", 2)
    monkeypatch.setattr("shomei_service.engine.custody.keytree._BLOBS_KEPT", 10)
    shelf, flat = Shelf(), FlatTree(SEED)
    rows = range(0, 256 * 20, 256)
    shelf.cut(*(path(address(1, row)) for row in rows))
    tree = shelf.reopened()
    for row in [*rows, *range(6000, 9000, 256)]:
        assert derived(tree, address(1, row + 1)) == flat.derive(address(1, row + 1))
    assert len(tree._blobs) <= 10
    assert len(tree._blocks) <= 2


def test_the_vectors_are_what_the_reference_says() -> None:
    if os.environ.get("UPDATE_SNAPSHOTS"):
        VECTORS.write_text(json.dumps(vectors.build(), indent=1) + "\n")
    assert json.loads(VECTORS.read_text()) == vectors.build()


def test_the_tree_agrees_with_the_vectors() -> None:
    tree = json.loads(VECTORS.read_text())["tree"]
    shelf = Shelf(bytes.fromhex(tree["seed"]))
    for step in tree["steps"]:
        if step["do"] == "derive":
            found = derived(shelf.tree, int(step["address"], 16))
            assert (found.hex() if found else None) == step["leaf"]
        elif step["do"] == "puncture":
            leaves = [Address(int(text, 16)) for text in step["addresses"]]
            shelf.commit(shelf.tree.puncture(leaves, epoch=shelf.tree.epoch + 1))
        else:
            prefix = bytes.fromhex(step["prefix"])
            shelf.commit(shelf.tree.puncture_prefix(prefix, epoch=shelf.tree.epoch + 1))
    wanted = {(depth, int(node, 16)): bytes.fromhex(seed) for depth, node, seed in tree["frontier"]}
    assert shelf.frontier() == wanted


def test_the_blob_agrees_with_the_vectors() -> None:
    vector = json.loads(VECTORS.read_text())["blob"]
    draft = Draft(
        {int(node): bytes.fromhex(seed) for node, seed in vector["seeds"].items()},
        {
            int(byte): Link(bytes.fromhex(link["key"]), link["epoch"])
            for byte, link in vector["links"].items()
        },
    )
    assert draft.finish().encode().hex() == vector["packed"]
    link = Link(bytes.fromhex(vector["key"]), vector["epoch"])
    opened = _open(bytes.fromhex(vector["sealed"]), bytes.fromhex(vector["prefix"]), link)
    assert opened == draft.finish()
    assert opened.link(200) == Link(b"\xcc" * 32, 2**40)
    assert opened.link(0) is None
    assert opened.covering(3) == (3, b"\x03" * 32)
    assert opened.covering(2) is None
