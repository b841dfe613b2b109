"""Much at once: two hundred calls, storms of cancels, answers of 32 MB, hosts that read late or never."""

import json
import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shomei_memory_mcp import answers, client, network
from tests.mcp.calls import VALID
from tests.mcp.host import PATIENCE_S, RELAY, Host, environment, until
from tests.mcp.stub import ADDED, Exchange, Stub

CALLS = 200
MARK = "ZQ7-10ad"


def echo(exchange: Exchange) -> None:
    """Answer each search with what it asked for, a little later."""
    asked: Any = exchange.request.json()
    exchange.released.wait(0.02)
    exchange.answer(200, {"results": [{"id": "lm_1", "memory": asked["query"]}]})


def ask(host: Host, query: str) -> object:
    given = {"name": "search_memory", "arguments": {"params": {"query": query}}}
    return host.ask("tools/call", given)


def cancel(host: Host, id_: object) -> None:
    host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}})


def memory_of(answer: dict[str, Any]) -> str:
    return answer["result"]["structuredContent"]["results"][0]["memory"]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(echo) as listener:
        yield listener


def test_two_hundred_calls_at_once_get_each_their_own_answer(stub: Stub) -> None:
    with Host(environment(stub.url)) as host:
        host.initialize()
        asked = {ask(host, f"{MARK} {number}"): f"{MARK} {number}" for number in range(CALLS)}
        assert {id_: memory_of(host.answer(id_)) for id_ in asked} == asked
        assert host.end() == 0
    assert (len(stub.requests), host.stderr) == (CALLS, b"")


def test_two_hundred_calls_in_one_write(stub: Stub) -> None:
    """Every line arrives in the same chunk, and the last has no end."""
    with Host(environment(stub.url)) as host:
        host.initialize()
        lines = [
            json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": f"n{number}",
                    "method": "tools/call",
                    "params": {"name": "search_memory", "arguments": {"params": {"query": str(number)}}},
                }
            )
            for number in range(CALLS)
        ]
        host.send("\n".join(lines).encode())
        assert [memory_of(host.answer(f"n{number}")) for number in range(CALLS)] == [
            str(number) for number in range(CALLS)
        ]


def test_a_storm_of_cancels_leaves_no_connection_and_no_answer_behind(stub: Stub) -> None:
    stub.play = Exchange.hang
    with Host(environment(stub.url)) as host:
        host.initialize()
        for _ in range(2):
            # More than the pool holds: a call that was cancelled must give its place back.
            cancelled = [ask(host, MARK) for _ in range(network.MAX_CONNECTIONS + 20)]
            for id_ in cancelled:
                cancel(host, id_)
                cancel(host, id_)
            assert host.request("ping")["result"] == {}
        stub.play = echo
        asked = [ask(host, MARK) for _ in range(CALLS)]
        assert [memory_of(host.answer(id_)) for id_ in asked] == [MARK] * CALLS
        assert host.end() == 0
    answered = [json.loads(line)["id"] for line in host.lines]
    assert len(answered) == len(set(answered)) == CALLS + 3
    assert host.stderr == b""


def test_after_a_cancel_that_was_heard_there_is_no_answer(stub: Stub) -> None:
    dice = random.Random(11)
    late: list[int] = []
    with Host(environment(stub.url)) as host:
        host.initialize()
        for _ in range(50):
            id_ = ask(host, MARK)
            time.sleep(dice.random() * 0.04)
            cancel(host, id_)
            # The answer to a ping that follows says that the cancel was heard.
            host.request("ping")
            heard = len(host.lines)
            late.append(heard)
            before = [json.loads(line)["id"] for line in host.lines[:heard]].count(id_)
            host.request("ping")
            assert [json.loads(line)["id"] for line in host.lines].count(id_) == before
        assert host.end() == 0
    assert len(late) == 50


def test_cancels_of_what_never_was_are_harmless(stub: Stub) -> None:
    with Host(environment(stub.url)) as host:
        host.initialize()
        for wrong in (None, 10**9, "x", 1.5, True, [], {}, -1, "\ud800"):
            cancel(host, wrong)
        host.send({"jsonrpc": "2.0", "method": "notifications/cancelled"})
        host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}})
        host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        assert memory_of(host.answer(ask(host, MARK))) == MARK
        assert host.end() == 0
    assert host.stderr == b""


@pytest.fixture(scope="module")
def large() -> bytes:
    """Search results of just under 32 MB."""
    result = json.dumps({"id": "lm_1", "memory": "x" * 30_000}).encode()
    count = client.MAX_ANSWER_BYTES // (len(result) + 1) - 1
    return b'{"results": [' + b",".join([result] * count) + b"]}"


@pytest.mark.parametrize("name", ["search_memory", "forget_subject", "get_receipt"])
def test_an_answer_of_32_mb_is_cut_and_the_relay_goes_on(stub: Stub, large: bytes, name: str) -> None:
    stub.play = lambda exchange: exchange.answer(200, large)
    with Host(environment(stub.url)) as host:
        host.initialize()
        result = host.call(name, **VALID[name])
        assert len(result["content"][0]["text"].encode()) <= answers.MAX_TEXT_BYTES
        assert result["isError"] == (name == "get_receipt")
        if name == "search_memory":
            shown = result["structuredContent"]
            assert len(shown["results"]) == 2
            assert shown["omitted"] == json.loads(large)["results"].__len__() - 2
        stub.play = echo
        assert memory_of(host.answer(ask(host, MARK))) == MARK


def test_two_answers_of_32_mb_at_once(stub: Stub, large: bytes) -> None:
    stub.play = lambda exchange: exchange.answer(200, large)
    with Host(environment(stub.url)) as host:
        host.initialize()
        asked = [ask(host, MARK) for _ in range(2)]
        assert all(host.answer(id_)["result"]["structuredContent"]["omitted"] > 900 for id_ in asked)
        assert host.end() == 0


def speak(process: "subprocess.Popen[bytes]", *messages: dict[str, Any]) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


HELLO: dict[str, Any] = {
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "h", "version": "1"},
    },
}


def search(number: int) -> dict[str, Any]:
    params = {"name": "search_memory", "arguments": {"params": {"query": str(number)}}}
    return {"id": number, "method": "tools/call", "params": params}


def resident_mib(process: "subprocess.Popen[bytes]") -> float:
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024


def test_a_host_that_reads_late_gets_everything_and_memory_stays_small(stub: Stub) -> None:
    """Twelve megabytes of answers against a pipe that holds sixty-four kilobytes."""
    stub.play = lambda exchange: exchange.answer(200, {"results": [{"memory": "x" * 60_000}]})
    with subprocess.Popen(
        RELAY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(stub.url)
    ) as process:
        speak(process, HELLO, {"method": "notifications/initialized"})
        speak(process, *(search(number) for number in range(1, CALLS + 1)))
        until(lambda: len(stub.requests) == CALLS)
        time.sleep(0.5)
        assert resident_mib(process) < 250
        assert process.stdin is not None
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(CALLS + 1)]
        assert sorted(json.loads(line)["id"] for line in lines) == list(range(CALLS + 1))
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def test_a_host_that_stops_reading_can_still_end_it(stub: Stub) -> None:
    stub.play = lambda exchange: exchange.answer(200, {"results": [{"memory": "x" * 60_000}]})
    for how in ("end of input", "signal", "nobody reads"):
        with subprocess.Popen(
            RELAY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(stub.url)
        ) as process:
            speak(process, HELLO, {"method": "notifications/initialized"})
            before = len(stub.requests)
            speak(process, *(search(number) for number in range(1, 30)))
            until(lambda before=before: len(stub.requests) >= before + 5)
            assert process.stdin is not None
            assert process.stdout is not None
            if how == "end of input":
                process.stdin.close()
            elif how == "signal":
                process.terminate()
            else:
                process.stdout.close()
            assert process.wait(PATIENCE_S) == 0
            process.stdout.close()


def test_a_host_that_writes_slowly_is_understood(stub: Stub) -> None:
    """One byte at a time, as some wrappers do."""
    with Host(environment(stub.url)) as host:
        host.initialize()
        line = json.dumps({"jsonrpc": "2.0", **search(77)}).encode() + b"\n"
        assert host.process.stdin is not None
        for byte in line:
            os.write(host.process.stdin.fileno(), bytes([byte]))
        assert memory_of(host.answer(77)) == "77"


def test_hosts_side_by_side_do_not_meet(stub: Stub) -> None:
    found: dict[int, list[str]] = {}

    def talk(number: int) -> None:
        with Host(environment(stub.url)) as host:
            host.initialize()
            asked = [ask(host, f"{number}-{turn}") for turn in range(20)]
            found[number] = [memory_of(host.answer(id_)) for id_ in asked]

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [f"{number}-{turn}" for turn in range(20)] for number in range(2)}


def test_the_longest_write_is_an_answer_too(stub: Stub) -> None:
    stub.play = lambda exchange: exchange.answer(200, ADDED)
    with Host(environment(stub.url)) as host:
        host.initialize()
        result = host.call("add_memory", messages="\u0142" * 600_000)
    assert result["structuredContent"] == ADDED
