"""One Chromium for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.webpage.chromium import MISSING, Chromium, find
from web.build import PAGE


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """Return a running browser, or skip saying that there is none."""
    program = find()
    if program is None:
        pytest.skip(MISSING)
    with Chromium(program, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(chromium: Chromium) -> Chromium:
    """Return the browser with the built page freshly opened from its file, ready or unable."""
    chromium.open(PAGE.as_uri())
    chromium.run("ready")
    return chromium


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
