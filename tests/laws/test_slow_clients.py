"""Clients that hang up, or hang on: nothing stays locked, nothing is by halves. RELIABILITY T-25."""

import http.client
import json
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests import oracle
from tests.crash.places import quick_folder
from tests.fakes import Home, new_home
from tests.laws.clients import AtWork
from tests.laws.workers import holds_what_was_told, quiet, wait_until, working
from tests.service import Service

IDLE = 1000


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


def asked(home: Home, method: str, path: str, body: object = None) -> bytes:
    """Return the bytes of a request."""
    content = b"" if body is None else json.dumps(body).encode()
    head = [f"{method} {path} HTTP/1.1", "Host: s", f"Authorization: Bearer {home.admin_token}"]
    head += ["Content-Type: application/json"] * (body is not None) + [f"Content-Length: {len(content)}"]
    return "\r\n".join([*head, "", ""]).encode() + content


def connected(service: Service) -> socket.socket:
    where = urlsplit(service.url)
    return socket.create_connection((where.hostname or "", where.port or 0), timeout=60)


def answered(service: Service, request: bytes) -> tuple[int, dict[str, object]]:
    with connected(service) as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, json.loads(answer.read())


def test_clients_that_hang_up_at_any_moment(folder: Path) -> None:
    """What has begun completes without them; what has not leaves no trace."""
    home, chance = new_home(folder), random.Random(25)
    with working(home, folder, 1) as service:
        ids: list[str] = []
        for number in range(30):
            new = {"messages": f"a kettle {number}", "user_id": "alice"}
            _, added = answered(service, asked(home, "POST", "/v1/memories", new))
            ids += [one["id"] for one in added["results"]]  # type: ignore[attr-defined]
        for memory_id in ids[:25]:
            request = asked(home, "DELETE", f"/v1/memories/{memory_id}")
            with connected(service) as connection:
                connection.sendall(request[: chance.choice([len(request), len(request), len(request) // 2])])
                time.sleep(chance.uniform(0, 0.03))
        for memory_id in ids[25:]:
            assert answered(service, asked(home, "DELETE", f"/v1/memories/{memory_id}"))[0] == 200
        quiet(home)
    with home.opened() as house:
        texts = oracle.settled(house, home.settings)
    assert texts.keys() <= set(ids[:25])
    assert len(texts) < 25, "some were read before their client was gone"


def test_a_thousand_idle_connections_keep_nobody_out(folder: Path) -> None:
    home = new_home(folder)
    with working(home, folder, 1) as service:
        before = AtWork(service.url, home.admin_token, clients=4, seed=25)
        with before as told:
            wait_until(lambda: told.statuses["memories", 200] > 10)
            idle = [connected(service) for _ in range(IDLE)]
            done = told.statuses["memories", 200]
            wait_until(lambda: told.statuses["memories", 200] > done + 10)  # whoever is in goes on
            told.end()
            for one in idle:
                one.close()
        assert answered(service, asked(home, "GET", "/v1/memories"))[0] == 200
    assert {status for _, status in told.statuses} <= {0, 200, 503}
    holds_what_was_told(home, told)
