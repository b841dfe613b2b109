"""One Chromium for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

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
