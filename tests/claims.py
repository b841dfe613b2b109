"""The sentences of a document that say something, and docs/claims.md, which says what each rests on. T-45."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_NO_CLAIM = ("non-claim", "instruction")
_ROW = re.compile(r"^\| (.+?) \| (.+?) \|$", re.MULTILINE)


def sentences(text: str) -> list[str]:
    """Return every sentence; code, headings, comments, pictures and the list of further reading are none."""
    text = text.partition("## Read on")[0]
    text = re.sub(r"^```.*?^```$", "\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "\n", text, flags=re.DOTALL)
    text = re.sub(r"(?<!!)\[([^]!]*)\]\([^)]*\)", r"\1", text)  # a link is its words
    text = re.sub(r"^(#|\[!\[|\|-).*$", "\n", text, flags=re.MULTILINE)
    found: list[str] = []
    for block in re.split(r"\n\s*\n|\n(?=[-|] ?)", text):
        words = " ".join(block.split()).removeprefix("- ")
        if words.startswith("|"):
            words = ": ".join(cell.strip() for cell in words.strip("|").split("|")[::2])
        found += [one for one in re.split(r"(?<=\.) (?=[A-Z`*[])", words) if one.strip()]
    return found


def grounds() -> dict[str, list[str]]:
    """Return what each sentence of docs/claims.md rests on: tests, or one of the two words for none."""
    rows = _ROW.findall((ROOT / "docs" / "claims.md").read_text())
    return {
        sentence: [word.strip("` ") for word in told.split(",")]
        for sentence, told in rows
        if sentence not in {"sentence", "---"}
    }


def is_ground(named: str) -> bool:
    """Say whether this is a test that exists, or a word for a sentence that claims nothing."""
    if named in _NO_CLAIM:
        return True
    path, _, name = named.partition("::")
    return name in _tests_in(ROOT / path)


@cache
def _tests_in(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
