"""Odd Authorization headers, on a real socket (DEV-33, T-34)."""

import pytest

from tests.api.house import House, Live


def asked(live: Live, *headers: bytes, target: str = "/v1/signer") -> int:
    answer = live.ask("GET", target, *headers)
    if answer.status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json["code"] == "unauthenticated"
    return answer.status


@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER", b"bEaReR"])
def test_the_scheme_is_case_insensitive(house: House, live: Live, scheme: bytes) -> None:
    assert asked(live, b"Authorization: " + scheme + b" " + house.data.encode()) == 200


def test_space_around_a_token_is_no_part_of_it(house: House, live: Live) -> None:
    token = house.data.encode()
    assert asked(live, b"Authorization: Bearer   " + token) == 200
    assert asked(live, b"Authorization: Bearer " + token + b"  ") == 200
    assert asked(live, b"AUTHORIZATION: Bearer " + token) == 200


def odd(token: bytes) -> list[bytes]:
    return [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer  ",
        token,
        b"Bearer" + token,
        b"Bearer\t" + token,
        b"Basic " + token,
        b"Token " + token,
        b"Bearer " + token + b"\xe9",
        b"Bearer \xe9" + token,
        b"Bearer " + token + b" x",
        b"Bearer " + token + b",Bearer " + token,
        b"Bearer " + token.upper(),
        b"Bearer " + token + token,
        b"Bearer " + b"A" * 65536,
        b'Bearer "' + token + b'"',
    ]


@pytest.mark.parametrize("index", range(len(odd(b""))))
def test_anything_else_is_401(house: House, live: Live, index: int) -> None:
    assert asked(live, b"Authorization: " + odd(house.data.encode())[index]) == 401


def test_two_headers_are_refused_even_when_both_are_genuine(house: House, live: Live) -> None:
    genuine = b"Authorization: Bearer " + house.data.encode()
    assert asked(live, genuine, genuine) == 401
    assert asked(live, b"Authorization: Bearer x", genuine) == 401


@pytest.mark.parametrize("name", ["token", "api_key", "access_token", "key"])
def test_a_token_in_the_query_is_no_token(house: House, live: Live, name: str) -> None:
    assert asked(live, target=f"/v1/signer?{name}={house.data}") == 401


def test_other_headers_do_not_choose_the_tenant(house: House, live: Live) -> None:
    mine = house.add("only of this tenant")
    theirs = live.ask(
        "GET",
        f"/v1/memories/{mine}",
        b"X-Tenant-Id: default",
        b"X-Forwarded-User: default",
        b"X-HTTP-Method-Override: DELETE",
        key=house.other,
    )
    assert theirs.status == 404
    assert (
        live.ask("GET", f"/v1/memories/{mine}", b"X-HTTP-Method-Override: DELETE", key=house.admin).status
        == 200
    )
    assert live.ask("GET", f"/v1/memories/{mine}", key=house.admin).status == 200


def test_401_says_the_same_to_everybody(house: House) -> None:
    details = {
        house.call("GET", "/v1/signer", key=key).json()["detail"]
        for key in (None, "x", house.revoked, "shm_" + 16 * "0" + "_" + 43 * "A")
    }
    assert len(details) == 1
