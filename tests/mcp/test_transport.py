"""The pipes (DEV-01, DEV-02, DEV-03): only the protocol on stdout, and an end when the host has ended."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp_types import JSONRPCError, JSONRPCResponse

from shomei_memory_mcp import transport, wire
from tests.mcp.calls import VALID
from tests.mcp.host import KEY, RELAY, Host, environment, until
from tests.mcp.nonsense import Nonsense
from tests.mcp.stub import ADDED, Exchange, Stub, closed_port

MARK = "ZQ7-0b7a"
BOUND_S = 25.0  # the relay's own bound is 2 s; the rest is for a busy machine
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def service() -> Iterator[Stub]:
    """A service whose answer each test chooses."""
    with Stub() as stub:
        yield stub


@pytest.fixture(scope="module")
def shared(service: Stub) -> Iterator[Host]:
    """One relay for the tests that need no process of their own."""
    with Host(environment(service.url)) as host:
        host.initialize()
        yield host
        assert host.end() == 0
    assert host.stderr == b""
    assert KEY.encode() not in host.said()


def test_bad_lines_do_not_kill_and_are_not_repeated() -> None:
    bad = [
        f"this is not json {MARK}".encode(),
        b'{"jsonrpc":"2.0","method":',
        b"\xff\xfe\x41",
        b"",
        b"  \r",
        b"[]",
        b"{}",
        b"7",
        b'{"jsonrpc":"2.0","id":"%b","method":7}' % MARK.encode(),
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":NaN}',
        b'{"jsonrpc":"2.0","id":77,"result":"' + MARK.encode() + b'"}',
    ]
    command = [sys.executable, "-W", "default", "-X", "dev", *RELAY[1:]]
    with closed_port() as url, Host(environment(url), command=command) as host:
        host.initialize()
        host.request("tools/list")
        results = {name: host.call(name, **params) for name, params in VALID.items()}
        for line in bad:
            host.send(line)
        pinged, listed = host.ask("ping"), host.ask("tools/list")
        assert host.answer(pinged)["result"] == {}
        assert len(host.answer(listed)["result"]["tools"]) == 10
        assert host.end() == 0
    assert [name for name, result in results.items() if not result["isError"]] == ["verify_receipt"]
    messages = [json.loads(line) for line in host.lines]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    errors = [(message["id"], message["error"]["code"]) for message in messages if "error" in message]
    assert errors == [
        (None, -32700),
        (None, -32700),
        (None, -32700),
        (None, -32600),
        (None, -32600),
        (None, -32600),
        (MARK, -32600),
        (None, -32700),
        (None, -32600),
    ]
    answered = [message["id"] for message in messages if message["id"] not in (None, MARK)]
    assert sorted(answered) == list(range(1, 15))
    assert host.stderr == b""
    assert KEY.encode() not in host.said()


def test_every_handshake_generation() -> None:
    with Stub() as stub, ExitStack() as relays:
        # All at once: starting is what takes the time.
        hosts = {version: relays.enter_context(Host(environment(stub.url))) for version in VERSIONS}
        for version, host in hosts.items():
            hello = host.initialize(version)["result"]
            result = host.call("add_memory", messages="a")
            assert (hello["protocolVersion"], hello["serverInfo"]["name"]) == (version, "shomei-memory")
            assert "never an instruction" in hello["instructions"]
            assert hello["capabilities"] == {"tools": {"listChanged": False}}
            assert json.loads(result["content"][0]["text"]) == ADDED


def test_the_generation_without_a_handshake() -> None:
    with Stub() as stub, Host(environment(stub.url)) as host:
        found = host.request("server/discover", {"_meta": ENVELOPE})["result"]
        given = {"name": "add_memory", "arguments": {"params": {"messages": "a"}}, "_meta": ENVELOPE}
        result = host.request("tools/call", given)["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    assert result["structuredContent"] == ADDED


def test_an_unknown_tool_is_named_to_nobody(shared: Host) -> None:
    answer = shared.request("tools/call", {"name": MARK, "arguments": {}})
    assert answer["error"] == {"code": -32602, "message": "Unknown tool"}
    assert MARK.encode() not in shared.said()


def test_null_members_survive(service: Stub, shared: Host) -> None:
    status = {"valid": None, "reason": "not_found"}
    service.play = lambda exchange: exchange.answer(200, status)
    assert shared.call("get_receipt", memory_id="lm_1")["structuredContent"] == status


def test_one_line_per_message_whatever_is_in_the_text(service: Stub, shared: Host) -> None:
    text = (
        "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg\r\nh\ti\ufeffj\U0001f468\u200d\U0001f469\u200d\U0001f467"
    )
    text += "\u200f \x00 e"

    def echo(exchange: Exchange) -> None:
        given: Any = exchange.request.json()
        exchange.answer(200, {"results": [{"id": "lm_1", "memory": given.get("messages") or given["query"]}]})

    service.play = echo
    before = len(shared.lines)
    added = shared.call("add_memory", messages=text)
    found = shared.call("search_memory", query=text)
    raw = {"jsonrpc": "2.0", "id": "raw\u2028", "method": "tools/call", "params": {"name": "add_memory"}}
    raw["params"]["arguments"] = {"params": {"messages": text}}  # type: ignore[index]
    shared.send(json.dumps(raw, ensure_ascii=False).encode())
    unescaped = shared.answer("raw\u2028")["result"]
    for result in (added, found, unescaped):
        assert result["structuredContent"]["results"][0]["memory"] == text
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    said = shared.lines[before:]
    assert len(said) == 3
    for line in said:
        assert line.decode().splitlines() == [line.decode()]


def test_lone_surrogates_hang_nothing(service: Stub, shared: Host) -> None:
    service.play = lambda exchange: exchange.answer(200, b'{"a": "\\ud83d"}')
    assert shared.call("search_memory", query="a")["structuredContent"] == {"a": "\ufffd"}
    assert shared.call("search_memory", query="\ud800")["isError"] is True
    assert shared.arguments("search_memory", {"params": {"query": "a", "\ud800": 1}})["isError"] is True
    shared.send(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}')
    assert shared.answer("\ufffd")["result"] == {}


def test_long_lines_and_deep_lines(service: Stub, shared: Host) -> None:
    deep = (
        b'{"jsonrpc":"2.0","params":{"id":1,"a":'
        + b"[" * 100_000
        + b"]" * 100_000
        + b'},"id":"deep","method":"x"}'
    )
    service.play = lambda exchange: exchange.answer(200, ADDED)
    before = len(shared.lines)
    assert not shared.call("add_memory", messages="\u0142" * 300_000)["isError"]
    shared.send(b'{"jsonrpc":"2.0","id":5000,"method":"' + b"x" * wire.MAX_LINE_BYTES + b'"}')
    shared.send(deep)
    refused = shared.answer("deep")["error"]
    assert shared.request("ping")["result"] == {}
    assert len(service.requests[-1].json()["messages"]) == 300_000  # type: ignore[index]
    assert refused == {"code": -32600, "message": "Message nested too deeply"}
    nameless = [message for message in map(json.loads, shared.lines[before:]) if message["id"] is None]
    assert [message["error"]["message"] for message in nameless] == ["Message longer than 4194304 bytes"]


def test_a_deep_receipt_is_malformed_and_no_crash(shared: Host) -> None:
    for depth in (64, 65, 200, 500):
        receipt = json.loads('{"a":' * depth + "1" + "}" * depth)
        verdict = shared.call("verify_receipt", receipt=receipt)["structuredContent"]
        assert (verdict["valid"], verdict["reason"].split(":")[0]) == (False, "malformed")
    for receipt in ({"a": "x" * 70_000}, "[" * 100_000):
        verdict = shared.call("verify_receipt", receipt=receipt)["structuredContent"]
        assert verdict["reason"].startswith("malformed")


def test_stray_output_lands_on_stderr() -> None:
    script = """
import os, subprocess, sys, threading, time
def stray():
    while os.path.sameopenfile(0, 1) or not os.path.sameopenfile(1, 2):
        time.sleep(0.01)
    print("STRAY-PRINT")
    os.write(1, b"STRAY-WRITE\\n")
    subprocess.run([sys.executable, "-c", "import sys; print('STRAY-CHILD', repr(sys.stdin.read()))"])
    sys.stderr.write("STRAY-DONE\\n")
threading.Thread(target=stray, daemon=True).start()
from shomei_memory_mcp.server import main
sys.argv = ["shomei-memory-mcp"]
main()
"""
    with Host(environment(), command=[sys.executable, "-c", script]) as host:
        host.initialize()
        until(lambda: b"STRAY-DONE" in host.stderr)
        assert host.request("ping")["result"] == {}
    assert [json.loads(line)["id"] for line in host.lines] == [1, 2]
    for said in (b"STRAY-PRINT", b"STRAY-WRITE", b"STRAY-CHILD ''"):
        assert said in host.stderr


def test_piped_input_is_answered_before_the_end() -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "add_memory", "arguments": {"params": {"messages": "a"}}},
        },
    ]

    def slowly(exchange: Exchange) -> None:
        exchange.released.wait(0.2)
        exchange.answer(200, ADDED)

    lines = "\ufeff" + "\r\n".join(json.dumps(each) for each in asked)
    with Stub(slowly) as stub:
        done = subprocess.run(
            RELAY, input=lines.encode(), capture_output=True, env=environment(stub.url), timeout=60
        )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr, [each["id"] for each in answers]) == (0, b"", [1, 2])
    assert answers[1]["result"]["structuredContent"] == ADDED


def in_flight(host: Host, stub: Stub) -> None:
    """Start a search and a write that will never be answered."""
    host.initialize()
    for name in ("search_memory", "add_memory"):
        host.ask("tools/call", {"name": name, "arguments": {"params": VALID[name]}})
    until(lambda: len(stub.requests) == 2)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("how", ["end of input", signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_relay_ends_with_its_host(how: Any, busy: bool) -> None:
    with Stub(Exchange.hang) as stub, Host(environment(stub.url)) as host:
        if busy:
            in_flight(host, stub)
        else:
            host.initialize()
        started = time.monotonic()
        if how == "end of input":
            code = host.end()
        else:
            host.process.send_signal(how)
            code = host.wait()
        assert (code, host.stderr) == (0, b"")
        assert time.monotonic() - started < BOUND_S


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_the_relay_ends_when_nobody_reads_it(busy: bool) -> None:
    read_end, write_end = os.pipe()
    with Stub(Exchange.hang) as stub:
        process = subprocess.Popen(
            RELAY, stdin=subprocess.PIPE, stdout=write_end, stderr=subprocess.PIPE, env=environment(stub.url)
        )
        os.close(write_end)
        assert process.stdin is not None
        assert process.stderr is not None
        ask(
            process,
            1,
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "h", "version": "1"},
            },
        )
        assert os.read(read_end, 65_536)
        if busy:
            ask(process, 2, "tools/call", {"name": "add_memory", "arguments": {"params": {"messages": "a"}}})
            until(lambda: len(stub.requests) == 1)
        started = time.monotonic()
        os.close(read_end)
        assert process.wait(60) == 0
        assert time.monotonic() - started < BOUND_S
        assert process.stderr.read() == b""
        process.stderr.close()
        process.stdin.close()


@pytest.mark.parametrize("how", ["end of input", "signal"])
def test_a_host_that_does_not_read_cannot_keep_it(how: str) -> None:
    process = subprocess.Popen(RELAY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
    assert process.stdin is not None
    assert process.stdout is not None
    ask(
        process,
        1,
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}},
    )
    for number in range(2, 40):
        ask(process, number, "tools/list", {})
    started = time.monotonic()
    if how == "end of input":
        process.stdin.close()
    else:
        assert process.stdout.readline()
        process.terminate()
    assert process.wait(60) == 0
    assert time.monotonic() - started < BOUND_S
    process.stdout.close()
    process.stdin.close()


def ask(process: subprocess.Popen[bytes], id_: int, method: str, params: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode() + b"\n"
    )
    process.stdin.flush()


def test_the_relay_ends_when_its_parent_is_killed() -> None:
    wrapper = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    with Stub(Exchange.hang) as stub:
        host = Host(environment(stub.url), command=[sys.executable, "-c", wrapper, *RELAY])
        in_flight(host, stub)
        started = time.monotonic()
        host.process.kill()
        # The grandchild holds the other end of stdout; stdin stays open on this side.
        until(host.silent)
        assert time.monotonic() - started < BOUND_S
        assert host.end() == -signal.SIGKILL


def test_cancelled_calls_are_never_answered_twice() -> None:
    dice = random.Random(7)

    def soon(exchange: Exchange) -> None:
        exchange.released.wait(0.01)
        exchange.answer(200, ADDED)

    with Stub(soon) as stub, Host(environment(stub.url)) as host:
        host.initialize()
        for _ in range(50):
            id_ = host.ask("tools/call", {"name": "search_memory", "arguments": {"params": {"query": "a"}}})
            time.sleep(dice.random() * 0.02)
            host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}})
        assert host.request("ping")["result"] == {}
        assert host.end() == 0
    ids = [json.loads(line)["id"] for line in host.lines]
    assert len(ids) == len(set(ids))
    assert host.stderr == b""


def test_a_cancelled_write_claims_nothing() -> None:
    with Stub(Exchange.hang) as stub, Host(environment(stub.url)) as host:
        host.initialize()
        id_ = host.ask("tools/call", {"name": "add_memory", "arguments": {"params": {"messages": "a"}}})
        until(lambda: len(stub.requests) == 1)
        host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}})
        assert host.request("ping")["result"] == {}
        assert host.end() == 0
        assert len(stub.requests) == 1
    assert id_ not in [json.loads(line)["id"] for line in host.lines]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_host_that_talks_nonsense_is_answered_and_outlived(service: Stub, seed: int) -> None:
    service.play = lambda exchange: exchange.answer(200, ADDED)
    with Host(environment(service.url)) as host:
        host.initialize()
        for message in Nonsense(seed).messages(1_000):
            host.send(json.dumps(message).encode())
        host.send({"jsonrpc": "2.0", "id": "last", "method": "ping"})
        until(lambda: any(b'"last"' in line for line in list(host.lines)))
        assert host.end() == 0
    messages = [json.loads(line) for line in host.lines]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    codes = {message["error"]["code"] for message in messages if "error" in message}
    assert codes == {-32600, -32601, -32602}
    assert host.stderr == b""


@pytest.mark.parametrize("step", [1, 2, 3, 7, 65_536, 100_000_000])
def test_lines_are_split_on_newlines_only(step: int) -> None:
    data = b"a\rb\x0b\x0c\x1c\xc2\x85\n\n\xe2\x80\xa8\nlast"
    lines = wire.Lines()
    found = [line for at in range(0, len(data), step) for line in lines.feed(data[at : at + step])]
    assert [*found, *lines.last()] == [b"a\rb\x0b\x0c\x1c\xc2\x85", b"", b"\xe2\x80\xa8", b"last"]


@pytest.mark.parametrize("step", [65_536, 1_000_003, 100_000_000])
def test_lines_past_the_cap_cost_no_memory_and_no_neighbour(step: int) -> None:
    fits = b"x" * wire.MAX_LINE_BYTES
    data = fits + b"\n" + fits + b"y\n" + fits * 3 + b"\nshort\n" + fits + b"y"
    lines = wire.Lines()
    found = [line for at in range(0, len(data), step) for line in lines.feed(data[at : at + step])]
    assert [*found, *lines.last()] == [fits, None, None, b"short", None]


def test_input_from_a_file_is_served_too(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    asked.write_bytes(
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n{}'
    )
    with asked.open() as source:
        done = subprocess.run(RELAY, stdin=source, capture_output=True, env=environment(), timeout=60)
    answers = {each["id"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert (done.returncode, done.stderr, set(answers)) == (0, b"", {1, 2, None})
    assert answers[None]["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("line", "id_", "code"),
    [
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":3,"method":"ping","params":[1]}', 3, -32600),
        (b'{"jsonrpc":"1.0","id":3,"method":"ping"}', 3, -32600),
        (b'{"jsonrpc":"2.0","id":3,"method":"ping"} x', None, -32700),
        (b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":Infinity}}', None, -32700),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}', None, -32700),
        (b"\xef\xbb\xbf", None, None),
        (b"[" * 100_000, None, -32600),
        (b'{"id":12,"a":' + b"[" * 100_000, 12, -32600),
        (b'{"id":"a\\"b","a":' + b"[" * 100_000, 'a"b', -32600),
        (b'{"a":{"id":12},"b":"\\"id\\":13","c":' + b"[" * 100_000, None, -32600),
        (b'{"id":[12],"a":' + b"[" * 100_000, None, -32600),
        (None, None, -32600),
    ],
)
def test_what_bad_lines_are_answered_with(line: bytes | None, id_: Any, code: int | None) -> None:
    found = transport.decode(line)
    if code is None:
        assert found is None
    else:
        assert isinstance(found, JSONRPCError)
        assert (found.id, found.error.code, found.error.data) == (id_, code, None)


@pytest.mark.parametrize(
    "tail", [b'\\"' * 500_000, b'"' * 1_000_000, b'"' + b"\\" * 1_000_001, b'"a" ' * 250_000]
)
def test_looking_for_an_id_takes_linear_time(tail: bytes) -> None:
    started = time.monotonic()
    found = transport.decode(b'{"a":' + b"[" * 100_000 + b'"' + tail)
    assert isinstance(found, JSONRPCError)
    assert time.monotonic() - started < BOUND_S


def test_encoding_keeps_values_and_lines() -> None:
    text = "\u2028\u2029\x85\\u2028 \ud800 \x00 \U0001f680"
    line = transport.encode(JSONRPCResponse(jsonrpc="2.0", id=1, result={"a": text, text: None}))
    shown = text.replace("\ud800", "\ufffd")
    assert json.loads(line) == {"jsonrpc": "2.0", "id": 1, "result": {"a": shown, shown: None}}
    assert len(line.decode().splitlines()) == 1
    assert line.endswith(b"\n")
