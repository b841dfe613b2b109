"""One run of the verbs in a process of its own, which says each step aloud the moment it is acknowledged.

`python -m tests.crash.scenario` serves runs: a line of JSON in, a forked child that does as told, a line
with its exit code out. One interpreter start serves them all.
"""

import json
import logging
import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from shomei_service import bootstrap
from shomei_service.engine import failpoints, rotation
from shomei_service.engine.model import (
    Authority,
    Basis,
    Caller,
    ConsentAction,
    Ground,
    NewMemory,
    ObligationState,
    Policies,
    Release,
    Retry,
    Withdrawal,
)
from shomei_service.engine.parts import Engine
from shomei_service.engine.store.unit import Store
from shomei_service.engine.verbs import access, consent, export, hold, obligation
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.restrict import lift, restrict
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.update import update
from shomei_service.settings import Settings

Step = list[str]
Said = dict[str, Any]
PURPOSE = "support"


@dataclass(frozen=True, slots=True)
class Order:
    """Which installation to open, what to do there, and where to die."""

    home: str
    token: str
    failpoints: str
    steps: list[Step]
    said: str
    errors: str
    logs: bool = False
    database_url: str | None = None
    custody_url: str | None = None
    trace: list[str] = field(default_factory=list[str])


def be_traced(arguments: list[str]) -> None:
    """Have strace watch this process, and return once it does."""
    subprocess.Popen(["strace", "-f", "-p", str(os.getpid()), *arguments], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while "\nTracerPid:\t0\n" in Path("/proc/self/status").read_text():
        assert time.monotonic() < deadline, "strace did not attach"
        time.sleep(0.002)


def run(order: Order) -> None:
    """Open the home and do the steps; what is said is written before the next step begins."""
    if order.trace:
        be_traced(order.trace)
    if order.steps == [["migrate"]]:  # which opens nothing
        with closing(Store.existing(f"sqlite:///{Path(order.home) / 'data' / 'shomei.db'}")) as store:
            store.migrate()
        return
    settings = Settings(
        home=Path(order.home),
        embedder="none",
        failpoints=order.failpoints,
        database_url=order.database_url,
        custody_url=order.custody_url,
    )
    if order.logs:
        logging.basicConfig(level=logging.DEBUG, force=True)
        logging.getLogger("sqlalchemy").setLevel(logging.DEBUG)  # every statement and every row
    with Path(order.said).open("ab", buffering=0) as said, bootstrap.opened(settings) as engine:

        def say(**line: Any) -> None:
            said.write(json.dumps(line).encode() + b"\n")

        say(opened=True)
        caller = access.authenticate(engine, order.token)
        for verb, *words in order.steps:
            say(asked=verb, words=words)
            say(did=verb, **_asked(engine, caller, verb, words))
        say(hits=failpoints.hits())


def _asked(engine: Engine, caller: Caller, verb: str, words: list[str]) -> Said:
    if verb == "keyed":
        caller = replace(caller, retry=Retry(words[0], "a key", repr(words).encode()))
        verb, *words = words
    return VERBS[verb](engine, caller, *words)


def _new(text: str, user: str, semantic_type: str = "GENERIC", metadata: str = "{}") -> NewMemory:
    return NewMemory(text, user, semantic_type, json.loads(metadata))


def _add(engine: Engine, caller: Caller, *words: str) -> Said:
    return {"id": add(engine, caller, _new(*words)).memory_id}


def _search(engine: Engine, caller: Caller, query: str, user: str) -> Said:
    return {"ids": [one.memory.memory_id for one in search(engine, caller, query, user_id=user).results]}


def _erase(engine: Engine, caller: Caller, memory_id: str) -> Said:
    return {"receipt": erase(engine, caller, memory_id, Basis.SUBJECT_REQUEST).receipt.receipt_hash}


def _update(engine: Engine, caller: Caller, memory_id: str, text: str) -> Said:
    updated = update(engine, caller, memory_id, text)
    return {"id": updated.memory_id, "receipt": updated.receipt.receipt_hash}


def _forget(engine: Engine, caller: Caller, user: str) -> Said:
    forgotten = forget(engine, caller, user)
    closure = forgotten.closure.receipt_hash if forgotten.closure else None
    return {"closure": closure, "ids": [one.memory_id for one in forgotten.erased]}


def _hold(engine: Engine, caller: Caller, memory_id: str) -> Said:
    new = hold.NewHold(Authority.LITIGATION, memory_id=memory_id)
    return {"receipt": hold.place(engine, caller, new).receipt.receipt_hash}


def _release(engine: Engine, caller: Caller, memory_id: str) -> Said:
    (found,) = [one for one in hold.page(engine, caller).holds if one.memory_id == memory_id]
    released = hold.release(engine, caller, found.hold_id, Release.MATTER_CLOSED, confirm=True)
    return {"receipt": released.receipt.receipt_hash}


def _restrict(engine: Engine, caller: Caller, memory_id: str) -> Said:
    receipt = restrict(engine, caller, memory_id, Ground.LEGAL_CLAIMS).receipt  # which preserves
    return {"receipt": receipt.receipt_hash} if receipt else {}


def _lift(engine: Engine, caller: Caller, memory_id: str) -> Said:
    receipt = lift(engine, caller, memory_id).receipt
    return {"receipt": receipt.receipt_hash} if receipt else {}


def _consent(engine: Engine, caller: Caller, user: str, action: str) -> Said:
    said = consent.NewConsent(user, PURPOSE, ConsentAction(action))
    receipt = consent.record(engine, caller, said).receipt
    return {"receipt": receipt.receipt_hash} if receipt else {}


def _policy(engine: Engine, caller: Caller, withdrawal: str) -> Said:
    rules = Policies(purposes=frozenset({PURPOSE}), withdrawal=Withdrawal(withdrawal))
    access.set_policies(engine, caller.tenant, rules)
    return {}


def _cancel(engine: Engine, caller: Caller, memory_id: str) -> Said:
    listed = obligation.page(engine, caller).obligations
    (owed,) = [one for one in listed if one.memory_id == memory_id and one.state is ObligationState.OPEN]
    receipt = obligation.cancel(engine, caller, owed.obligation_id)
    return {"receipt": receipt.receipt_hash} if receipt else {}


def _export(engine: Engine, caller: Caller, user: str) -> Said:
    with closing(export.export(engine, caller, export.Wanted(user), form=export.Form.JSON)) as package:
        return {"receipt": package.receipt.receipt_hash, "bytes": sum(map(len, package.as_json()))}


def _rotate_signer(engine: Engine, _: Caller) -> Said:
    return {"id": rotation.rotate_signer(engine).new_id}


def _rotate_commitment_key(engine: Engine, caller: Caller) -> Said:
    return {"id": rotation.rotate_commitment_key(engine, caller.tenant).new_id}


def _rotate_custody(engine: Engine, _: Caller) -> Said:
    return {"id": rotation.rotate_custody(engine).epoch_after}


VERBS: Final = {
    "add": _add,
    "search": _search,
    "erase": _erase,
    "update": _update,
    "forget": _forget,
    "hold": _hold,
    "release": _release,
    "restrict": _restrict,
    "lift": _lift,
    "consent": _consent,
    "policy": _policy,
    "cancel": _cancel,
    "export": _export,
    "rotate_signer": _rotate_signer,
    "rotate_custody": _rotate_custody,
    "rotate_commitment_key": _rotate_commitment_key,
}


def serve() -> None:
    """Run each order in a forked child and say how it ended."""
    for line in sys.stdin:
        order = Order(**json.loads(line))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.dup2(os.open(order.errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
                run(order)
                code = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
