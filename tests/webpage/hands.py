"""What a person does with the page: types, chooses, drops, presses, looks."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from tests.webpage.chromium import Chromium


def shown(browser: Chromium, element: str) -> bool:
    """Tell whether an element can be seen."""
    return bool(browser.run(f"at({element!r}).checkVisibility()"))


def type_into(browser: Chromium, element: str, text: str) -> None:
    """Type or paste into a field, as a person would."""
    browser.run(f"at({element!r}).focus()")
    browser.call("Input.insertText", text=text)


def submit(browser: Chromium) -> str:
    """Press the button and return what the page then shows for it: a sheet, or what is missing."""
    browser.run("at('check').click()")
    return answer_of(browser)


def answer_of(browser: Chromium) -> str:
    """Wait for what the page says to a question."""
    said = browser.run(
        "new Promise(done => (function look() {"
        "  const said = at('missing').textContent || at('sheet').innerText;"
        "  if (!at('unable').hidden) done('unable');"
        "  if (said) done(said); else setTimeout(look, 5);"
        "})())"
    )
    return str(said)


def file_of(folder: Path, receipt: str | bytes, name: str = "receipt.json") -> Path:
    """Write a receipt where a person would have it."""
    path = folder / name
    path.write_bytes(receipt if isinstance(receipt, bytes) else receipt.encode())
    return path


def choose(browser: Chromium, file: Path) -> None:
    """Choose a file in the form, and wait until it is read."""
    root = cast("dict[str, object]", browser.call("DOM.getDocument")["root"])
    node = browser.call("DOM.querySelector", nodeId=root["nodeId"], selector="#file")["nodeId"]
    browser.call("DOM.setFileInputFiles", files=[str(file)], nodeId=node)
    wait_until_held(browser)


def drop(browser: Chromium, file: Path, on: str) -> None:
    """Drop a file on an element, and wait until it is read."""
    drag(browser, on, {"items": [], "files": [str(file)], "dragOperationsMask": 1})
    wait_until_held(browser)


def drag(browser: Chromium, on: str, data: dict[str, object]) -> None:
    """Drag something to the middle of an element and let it fall."""
    answer = browser.run(
        "(({x, y, width, height}) => [x + width / 2, y + height / 2])"
        f"(document.querySelector({on!r}).getBoundingClientRect())"
    )
    x, y = cast("tuple[float, float]", answer)
    for kind in ("dragEnter", "dragOver", "drop"):
        browser.call("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)


def wait_until_held(browser: Chromium) -> None:
    """Wait until a file has been read."""
    browser.run("new Promise(done => (function look() { held ? done() : setTimeout(look, 5); })())")
