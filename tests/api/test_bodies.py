"""Bodies: bounded while they arrive, strict once they are here (DEV-31 shrunken, RELIABILITY.md §6)."""

import base64
import contextlib
import json
import select
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shomei_service.api.bodies import BATCH, SINGLE, parse
from shomei_service.api.errors import Malformed, TooDeep
from shomei_service.engine import limits
from tests.api.house import PATIENCE_S, House, Live, read_answer, serve

VECTORS = Path(__file__).parents[1] / "vectors" / "jsontestsuite_parsing.jsonl"
# Accepted by RFC 8259, refused by I-JSON (RFC 7493 §2.1, §2.3): two readers could differ on them.
IJSON = {
    "y_object_duplicated_key.json",
    "y_object_duplicated_key_and_value.json",
}


def cases() -> list[Any]:
    found = []
    for line in VECTORS.read_text().splitlines():
        case = json.loads(line)
        raw = base64.b64decode(case["b64"]) if case["b64"] is not None else _repeated(case)
        found.append(pytest.param(case["name"], case["expect"], raw, id=case["name"]))
    return found


def _repeated(case: dict[str, Any]) -> bytes:
    return (case["repeat"][0] * case["repeat"][1] + case.get("suffix", "")).encode()


@pytest.mark.parametrize(("name", "expect", "raw"), cases())
def test_the_json_parsing_suite(name: str, expect: str, raw: bytes) -> None:
    # Ours takes objects only, so the case becomes a member; a byte order mark must not move inward.
    wrapped = raw if raw.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")) else b'{"v":' + raw + b"}"
    try:
        parse(wrapped, SINGLE)
        outcome = "y"
    except (Malformed, TooDeep):
        outcome = "n"
    assert outcome == ("n" if name in IJSON else expect) or expect == "i"


@pytest.mark.parametrize(
    "raw",
    [
        b"", b" ", b"null", b"[]", b'"text"', b"5", b"{", b'{"a":1}x', b'{"a":1}{"a":1}', b"{'a':1}",
        b'{"a":1,"a":1}', b'{"a":{"b":1,"b":2}}', b'{"a":1,"\\u0061":2}', b'{"a":NaN}', b'{"a":Infinity}',
        b'{"a":-Infinity}', b'{"a":1e400}', b'{"a":-1e400}', b'{"a":"\\ud800"}', b'{"\\udfff":1}',
        b'{"a":[["\\udc00\\ud800"]]}', b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16"), b'{"a":"\n"}', b'{"a":' + b"9" * 5000 + b"}",
    ],
    ids=range(27),
)  # fmt: skip
def test_refused(raw: bytes) -> None:
    with pytest.raises(Malformed):
        parse(raw, SINGLE)


def test_accepted() -> None:
    assert parse(b' {"a":"\\ud83d\\ude00 \\\\ud800 \\" [ { ,"}\n', SINGLE) == {
        "a": '\U0001f600 \\ud800 " [ { ,'
    }
    assert parse(b'{"__proto__":{"x":"\\u0000"},"n":-0.0}', SINGLE) == {"__proto__": {"x": "\0"}, "n": -0.0}


def nested(levels: int) -> bytes:
    return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_depth_is_counted_with_the_outermost_as_one() -> None:
    parse(nested(limits.JSON_DEPTH), SINGLE)
    for levels in (limits.JSON_DEPTH + 1, 100_000):
        with pytest.raises(TooDeep):
            parse(nested(levels), SINGLE)


def test_brackets_inside_text_are_text() -> None:
    assert (
        parse(json.dumps({"a": "[{" * 1000 + '\\"' * 50}).encode(), SINGLE)["a"] == "[{" * 1000 + '\\"' * 50
    )


def test_keys_are_counted_wherever_they_are() -> None:
    def keys(count: int) -> bytes:
        return json.dumps({"a": [{str(index): 0} for index in range(count - 1)]}).encode()

    parse(keys(limits.JSON_KEYS), SINGLE)
    with pytest.raises(TooDeep):
        parse(keys(limits.JSON_KEYS + 1), SINGLE)


HOSTILE = {
    "quotes": b'"' * limits.BATCH_BODY_BYTES,
    "escapes": b'{"a":"' + b'\\"' * (limits.BATCH_BODY_BYTES // 2 - 8),
    "lists": b'{"a":[' + b"[]," * (limits.BATCH_BODY_BYTES // 3 - 8) + b"0]}",
    "keys": b'{"a":[' + b'{"":0},' * (limits.BATCH_BODY_BYTES // 7 - 8) + b"0]}",
    "open": b"[" * limits.BATCH_BODY_BYTES,
    "digits": b'{"a":' + b"1" * (limits.BATCH_BODY_BYTES - 8) + b"}",
    "fraction": b'{"a":0.' + b"1" * (limits.BATCH_BODY_BYTES - 8) + b"}",
    "blanks": b" " * limits.BATCH_BODY_BYTES,
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_batch_costs_little(raw: bytes) -> None:
    tracemalloc.start()
    began = time.process_time()
    with contextlib.suppress(Malformed, TooDeep):
        parse(raw, BATCH)
    spent, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert spent < 30  # seconds, traced; a quadratic reader takes minutes
    assert peak < 3 * limits.BATCH_BODY_BYTES


def post(
    house: House, *, content: Any = None, headers: dict[str, str] | None = None, body: object = None
) -> Any:
    return house.call("POST", "/v1/memories", key=house.data, content=content, headers=headers, body=body)


def test_the_declared_length_is_believed_before_anything_is_read(house: House) -> None:
    taken = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal taken
        taken += 1
        yield b" "

    for length in (str(limits.BODY_BYTES + 1), "9" * 40):
        answer = post(house, content=chunks(), headers={"content-length": length})
        assert (answer.status_code, answer.json()["code"], taken) == (413, "payload_too_large", 0)


def test_an_undeclared_length_is_counted_while_it_arrives(house: House) -> None:
    taken = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 16 * 1024
            yield b" " * (16 * 1024)

    answer = post(house, content=chunks())
    assert answer.status_code == 413
    assert taken <= limits.BODY_BYTES + 2 * 16 * 1024


def test_413_comes_before_422(house: House) -> None:
    answer = post(house, content=b"<xml>" * limits.BODY_BYTES, headers={"content-type": "text/xml"})
    assert answer.status_code == 413


def test_the_largest_memory_is_stored_and_the_next_larger_is_not(house: House) -> None:
    largest = "w" + "é" * ((limits.TEXT_BYTES - 1) // 2)
    largest += "x" * (limits.TEXT_BYTES - len(largest.encode()))
    assert len(largest.encode()) == limits.TEXT_BYTES
    stored = post(house, body={"messages": largest})
    assert stored.status_code == 200
    read = house.call("GET", f"/v1/memories/{stored.json()['results'][0]['id']}", key=house.data)
    assert read.json()["memory"] == largest
    refused = post(house, body={"messages": largest + "y"})
    assert refused.status_code == 413
    assert "éé" not in refused.text


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/jsonp"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": ""},
        {"content-encoding": "gzip"},
        {"content-encoding": "identity, br"},
    ],
    ids=str,
)
def test_only_plain_json_is_read(house: House, headers: dict[str, str]) -> None:
    answer = post(house, content=b'{"messages":"x"}', headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
    ],
)
def test_spellings_of_json(house: House, media_type: str) -> None:
    assert post(house, content=b'{"messages":"x"}', headers={"content-type": media_type}).status_code == 200


def test_a_body_without_a_content_type_is_refused(house: House, live: Live) -> None:
    key = house.data.encode()
    answer = live.raw(
        b"POST /v1/memories HTTP/1.1\r\nHost: s\r\nAuthorization: Bearer "
        + key
        + b"\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert (answer.status, answer.json["code"]) == (422, "invalid_request")


def test_deep_json_has_its_own_code(house: House) -> None:
    answer = post(house, content=nested(100_000))
    assert (answer.status_code, answer.json()["code"]) == (422, "too_deep")


def head(house: House, *headers: bytes, key: bool = True) -> bytes:
    lines = [b"POST /v1/memories HTTP/1.1", b"Host: s", b"Content-Type: application/json", *headers]
    if key:
        lines.append(b"Authorization: Bearer " + house.data.encode())
    return b"\r\n".join([*lines, b"", b""])


@pytest.mark.parametrize(("key", "status"), [(False, 401), (True, 413)])
def test_a_large_upload_is_answered_before_it_is_sent(
    house: House, live: Live, key: bool, status: int
) -> None:
    with live.connect() as connection:
        connection.sendall(head(house, b"Content-Length: 209715200", key=key))
        assert read_answer(connection).status == status


def test_a_client_that_waits_is_refused_instead_of_told_to_go_on(house: House, live: Live) -> None:
    with live.connect() as connection:
        connection.sendall(head(house, b"Content-Length: 209715200", b"Expect: 100-continue"))
        assert read_answer(connection).status == 413


def test_a_chunked_flood_is_cut_off(house: House, live: Live) -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with live.connect() as connection:
        connection.sendall(head(house, b"Transfer-Encoding: chunked"))
        with contextlib.suppress(ConnectionError):  # it may be refused before all of the last is taken
            for _ in range(limits.BODY_BYTES // 65536 + 1):
                connection.sendall(chunk)
        assert read_answer(connection).status == 413


def test_others_are_served_while_many_dawdle(house: House, live: Live) -> None:
    slow = [live.connect() for _ in range(100)]
    try:
        for connection in slow:
            connection.sendall(head(house, b"Content-Length: 100") + b"{")
        assert live.ask("POST", "/v1/memories", key=house.data, body=b'{"messages":"quick"}').status == 200
        assert not any(has_an_answer(connection) for connection in slow)
    finally:
        for connection in slow:
            connection.close()


def has_an_answer(connection: socket.socket) -> bool:
    return connection in select.select([connection], [], [], 0)[0]


def test_large_bodies_wait_for_room_and_then_go_on(house: House) -> None:
    """More unfinished batches than there is room for: the last waits, single adds do not."""
    with serve(house) as live:
        key = house.data.encode()
        body = b'{"memories":[{"messages":"patient"}]}'
        request = head(house, b"Content-Length: %d" % len(body), b"Expect: 100-continue").replace(
            b"/v1/memories", b"/v1/memories/batch"
        )
        dawdling = [live.connect() for _ in range(8)]
        for connection in dawdling:
            connection.sendall(request)
            assert is_told_to_go_on(connection)
            connection.sendall(body[:-1])
        with live.connect() as waiting:
            waiting.sendall(request)
            waiting.settimeout(0.3)
            with pytest.raises(TimeoutError):
                waiting.recv(1)
            assert live.ask("POST", "/v1/memories", key=key.decode(), body=b'{"messages":"x"}').status == 200
            dawdling[0].sendall(body[-1:])
            assert read_answer(dawdling[0]).status == 200
            waiting.settimeout(PATIENCE_S)
            assert is_told_to_go_on(waiting)
            waiting.sendall(body)
            assert read_answer(waiting).status == 200
        for connection in dawdling:
            connection.close()


def is_told_to_go_on(connection: socket.socket) -> bool:
    """Say whether the first that comes is the word that there is room for the body (RFC 9110 §15.2.1)."""
    wanted = b"HTTP/1.1 100 Continue\r\n\r\n"
    return connection.recv(len(wanted), socket.MSG_WAITALL) == wanted
