"""What went wrong elsewhere and was reported in public, tried here: library, file, standard input."""

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shomei_memory_verify import VerifyResult, verify_signed_receipt
from tests.verify import corpus
from tests.verify.conftest import Ran
from tests.verify.examples import EXAMPLES

Run = Callable[..., Ran]
EVERYWHERE = ("library text", "library bytes", "file", "stdin")


def ask(surface: str, text: bytes, pin: str | None, run: Run, folder: Path) -> tuple[bool, bool, str]:
    """Return valid, authenticated and reason, as one surface tells them."""
    if surface.startswith("library"):
        given = text.decode(errors="surrogateescape") if surface == "library text" else text
        result = verify_signed_receipt(given, expected_public_key_hex=pin)
        return result.valid, result.authenticated, result.reason
    file = folder / "receipt.json"
    file.write_bytes(text)
    pinning = [] if pin is None else [f"--pin={pin}"]
    ran = run("-" if surface == "stdin" else file, "--json", *pinning, stdin=text)
    told = json.loads(ran.out)
    assert ran.status == (0 if told["authenticated"] else 3 if told["valid"] else 1)
    return told["valid"], told["authenticated"], told["reason"]


def genuine(**extra: object) -> dict[str, object]:
    return corpus.seal({**EXAMPLES["vector_delete_hardware"], **extra})


# --- DEV-22: a forgery signed by its own key


def forged() -> bytes:
    body = {**EXAMPLES["vector_delete_hardware"], "memory_id": "lm_" + "00" * 16}
    return corpus.text_of(corpus.seal(body, corpus.STRANGER, signer_id=genuine()["signer_id"])).encode()


@pytest.mark.parametrize("surface", EVERYWHERE)
def test_dev_22_self_signed_forgery(surface: str, run: Run, tmp_path: Path) -> None:
    assert ask(surface, forged(), None, run, tmp_path) == (True, False, "ok_unpinned")
    assert ask(surface, forged(), corpus.PIN, run, tmp_path) == (False, False, "public_key_mismatch")


def test_dev_22_exit_codes(run: Run, tmp_path: Path) -> None:
    text = corpus.text_of(genuine()).encode()
    contents = {
        "genuine": text,
        "forged": forged(),
        "empty": b"",
        "bare body": corpus.text_of(EXAMPLES["vector_delete_hardware"]).encode(),
        "two": text + text,
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    pinned = {name: run(tmp_path / name, "--pin", corpus.PIN) for name in contents}
    assert {name: ran.status for name, ran in pinned.items()} == {
        "genuine": 0,
        "forged": 1,
        "empty": 1,
        "bare body": 1,
        "two": 1,
    }
    unpinned = run(tmp_path / "genuine")
    assert unpinned.status == 3
    assert "authenticated=False" in unpinned.out
    assert "proves no authorship" in unpinned.err
    assert run(tmp_path / "missing").status == 2
    assert run(tmp_path).status == 2
    assert run().status == 2
    assert run(tmp_path / "genuine", "--render", "--json").status == 2
    for ran in pinned.values():
        assert "Traceback" not in ran.out + ran.err


def test_dev_22_an_unpinned_page_does_not_read_as_issued(run: Run, tmp_path: Path) -> None:
    (tmp_path / "forged").write_bytes(forged())
    page = run(tmp_path / "forged", "--render").out
    assert page.startswith("# Unattributed receipt: ")
    assert "Certificate" not in page
    assert "- Asserted: Memory `lm_" in page


# --- DEV-23: only signed fields are believed


def test_dev_23_an_add_never_reads_as_a_deletion() -> None:
    add = corpus.seal(EXAMPLES["memory_add"])
    result = verify_signed_receipt(
        {**add, "schema": "shomei.vector_delete.v1"}, expected_public_key_hex=corpus.PIN
    )
    assert (result.reason, result.schema) == ("ok", "shomei.memory_add.v1")
    result = verify_signed_receipt(
        {**add, "erased": True, "signer_id": "x"}, expected_public_key_hex=corpus.PIN
    )
    assert (result.reason, result.schema) == ("ok", "shomei.memory_add.v1")
    assert not hasattr(result, "erased")
    assert "erased" not in result.body


def hash_edits() -> dict[str, str]:
    right = str(genuine()["receipt_hash"])
    return {
        "upper case": right.upper(),
        "upper digits": "sha256:" + right[7:].upper(),
        "no prefix": right[7:],
        "truncated": right[:-1],
        "another": str(corpus.seal({})["receipt_hash"]),
    }


@pytest.mark.parametrize("edit", hash_edits())
def test_dev_23_hash_edits(edit: str) -> None:
    edited = {**genuine(), "receipt_hash": hash_edits()[edit]}
    assert (
        verify_signed_receipt(edited, expected_public_key_hex=corpus.PIN).reason
        == "signature_or_hash_invalid"
    )


def test_dev_23_signature_of_another_receipt() -> None:
    edited = {**genuine(), "signature_hex": corpus.seal({})["signature_hex"]}
    assert (
        verify_signed_receipt(edited, expected_public_key_hex=corpus.PIN).reason
        == "signature_or_hash_invalid"
    )


def edits_of(value: object) -> list[object]:
    """Return the value with each of its leaves changed in turn, and each member added or taken away."""
    if isinstance(value, dict):
        changed: list[object] = [{**value, "added": None}]
        for name, inner in value.items():
            changed += [{**value, name: edit} for edit in edits_of(inner)]
            changed.append({other: value[other] for other in value if other != name})
        return changed
    if isinstance(value, list):
        edited = [
            [*value[:i], edit, *value[i + 1 :]] for i, item in enumerate(value) for edit in edits_of(item)
        ]
        return [[*value, None], *edited]
    if isinstance(value, bool):
        return [not value, None, int(value)]
    if isinstance(value, int):
        return [value + 1, str(value), None]
    return [f"{value}x", None, 0, "" if value else "x"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_dev_23_every_leaf_of_every_body(name: str) -> None:
    envelope = corpus.seal(EXAMPLES[name])
    edits = edits_of(EXAMPLES[name])
    assert len(edits) > 20
    for body in edits:
        if body != EXAMPLES[name] or corpus.text_of(body) != corpus.text_of(EXAMPLES[name]):
            result = verify_signed_receipt({**envelope, "body": body}, expected_public_key_hex=corpus.PIN)
            assert result.reason == "signature_or_hash_invalid"


# --- DEV-24: a receipt saved again still verifies


def reversed_at_every_level(value: object) -> object:
    if isinstance(value, dict):
        return {name: reversed_at_every_level(value[name]) for name in reversed(value)}
    return [reversed_at_every_level(item) for item in value] if isinstance(value, list) else value


def resaved() -> dict[str, bytes]:
    receipt = genuine(note="é ✓ 😀", n=1)
    plain = json.dumps(receipt, ensure_ascii=False)
    return {
        "indented": json.dumps(receipt, indent=4).encode(),
        "reversed": json.dumps(reversed_at_every_level(receipt)).encode(),
        "escaped": json.dumps(receipt, ensure_ascii=True).encode(),
        "raw": plain.encode(),
        "crlf": json.dumps(receipt, indent=2).replace("\n", "\r\n").encode(),
        "newlines": plain.encode() + b"\n\n",
        "1.0": plain.replace('"n": 1', '"n": 1.0').encode(),
        "1e0": plain.replace('"n": 1', '"n": 1e0').encode(),
    }


@pytest.mark.parametrize("surface", EVERYWHERE)
@pytest.mark.parametrize("form", resaved())
def test_dev_24_the_same_json_gives_the_same_verdict(
    form: str, surface: str, run: Run, tmp_path: Path
) -> None:
    assert ask(surface, resaved()[form], corpus.PIN, run, tmp_path) == (True, True, "ok")


@pytest.mark.parametrize("surface", EVERYWHERE)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_dev_24_other_encodings_are_malformed(encoding: str, surface: str, run: Run, tmp_path: Path) -> None:
    valid, authenticated, reason = ask(
        surface, corpus.text_of(genuine()).encode(encoding), corpus.PIN, run, tmp_path
    )
    assert (valid, authenticated, reason.partition(":")[0]) == (False, False, "malformed")


# --- DEV-25: duplicate keys


def duplicated() -> dict[str, bytes]:
    text = corpus.text_of(genuine())
    body = '"body":' + corpus.text_of(EXAMPLES["vector_delete_hardware"])
    false_body = '"body":' + corpus.text_of({**EXAMPLES["vector_delete_hardware"], "memory_id": "lm_0"})
    key = f'"public_key_hex":"{corpus.PIN}"'
    assert body in text
    assert key in text
    return {
        "forged, genuine": text.replace(body, f"{false_body},{body}").encode(),
        "genuine, forged": text.replace(body, f"{body},{false_body}").encode(),
        "genuine twice": text.replace(body, f"{body},{body}").encode(),
        "inside body": text.replace('"seq":17', '"seq":17,"seq":17').encode(),
        "inside body, other value": text.replace('"seq":17', '"seq":16,"seq":17').encode(),
        "key twice": text.replace(key, f"{key},{key}").encode(),
        "escaped, forged first": text.replace(
            body, false_body.replace("body", "bo\\u0064y", 1) + "," + body
        ).encode(),
        "escaped, forged last": text.replace(
            body, body + "," + false_body.replace("body", "bo\\u0064y", 1)
        ).encode(),
    }


@pytest.mark.parametrize("surface", EVERYWHERE)
@pytest.mark.parametrize("which", duplicated())
def test_dev_25_duplicate_keys(which: str, surface: str, run: Run, tmp_path: Path) -> None:
    answer = ask(surface, duplicated()[which], corpus.PIN, run, tmp_path)
    assert answer == (False, False, "malformed: a duplicate name")


# --- DEV-26: hostile shapes


def body_of_depth(levels: int) -> bytes:
    """Return a genuine receipt whose text has that many levels, the envelope being the first."""
    inner: object = {}
    for _ in range(levels - 3):
        inner = [inner]
    return corpus.text_of(corpus.seal({"schema": "s", "x": inner})).encode()


def body_too_deep(levels: int) -> bytes:
    text = body_of_depth(10)
    return text.replace(b'"x":', b'"x":' + b"[" * (levels - 10)).replace(b"}}", b"]" * (levels - 10) + b"}}")


@pytest.mark.parametrize("surface", EVERYWHERE)
def test_dev_26_depth(surface: str, run: Run, tmp_path: Path) -> None:
    assert ask(surface, body_of_depth(64), corpus.PIN, run, tmp_path) == (True, True, "ok")
    for deep in (body_of_depth(65), body_too_deep(1_000), body_too_deep(30_000)):
        started = time.monotonic()
        answer = ask(surface, deep, corpus.PIN, run, tmp_path)
        assert answer == (False, False, "malformed: nested deeper than 64 levels")
        assert time.monotonic() - started < 1
    answer = ask(surface, body_too_deep(100_000), corpus.PIN, run, tmp_path)
    assert answer == (False, False, "malformed: larger than 65536 bytes")


@pytest.mark.parametrize("surface", EVERYWHERE)
@pytest.mark.parametrize("letter", ["a", "é"])
def test_dev_26_size(letter: str, surface: str, run: Run, tmp_path: Path) -> None:
    base = {"schema": "s", "x": ""}
    room = 65_536 - len(corpus.text_of(corpus.seal(base)).encode())
    wide = {**base, "x": letter * (room // len(letter.encode()))}
    text = json.dumps(corpus.seal(wide), separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (65_536 - len(text))
    assert ask(surface, text, corpus.PIN, run, tmp_path) == (True, True, "ok")
    answer = ask(surface, text + b" ", corpus.PIN, run, tmp_path)
    assert answer == (False, False, "malformed: larger than 65536 bytes")


@pytest.mark.parametrize("surface", EVERYWHERE)
def test_dev_26_integer_of_5000_digits(surface: str, run: Run, tmp_path: Path) -> None:
    text = corpus.text_of(genuine(n=1)).replace('"n":1', '"n":' + "9" * 5_000).encode()
    answer = ask(surface, text, corpus.PIN, run, tmp_path)
    assert answer == (False, False, "malformed: an integer beyond 2^53-1")


MARKER = "personal-data-marker"
ODD_VALUES: tuple[object, ...] = (
    None,
    [],
    [MARKER],
    0,
    -1,
    1.5,
    True,
    False,
    "",
    MARKER,
    {},
    {MARKER: MARKER},
    "x" * 1_000_000,
)


def test_dev_26_one_field_mutations() -> None:
    receipt = genuine()
    body = EXAMPLES["vector_delete_hardware"]
    mutants: list[dict[str, object]] = []
    for name in receipt:
        mutants += [{**receipt, name: value} for value in ODD_VALUES]
        mutants.append({other: receipt[other] for other in receipt if other != name})
    for name in body:
        mutants += [{**receipt, "body": {**body, name: value}} for value in ODD_VALUES if value != body[name]]
    assert len(mutants) > 300
    labels_only = 0
    for mutant in mutants:
        for given in (mutant, corpus.text_of(mutant)):
            result = verify_signed_receipt(given, expected_public_key_hex=corpus.PIN)
            assert MARKER not in result.reason
            assert type(result) is VerifyResult
            if result.authenticated:  # an unsigned label was changed
                assert result.body == body
                labels_only += 1
            else:
                assert not result.valid
    assert labels_only == 2 * 2 * 2  # schema and signer_id, "" and the marker, as mapping and as text


# --- DEV-27: how people write the pin


def pins() -> dict[str, tuple[object, str]]:
    key = corpus.PIN
    raw = bytes.fromhex(key)
    der = bytes.fromhex("302a300506032b6570032100") + raw
    pem = f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(der).decode()}\n-----END PUBLIC KEY-----\n"
    return {
        "upper case": (key.upper(), "ok"),
        "outer spaces": (f"  {key} ", "ok"),
        "newline": (f"{key}\n", "ok"),
        "0x": (f"0x{key}", "public_key_mismatch"),
        "inner spaces": (" ".join(key[i : i + 2] for i in range(0, 64, 2)), "public_key_mismatch"),
        "colons": (":".join(key[i : i + 2] for i in range(0, 64, 2)), "public_key_mismatch"),
        "pem": (pem, "public_key_mismatch"),
        "base64": (base64.b64encode(raw).decode(), "public_key_mismatch"),
        "62": (key[:62], "public_key_mismatch"),
        "63": (key[:63], "public_key_mismatch"),
        "66": (key + "00", "public_key_mismatch"),
        "empty": ("", "public_key_mismatch"),
        "blank": ("   ", "public_key_mismatch"),
        "zeros": ("0" * 64, "public_key_mismatch"),
        "another": (corpus.STRANGER_PIN, "public_key_mismatch"),
        "bytes": (raw, "public_key_mismatch"),
        "number": (int(key, 16), "public_key_mismatch"),
        "false": (False, "public_key_mismatch"),
    }


@pytest.mark.parametrize("spelling", pins())
def test_dev_27_the_pin(spelling: str, run: Run, tmp_path: Path) -> None:
    pin, reason = pins()[spelling]
    result = verify_signed_receipt(genuine(), expected_public_key_hex=pin)  # type: ignore[arg-type]
    assert (result.reason, result.authenticated) == (reason, reason == "ok")
    assert result.public_key_hex == corpus.PIN
    if isinstance(pin, str):
        text = corpus.text_of(genuine()).encode()
        assert ask("file", text, pin, run, tmp_path) == (reason == "ok", reason == "ok", reason)


def test_dev_27_an_upper_case_key_in_the_receipt_is_reported_in_lower_case() -> None:
    receipt = {**genuine(), "public_key_hex": corpus.PIN.upper()}
    result = verify_signed_receipt(receipt, expected_public_key_hex=corpus.PIN)
    assert (result.reason, result.public_key_hex) == ("ok", corpus.PIN)
