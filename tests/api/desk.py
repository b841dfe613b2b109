"""A tenant with registered codes and a clock to move. Every answer is held against its route as it passes."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from pydantic import TypeAdapter

from shomei_memory_verify import verify_signed_receipt
from shomei_service.api import openapi
from shomei_service.api.errors import STATUS
from shomei_service.api.exchange import AnyOperation
from shomei_service.api.routes import OPERATIONS
from shomei_service.engine.model import Caller, Policies
from shomei_service.engine.verbs import access
from tests.api.house import House, open_house
from tests.fakes import FixedClock

DAY = 86_400
CODES = Policies(
    purposes=frozenset({"care", "study"}),
    location_codes=frozenset({"lake"}),
    channel_codes=frozenset({"form"}),
    policy_versions=frozenset({"v1"}),
)
_PATTERNS = [
    (one, re.compile(re.sub(r"\\\{[a-z_]+\\\}", "[^/]+", re.escape(one.path)))) for one in OPERATIONS
]


@dataclass(slots=True)
class Desk:
    """Where one tenant's admin asks; everything signed that comes back has to stand under the pin."""

    house: House
    clock: FixedClock
    pin: str
    tenant: Caller
    seen: dict[str, str] = field(default_factory=dict[str, str])

    def send(
        self,
        method: str,
        url: str,
        body: object = None,
        *,
        key: str | None = None,
        retry: str | None = None,
    ) -> httpx.Response:
        """Ask, as the admin unless a key is given, and check the answer's form and proofs."""
        headers = {"idempotency-key": retry} if retry is not None else {}
        answer = self.house.call(method, url, key=key or self.house.admin, body=body, headers=headers)
        require_described(operation_of(method, url), answer)
        signed = self.authenticate(answer.json())
        if key != self.house.other:  # the log that is read back afterwards is this tenant's
            self.seen |= signed
        return answer

    def done(self, method: str, url: str, body: object = None, **asked: Any) -> dict[str, Any]:
        """Ask for what must succeed and return its answer."""
        answer = self.send(method, url, body, **asked)
        assert answer.status_code == operation_of(method, url).success, answer.text
        return answer.json()

    def refused(self, method: str, url: str, body: object = None, **asked: Any) -> tuple[int, dict[str, Any]]:
        """Ask for what must be refused; return the status, and the body without its id and sentence."""
        answer = self.send(method, url, body, **asked)
        assert answer.status_code >= 400, answer.text
        own = answer.json()
        assert re.fullmatch("req_[0-9a-f]{32}", own.pop("request_id"))
        assert 0 < len(own.pop("detail")) <= 200
        return answer.status_code, own

    def add(self, text: str = "the kettle is blue", **more: Any) -> str:
        """Remember a text and return its id."""
        added = self.done("POST", "/v1/memories", {"messages": text, **more}, key=self.house.data)
        return added["results"][0]["id"]

    def hold(self, memory_id: str) -> str:
        """Hold a memory and return the hold's id."""
        body = {"scope": "memory", "memory_id": memory_id, "authority_code": "litigation"}
        return self.done("POST", "/v1/holds", body)["hold_id"]

    def restricted(self, **more: Any) -> str:
        """Return a memory that is restricted."""
        memory_id = self.add(**more)
        self.done("POST", f"/v1/memories/{memory_id}/restrict", {})
        return memory_id

    def without_consent(self, subject: str = "withdrawer", **more: Any) -> str:
        """Return a memory whose consent was withdrawn."""
        consent = {"user_id": subject, "purpose": "care"}
        self.done("POST", "/v1/consent", {**consent, "action": "granted"})
        memory_id = self.add(user_id=subject, lawful_basis="consent", purposes=["care"], **more)
        self.done("POST", "/v1/consent", {**consent, "action": "withdrawn"})
        return memory_id

    def expired(self, **more: Any) -> str:
        """Return a memory whose time is over and which nothing has erased yet."""
        memory_id = self.add(expires_at=self.clock.at + 10, **more)
        self.clock.at += 11
        return memory_id

    def erased(self, **more: Any) -> str:
        """Return the id of a memory that is erased."""
        memory_id = self.add(**more)
        self.done("DELETE", f"/v1/memories/{memory_id}")
        return memory_id

    def log(self) -> list[dict[str, Any]]:
        """Return the whole receipt log, read page by page."""
        found: list[dict[str, Any]] = []
        while page := self.done("GET", f"/v1/receipts?limit=100&after_seq={len(found) - 1}")["results"]:
            found += page
        return found

    def authenticate(self, value: Any) -> dict[str, str]:
        """Verify every envelope in an answer, and that the statement beside it is the one signed."""
        signed: dict[str, str] = {}
        if isinstance(value, list):
            for item in value:
                signed |= self.authenticate(item)
        elif isinstance(value, dict):
            for prefix in ("", "closure_"):
                if f"{prefix}receipt_hash" in value and f"{prefix}receipt" in value:
                    envelope = value[f"signed_{prefix}receipt"]
                    assert envelope["body"] == value[f"{prefix}receipt"]
                    assert envelope["receipt_hash"] == value[f"{prefix}receipt_hash"]
            if "signature_hex" in value:
                assert verify_signed_receipt(value, expected_public_key_hex=self.pin).authenticated
                signed[value["receipt_hash"]] = value["schema"]
            for item in value.values():
                signed |= self.authenticate(item)
        return signed


@contextmanager
def open_desk(**settings: object) -> Iterator[Desk]:
    """Open a house under a standing clock; afterwards everything that was handed out stands in the log.

    It lies in memory where the machine can: nothing here is about what a disk keeps.
    """
    memory = Path("/dev/shm")
    with (
        TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        open_house(Path(folder), **settings) as house,
    ):
        engine = house.engine
        assert engine.signer is not None
        tenant = access.authenticate(engine, house.admin)
        access.set_policies(engine, tenant.tenant, CODES)
        engine.clock = clock = FixedClock(int(time.time()))
        desk = Desk(house, clock, engine.signer.public_key_hex, tenant)
        yield desk
        handed_out = set(desk.seen)
        assert handed_out <= {one["receipt_hash"] for one in desk.log()}


def operation_of(method: str, url: str) -> AnyOperation:
    """Return the route that a request reaches."""
    path = url.partition("?")[0]
    found = [one for one, pattern in _PATTERNS if one.method == method and pattern.fullmatch(path)]
    return min(found, key=lambda one: one.path.count("{"))


def require_described(operation: AnyOperation, answer: httpx.Response) -> None:
    """Hold an answer against its route: status, media type, and not a field more or less."""
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    if answer.status_code == operation.success:
        # Reading drops what the shape does not name, at every level; nothing may have been dropped.
        assert TypeAdapter(operation.answer).validate_python(body, strict=True) == body
    else:
        assert answer.status_code in openapi.refusals(operation), (operation.path, answer.status_code)
        assert body.keys() - {"code", "detail", "request_id"} == own_fields(operation, body["code"])


def own_fields(operation: AnyOperation, code: str) -> set[str]:
    """Return what a route says beside an error's code."""
    named: Mapping[str, set[str]] = {
        kind.code: set(fields) for kind, fields in operation.refused.items() if kind in STATUS
    }
    return {"pending_erasures"} if code == "confirm_required" else named.get(code, set())
