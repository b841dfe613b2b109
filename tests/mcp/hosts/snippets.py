"""The snippets of docs/hosts.md, so that what is shown is what is run."""

import re

from tests.mcp.hosts.catalogue import ROOT

DOCUMENT = ROOT / "docs" / "hosts.md"
_BLOCK = re.compile(r"<!-- host: ([a-z0-9-]+) -->\n+```(\w+)\n(.*?)```", re.DOTALL)


def snippets() -> dict[str, tuple[str, str]]:
    """Return every marked snippet by its host: its language and its text."""
    return {name: (language, text) for name, language, text in _BLOCK.findall(DOCUMENT.read_text())}


def snippet_of(name: str) -> str | None:
    """Return one host's snippet, if the document shows one."""
    found = snippets().get(name)
    return found[1] if found else None
