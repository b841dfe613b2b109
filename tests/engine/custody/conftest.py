"""A home for custody."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shomei_service.engine.custody import Custody
from tests.engine.custody.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def custody(home: Home) -> Iterator[Custody]:
    """Custody with tenant 1 and rows 256..1279 leased."""
    opened = home.create()
    assert opened.lease_tenant() == 1
    assert opened.lease_rows(1) == range(256, 1280)
    yield opened
    opened.close()
