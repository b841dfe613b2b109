"""The Markdown of a certificate as one printable HTML file. docs/spec/receipt.md §8."""

from __future__ import annotations

import re
from html import escape

_STYLE = (
    "body{font:11pt/1.45 Georgia,serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#111}"
    "h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:1.6rem}"
    "code{font:.85em/1.4 ui-monospace,monospace;overflow-wrap:anywhere}"
    "blockquote{margin:1rem 0;padding:.5rem .8rem;border-left:.3rem solid #b00020;color:#b00020}"
    "aside{margin:1rem 0;padding:.5rem .8rem;border:1px solid #999}"
    "@media print{body{margin:0;max-width:none}h2{break-after:avoid}}"
)

# Nothing on the page may load or run, whatever it says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_INLINE = re.compile(r"`([^`]*)`|\*\*([^*]+)\*\*")
_HEADING = re.compile(r"(#{1,2}) (.*)")


def to_html(markdown: str, *, operator_note: str | None = None) -> str:
    """Return a page of `render` as a standalone HTML document.

    An operator's note stands apart, marked as theirs. Nothing in either input can become markup.
    """
    note = (
        [f"<aside>Note by the operator, not verified: {escape(operator_note)}</aside>"]
        if operator_note
        else []
    )
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<title>Receipt</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            *note,
            *_blocks(markdown.split("\n")),
            "</body>",
            "</html>",
            "",
        ]
    )


def _blocks(lines: list[str]) -> list[str]:
    """Translate line by line; a list or a code block is opened and closed around its lines."""
    out: list[str] = []
    open_tag = ""
    for line in lines:
        tag = _tag_of(line, open_tag)
        if tag != open_tag:
            out += [f"</{open_tag}>"] if open_tag else []
            out += [f"<{tag}>"] if tag else []
            open_tag = tag
        out += _line(line, open_tag)
    return [*out, f"</{open_tag}>"] if open_tag else out


def _tag_of(line: str, open_tag: str) -> str:
    """Return the container this line belongs to; a fence opens and closes the code block."""
    if line == "```":
        return "" if open_tag == "pre" else "pre"
    if open_tag == "pre":
        return "pre"
    return "ul" if line.startswith("- ") else ""


def _line(line: str, open_tag: str) -> list[str]:
    if line == "```" or not line:
        return []
    if open_tag == "pre":
        return [escape(line)]
    if open_tag == "ul":
        return [f"<li>{_inline(line[2:])}</li>"]
    if line == "---":
        return ["<hr>"]
    if line.startswith("> "):
        return [f"<blockquote>{_inline(line[2:])}</blockquote>"]
    heading = _HEADING.fullmatch(line)
    if heading:
        level = len(heading[1])
        return [f"<h{level}>{_inline(heading[2])}</h{level}>"]
    return [f"<p>{_inline(line)}</p>"]


def _inline(text: str) -> str:
    return _INLINE.sub(_span, escape(text))


def _span(match: re.Match[str]) -> str:
    if match[1] is not None:
        return f"<code>{match[1]}</code>"
    return f"<strong>{match[2]}</strong>"
