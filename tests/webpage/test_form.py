"""The form in a person's hands: what it takes, what it refuses to guess, and what it never does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from shomei_memory_verify import render
from tests.verify import corpus
from tests.verify.examples import EXAMPLES
from tests.webpage.chromium import Chromium
from tests.webpage.hands import answer_of, choose, drag, drop, file_of, shown, submit, type_into
from web.build import PAGE

RECEIPT = corpus.text_of(corpus.seal(EXAMPLES["subject_closure_partial"]))


def test_a_pasted_receipt_with_its_pin(page: Chromium) -> None:
    assert shown(page, "form")
    assert not shown(page, "unable")
    assert not shown(page, "sheet")
    type_into(page, "text", f" {RECEIPT}\n")
    type_into(page, "pin", f" {corpus.PIN.upper()} ")
    assert submit(page).startswith("Certificate: Subject closure\n")
    assert page.run("document.title") == "Certificate: Subject closure"
    assert not shown(page, "form")
    assert page.run("document.activeElement.id") == "sheet"
    assert "by that computer's clock" in str(page.run("at('sheet').lastChild.textContent"))


@pytest.mark.parametrize("how", ["choose", "drop", "drop beside the form"])
def test_a_file_is_judged_by_its_bytes(page: Chromium, tmp_path: Path, how: str) -> None:
    type_into(page, "text", "typed before")
    file = file_of(tmp_path, RECEIPT, "a`<b>\u202e.json")
    if how == "choose":
        choose(page, file)
    else:
        drop(page, file, "#drop" if how == "drop" else "h1")
    assert page.run("document.URL") == PAGE.as_uri()
    assert page.run("at('text').value") == ""
    held = page.run("at('held').textContent")
    assert held == f"File: a\\u0060\\u003cb\\u003e\\u202e.json, {len(RECEIPT)} bytes"
    type_into(page, "pin", corpus.PIN)
    assert submit(page).startswith("Certificate: Subject closure\n")


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"\xef\xbb\xbf" + RECEIPT.encode(), "not JSON"),
        (RECEIPT.encode("utf-16"), "not UTF-8"),
        (RECEIPT.encode() + b" " * 65_536, "larger than 65536 bytes"),
        (b"", "not JSON"),
        (b"\xff" * 3_000_000, "larger than 65536 bytes"),
    ],
    ids=["mark", "utf16", "large", "empty", "huge"],
)
def test_a_file_that_is_no_receipt(page: Chromium, tmp_path: Path, data: bytes, detail: str) -> None:
    choose(page, file_of(tmp_path, data))
    type_into(page, "pin", corpus.PIN)
    said = submit(page)
    assert said.startswith("No valid receipt\n")
    assert f"malformed: {detail}" in said


def test_a_text_takes_the_place_of_a_file_and_a_file_that_of_a_text(page: Chromium, tmp_path: Path) -> None:
    choose(page, file_of(tmp_path, "{}"))
    type_into(page, "text", RECEIPT)
    assert page.run("at('held').textContent") == ""
    assert page.run("at('file').files.length") == 0
    type_into(page, "pin", corpus.PIN)
    assert submit(page).startswith("Certificate: ")


def test_without_a_pin_it_asks_and_then_certifies_nothing(page: Chromium) -> None:
    assert submit(page) == "There is no receipt yet."
    type_into(page, "text", RECEIPT)
    assert submit(page) == "There is no pin yet; if you have none, say so above."
    assert not shown(page, "sheet")
    page.run("at('unpinned').click()")
    said = submit(page)
    assert said.startswith("Unattributed receipt: Subject closure\n")
    assert "Certificate" not in said


def test_a_pin_and_none_at_once_is_no_question(page: Chromium) -> None:
    type_into(page, "text", RECEIPT)
    type_into(page, "pin", corpus.PIN)
    page.run("at('unpinned').click()")
    assert submit(page) == "There is a pin, and you say there is none."
    page.run("at('unpinned').click()")
    assert submit(page).startswith("Certificate: ")


@pytest.mark.parametrize("pin", [" ", corpus.STRANGER_PIN, corpus.PIN[:-1], "0x" + corpus.PIN])
def test_a_pin_that_does_not_fit_refuses(page: Chromium, pin: str) -> None:
    type_into(page, "text", RECEIPT)
    type_into(page, "pin", pin)
    odd = bool(pin.strip()) and len(pin) != 64
    assert bool(page.run("at('hint').textContent")) is odd
    said = submit(page)
    assert said.startswith("No valid receipt\n")
    assert "public_key_mismatch" in said
    assert "Subject closure" not in said


def test_another_receipt_starts_afresh(page: Chromium, tmp_path: Path) -> None:
    choose(page, file_of(tmp_path, RECEIPT))
    type_into(page, "pin", corpus.PIN)
    assert submit(page).startswith("Certificate: ")
    page.run("at('again').click()")
    assert not shown(page, "sheet")
    assert page.run("[at('sheet').textContent, at('text').value, at('held').textContent, held]") == [
        "",
        "",
        "",
        None,
    ]
    assert page.run("document.title") == "Check a receipt"
    assert page.run("at('pin').value") == corpus.PIN
    type_into(page, "text", RECEIPT.replace("partial", "complete"))
    assert submit(page).startswith("No valid receipt\n")


def test_a_file_that_cannot_be_read(page: Chromium, tmp_path: Path) -> None:
    choose(page, file_of(tmp_path, RECEIPT))
    refuse = "Promise.reject(new DOMException('', 'NotReadableError'))"
    page.run(f"hold({{ name: 'x', size: 1, slice: () => ({{ arrayBuffer: () => {refuse} }}) }})")
    assert page.run("at('missing').textContent") == "This file cannot be read."
    assert page.run("[held, at('held').textContent]") == [None, ""]


def test_text_can_be_dragged_into_the_form_and_nothing_beside_it(page: Chromium) -> None:
    for on, kind in (("h1", "text/uri-list"), ("#text", "text/plain")):
        item = {"mimeType": kind, "data": "about:blank#dropped"}
        drag(page, on, {"items": [item], "dragOperationsMask": 1})
    page.run("new Promise((done) => setTimeout(done, 100)).then(() => null)")
    assert page.run("document.URL") == PAGE.as_uri()
    assert page.run("at('text').value") == "about:blank#dropped"


def test_one_question_at_a_time(page: Chromium) -> None:
    page.run(
        "void (SubtleCrypto.prototype.digest = ((real) => function (...given) {"
        "  return new Promise((go) => { globalThis.go = go; }).then(() => real.apply(this, given));"
        "})(SubtleCrypto.prototype.digest))"
    )
    type_into(page, "text", RECEIPT)
    type_into(page, "pin", corpus.PIN)
    assert page.run("(at('check').click(), at('check').disabled)") is True
    page.run("void go()")
    assert answer_of(page).startswith("Certificate: ")
    assert page.run("at('check').disabled") is False


def test_it_loads_nothing_and_runs_nothing_else(page: Chromium, tmp_path: Path) -> None:
    choose(page, file_of(tmp_path, RECEIPT))
    type_into(page, "pin", corpus.PIN)
    submit(page)
    requests = [event["params"] for event in page.events if event["method"] == "Network.requestWillBeSent"]
    assert [request["documentURL"] for request in requests if isinstance(request, dict)] == [PAGE.as_uri()]
    complaints = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
    assert [event for event in page.events if event["method"] in complaints] == []
    broken = page.run(
        "new Promise(done => {"
        "  const broken = [];"
        "  const note = (event) => broken.push(event.effectiveDirective);"
        "  document.addEventListener('securitypolicyviolation', note);"
        "  fetch('data:,x').catch(() => 0);"
        "  new Image().src = 'data:,x';"
        "  document.head.append(element('style', 'p{}'));"
        "  try { document.body.innerHTML = '<b>x</b>'; } catch { broken.push('innerHTML'); }"
        "  try { element('script').text = 'broken.push(1)'; } catch { broken.push('script'); }"
        "  setTimeout(() => done(broken.sort()), 200);"
        "})"
    )
    assert {"connect-src", "img-src", "style-src-elem", "innerHTML", "script"} <= set(
        cast("list[str]", broken)
    )


# --- a browser that cannot verify

REFUSE = "async () => { throw new DOMException('', 'NotSupportedError') }"
UNFIT = {
    "no cryptography": "Object.defineProperty(Crypto.prototype, 'subtle', { value: undefined })",
    "no ed25519": f"SubtleCrypto.prototype.importKey = {REFUSE}",
    "accepts all": "SubtleCrypto.prototype.verify = async () => true",
    "accepts none": "SubtleCrypto.prototype.verify = async () => false",
    "wrong hash": "SubtleCrypto.prototype.digest = async () => new ArrayBuffer(32)",
    "old strings": "delete String.prototype.isWellFormed",
    "old arrays": "delete Object.getPrototypeOf(Uint8Array).prototype.toReversed",
}


@pytest.mark.parametrize("why", UNFIT)
def test_a_browser_that_cannot_verify_says_so(chromium: Chromium, why: str) -> None:
    added = chromium.call("Page.addScriptToEvaluateOnNewDocument", source=UNFIT[why])
    chromium.open(PAGE.as_uri())
    chromium.run("ready")
    chromium.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
    assert shown(chromium, "unable")
    assert not shown(chromium, "form")
    assert not shown(chromium, "sheet")


def test_a_browser_without_scripts_says_so(chromium: Chromium) -> None:
    chromium.call("Emulation.setScriptExecutionDisabled", value=True)
    chromium.open(PAGE.as_uri())
    seen = [
        chromium.run(f"document.getElementById('{name}').checkVisibility()") for name in ("unable", "form")
    ]
    chromium.call("Emulation.setScriptExecutionDisabled", value=False)
    assert seen == [True, False]


def test_a_browser_that_fails_later_gives_no_verdict(page: Chromium) -> None:
    type_into(page, "text", RECEIPT)
    type_into(page, "pin", corpus.PIN)
    page.run(
        "void (SubtleCrypto.prototype.verify = async () => { throw new DOMException('', 'OperationError') })"
    )
    assert submit(page) == "unable"
    assert shown(page, "unable")
    assert not shown(page, "form")
    assert not shown(page, "sheet")


def test_the_sheet_says_what_the_package_says(page: Chromium) -> None:
    type_into(page, "text", RECEIPT)
    type_into(page, "pin", corpus.PIN)
    submit(page)
    markdown = render(RECEIPT, expected_public_key_hex=corpus.PIN)
    ours = page.run("[...at('sheet').children].slice(0, -1).map((one) => one.outerHTML)")
    assert ours == page.run(f"blocks({json.dumps(markdown)}).map((one) => one.outerHTML)")
