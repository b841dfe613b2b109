"""What is counted: the truth, under fixed names and labels, and nothing of anybody's (T-36)."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shomei_service.api.app import create_app
from shomei_service.api.lanes import Lane
from shomei_service.api.routes import OPERATIONS
from tests.api.house import PATIENT, House, Live, call, serve

LABELS = {
    "shomei_requests": {"method", "route", "status"},
    "shomei_request_seconds": {"route", "le"},
    "shomei_lane_calls": {"lane"},
    "shomei_build": {"version"},
}
ROUTES = {each.path for each in OPERATIONS} | {"/healthz", "/readyz", "/openapi.json", "-"}
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "OTHER"}


@pytest.fixture
def counted(house: House) -> Iterator[Live]:
    with serve(house) as live:
        yield live


def read(live: Live, key: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = live.ask("GET", "/metrics", key=key)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def requests(read_now: dict[Any, float], **labels: str) -> float:
    return read_now.get(("shomei_requests_total", tuple(sorted(labels.items()))), 0.0)


def test_every_answer_is_counted_once_under_its_route(house: House, counted: Live) -> None:
    memory_id = house.add("counted")
    for target in (f"/v1/memories/{memory_id}", "/v1/memories/lm_none", "/nowhere", "/v1/memories/%2F"):
        counted.ask("GET", target, key=house.data)
    counted.ask("PROPFIND", "/nowhere")
    now = read(counted, house.admin)
    assert requests(now, method="GET", route="/v1/memories/{memory_id}", status="200") == 1
    assert requests(now, method="GET", route="/v1/memories/{memory_id}", status="404") == 2
    assert requests(now, method="GET", route="-", status="404") == 1
    assert requests(now, method="OTHER", route="-", status="404") == 1
    assert requests(now, method="GET", route="/metrics", status="200") == 0  # it is counted once it is sent
    assert requests(read(counted, house.admin), method="GET", route="/metrics", status="200") == 1
    assert now["shomei_request_seconds_count", (("route", "/v1/memories/{memory_id}"),)] == 3


def test_what_waits_is_looked_up_when_it_is_read(house: House, counted: Live) -> None:
    now = read(counted, house.admin)
    assert now["shomei_embedding_backlog", ()] == 0  # nothing embeds here, so nothing waits for it
    assert now["shomei_unfinished_erasures", ()] == 0
    assert now["shomei_upkeep_well", ()] == 1
    assert now["shomei_custody_epoch", ()] == house.engine.custody.epoch
    lanes = {
        dict(labels)["lane"]: value for (name, labels), value in now.items() if name == "shomei_lane_calls"
    }
    assert lanes == {lane.value: float(lane is Lane.READ) for lane in Lane}  # this very reading


def test_upkeep_that_does_not_run_is_seen(house: House) -> None:
    """In process nobody runs the lifespan."""
    app = create_app(house.engine, settings=PATIENT)
    assert "shomei_upkeep_well 0.0" in call(app, house.portal, "GET", "/metrics", key=house.admin).text


def test_names_and_labels_are_fixed(house: House, counted: Live) -> None:
    mark = "zq7canary"
    counted.ask(mark.upper(), f"/{mark}", key=house.data)
    counted.ask(
        "POST", f"/v1/search?{mark}={mark}", key=house.data, body=b'{"query":"' + mark.encode() + b'"}'
    )
    counted.ask("GET", f"/v1/memories/{mark}?user_id={mark}", b"X-Request-Id: " + mark.encode(), key=mark)
    for name, labels in read(counted, house.admin):
        family = re.sub("_(total|created|bucket|sum|count)$", "", name)
        assert name.startswith(("shomei_", "process_"))
        given = dict(labels)
        assert set(given) <= LABELS.get(family, set())
        assert given.get("route", "-") in ROUTES
        assert given.get("method", "GET") in METHODS
        assert given.get("status", "200").isdigit()
        assert mark not in repr((name, labels)).lower()


@pytest.mark.parametrize(("who", "status"), [("data", 403), ("revoked", 401), ("admin", 200)])
def test_only_an_admin_reads(house: House, who: str, status: int) -> None:
    assert house.call("GET", "/metrics", key=getattr(house, who)).status_code == status
