"""The Markdown of a certificate as one printable HTML file. docs/spec/receipt.md §8."""

from __future__ import annotations

import re
from html import escape

# One A4 sheet for every schema, legible without colour. Fonts are the reader's own; these have one width
# everywhere, so that what fits on one sheet here fits there.
_STYLE = (
    "@page{size:A4;margin:13mm 16mm}"
    'body{font:11pt/1.45 "Times New Roman","Liberation Serif",Times,serif;max-width:45rem;'
    "margin:2rem auto;padding:0 1rem;color:#000;background:#fff}"
    "h1{font-size:1.6em;line-height:1.2;margin:0 0 .6em;padding-bottom:.25em;border-bottom:3px double #000}"
    "h2{font-size:1.1em;margin:1.3em 0 .4em}"
    "p,ul,pre,blockquote,aside{margin:.5em 0}"
    "h1+p,blockquote,aside{padding:.5em .8em;border:1px solid #000}"
    "h1+p{border-width:2px}"
    "blockquote{border-left-width:.5em}"
    "aside{border-style:dashed;margin-bottom:1.2em}"
    "ul{padding-left:1.2em}"
    "code,pre{font:.85em/1.4 ui-monospace,Consolas,Menlo,monospace;overflow-wrap:anywhere}"
    "pre{white-space:pre-wrap}"
    "dl{display:grid;grid-template-columns:fit-content(40%) minmax(0,1fr);gap:.15em 1em;margin:.5em 0;"
    "font-size:.85em}"
    "dt,dd{margin:0;overflow-wrap:anywhere}"
    "dt{color:#444}"
    "hr{border:0;border-top:1px solid #000;margin:.8em 0}"
    "@media print{"
    "body{font-size:9pt;line-height:1.3;max-width:none;margin:0;padding:0}"
    "h2{margin:.65em 0 .2em;break-after:avoid}"
    "h1,p,ul,pre,blockquote,dl,hr{margin-top:.3em;margin-bottom:.3em}"
    "h1+p,blockquote,aside{padding:.3em .8em}"
    "li,p,blockquote{break-inside:avoid}"
    "dl{font-size:7.5pt;line-height:1.25;gap:.05em 1em}"
    "}"
)

# Nothing on the page may load or run, whatever it says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_INLINE = re.compile(r"`([^`]*)`|\*\*([^*]+)\*\*")
_HEADING = re.compile(r"(#{1,2}) (.*)")
# A list item that is a name and its value, the name a code span or one of the appendix.
_FIELD = re.compile(r"- (`[^`]*`|[a-z_]+(?: \(not signed\))?): (.*)")


def to_html(markdown: str, *, operator_note: str | None = None) -> str:
    """Return a page of `render` as a standalone HTML document.

    An operator's note stands apart, marked as theirs. Nothing in either input can become markup.
    """
    lines = markdown.split("\n")
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
            f"<title>{escape(_title(lines))}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            *note,
            *_blocks(lines),
            "</body>",
            "</html>",
            "",
        ]
    )


def _title(lines: list[str]) -> str:
    """Return the page's heading: printers and file dialogs show it."""
    return lines[0].removeprefix("# ") if lines[0].startswith("# ") else "Receipt"


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
    if _FIELD.fullmatch(line):
        return "dl"
    return "ul" if line.startswith("- ") else ""


def _line(line: str, open_tag: str) -> list[str]:
    if line == "```" or not line:
        return []
    if open_tag == "pre":
        return [escape(line)]
    field = _FIELD.fullmatch(line)
    if field:
        return [f"<dt>{_inline(field[1])}</dt><dd>{_inline(field[2])}</dd>"]
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
