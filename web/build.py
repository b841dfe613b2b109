"""Build shomei-verify.html: the verifier as one file for people without Python. Run by scripts/webpage."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from pathlib import Path

from web.translate import constants, literal, module

HERE = Path(__file__).parent
PAGE = HERE / "shomei-verify.html"
_PYTHON = HERE.parent / "packages" / "shomei_memory_verify"

# What exists once, in Python, and is named alike on both sides.
_CONSTANTS = {
    "text.py": ("MAX_BYTES", "MAX_DEPTH", "_EXPONENT_FORM"),
    "verify.py": ("MALFORMED", "PUBLIC_KEY_MISMATCH", "SIGNATURE_OR_HASH_INVALID", "OK_UNPINNED", "OK"),
    "envelope.py": ("_LABELS",),
    "fields.py": ("_NOT_PLAIN", "_LONGEST_SHOWN", "_LONGEST_LIST", "_LAST_SECOND"),
    "page.py": ("_INLINE", "_HEADING", "_FIELD"),
}
_BEFORE = ("text", "canonical", "signature", "verdict", "fields")
_AFTER = ("paper", "known", "form")

# These parts are written by hand in JavaScript: the one waits for the browser, the others are not needed.
_NOT_TRANSLATED = {"render", "_held_to", "_hash_of"}


def page() -> str:
    """Return the page: nothing in it is fetched, and nothing but its own script and style may run.

    Raises Untranslatable when the wording cannot be translated.
    """
    script, style = _script(), _style()
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_source(script)}",
            f"style-src {_source(style)}",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )
    text = (HERE / "page.html").read_text("utf-8")
    parts = {"@POLICY@": escape(policy), "@STYLE@": style, "@SCRIPT@": script}
    for mark, part in parts.items():
        if text.count(mark) != 1 or "</" in part:
            raise ValueError(f"{mark} is not there once, or what takes its place would end its element")
        text = text.replace(mark, part)
    return text


def _script() -> str:
    wording = [
        module((_PYTHON / "statements.py").read_text("utf-8")),
        module((_PYTHON / "certificate.py").read_text("utf-8"), without=_NOT_TRANSLATED),
    ]
    parts = [
        '"use strict";\n',
        "// --- from the Python package\n",
        *(constants((_PYTHON / name).read_text("utf-8"), names) for name, names in _CONSTANTS.items()),
        *map(_part, _BEFORE),
        "// --- from statements.py and certificate.py\n",
        *wording,
        *map(_part, _AFTER),
    ]
    return "\n" + "\n".join(parts)


def _part(name: str) -> str:
    return f"// --- {name}.js\n" + (HERE / "verifier" / f"{name}.js").read_text("utf-8")


def _style() -> str:
    style = literal((_PYTHON / "page.py").read_text("utf-8"), "_STYLE")
    return f"\n{style}\n" + (HERE / "page.css").read_text("utf-8")


def _source(text: str) -> str:
    """Return a text's hash as a policy writes it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8", newline="\n")
