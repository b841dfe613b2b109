"""Clients of a service that may be slow, refuse, die and come back; each writes down what it saw."""

import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx

from tests.laws.histories import Act, Event, History, now

GIVE_UP_S = 180.0
_PAUSE_S = 0.05
_PATIENCE = httpx.Timeout(60.0)
_AGAIN = {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}
_LEAKS = ("psycopg", "sqlalchemy", "sqlite", "SELECT", "INSERT", "Traceback", "locked", "SHOMEI_")


@dataclass(slots=True)
class Told:
    """What a service has told its clients, beside the history: statuses, proofs, and what is to be found."""

    history: History = field(default_factory=History)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    slowest_refusal_s: float = 0.0
    proofs: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    living: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    closures: list[Any] = field(default_factory=list[Any])
    end: Callable[[], None] = lambda: None

    def figures(self) -> dict[str, int]:
        """Return how much there was to look at."""
        refused = sum(count for (_, status), count in self.statuses.items() if status != HTTPStatus.OK)
        looks = sum(event.act is Act.LOOK for event in self.history.events)
        return {
            "answers": self.statuses.total() - refused,
            "refusals": refused,
            "looks": looks,
            "erased": len(self.proofs),
        }


class Client:
    """One subject's own client: nobody else speaks of this subject, so it knows what must be there."""

    def __init__(self, url: str, token: str, subject: str, told: Told, seed: int) -> None:
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=_PATIENCE)
        self._http.headers["authorization"] = f"Bearer {token}"
        self._subject = subject
        self._told = told
        self._random = random.Random(seed)
        self._shown: list[str] = []
        self._restricted: set[str] = set()
        self._words = 0
        told.living.setdefault(subject, set())

    def run(self, until: Callable[[], bool]) -> None:
        """Do one thing after another until told to stop, then look once more."""
        with self._http:
            while not until():
                self._random.choices(
                    [self.add, self.look, self.update, self.restrict, self.lift, self.erase, self.forget],
                    [8, 6, 2, 2, 2, 3, 0.4],
                )[0]()
            self.look()

    def add(self) -> None:
        """Remember something."""
        self._words += 1
        began = now()
        answer = self._ask("POST", "/v1/memories", {"messages": f"kettle {self._words}", **self._user()})
        memory_id = answer["results"][0]["id"]
        self._note(Act.SHOW, began, memory_id)
        self._shown.append(memory_id)
        self._told.living[self._subject].add(memory_id)

    def look(self) -> None:
        """Search for everything of the subject."""
        began = now()
        answer = self._ask("POST", "/v1/search", {"query": "kettle", "limit": 100, **self._user()})
        found = frozenset(one["id"] for one in answer["results"])
        self._told.history.note(Event(Act.LOOK, self._subject, began, now(), None, found))

    def update(self) -> None:
        """Put a memory right."""
        memory_id = self._one(lambda one: one not in self._restricted)
        if memory_id is None:
            return
        began = now()
        answer = self._ask("PUT", f"/v1/memories/{memory_id}", {"data": "a newer kettle"})
        (result,) = answer["results"]
        self._note(Act.HIDE, began, memory_id)
        self._note(Act.SHOW, began, result["id"])
        self._gone(memory_id, result)
        self._shown.append(result["id"])
        self._told.living[self._subject].add(result["id"])

    def restrict(self) -> None:
        """Take a memory out of recall."""
        memory_id = self._one(lambda one: one not in self._restricted)
        if memory_id is None:
            return
        began = now()
        self._ask("POST", f"/v1/memories/{memory_id}/restrict", {})
        self._restricted.add(memory_id)
        self._note(Act.HIDE, began, memory_id)

    def lift(self) -> None:
        """Let a memory be recalled again."""
        memory_id = self._one(self._restricted.__contains__)
        if memory_id is None:
            return
        began = now()
        self._ask("DELETE", f"/v1/memories/{memory_id}/restrict")
        self._restricted.discard(memory_id)
        self._note(Act.SHOW, began, memory_id)

    def erase(self) -> None:
        """Delete a memory."""
        memory_id = self._one(lambda _: True)
        if memory_id is None:
            return
        began = now()
        answer = self._ask("DELETE", f"/v1/memories/{memory_id}")
        self._note(Act.HIDE, began, memory_id)
        self._gone(memory_id, answer)

    def forget(self) -> None:
        """Forget the subject: exactly what is left of it."""
        began = now()
        answer = self._ask("POST", "/v1/forget", self._user())
        self._told.history.note(Event(Act.HIDE, self._subject, began, now()))
        assert set(answer["erased_ids"]) == set(self._shown), "a forget erases what was there, and no more"
        closure = answer["signed_closure_receipt"]
        assert closure["body"]["erased_count"] == len(answer["erased_ids"])
        self._told.closures.append(closure)
        for proof in answer["signed_receipts"]:
            self._gone(proof["id"], proof)

    def _one(self, fits: Callable[[str], bool]) -> str | None:
        fitting = [one for one in self._shown if fits(one)]
        return self._random.choice(fitting) if fitting else None

    def _gone(self, memory_id: str, proof: Any) -> None:
        self._shown.remove(memory_id)
        self._restricted.discard(memory_id)
        self._told.living[self._subject].discard(memory_id)
        with self._told.history.lock:
            self._told.proofs.setdefault(memory_id, []).append(proof.get("signed_receipt"))

    def _note(self, act: Act, began: float, memory_id: str) -> None:
        self._told.history.note(Event(act, self._subject, began, now(), memory_id))

    def _user(self) -> dict[str, str]:
        return {"user_id": self._subject}

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask under one Idempotency-Key until there is an answer."""
        key = secrets.token_hex(16)
        deadline = time.monotonic() + GIVE_UP_S
        while time.monotonic() < deadline:
            asked = now()
            try:
                answer = self._http.request(method, path, json=body, headers={"idempotency-key": key})
            except httpx.TransportError:
                self._count(path, 0)
                time.sleep(_PAUSE_S)
                continue
            self._count(path, answer.status_code)
            if answer.status_code == HTTPStatus.OK:
                return answer.json()
            self._require_refusal(answer, now() - asked)
            time.sleep(_PAUSE_S)
        raise AssertionError(f"no answer to {method} {path} in time")

    def _require_refusal(self, answer: httpx.Response, took_s: float) -> None:
        """What goes wrong is our own error, tells nothing of what is behind it, and may be tried again."""
        told = answer.json()
        assert not any(word in answer.text for word in _LEAKS), answer.text
        if answer.status_code in _AGAIN:
            assert answer.headers["retry-after"].isdigit()
            self._told.slowest_refusal_s = max(self._told.slowest_refusal_s, took_s)
        else:
            assert (answer.status_code, told["code"]) == (HTTPStatus.CONFLICT, "idempotency_in_flight"), told

    def _count(self, path: str, status: int) -> None:
        with self._told.history.lock:
            self._told.statuses[path.split("/")[2], status] += 1


class Watcher(Client):
    """Somebody who only looks, now at one person and now at another, while their clients are at work."""

    def run(self, until: Callable[[], bool]) -> None:
        """Look until told to stop."""
        subjects = sorted(self._told.living)
        with self._http:
            while not until():
                self._subject = self._random.choice(subjects)
                self.look()


class AtWork:
    """So many clients, at work for the length of a block or until told to end; every fourth only watches.

    Where there are several services, each client has one of them.
    """

    def __init__(self, url: str | Sequence[str], token: str, *, clients: int, seed: int) -> None:
        self.told = Told()
        self._ending = threading.Event()
        self._pool = ThreadPoolExecutor(clients)
        urls = [url] if isinstance(url, str) else url
        self._clients = [
            (Client if at < clients - clients // 4 else Watcher)(
                urls[at % len(urls)], token, f"person {at % (clients - clients // 4)}", self.told, seed + at
            )
            for at in range(clients)
        ]
        self._working: list[Future[None]] = []

    def __enter__(self) -> Told:
        self._working = [self._pool.submit(one.run, self._ending.is_set) for one in self._clients]
        self.told.end = self.end
        return self.told

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Let every client end what it is at; whatever one of them found wrong is raised."""
        self._ending.set()
        self._pool.shutdown()
        for one in self._working:
            one.result()
