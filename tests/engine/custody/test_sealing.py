"""Sealing against its vectors, against the library's own HKDF, and against everything that must not open."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given
from hypothesis import strategies as st

from shomei_service.engine.custody.sealing import (
    SEALED_DEK_BYTES,
    Column,
    RowPlace,
    bind,
    column_key,
    commitment_key,
    expand,
    new_row,
    open_dek,
    open_sealed,
    row_kek,
    seal,
    seal_dek,
)
from shomei_service.engine.errors import IntegrityFault

LEAF = b"\x0a" * 32
PLACE = RowPlace("ab" * 16, "t_1", "lm_1", 1)
VECTORS = Path(__file__).parents[2] / "vectors" / "keytree.json"


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=40))
def test_expand_is_hkdf_expand(key: bytes, label: bytes) -> None:
    assert expand(key, label) == HKDFExpand(SHA256(), 32, label).derive(key)


@given(st.lists(st.binary(max_size=8), max_size=4), st.lists(st.binary(max_size=8), max_size=4))
def test_bind_is_injective(one: list[bytes], other: list[bytes]) -> None:
    assert (bind(*one) == bind(*other)) == (one == other)


@given(st.binary(max_size=200), st.binary(max_size=40))
def test_what_was_sealed_opens(plaintext: bytes, aad: bytes) -> None:
    sealed = seal(LEAF, plaintext, aad)
    assert len(sealed) == len(plaintext) + 28
    assert open_sealed(LEAF, sealed, aad) == plaintext
    assert seal(LEAF, plaintext, aad) != sealed


def test_no_altered_or_shortened_bytes_open() -> None:
    sealed = seal(LEAF, b"a memory", b"aad")
    altered = [
        sealed[:at] + bytes([sealed[at] ^ bit]) + sealed[at + 1 :]
        for at in range(len(sealed))
        for bit in (1, 128)
    ]
    for wrong in [*altered, *(sealed[:at] for at in range(len(sealed))), sealed + b"\x00"]:
        with pytest.raises(IntegrityFault):
            open_sealed(LEAF, wrong, b"aad")
    with pytest.raises(IntegrityFault):
        open_sealed(LEAF, sealed, b"aae")
    with pytest.raises(IntegrityFault):
        open_sealed(b"\x0b" * 32, sealed, b"aad")


def test_a_row_opens_only_where_it_was_sealed() -> None:
    keys, sealed_dek = new_row(LEAF, PLACE)
    content = keys.seal(Column.CONTENT, b"text")
    assert len(sealed_dek) == SEALED_DEK_BYTES == 60
    assert open_dek(LEAF, PLACE, sealed_dek).open(Column.CONTENT, content) == b"text"
    for elsewhere in (
        replace(PLACE, domain="ac" * 16),
        replace(PLACE, tenant="t_2"),
        replace(PLACE, memory_id="lm_2"),
        replace(PLACE, version=2),
    ):
        with pytest.raises(IntegrityFault):
            open_dek(LEAF, elsewhere, sealed_dek)
        with pytest.raises(IntegrityFault):
            replace(keys, place=elsewhere).open(Column.CONTENT, content)
    with pytest.raises(IntegrityFault):
        keys.open(Column.RECALL, content)
    with pytest.raises(IntegrityFault):
        open_dek(b"\x0b" * 32, PLACE, sealed_dek)


def test_places_that_only_read_alike_are_not_alike() -> None:
    assert RowPlace("a", "b|c", "d", 1).aad("content") != RowPlace("a|b", "c", "d", 1).aad("content")


def test_keys_do_not_show_themselves() -> None:
    keys, _ = new_row(LEAF, PLACE)
    assert keys.dek.hex() not in repr(keys)
    assert "dek" not in repr(keys)


def test_sealing_agrees_with_the_vectors() -> None:
    row = json.loads(VECTORS.read_text())["row"]
    leaf, dek, place = bytes.fromhex(row["leaf"]), bytes.fromhex(row["dek"]), RowPlace(**row["place"])
    assert row_kek(leaf).hex() == row["kek"]
    assert commitment_key(leaf).hex() == row["commitment_key"]
    assert place.aad("dek").hex() == row["dek_aad"]
    keys = open_dek(leaf, place, bytes.fromhex(row["sealed_dek"]))
    assert keys.dek == dek
    assert open_dek(leaf, place, seal_dek(leaf, place, dek)) == keys
    for column in Column:
        vector = row["columns"][column.value]
        assert column_key(dek, column).hex() == vector["key"]
        assert place.aad(column.value).hex() == vector["aad"]
        assert keys.open(column, bytes.fromhex(vector["sealed"])) == b"plain " + column.encode()
