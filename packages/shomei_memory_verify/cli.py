"""shomei-memory-verify: the verdict on a receipt, as an exit code. docs/spec/receipt.md §9."""

from __future__ import annotations

import argparse
import os
import sys
from json.encoder import JSONEncoder
from typing import TYPE_CHECKING, cast

from shomei_memory_verify.text import MAX_BYTES
from shomei_memory_verify.verify import OK_UNPINNED, VerifyResult, verify_signed_receipt

if TYPE_CHECKING:
    from collections.abc import Sequence

AUTHENTICATED = 0
REFUSED = 1
USAGE = 2  # argparse's own
UNPINNED = 3
INTERRUPTED = 130  # as a shell reports SIGINT

_UNPINNED_NOTE = (
    "note: valid, but it proves no authorship: anyone can sign with a key of their own. Give --pin with the "
    "signer's public key, obtained by another way."
)
_WIDTH = 98
_EPILOG = "exit status: 0 authenticated, 1 refused, 2 usage, 3 valid but no pin was given"


class _OfOneWidth(argparse.HelpFormatter):
    """Asking for the terminal's width would load compressors at each start, also of a verdict."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_WIDTH)


class _Arguments(argparse.Namespace):
    receipts: list[str]
    pins: list[str]
    form: str
    batch: bool
    partial: bool
    witness: str | None


def main(argv: Sequence[str] | None = None) -> int:
    """Verify a receipt, a set of them or an export; print the verdict, return the exit status."""
    parser = _parser()
    arguments = parser.parse_args(argv, _Arguments())
    _require_sense(parser, arguments)
    try:
        if arguments.witness is not None:
            return _check_package(parser, arguments, arguments.witness)
        return _audit(arguments) if arguments.batch else _verify(arguments)
    except OSError as exc:
        parser.error(f"a receipt cannot be read: {exc.strerror}")
    except KeyboardInterrupt:
        return INTERRUPTED


def _require_sense(parser: argparse.ArgumentParser, arguments: _Arguments) -> None:
    if any("\0" in name for name in (*arguments.receipts, arguments.witness or "")):
        parser.error("a receipt cannot be read: no file can have that name")
    if arguments.witness is not None:
        if arguments.batch or arguments.form in {"render", "html"}:
            parser.error("--witness prints a verdict or --json; render the witness itself for a page")
    elif not arguments.receipts:
        parser.error("the following arguments are required: RECEIPT")
    if arguments.batch and arguments.form in {"render", "html"}:
        parser.error("--batch prints a summary or --json, no pages")
    if not arguments.batch and (len(arguments.receipts) > 1 or len(arguments.pins) > 1 or arguments.partial):
        parser.error("several receipts, several pins and --partial need --batch")


def _verify(arguments: _Arguments) -> int:
    data = _read(arguments.receipts[0])
    pin = arguments.pins[0] if arguments.pins else None
    result = verify_signed_receipt(data, expected_public_key_hex=pin)
    _say(_WRITERS[arguments.form](result))
    if result.reason == OK_UNPINNED:
        print(_UNPINNED_NOTE, file=sys.stderr)
    return status_of(result)


def _audit(arguments: _Arguments) -> int:
    from shomei_memory_verify.batch import as_lines, audit

    report = audit(arguments.receipts, pins=arguments.pins, partial=arguments.partial)
    _say(_json(report) if arguments.form == "json" else as_lines(report))
    return cast("int", report["status"])


def _check_package(parser: argparse.ArgumentParser, arguments: _Arguments, package: str) -> int:
    from shomei_memory_verify.witness import as_lines, as_report, check
    from shomei_memory_verify.witness_files import NotAPackage

    given = _read(arguments.receipts[0]) if arguments.receipts else None
    pin = arguments.pins[0] if arguments.pins else None
    try:
        found = check(package, pin=pin, witness=given)
    except NotAPackage as exc:
        parser.error(str(exc))
    if arguments.form == "json":
        _say(_json(_verdict(found.witness) | as_report(found)))
    else:
        _say(_as_line(found.witness) + as_lines(found))
    if found.witness.reason == OK_UNPINNED:
        print(_UNPINNED_NOTE, file=sys.stderr)
    return status_of(found.witness) if found.is_complete else REFUSED


def status_of(result: VerifyResult) -> int:
    """Return the exit status of a verdict."""
    if result.authenticated:
        return AUTHENTICATED
    return UNPINNED if result.valid else REFUSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shomei-memory-verify",
        description="Verify signed receipts of governed memory, offline.",
        epilog=_EPILOG,
        formatter_class=_OfOneWidth,
    )
    parser.add_argument(
        "receipts",
        metavar="RECEIPT",
        nargs="*",
        help="file with a receipt's JSON, or - for standard input; with --batch any number of files, .jsonl "
        "files with a receipt a line and folders of them, and - reads lines",
    )
    parser.add_argument(
        "--pin",
        "--expected-public-key",
        metavar="HEX",
        dest="pins",
        action="append",
        help="the signer's ed25519 public key, 64 hex digits, obtained by another way than the receipt; with "
        "--batch also several, when keys were rotated",
    )
    parser.add_argument(
        "--witness",
        metavar="PACKAGE",
        help="check an export (ZIP archive, unpacked folder or JSON answer) against its signed witness; a "
        "RECEIPT that is given counts instead of the witness inside",
    )
    parser.add_argument("--batch", action="store_true", help="verify many receipts and audit their logs")
    parser.add_argument(
        "--partial", action="store_true", help="the set is not the whole log: gaps are no fault"
    )
    forms = parser.add_mutually_exclusive_group()
    for form, purpose in (
        ("render", "print a page to file, in Markdown"),
        ("html", "print the same page as printable HTML"),
        ("json", "print the verdict as JSON"),
    ):
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=purpose)
    parser.set_defaults(form="line", pins=[])
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
    return _json(_verdict(result))


def _verdict(result: VerifyResult) -> dict[str, object]:
    return {
        "valid": result.valid,
        "authenticated": result.authenticated,
        "reason": result.reason,
        "public_key_hex": result.public_key_hex,
        "schema": result.schema,
    }


def _json(value: dict[str, object]) -> str:
    return JSONEncoder(indent=2).encode(value).replace("\x7f", "\\u007f") + "\n"


def _as_markdown(result: VerifyResult) -> str:
    from shomei_memory_verify.certificate import render

    return render(result)


def _as_html(result: VerifyResult) -> str:
    from shomei_memory_verify.certificate import render, to_html

    return to_html(render(result))


_WRITERS = {"line": _as_line, "json": _as_json, "render": _as_markdown, "html": _as_html}
