"""What holds for every input, found by generation: nothing raises, nothing grows, nothing is let through."""

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

from shomei_memory_mcp import answers, screen, transport, wire
from shomei_memory_mcp.inputs import Params
from shomei_memory_mcp.refusals import InputRefused, TooLarge, Withheld
from shomei_memory_mcp.tools import TOOLS

TEXT = st.text(st.characters(codec=None, exclude_categories=()))
SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
JSON = st.recursive(SCALAR, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20)
OBJECT = st.dictionaries(
    TEXT | st.sampled_from(["results", "memory", "signed_receipts", "erased_ids", "dek"]), JSON
)


@settings(max_examples=80, deadline=None)
@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_every_line_is_a_message_an_error_or_nothing(line: bytes) -> None:
    found = transport.decode(line)
    assert found is None or isinstance(found, SessionMessage | JSONRPCError)
    if isinstance(found, JSONRPCError):
        assert transport.encode(found).count(b"\n") == 1


@settings(max_examples=80, deadline=None)
@given(OBJECT)
def test_every_answer_is_one_line_that_means_the_same(value: dict[str, Any]) -> None:
    line = transport.encode(JSONRPCResponse(jsonrpc="2.0", id=1, result={"value": value}))
    assert line.decode().splitlines(keepends=True) == [line.decode()]
    meant = re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(value, ensure_ascii=False))
    assert repr(json.loads(line)["result"]["value"]) == repr(json.loads(meant))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(1, 50))
def test_lines_do_not_depend_on_how_they_arrive(parts: list[bytes], step: int) -> None:
    data = b"\n".join(parts)
    lines = wire.Lines()
    found = [
        line for at in range(0, len(data), step) for line in lines.feed(data[at : at + step])
    ] + lines.last()
    assert found == (data.split(b"\n") if not data.endswith(b"\n") and data else data.split(b"\n")[:-1])


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([tool.params for tool in TOOLS]),
    st.none() | st.fixed_dictionaries({"params": JSON | JSON.map(json.dumps)}),
    st.dictionaries(st.sampled_from(["memory_id", "messages", "query", "limit", "user_id", "receipt"]), JSON),
)
def test_every_argument_is_read_or_refused(
    model: type[Params], arguments: dict[str, Any] | None, fields: dict[str, Any]
) -> None:
    for tried in (arguments, {"params": fields}):
        try:
            read = model.read(tried)
        except InputRefused as refused:
            text = str(refused)
        else:
            text = type(read).__name__
            json.dumps(read.body()).encode()
        assert text.isprintable()
        assert len(text) < 600


@settings(max_examples=80, deadline=None)
@given(st.binary() | OBJECT.map(lambda value: json.dumps(value).encode()))
def test_every_body_is_screened_or_withheld(body: bytes) -> None:
    try:
        answer = answers.relayed(screen.parse(body), fit=answers.fit_write, secret="s" * 20)
    except Withheld:
        return
    assert json.loads(answer.text) == answer.structured
    assert not any(screen.is_secret(name) for name in json.loads(body))
    answer.text.encode()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(
        [answers.fit_add, answers.fit_forget, answers.fit_write, answers.fit_search, answers.fit_read]
    ),
    OBJECT,
    st.integers(1, 60),
)
def test_whatever_is_cut_fits(fit: answers.Fit, value: dict[str, Any], copies: int) -> None:
    large = value | {"results": [{"memory": "x" * 3_000, "id": number} for number in range(copies)]}
    large |= {"signed_receipts": ["y" * 3_000] * copies}
    try:
        answer = answers.relayed(large, fit=fit, secret="s" * 20)
    except Withheld:
        return
    except TooLarge:
        assert fit in (answers.fit_search, answers.fit_read)
        return
    assert len(answer.text.encode()) <= answers.MAX_TEXT_BYTES
