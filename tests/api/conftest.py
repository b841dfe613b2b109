"""One engine on disk, two tenants, and the application over it: in process and on a socket."""

from collections.abc import Iterator

import pytest

from tests.api.house import House, Live, open_house, serve


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("house")) as opened:
        yield opened


@pytest.fixture(scope="module")
def live(house: House) -> Iterator[Live]:
    with serve(house) as served:
        yield served
