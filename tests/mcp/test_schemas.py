"""The ten published tools (DEV-09): reviewed snapshots, and nothing in them that a host cannot digest."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from shomei_memory_mcp import inputs
from shomei_memory_mcp.serving import SERVER_NAME, publish
from shomei_memory_mcp.tools import TOOLS, Tool
from tests.mcp.host import Host, environment
from tests.mcp.stub import closed_port

SNAPSHOTS = Path(__file__).parent / "toolsnaps"
NAMES = [
    "add_memory",
    "search_memory",
    "update_memory",
    "delete_memory",
    "forget_subject",
    "restrict_memory",
    "get_receipt",
    "lineage_neighbors",
    "lineage_graph",
    "verify_receipt",
]
REQUIRED = [
    ["messages"],
    ["query"],
    ["memory_id", "data"],
    ["memory_id"],
    ["user_id"],
    ["memory_id"],
    ["memory_id"],
    ["memory_id"],
    ["memory_id"],
    ["receipt"],
]
MAX_LIST_BYTES = 10_240


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_each_tool_equals_its_snapshot(tool: Tool) -> None:
    shown = (
        json.dumps(publish(tool).model_dump(by_alias=True, exclude_none=True), indent=2, sort_keys=True)
        + "\n"
    )
    snapshot = SNAPSHOTS / f"{tool.name}.json"
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        SNAPSHOTS.mkdir(exist_ok=True)
        snapshot.write_text(shown)
    assert snapshot.exists(), "no snapshot: run with UPDATE_SNAPSHOTS=1 and review it"
    assert snapshot.read_text() == shown


def test_there_are_ten_snapshots() -> None:
    assert sorted(each.stem for each in SNAPSHOTS.iterdir()) == sorted(NAMES)


def test_names_and_order() -> None:
    assert [tool.name for tool in TOOLS] == NAMES
    assert all(re.fullmatch(r"[a-z_]{1,40}", name) for name in NAMES)
    assert max(len(f"mcp__{SERVER_NAME}__{name}") for name in NAMES) < 60


@pytest.mark.parametrize(("tool", "required"), list(zip(TOOLS, REQUIRED, strict=True)), ids=NAMES)
def test_schemas_are_plain(tool: Tool, required: list[str]) -> None:
    published = publish(tool)
    schema: dict[str, Any] = published.input_schema
    params = schema["properties"]["params"]
    assert set(schema) == {"type", "properties", "required", "additionalProperties"}
    assert (schema["required"], schema["additionalProperties"]) == (["params"], False)
    assert (params["required"], params["additionalProperties"]) == (required, False)
    words = set(_keys(schema))
    assert not words & {
        "$ref",
        "$defs",
        "$schema",
        "$dynamicRef",
        "anyOf",
        "oneOf",
        "allOf",
        "title",
        "const",
    }
    assert all(isinstance(kind, str) and kind != "null" for kind in _values(schema, "type"))
    assert all(field["description"] for field in params["properties"].values())
    assert published.description
    assert published.title
    assert published.output_schema is None


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
def test_bounds_and_defaults_are_also_in_words(tool: Tool) -> None:
    fields: dict[str, Any] = tool.params.published()["properties"]["params"]["properties"]  # type: ignore[index]
    for field in fields.values():
        numbers = [field[word] for word in ("minimum", "maximum", "maxLength") if word in field]
        told = [*numbers, field["default"]] if "default" in field else numbers
        assert all(str(each).removesuffix("rue").lower() in field["description"].lower() for each in told)


def test_annotations() -> None:
    hints = [publish(tool).annotations for tool in TOOLS]
    shown = [
        "".join(
            letter
            for letter, on in (
                ("r", hint.read_only_hint),
                ("d", hint.destructive_hint),
                ("i", hint.idempotent_hint),
                ("o", hint.open_world_hint),
            )
            if on
        )
        for hint in hints
        if hint is not None
    ]
    assert shown == ["o", "rio", "do", "dio", "dio", "io", "rio", "rio", "rio", "ri"]


def test_the_list_is_small_and_never_changes() -> None:
    with closed_port() as url:
        environments = [
            environment(url),
            environment(SHOMEI_MCP_API_KEY=""),
            environment(url, SHOMEI_MCP_READ_ONLY="1", SHOMEI_MCP_TIMEOUT_S="1"),
        ]
        lists = []
        for env in environments:
            with Host(env) as host:
                host.initialize()
                host.request("tools/list")
            lists.append(host.lines[-1])
    assert lists[0] == lists[1] == lists[2]
    assert len(lists[0]) <= MAX_LIST_BYTES
    assert [tool["name"] for tool in json.loads(lists[0])["result"]["tools"]] == NAMES


def test_only_the_documented_fields() -> None:
    fields = {tool.name: list(tool.params.model_fields) for tool in TOOLS}
    assert fields["add_memory"] == ["messages", "user_id", "semantic_type"]
    assert fields["search_memory"] == ["query", "user_id", "limit"]
    assert fields["restrict_memory"] == ["memory_id", "restricted", "reason"]
    assert fields["lineage_graph"] == fields["lineage_neighbors"] == ["memory_id", "direction", "limit"]
    assert fields["verify_receipt"] == ["receipt", "expected_public_key_hex"]
    assert inputs.MAX_ID_BYTES == 512


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for each in value.values() for key in _keys(each))]
    return []


def _values(value: Any, name: str) -> list[Any]:
    if not isinstance(value, dict):
        return []
    return [value[key] for key in value if key == name] + [
        found for each in value.values() for found in _values(each, name)
    ]
