"""`shomei demo`: the main job against a running service, through the real relay and the MCP SDK's client.

Add, recall, verify, erase, forget, verify again where nothing is known but the public key. Every line
that is printed comes from an answer just received; the first answer that is not as it must be ends the
run with exit code 1.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

Answer = Mapping[str, Any]

_TOOLS: Final = 10
_OK: Final = 200
_QUESTION: Final = "What were they eating when they were late to answer?"
_FORGOTTEN: Final = "lunar-module-pilot"
_FORGOTTEN_QUESTION: Final = "Which pressure light came with the master alarm?"
_SHOWN: Final = 3
_ATTEMPTS: Final = 20
_READY_IS_FRESH_S: Final = 1.1  # readiness is looked up at most once a second
_EMBEDDING_WAIT_S: Final = 900


class DemoFailed(Exception):
    """An answer was not what the product promises."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the command to the tree."""
    demo = commands.add_parser("demo", help="run the main job against a running service, through the relay")
    demo.add_argument("--data", required=True, type=Path, help="JSON Lines of user_id, messages, metadata")
    demo.add_argument("--url", default="http://127.0.0.1:8088")
    demo.add_argument("--pin", required=True, help="the signer's public key, as init printed it")
    demo.add_argument(
        "--verifier",
        default="shomei-memory-verify",
        help="the verifier to check proofs with, best in an environment of its own",
    )
    demo.set_defaults(run=run_demo)


def run_demo(parsed: argparse.Namespace) -> dict[str, Any]:
    """Run the main job; the admin key comes from SHOMEI_MCP_API_KEY."""
    import anyio

    key = os.environ.get("SHOMEI_MCP_API_KEY", "")
    job = MainJob(parsed.url, key, parsed.pin, parsed.verifier, parsed.data)
    anyio.run(job.run)
    return {}


class MainJob:
    """One run of the demonstration."""

    def __init__(self, url: str, key: str, pin: str, verifier: str, data: Path) -> None:
        self._url = url
        self._key = key
        self._pin = pin
        self._verifier = verifier
        self._turns = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]

    async def run(self) -> None:
        """Do all of it, in order."""
        async with self._relay() as call:
            added = await self._remember(call)
            best = await self._recall(call)
            if added is not None:  # a run that was cut short may have left nothing to add
                await self._verify_in_relay(call, added["signed_receipt"])
            erased = await self._erase(call, best)
            await self._verify_in_relay(call, erased)
            forgotten = await self._forget(call)
            self._verify_apart(erased, forgotten)
            await self._ask_again(call, best)

    @asynccontextmanager
    async def _relay(self) -> AsyncGenerator["Call"]:
        """Start the relay as a host would and list its tools."""
        from mcp import Client, StdioServerParameters, stdio_client

        relay = StdioServerParameters(
            command=sys.executable,
            args=["-m", "shomei_memory_mcp.server"],
            env={"SHOMEI_MCP_BASE_URL": self._url, "SHOMEI_MCP_API_KEY": self._key},
        )
        async with Client(stdio_client(relay)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            _require(len(names) == _TOOLS, "the relay must list ten tools")
            _say(f"the relay lists {len(names)} tools: {', '.join(names)}")
            yield Call(client)

    async def _remember(self, call: "Call") -> Answer | None:
        """Add every turn that is not stored yet; return the first add's answer, if there was one."""
        stored = Counter(self._stored())
        first: Answer | None = None
        count = 0
        for turn in self._turns:
            known = (turn["user_id"], turn["messages"])
            if stored[known]:
                stored[known] -= 1
                continue
            added: Answer = await call(
                "add_memory",
                messages=turn["messages"],
                user_id=turn["user_id"],
                semantic_type=turn["semantic_type"],
            )
            first = first or added["results"][0]
            count += 1
        _say(f"added {count} memories; {len(self._turns) - count} were there from an earlier run")
        self._await_vectors()
        return first

    def _stored(self) -> list[tuple[str, str]]:
        import httpx

        found: list[tuple[str, str]] = []
        cursor: str | None = None
        with httpx.Client(base_url=self._url, trust_env=False, timeout=30) as client:
            while True:
                query = {"limit": "500"} | ({"cursor": cursor} if cursor else {})
                answer = client.get(
                    "/v1/memories", params=query, headers={"Authorization": f"Bearer {self._key}"}
                )
                _require(answer.status_code == _OK, "the service must list what it holds")
                page = answer.json()
                found += [(memory["user_id"], memory["memory"]) for memory in page["results"]]
                cursor = page["next_cursor"]
                if cursor is None:
                    return found

    def _await_vectors(self) -> None:
        """Wait until every memory can be found by its meaning; by its words it can be at once."""
        import time

        import httpx

        deadline = time.monotonic() + _EMBEDDING_WAIT_S
        with httpx.Client(base_url=self._url, trust_env=False, timeout=30) as client:
            time.sleep(_READY_IS_FRESH_S)  # what is asked right after the adds may be told what was before
            while time.monotonic() < deadline:
                backlog = client.get("/readyz").json()["embedding_backlog"]
                if sys.stderr.isatty():
                    print(f"\rvectors still to make: {backlog} ", end="", file=sys.stderr, flush=True)
                if backlog == 0:
                    if sys.stderr.isatty():
                        print(file=sys.stderr)
                    return
                time.sleep(0.5)
        raise DemoFailed("the embedding backlog must drain")

    async def _recall(self, call: "Call") -> Answer:
        answer = await call("search_memory", query=_QUESTION)
        for _ in range(_ATTEMPTS):
            if "degraded" not in answer:
                break
            answer = await call("search_memory", query=_QUESTION)  # a busy machine found by words alone
        results = answer["results"]
        _require(bool(results), "the question must find a memory")
        _say(f"\nasked: {_QUESTION}")
        for result in results[:_SHOWN]:
            quote = result["quote"]
            _require(
                result["memory"][quote["start"] : quote["end"]] == quote["text"], "quotes must be verbatim"
            )
            _say(f"  {result['score']:.3f}  {result['user_id']}: “{quote['text']}”")
        return results[0]

    async def _verify_in_relay(self, call: "Call", receipt: Answer) -> None:
        verdict = await call("verify_receipt", receipt=receipt, expected_public_key_hex=self._pin)
        _require(verdict["authenticated"] is True, "the receipt must be authentic")
        _say(f"\nreceipt of {receipt['body']['memory_id']}: {verdict['schema']} -> {verdict['reason']}")

    async def _erase(self, call: "Call", best: Answer) -> Answer:
        answer = await call("delete_memory", memory_id=best["id"])
        _require(answer["deleted"] is True, "the memory must be erased")
        body = answer["receipt"]
        _say(f"\nerased {best['id']}: {answer['message']}")
        _say(
            f"  key custody {answer['key_custody']}, {body['erase_method']}, key {body['destroy_method']}, "
            f"finality {body['finality']}, epoch {body['epoch_before']} -> {body['epoch_after']}"
        )
        return answer["signed_receipt"]

    async def _forget(self, call: "Call") -> Answer:
        answer = await call("forget_subject", user_id=_FORGOTTEN)
        body = answer["closure_receipt"]
        _require(
            body["matched_count"] == body["erased_count"] + body["deferred_count"], "m = e + d must hold"
        )
        _require(answer["erased_count"] > 0, "the subject must have been remembered")
        _say(f"forgot {_FORGOTTEN}: {answer['erased_count']} erased, {body['disposition']}")
        return answer["signed_closure_receipt"]

    def _verify_apart(self, *proofs: Answer) -> None:
        """Check the proofs as an auditor would: another environment, no credentials, the public key alone."""
        _say(f"\nverifying apart, with the pin {self._pin[:16]}... and nothing else:")
        for proof in proofs:
            _require(self._verdict(proof) == 0, "an authentic proof must verify")
        tampered = json.loads(json.dumps(proofs[0]))
        tampered["body"]["memory_id"] = "lm_" + "0" * 32
        _require(self._verdict(tampered) == 1, "a tampered proof must be refused")

    def _verdict(self, receipt: Answer) -> int:
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "receipt.json")
            file.write_text(json.dumps(receipt), encoding="utf-8")
            done = subprocess.run(  # noqa: S603 - the operator names the verifier
                [self._verifier, str(file), "--pin", self._pin],
                env=environment,
                cwd=directory,
                capture_output=True,
                text=True,
                check=False,
            )
        for line in done.stdout.splitlines():
            _say(f"  {line}")
        return done.returncode

    async def _ask_again(self, call: "Call", best: Answer) -> None:
        again = await call("search_memory", query=_QUESTION)
        _require(
            all(best["id"] != one["id"] and best["memory"] != one["memory"] for one in again["results"]),
            "an erased memory must not be found",
        )
        state = await call("get_receipt", memory_id=best["id"])
        _require(state["valid"] is False and state["failures"] == ["erased"], "the state must be erased")
        forgotten = await call("search_memory", query=_FORGOTTEN_QUESTION, user_id=_FORGOTTEN)
        _require(forgotten["results"] == [], "a forgotten subject must have nothing")
        _say(f"\nasked again: {best['id']} is not found (state: {', '.join(state['failures'])})")
        _say(f"asked as {_FORGOTTEN}: {len(forgotten['results'])} memories")


class Call:
    """A tool call that must succeed."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def __call__(self, tool: str, **params: object) -> Answer:
        """Return the tool's answer, or raise DemoFailed with the relay's own words."""
        result = await self._client.call_tool(tool, {"params": params})
        if result.is_error:
            raise DemoFailed(f"{tool}: {result.content[0].text}")
        return result.structured_content


def _require(holds: bool, promise: str) -> None:
    if not holds:
        raise DemoFailed(promise)


def _say(line: str) -> None:
    print(line, flush=True)
