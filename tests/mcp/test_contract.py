"""T-41 over real pipes: the published bounds of the ten tools, one after the other."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from shomei_memory_mcp import answers, client
from tests.mcp.calls import VALID, WRITES
from tests.mcp.host import KEY, Host, environment
from tests.mcp.hosts.judge import TOOLS
from tests.mcp.stub import ADDED, Exchange, Stub

REMOTE = [name for name in VALID if name != "verify_receipt"]
MARK = "ZQ7-41c0"


@pytest.fixture(scope="module")
def service() -> Iterator[Stub]:
    """A service whose answer each test chooses."""
    with Stub() as stub:
        yield stub


@pytest.fixture(scope="module")
def host(service: Stub) -> Iterator[Host]:
    """One relay for all of it; at its end nothing but the protocol is on stdout, and the key nowhere."""
    with Host(environment(service.url)) as relay:
        relay.initialize()
        yield relay
        assert relay.end() == 0
    messages = [json.loads(line) for line in relay.lines]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    assert len({message["id"] for message in messages}) == len(messages)
    assert relay.stderr == b""
    assert KEY.encode() not in relay.said()


def test_exactly_ten_tools(host: Host) -> None:
    listed = host.request("tools/list")["result"]
    assert [tool["name"] for tool in listed["tools"]] == TOOLS
    assert "nextCursor" not in listed


@pytest.mark.parametrize("name", VALID)
def test_unknown_fields_are_refused_and_nothing_is_sent(service: Stub, host: Host, name: str) -> None:
    before = len(service.requests)
    result = host.call(name, **VALID[name], min_score=MARK)
    assert result["isError"] is True
    assert result["content"][0]["text"].startswith("refused: no field of this tool: min_score (")
    assert MARK not in json.dumps(result)
    assert len(service.requests) == before


def test_texts_are_stripped_before_they_are_counted(service: Stub, host: Host) -> None:
    service.play = lambda exchange: exchange.answer(200, ADDED)
    host.call("add_memory", messages=" \n text\u00a0", user_id="\talice ", semantic_type=" X ")
    assert service.requests[-1].json() == {"messages": "text", "user_id": "alice", "semantic_type": "X"}
    before = len(service.requests)
    for params in ({"messages": " \u3000\n"}, {"messages": "a", "user_id": " "}):
        assert host.call("add_memory", **params)["isError"] is True
    assert len(service.requests) == before


@pytest.mark.parametrize("name", REMOTE)
def test_what_is_relayed_stays_under_64_kib(service: Stub, host: Host, name: str) -> None:
    many = [{"id": f"lm_{number}", "memory": "\u0142" * 500} for number in range(400)]
    service.play = lambda exchange: exchange.answer(200, {"deleted": True, "results": many})
    result = host.call(name, **VALID[name])
    text = result["content"][0]["text"]
    assert len(text.encode()) <= answers.MAX_TEXT_BYTES == 65_536
    if name in WRITES or name == "search_memory":
        assert json.loads(text) == result["structuredContent"]
        assert not result["isError"]
    else:
        assert result["isError"] is True


def test_a_receipt_is_read_up_to_64_kib_and_64_levels(host: Host) -> None:
    for receipt in ({"a": "x" * 65_536}, json.loads('{"a":' * 65 + "1" + "}" * 65)):
        for given in (receipt, json.dumps(receipt)):
            verdict = host.call("verify_receipt", receipt=given)["structuredContent"]
            assert set(verdict) == {"valid", "authenticated", "reason", "public_key_hex", "schema"}
            assert (verdict["valid"], verdict["authenticated"]) == (False, False)
            assert verdict["reason"].startswith("malformed")


@pytest.mark.parametrize("status", [401, 403, 404, 409, 413, 422, 423, 429, 500, 501, 503])
@pytest.mark.parametrize("name", REMOTE)
def test_relayed_errors_are_short_and_never_hold_the_key(
    service: Stub, host: Host, name: str, status: int
) -> None:
    detail = f"{KEY} because " + "x" * 5_000
    service.play = lambda exchange: exchange.answer(status, {"code": "c", "detail": detail})
    result = host.call(name, **VALID[name])
    assert result["isError"] is True
    shown = result.get("structuredContent", {}).get("detail", result["content"][0]["text"])
    assert len(shown) <= client.MAX_DETAIL_CHARACTERS + 100
    assert shown.count("x" * 201) == 0
    assert KEY not in json.dumps(result)


@pytest.mark.parametrize("name", REMOTE)
def test_fields_named_like_secrets_are_never_relayed(service: Stub, host: Host, name: str) -> None:
    for secret in ("wrapped_dek", "privateKey", "api_key", "commitment_key"):
        body = {"results": [{"id": "lm_1", "body": {secret: MARK}}]}
        service.play = lambda exchange, body=body: exchange.answer(200, body)
        result = host.call(name, **VALID[name])
        assert result["isError"] is True
        assert MARK not in json.dumps(result)
        assert "structuredContent" not in result


def test_the_key_is_never_echoed(service: Stub, host: Host) -> None:
    def echo(exchange: Exchange) -> None:
        """Answer with everything that came, as a careless service would."""
        request = exchange.request
        exchange.answer(200, {"results": [{"headers": request.headers, "body": request.body.decode()}]})

    service.play = echo
    for name in REMOTE:
        shown: Any = host.call(name, **VALID[name])
        assert "Bearer" in json.dumps(shown) or shown["isError"]
    assert f"Bearer {KEY}" == service.requests[-1].headers["authorization"]
