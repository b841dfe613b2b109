"""shomei-memory-verify: the verdict on a receipt, as an exit code. docs/spec/receipt.md §9."""

from __future__ import annotations

import argparse
import os
import sys
from json.encoder import JSONEncoder
from typing import TYPE_CHECKING

from shomei_memory_verify.text import MAX_BYTES
from shomei_memory_verify.verify import OK_UNPINNED, VerifyResult, verify_signed_receipt

if TYPE_CHECKING:
    from collections.abc import Sequence

AUTHENTICATED = 0
REFUSED = 1
USAGE = 2  # argparse's own
UNPINNED = 3

_UNPINNED_NOTE = (
    "note: valid, but it proves no authorship: anyone can sign with a key of their own. Give --pin with the "
    "signer's public key, obtained by another way."
)
_EPILOG = "exit status: 0 authenticated, 1 refused, 2 usage, 3 valid but no pin was given"


class _Arguments(argparse.Namespace):
    receipt: str
    pin: str | None
    form: str


def main(argv: Sequence[str] | None = None) -> int:
    """Verify one receipt, print the verdict, return the exit status."""
    parser = _parser()
    arguments = parser.parse_args(argv, _Arguments())
    try:
        data = _read(arguments.receipt)
    except (OSError, ValueError) as exc:  # ValueError: a name no file can have
        parser.error(f"the receipt cannot be read: {getattr(exc, 'strerror', 'impossible name')}")
    result = verify_signed_receipt(data, expected_public_key_hex=arguments.pin)
    _say(_WRITERS[arguments.form](result))
    if result.reason == OK_UNPINNED:
        print(_UNPINNED_NOTE, file=sys.stderr)
    return status_of(result)


def status_of(result: VerifyResult) -> int:
    """Return the exit status of a verdict."""
    if result.authenticated:
        return AUTHENTICATED
    return UNPINNED if result.valid else REFUSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shomei-memory-verify",
        description="Verify a signed receipt of governed memory, offline.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "receipt", metavar="RECEIPT", help="file with the receipt's JSON, or - for standard input"
    )
    parser.add_argument(
        "--pin",
        "--expected-public-key",
        metavar="HEX",
        help="the signer's ed25519 public key, 64 hex digits, obtained by another way than the receipt",
    )
    forms = parser.add_mutually_exclusive_group()
    for form, purpose in (
        ("render", "print a page to file, in Markdown"),
        ("html", "print the same page as printable HTML"),
        ("json", "print the verdict as JSON"),
    ):
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=purpose)
    parser.set_defaults(form="line")
    return parser


def _read(name: str) -> bytes:
    """Return the bytes of the receipt, one more than the cap at most: enough to be refused."""
    if name == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with open(name, "rb") as file:
        return file.read(MAX_BYTES + 1)


def _say(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has left; the exit status is still the answer. Nothing is to be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _as_line(result: VerifyResult) -> str:
    # ASCII with escapes, without the quotes: a signed string must not steer a terminal.
    schema = JSONEncoder().encode(result.schema)[1:-1].replace("\x7f", "\\u007f")
    return (
        f"valid={result.valid} authenticated={result.authenticated} reason={result.reason} schema={schema}\n"
    )


def _as_json(result: VerifyResult) -> str:
    shown = {
        "valid": result.valid,
        "authenticated": result.authenticated,
        "reason": result.reason,
        "public_key_hex": result.public_key_hex,
        "schema": result.schema,
    }
    return JSONEncoder(indent=2).encode(shown).replace("\x7f", "\\u007f") + "\n"


def _as_markdown(result: VerifyResult) -> str:
    from shomei_memory_verify.certificate import render

    return render(result)


def _as_html(result: VerifyResult) -> str:
    from shomei_memory_verify.certificate import render, to_html

    return to_html(render(result))


_WRITERS = {"line": _as_line, "json": _as_json, "render": _as_markdown, "html": _as_html}
