"""Merging one server into a host's configuration: the rest of the file stays, or nothing is written."""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from shomei_memory_mcp.hosts import SERVER_NAME
from shomei_memory_mcp.inputs import JsonObject
from shomei_memory_mcp.refusals import Refusal

PRIVATE: Final = 0o600
BACKUP_SUFFIX: Final = ".before-shomei"

_TABLE = re.compile(r"\s*\[")
_OURS = re.compile(
    rf"""\s*\[\s*(mcp_servers|"mcp_servers"|'mcp_servers')\s*\.\s*({SERVER_NAME}|"{SERVER_NAME}"|'{SERVER_NAME}')\s*[.\]]"""
)


class NotMergeable(Refusal):
    """The file is not what its host documents; nothing was changed."""


def merge_json(text: str, section: str, entry: JsonObject, prompt: JsonObject | None) -> str:
    """Return the JSON with the entry merged in; raise NotMergeable when the file cannot be kept whole."""
    whole = _object(_parsed_json(text)) if text.strip() else {}
    servers = _object(whole.get(section, {}))
    merged = whole | {section: servers | {SERVER_NAME: _merged(servers.get(SERVER_NAME, {}), entry)}}
    if prompt is not None:
        asked = whole.get("inputs", [])
        if not isinstance(asked, list):
            raise NotMergeable("it has inputs that are not a list")
        others = [each for each in cast(list[object], asked) if not _asks_the_same(each, prompt)]
        merged["inputs"] = [*others, prompt]
    return json.dumps(merged, ensure_ascii=False, indent=2) + "\n"


def merge_toml(text: str, section: str, entry: JsonObject) -> str:
    """Return the TOML with the entry merged in; raise NotMergeable when the rest would not stay the same."""
    whole = _parsed_toml(text)
    servers = _object(whole.get(section, {}))
    merged = _merged(servers.get(SERVER_NAME, {}), entry)
    kept = _without_our_tables(text).rstrip("\n")
    result = f"{kept}\n\n" if kept else ""
    result += _table(f"{section}.{SERVER_NAME}", merged)
    if _parsed_toml(result) != whole | {section: servers | {SERVER_NAME: merged}}:
        raise NotMergeable("it spells the server in a way that cannot be merged")
    return result


def replace(path: Path, text: str) -> Path | None:
    """Write the file for its owner alone, atomically; return where the former one, if any, was kept."""
    # A link made by a dotfile manager stays a link.
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    backup = None
    if target.exists():
        backup = target.with_name(target.name + BACKUP_SUFFIX)
        _write(backup, target.read_bytes())
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    _write(draft, text.encode())
    draft.replace(target)
    return backup


def _write(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    # Private from its first byte: the file holds keys, ours or another server's.
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _merged(former: object, entry: JsonObject) -> JsonObject:
    known = _object(former)
    variables = _object(known.get("env", {})) | _object(entry["env"])
    return known | entry | {"env": variables}


def _object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise NotMergeable("it holds something else where its host keeps servers")
    return cast(JsonObject, value)


def _asks_the_same(question: object, prompt: JsonObject) -> bool:
    return isinstance(question, dict) and cast(Mapping[str, object], question).get("id") == prompt["id"]


def _parsed_json(text: str) -> object:
    try:
        return cast(object, json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_unique))
    except (ValueError, RecursionError):
        raise NotMergeable("it is not plain JSON (comments, or a name given twice?)") from None


def _unique(pairs: list[tuple[str, object]]) -> JsonObject:
    # Writing the file back would silently drop the first of two equal names.
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _parsed_toml(text: str) -> JsonObject:
    try:
        return cast(JsonObject, tomllib.loads(text))
    except (ValueError, RecursionError):
        raise NotMergeable("it is not TOML that can be merged") from None


def _without_our_tables(text: str) -> str:
    kept: list[str] = []
    ours = False
    for line in text.splitlines(keepends=True):
        if _TABLE.match(line):
            ours = _OURS.match(line) is not None
        if not ours:
            kept.append(line)
    return "".join(kept)


def _table(name: str, entry: JsonObject) -> str:
    plain = "".join(f"{json.dumps(key)} = {_toml(value)}\n" for key, value in entry.items() if key != "env")
    variables = "".join(
        f"{json.dumps(key)} = {_toml(value)}\n" for key, value in _object(entry["env"]).items()
    )
    return f"[{name}]\n{plain}\n[{name}.env]\n{variables}"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        members = cast(JsonObject, value).items()
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(each) for each in cast(list[object], value)) + "]"
    if isinstance(value, bool | int | float | str):
        # A JSON string without \u pairs is a TOML basic string.
        return json.dumps(value, ensure_ascii=False)
    raise NotMergeable("it keeps a value with the server that cannot be carried over")
