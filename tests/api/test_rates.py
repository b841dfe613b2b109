"""Too much is 429 with a time to come back at, for whoever asks too much and for nobody else (T-34)."""

from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from shomei_service.api import auth
from shomei_service.api.app import create_app
from shomei_service.api.errors import TooOften
from shomei_service.api.lanes import Lane
from shomei_service.api.rates import Pace, Rates
from shomei_service.api.routes import OPERATIONS
from shomei_service.settings import Settings
from tests.api.house import UNKNOWN, House, call


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def pace(rate: float, burst: float, most: int = 4096) -> tuple[Pace, Clock]:
    clock = Clock()
    return Pace(rate, burst=burst, most=most, clock=clock), clock


def spent(pace: Pace, name: str) -> bool:
    if pace.wait(name) > 0:
        return False
    pace.spend(name)
    return True


def test_a_burst_and_then_the_rate() -> None:
    paced, clock = pace(0.5, burst=4)
    assert [spent(paced, "a") for _ in range(6)] == [True] * 4 + [False] * 2
    assert paced.wait("a") == pytest.approx(2)
    clock.now += 1.9
    assert not spent(paced, "a")
    clock.now += 0.1
    assert [spent(paced, "a") for _ in range(2)] == [True, False]
    clock.now += 1_000_000  # patience is not saved up beyond the burst
    assert [spent(paced, "a") for _ in range(5)] == [True] * 4 + [False]


def test_names_do_not_pay_for_each_other() -> None:
    paced, _ = pace(1, burst=1)
    assert [spent(paced, name) for name in "aabb"] == [True, False, True, False]


def test_more_than_is_there_is_owed() -> None:
    paced, clock = pace(10, burst=10)
    paced.spend("a", 30)
    assert paced.wait("a") == pytest.approx(2.1)
    clock.now += 2.1
    assert [spent(paced, "a") for _ in range(2)] == [True, False]


def test_the_least_recent_name_is_forgotten_first() -> None:
    paced, _ = pace(1, burst=1, most=3)
    for name in "abcad":  # b, the least recent of four, goes
        paced.spend(name)
    assert [paced.wait(name) > 0 for name in "abcd"] == [True, False, True, True]
    for name in range(10_000):
        paced.spend(str(name))
    assert sum(paced.wait(str(name)) > 0 for name in range(10_000)) == 3


def limited(house: House, **rates: int) -> FastAPI:
    """The application while its clock stands: however slowly a test asks, it asks all at once."""
    return create_app(house.engine, settings=Settings.model_validate(rates), clock=Clock())


def statuses(house: House, app: FastAPI, times: int, method: str, url: str, **sent: Any) -> list[int]:
    return [call(app, house.portal, method, url, **sent).status_code for _ in range(times)]


def test_too_many_requests_of_a_key(house: House) -> None:
    app = limited(house, rate_requests=2)
    assert statuses(house, app, 2, "GET", "/v1/signer", key=house.data) == [200, 200]
    refused = call(app, house.portal, "GET", "/v1/signer", key=house.data)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert refused.headers["retry-after"] == "1"
    assert refused.json().keys() == {"code", "detail", "request_id"}
    assert statuses(house, app, 1, "GET", "/v1/signer", key=house.other) == [200]
    assert statuses(house, app, 1, "GET", "/healthz") == [200]


def test_each_kind_of_verb_has_its_own_limit(house: House) -> None:
    app = limited(house, rate_adds=1, rate_searches=1, rate_governed=1)
    kinds: tuple[tuple[str, str, object], ...] = (
        ("POST", "/v1/memories", {"messages": "x"}),
        ("POST", "/v1/search", {"query": "x"}),
        ("POST", "/v1/forget", {"user_id": "of nobody"}),
    )
    for method, url, body in kinds:
        assert statuses(house, app, 2, method, url, key=house.admin, body=body) == [200, 429]
    assert statuses(house, app, 3, "GET", "/v1/memories", key=house.admin) == [200] * 3


def test_recall_never_starves_erasing(house: House) -> None:
    memory_id = house.add("erased by a key that searched too much")
    app = limited(house, rate_requests=1, rate_searches=1, rate_adds=1)
    assert statuses(house, app, 2, "POST", "/v1/search", key=house.admin, body={"query": "x"}) == [200, 429]
    assert statuses(house, app, 1, "GET", f"/v1/memories/{memory_id}", key=house.admin) == [429]
    assert statuses(house, app, 1, "DELETE", f"/v1/memories/{memory_id}", key=house.admin) == [200]
    assert statuses(house, app, 1, "POST", "/v1/forget", key=house.admin, body={"user_id": "x"}) == [200]


def test_erasing_never_starves_recall(house: House) -> None:
    app = limited(house, rate_governed=1)
    assert statuses(house, app, 2, "DELETE", f"/v1/memories/{UNKNOWN}", key=house.admin) == [404, 429]
    assert statuses(house, app, 1, "POST", "/v1/search", key=house.admin, body={"query": "x"}) == [200]


def test_a_batch_counts_by_its_memories(house: House) -> None:
    app = limited(house, rate_adds=10)
    batch = {"memories": [{"messages": f"counted {index}"} for index in range(200)]}
    assert statuses(house, app, 1, "POST", "/v1/memories/batch", key=house.data, body=batch) == [200]
    refused = call(app, house.portal, "POST", "/v1/memories", key=house.data, body={"messages": "x"})
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) == 20


def test_429_comes_after_403_and_before_anything_is_read(house: House) -> None:
    app = limited(house, rate_governed=1, rate_adds=1)
    assert statuses(house, app, 3, "POST", "/v1/forget", key=house.data, content=b"{") == [403] * 3
    taken = 0

    async def chunks():
        nonlocal taken
        taken += 1
        yield b"{"

    assert statuses(house, app, 1, "POST", "/v1/memories", key=house.data, content=b"{") == [422]
    assert statuses(house, app, 1, "POST", "/v1/memories", key=house.data, content=chunks()) == [429]
    assert taken == 0


def wrong(house: House, app: FastAPI, key: str | None, host: str = "192.0.2.1") -> httpx.Response:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}

    async def exchange() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(host, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.get("/v1/signer", headers=headers)

    return house.portal.call(exchange)


def forged(house: House) -> str:
    return house.data[:21] + 43 * "A"


@pytest.mark.parametrize("kind", ["none", "nonsense", "unknown", "forged", "revoked"])
def test_a_source_with_ten_wrong_keys_a_minute_has_to_wait(house: House, kind: str) -> None:
    app = limited(house)
    key = {
        "none": None,
        "nonsense": "x",
        "unknown": "shm_" + 16 * "0" + "_" + 43 * "A",
        "forged": forged(house),
        "revoked": house.revoked,
    }[kind]
    assert [wrong(house, app, key).status_code for _ in range(10)] == [401] * 10
    slowed = wrong(house, app, key)
    assert (slowed.status_code, slowed.json()["code"]) == (429, "rate_limited")
    assert int(slowed.headers["retry-after"]) == 6
    assert wrong(house, app, "y").status_code == 429  # another wrong key from there
    assert wrong(house, app, None, host="192.0.2.2").status_code == 401
    assert wrong(house, app, None, host="2001:db8::1").status_code == 401


def test_a_key_id_is_slowed_wherever_the_wrong_key_comes_from(house: House) -> None:
    app = limited(house)
    hosts = [f"192.0.2.{number}" for number in range(20)]
    answers = [wrong(house, app, forged(house), host).status_code for host in hosts]
    assert answers == [401] * 10 + [429] * 10
    # The sources did nothing else wrong, and may say so with another key.
    assert wrong(house, app, "shm_" + 16 * "1" + "_" + 43 * "A", hosts[15]).status_code == 401


def test_a_genuine_key_is_served_whatever_others_did(house: House) -> None:
    app = limited(house)
    for _ in range(20):
        wrong(house, app, forged(house))
    assert wrong(house, app, forged(house)).status_code == 429
    assert wrong(house, app, house.data).status_code == 200


def test_slowing_tells_nothing_about_which_ids_exist(house: House) -> None:
    def seen(key: str) -> list[tuple[int, str]]:
        app = limited(house)
        answers = [wrong(house, app, key) for _ in range(12)]
        return [(answer.status_code, answer.json()["detail"]) for answer in answers]

    assert seen(forged(house)) == seen("shm_" + 16 * "0" + "_" + 43 * "A")


def test_neighbours_in_an_ipv6_network_are_one_source() -> None:
    def source(host: str | None) -> str:
        client = None if host is None else (host, 1)
        [name] = auth.suspects({"client": client, "headers": []})
        return name

    assert source("2001:db8:1:2:3::4") == source("2001:db8:1:2:ffff::") != source("2001:db8:1:3::4")
    assert source("192.0.2.1") != source("192.0.2.2")
    assert source(None) == source("no address")


def test_every_lane_of_a_route_has_a_pace() -> None:
    rates = Rates(Settings())
    for lane in {each.lane for each in OPERATIONS}:
        rates.admit("key_1", lane)


def test_the_defaults_are_above_what_one_service_reaches() -> None:
    settings = Settings()
    assert settings.rate_requests > 1_500
    assert settings.rate_adds > 5_000
    assert min(settings.rate_searches, settings.rate_governed) > 500
    assert settings.rate_failed_keys == 10
    rates = Rates(settings, Clock())
    for _ in range(500):
        rates.admit("key_1", Lane.REMEMBER)
    for _ in range(65):
        rates.admit("key_1", Lane.RECALL)
    rates.charge("key_1", Lane.BATCH, 30 * settings.rate_adds)
    with pytest.raises(TooOften):
        rates.admit("key_1", Lane.BATCH)
