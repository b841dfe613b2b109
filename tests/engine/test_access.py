"""API keys and tenants: hashed at rest, revoked at once, one tenant each."""

import pytest

from shomei_service.engine.errors import Invalid, NotFound, Unauthenticated
from shomei_service.engine.model import Scope
from shomei_service.engine.verbs import access
from tests.fakes import Home, House


def test_a_key_names_its_tenant_and_scope(house: House) -> None:
    assert house.data.tenant == house.admin.tenant
    assert house.data.scopes == {Scope.DATA}
    assert house.admin.scopes == {Scope.DATA, Scope.ADMIN}
    assert house.admin.actor.startswith("key_")


def test_a_revoked_key_stops_at_once(home: Home) -> None:
    with home.opened() as house:
        key = access.create_key(house.engine, home.tenant, Scope.DATA)
        access.authenticate(house.engine, key.token)
        access.revoke_key(house.engine, home.tenant, key.key_id)
        with pytest.raises(Unauthenticated):
            access.authenticate(house.engine, key.token)
        with pytest.raises(NotFound):
            access.revoke_key(house.engine, home.tenant, key.key_id)


@pytest.mark.parametrize("change", ["", "shm_", "x", "é", "shm_" + "0" * 16 + "_" + "a" * 43])
def test_whatever_is_no_key_gets_one_answer(house: House, change: str) -> None:
    with pytest.raises(Unauthenticated, match="a valid API key is required"):
        access.authenticate(house.engine, change)


def test_a_wrong_secret_under_a_known_id_is_refused(home: Home) -> None:
    with home.opened() as house, pytest.raises(Unauthenticated):
        access.authenticate(house.engine, home.data_token[:-1] + ("A" if home.data_token[-1] != "A" else "B"))


def test_no_secret_lies_in_the_database(home: Home) -> None:
    with home.opened():
        pass
    stored = b"".join(path.read_bytes() for path in home.settings.data.iterdir())
    for token in (home.data_token, home.admin_token):
        assert token.split("_", 2)[2].encode() not in stored


def test_a_key_of_another_tenant_cannot_be_revoked(house: House) -> None:
    stranger = house.stranger()
    with pytest.raises(NotFound):
        access.revoke_key(house.engine, stranger.tenant, house.data.actor.removeprefix("key_"))


@pytest.mark.parametrize("label", ["", "Jane Doe", "a" * 65, "é"])
def test_a_tenant_label_is_a_code(house: House, label: str) -> None:
    with pytest.raises(Invalid):
        access.create_tenant(house.engine, label)
