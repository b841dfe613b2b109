"""The export as a page that a person reads: no script, nothing fetched. docs/spec/export.md §4."""

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...model import ExportText, Json, JsonObject
from . import phrases, wording
from .phrases import day, moment, said

if TYPE_CHECKING:
    from .snapshot import Snapshot
    from .writing import Recipient

# Control characters, and those that turn the direction of text around.
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNNAMED: Final = (None, "GENERIC")
_NOT_STATED: Final = "Not stated here. Ask the operator."

_SECTIONS: Final = (
    ("memories", "Memories"),
    ("access", "Who had access"),
    ("elsewhere", "Made elsewhere"),
    ("erased", "Erased"),
    ("consent", "Consent"),
    ("processing", "How it is used"),
    ("rights", "Your rights"),
    ("check", "Check this copy"),
)
_PROCESSING: Final = (
    (ExportText.PURPOSES, "What it is used for"),
    (ExportText.RETENTION, "How long it is kept"),
    (ExportText.AUTOMATED_DECISIONS, "Automated decisions"),
    (ExportText.PROCESSORS, "Companies that process it for us"),
    (ExportText.TRANSFERS, "Transfers to other countries"),
)
_RIGHTS: Final = ((ExportText.RIGHTS, "Your rights"), (ExportText.COMPLAINT, "Complaints"))


@cache
def _style() -> tuple[str, str]:
    """Return the style, and the policy under which nothing but this style has any effect."""
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return style, f"default-src 'none'; style-src 'sha256-{digest}'"


def shown(text: object) -> str:
    """Return any text so that it is shown and means nothing: markup and control characters become visible."""
    visible = _UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", str(text))
    return html.escape(visible)


def head(snapshot: "Snapshot") -> bytes:
    """Return the page up to the memories."""
    header, texts = snapshot.header, snapshot.tenant.policies.texts
    who = texts.get(ExportText.CONTROLLER) or f"the operator of this service ({snapshot.tenant.label})"
    subject = f"<bdi>{shown(snapshot.wanted.user_id)}</bdi>"
    tiles = _tiles(
        (len(snapshot.ids), "memories kept"),
        (len(snapshot.artifacts), "things made from them elsewhere"),
        (len(snapshot.tombstones), "memories erased"),
    )
    contact = texts.get(ExportText.CONTACT)
    pending = header["erasure_pending_count"]
    style, rules = _style()
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(rules)}">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>Your data</title><style>{style}</style></head><body><main>",
            "<h1>What is remembered about you</h1>",
            f"<p>This is a copy of the personal data that {shown(who)} keeps about "
            f"<strong>{subject}</strong> in its memory store, as it was on {moment(header['generated_at'])}. "
            "It answers Articles 15 and 20 of the General Data Protection Regulation.</p>",
            f"<p>Questions: {shown(contact)}</p>" if contact else "",
            tiles,
            "<nav>" + "".join(f'<a href="#{anchor}">{title}</a>' for anchor, title in _SECTIONS) + "</nav>",
            f'<p class="flag">{pending} more are being erased at this moment.</p>' if pending else "",
            '<h2 id="memories">Memories</h2>',
            "" if snapshot.ids else "<p>No memory about you is kept.</p>",
        ]
    ).encode()


def memory(entry: JsonObject) -> bytes:
    """Return one memory."""
    state = entry["state"]
    assert isinstance(state, dict), "we wrote it"  # noqa: S101
    facts = [
        ("Kept since", day(entry["created_at"])),
        ("Where from", _origin(entry)),
        ("Legal basis", said(phrases.BASES, entry["lawful_basis"])),
        ("Used for", _words(entry["purposes"]) or "no purpose recorded"),
        ("Kept until", day(state["expires_at"]) or "no end date"),
        ("Category", shown(entry["semantic_type"]) if entry["semantic_type"] not in _UNNAMED else ""),
    ]
    attached = entry.get("metadata_text") or (
        wording.json_text(entry["metadata"]) if entry["metadata"] else ""
    )
    if attached:
        facts.append(("Attached", f"<code>{shown(attached)}</code>"))
    reference = f'<dt class="ref">Reference</dt><dd class="ref"><code>{shown(entry["memory_id"])}</code></dd>'
    flags = "".join(f'<span class="flag">{shown(one)}</span>' for one in _flags(entry, state))
    return f"<article>{_text(entry)}{flags}<dl>{_defined(facts)}{reference}</dl></article>\n".encode()


def rest(snapshot: "Snapshot", recipients: Mapping[str, "Recipient"], latest: Iterable[JsonObject]) -> bytes:
    """Return the page after the memories."""
    parts = [
        '<h2 id="access">Who had access</h2>',
        _access(recipients, list(latest)),
        '<h2 id="elsewhere">Made from your memories, kept elsewhere</h2>',
        _elsewhere(snapshot.artifacts),
        '<h2 id="erased">Erased</h2>',
        _erased(snapshot),
        '<h2 id="consent">Consent</h2>',
        _consents(snapshot.header["consents"]),
        '<h2 id="processing">How it is used</h2>',
        *(_stated(snapshot, name, title) for name, title in _PROCESSING),
        '<h2 id="rights">Your rights</h2>',
        *(_stated(snapshot, name, title) for name, title in _RIGHTS),
        '<h2 id="check">Check this copy</h2>',
        _check(snapshot),
        "</main></body></html>\n",
    ]
    return "\n".join(parts).encode()


def _text(entry: JsonObject) -> str:
    if entry["text"] is not None:
        return f'<p class="text" dir="auto">{shown(entry["text"])}</p>'
    if entry["redacted"] is not None:
        return f'<p class="text none">{shown(said(phrases.REDACTIONS, entry["redacted"]))}</p>'
    return '<p class="text none">The words can not be shown.</p>'


def _origin(entry: JsonObject) -> str:
    told = said(phrases.SOURCES, entry["source_kind"])
    origin = entry["origin"]
    if isinstance(origin, dict):
        since = f", there since {day(origin['created_at'])}" if origin["created_at"] else ""
        told += f" ({said({}, origin['format'])}{since})"
    return shown(told)


def _flags(entry: JsonObject, state: Mapping[str, Json]) -> list[str]:
    grounds = state["restricted"]
    told = (
        [f"Not in use: {said(phrases.GROUNDS, one)}." for one in grounds] if isinstance(grounds, list) else []
    )
    words = {
        "consent": {"invalid": "Not in use: the consent it rests on is missing or withdrawn."},
        "expired": {"True": "Not in use: its end date has passed; it is about to be erased."},
        "preserved_for_legal_reasons": {
            "True": "Kept by law: it can not be erased at present, because it must be preserved (Art. 17(3))."
        },
        "readable": {
            "erased_meanwhile": "It was erased while this copy was made.",
            "integrity_error": "Its stored form is damaged, so its words can not be shown.",
        },
    }
    told += [words[name][str(state[name])] for name in words if str(state[name]) in words[name]]
    if entry["about_others"]:
        told.append("It is about other people too.")
    return told


def _access(recipients: Mapping[str, "Recipient"], latest: list[JsonObject]) -> str:
    if not recipients:
        return "<p>No access to memories about you is on record.</p>"
    rows = [
        (
            f"{shown(one.name or said(phrases.RECIPIENTS, one.kind))}<br><code>{shown(ref)}</code>",
            str(one.access_count),
            day(one.first_at),
            day(one.last_at),
            shown(", ".join(said(phrases.VERBS, verb) for verb in sorted(one.verbs))),
        )
        for ref, one in sorted(recipients.items())
    ]
    last = [
        (
            moment(one["at"]),
            shown(one["recipient_name"] or said(phrases.RECIPIENTS, one["recipient_kind"])),
            shown(said(phrases.VERBS, one["verb"])),
            str(one["memory_count"]),
            shown(said({}, one["purpose_code"])) if one["purpose_code"] else "",
        )
        for one in reversed(latest)
    ]
    return (
        _table(("Who", "Times", "First", "Last", "What"), rows)
        + f'<p class="soft">The latest {len(last)}; all of them are in <code>export.json</code>.</p>'
        + _table(("When", "Who", "What", "Memories", "Purpose"), last)
    )


def _elsewhere(artifacts: list[JsonObject]) -> str:
    if not artifacts:
        return "<p>Nothing outside this store is on record.</p>"
    rows = [
        (
            f"{shown(said({}, one['kind']))}<br><code>{shown(one['id'])}</code>",
            shown(one["location_code"] or "not stated"),
            day(one["created_at"]),
            "in use" if one["recallable"] else "not to be used",
            _asked(one),
        )
        for one in artifacts
    ]
    return _table(("What", "Where", "Since", "State", "Erasure"), rows)


def _asked(artifact: JsonObject) -> str:
    if artifact["acknowledged_at"]:
        return f"confirmed {day(artifact['acknowledged_at'])}"
    return f"asked for {day(artifact['erasure_requested_at'])}" if artifact["erasure_requested_at"] else ""


def _erased(snapshot: "Snapshot") -> str:
    if not snapshot.tombstones:
        return "<p>No memory about you has been erased so far.</p>"
    rows = [
        (moment(one.erased_at), shown(said(phrases.CAUSES, one.cause.value)), f"<code>{one.memory_id}</code>")
        for one in sorted(snapshot.tombstones, key=lambda stone: stone.erased_at)
    ]
    return _table(("When", "Why", "Reference"), rows)


def _consents(records: Json) -> str:
    rows = [
        (
            moment(one["at"]),
            shown(said({}, one["purpose"])),
            shown(said(phrases.ACTIONS, one["action"])),
            shown(one["policy_version"] or ""),
        )
        for one in (records if isinstance(records, list) else [])
        if isinstance(one, dict)
    ]
    return _table(("When", "For", "Consent", "Terms"), rows) if rows else "<p>No consent is on record.</p>"


def _stated(snapshot: "Snapshot", name: ExportText, title: str) -> str:
    processing = snapshot.header["processing"]
    assert isinstance(processing, dict), "we wrote it"  # noqa: S101
    told = processing[name.value]
    if told == wording.NONE_DECLARED:
        told = "The operator has declared none."
    said_here = (
        f'<p class="text" dir="auto">{shown(told)}</p>' if told else f'<p class="soft">{_NOT_STATED}</p>'
    )
    return f'<section class="box"><h3>{title}</h3>{said_here}</section>'


def _check(snapshot: "Snapshot") -> str:
    return (
        f"<p>Reference of this copy: <code>{shown(snapshot.header['export_id'])}</code>. The file "
        "<code>witness.json</code> beside this page is a signed statement of what this package holds. "
        "Anyone can check that nothing in it is missing, added or altered, without asking us:</p>"
        "<p><code>shomei-memory-verify --witness PACKAGE --pin PUBLIC-KEY</code></p>"
        "<p>The public key is to be had from us by another way than this package. "
        "<code>art20/memories.jsonl</code> holds what you provided in a form that other services can read; "
        "<code>export.json</code> holds everything.</p>"
        '<p class="soft">The signature shows who states this, not that it is complete: it covers one memory '
        "store, at the time above, and says nothing of copies with others or of what could be inferred from "
        "other records.</p>"
    )


def _tiles(*tiles: tuple[int, str]) -> str:
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile"><b>{number:,}</b>{title}</div>' for number, title in tiles)
        + "</div>"
    )


def _defined(facts: Iterable[tuple[str, str]]) -> str:
    return "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts if value)


def _table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head_row = "".join(f"<th>{name}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head_row}</tr>{body}</table></div>'


def _words(codes: Json) -> str:
    return shown(", ".join(said({}, one) for one in codes)) if isinstance(codes, list) else ""
