"""What may be imported: JSON Lines, our own exports among them, a mem0 export, an MCP server-memory file.

Each is read into lines; what is no memory is said to be so, by its number and a fixed sentence.
"""

import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from ..engine import limits
from ..engine.errors import Invalid, Refusal
from ..engine.model import JsonObject, LawfulBasis, NewMemory
from ..engine.verbs.importing import Line

_PORTABLE: Final = "art20/memories.jsonl"
_TEXTS: Final = ("text", "memory", "messages", "content", "data")
_MEM0_LISTS: Final = ("results", "memories")
_MEM0_EXTRAS: Final = ("agent_id", "app_id", "run_id", "actor_id", "categories")
_DAY: Final = 86_400
_LONGEST: Final = 1 << 20  # of one line; a memory has 64 KiB of text

_T = TypeVar("_T")
_Object = Mapping[str, Any]


class Format(StrEnum):
    """What kind of file it is."""

    LINES = "jsonl"
    MEM0 = "mem0"
    MCP = "mcp_server_memory"


class NotAMemory(ValueError):
    """A line is none; the message is a fixed sentence."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that is no memory, and why."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was recognised, and its lines."""

    format: Format
    total: int  # lines, or entries of a list
    lines: Iterator[Line | Skipped]


def opened(path: Path, form: Format | None, user_id: str | None) -> Source:
    """Recognise a file and read it lazily. Raise Invalid when it is none of the known kinds."""
    if zipfile.is_zipfile(path):
        lines = _zipped(path)
        return Source(Format.LINES, len(lines), _read(enumerate(lines, 1), _own, user_id))
    chosen = form or _recognised(path)
    if chosen is Format.MEM0:
        items = _mem0_items(path)
        return Source(chosen, len(items), _read(enumerate(items, 1), _mem0, user_id))
    with path.open("rb") as file:
        total = sum(1 for _ in file)
    return Source(chosen, total, _read(_file_lines(path), _READERS[chosen], user_id))


def _recognised(path: Path) -> Format:
    """Tell the kinds apart by how they begin: JSON Lines have an object on the first line."""
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"")[:_LONGEST]
    try:
        begun = json.loads(first)
    except (ValueError, RecursionError):
        return Format.MEM0  # one JSON value over several lines
    if isinstance(begun, list):
        return Format.MEM0
    if not isinstance(begun, dict):
        raise Invalid("the file is of no kind that can be imported")
    members = cast(_Object, begun)
    if any(isinstance(members.get(name), list) for name in _MEM0_LISTS):
        return Format.MEM0
    return Format.MCP if members.get("type") in {"entity", "relation"} else Format.LINES


def _file_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        yield from enumerate(file, 1)


def _zipped(path: Path) -> list[bytes]:
    with zipfile.ZipFile(path) as archive:
        if _PORTABLE not in archive.namelist():
            raise Invalid("the archive holds no art20/memories.jsonl: it is no export of ours")
        return archive.read(_PORTABLE).splitlines()


def _mem0_items(path: Path) -> list[object]:
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise Invalid("the file is neither JSON nor JSON Lines") from None
    if isinstance(value, dict):
        members = cast(_Object, value)
        value = next((members[name] for name in _MEM0_LISTS if isinstance(members.get(name), list)), None)
    if not isinstance(value, list):
        raise Invalid("the file holds no list of memories")
    return cast("list[object]", value)


_Found = Iterator[tuple[str | None, NewMemory, int | None]]
_Reader = Callable[[_Object, str | None], _Found]


def _read(
    items: Iterable[tuple[int, object]], reader: _Reader, user_id: str | None
) -> Iterator[Line | Skipped]:
    """Read each item into memories; count those that have no id and say the same."""
    seen = Counter[str]()
    for number, item in items:
        if isinstance(item, bytes) and not item.strip():
            continue
        try:
            for source_id, new, created_at in reader(_object(item), user_id):
                said = json.dumps([new.user_id, new.text], ensure_ascii=False)
                seen[said] += source_id is None
                identity = source_id or json.dumps([said, seen[said]], ensure_ascii=False)
                yield Line(number, identity, source_id is not None, new, created_at)
        except NotAMemory as exc:
            yield Skipped(number, str(exc))
        except Refusal as refused:
            yield Skipped(number, refused.message)


def _object(item: object) -> _Object:
    if isinstance(item, bytes):
        if len(item) > _LONGEST:
            raise NotAMemory("longer than any memory may be")
        try:
            item = json.loads(item)
        except (ValueError, RecursionError):
            raise NotAMemory("not JSON") from None
    if not isinstance(item, dict):
        raise NotAMemory("not an object")
    _require_modest(cast(object, item))
    return cast(_Object, item)


def _require_modest(item: object) -> None:
    """Refuse what no client could have sent over HTTP either: nesting without end, text that is none."""
    level = [item]
    for _ in range(limits.JSON_DEPTH):
        level = [child for one in level for child in _children(one)]
    if level:
        raise NotAMemory("nested deeper than 32 levels")
    try:
        json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise NotAMemory("holds a lone surrogate, which is not a character") from None


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _own(item: _Object, user_id: str | None) -> _Found:
    """Read a line of ours, or any object with a text."""
    stored = item.get("metadata_text")
    metadata = _decoded(stored) if isinstance(stored, str) else _typed(item, "metadata", dict, {})
    new = NewMemory(
        _text(item),
        user_id=_typed(item, "user_id", str, user_id),
        semantic_type=_typed(item, "semantic_type", str, "GENERIC"),
        metadata=cast(JsonObject, metadata),
        lawful_basis=_basis(item),
        purposes=tuple(map(str, _typed(item, "purposes", list, []))),
        expires_at=_typed(item, "expires_at", int, None),
    )
    yield _typed(item, "id", str, None), new, _time(item.get("created_at"))


def _mem0(item: _Object, user_id: str | None) -> _Found:
    """Read one result of mem0's get_all or of its export."""
    metadata = dict(_typed(item, "metadata", dict, {}))
    metadata |= {name: item[name] for name in _MEM0_EXTRAS if item.get(name) not in (None, [], "")}
    new = NewMemory(
        _text(item),
        user_id=_typed(item, "user_id", str, user_id),
        metadata=cast(JsonObject, metadata),
        expires_at=_end_of(item.get("expiration_date")),
    )
    yield _typed(item, "id", str, None), new, _time(item.get("created_at"))


def _mcp(item: _Object, user_id: str | None) -> _Found:
    """Read an entity of the knowledge graph, a memory for each observation, or a relation as one."""
    kind = item.get("type")
    if kind == "relation":
        named = [_typed(item, part, str, "") for part in ("from", "relationType", "to")]
        if not all(named):
            raise NotAMemory("a relation without from, to or relationType")
        text = " ".join([named[0], named[1].replace("_", " "), named[2]])
        metadata: JsonObject = {"from": named[0], "relation_type": named[1], "to": named[2]}
        yield None, NewMemory(text, user_id=user_id, metadata=metadata), None
        return
    name = _typed(item, "name", str, "")
    if kind != "entity" or not name:
        raise NotAMemory("neither an entity nor a relation")
    about: JsonObject = {"entity": name, "entity_type": _typed(item, "entityType", str, "")}
    observations = [
        one for one in _typed(item, "observations", list, []) if isinstance(one, str) and one.strip()
    ]
    if not observations:
        raise NotAMemory("an entity without observations says nothing to remember")
    for one in observations:
        yield None, NewMemory(f"{name}: {one}", user_id=user_id, metadata=about), None


_READERS: Final[Mapping[Format, _Reader]] = {Format.LINES: _own, Format.MCP: _mcp}


def _text(item: _Object) -> str:
    found = next((item[name] for name in _TEXTS if isinstance(item.get(name), str)), "")
    if not found.strip():
        raise NotAMemory("without a text")
    return found


def _typed(item: _Object, name: str, kind: type[_T], default: Any) -> Any:
    value = item.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise NotAMemory("a field has another type than it should")
    return value


def _decoded(text: str) -> object:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise NotAMemory("metadata_text is not JSON") from None
    if not isinstance(value, dict):
        raise NotAMemory("metadata_text is not an object")
    return cast(object, value)


def _basis(item: _Object) -> LawfulBasis:
    try:
        return LawfulBasis(item.get("lawful_basis") or LawfulBasis.NOT_RECORDED)
    except ValueError:
        raise NotAMemory("lawful_basis is none of the documented ones") from None


def _time(value: object) -> int | None:
    """Return when a memory was made, as the file says; None where it does not, or in no way we know."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 1 << 40 else None
    if not isinstance(value, str):
        return None
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        return None
    return int((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp())


def _end_of(value: object) -> int | None:
    """Return the second after a day; a memory that expires on it is kept through it."""
    began = _time(value)
    return began + _DAY if began is not None else None
