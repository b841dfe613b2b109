"""The published verifier 0.0.2, and what both verifiers say of the receipts that the tests issue."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import pytest

from shomei_memory_verify import verify_signed_receipt
from tests.fakes import ISSUED

PUBLISHED = "shomei-memory-verify==0.0.2"

# Runs in a process of its own: both packages have the same import name.
_DRIVER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import shomei_memory_verify as published
assert published.__version__ == "0.0.2" and published.__file__.startswith(sys.argv[1])
for line in sys.stdin:
    receipt, pin, is_rendered = json.loads(line)
    result = published.verify_signed_receipt(receipt, expected_public_key_hex=pin)
    answer = {name: getattr(result, name) for name in
        ("valid", "authenticated", "reason", "public_key_hex", "schema", "signer_id", "body")}
    if is_rendered:
        page = published.render(receipt, expected_public_key_hex=pin)
        answer |= {"page": page, "same_page": page == published.render(result),
            "html": published.to_html(page, operator_note="note")}
    print(json.dumps(answer), flush=True)
"""


class Published:
    """The published package, installed into a folder of its own the first time it is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def folder(self) -> Path:
        """Where the package is; without a package index this fails."""
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", self._folder, PUBLISHED]
        done = subprocess.run(pip, capture_output=True, text=True, timeout=600)
        if done.returncode:
            told = f"{PUBLISHED} could not be installed; is the package index reachable?\n{done.stderr}"
            pytest.fail(told, pytrace=False)
        return self._folder

    @cached_property
    def _driver(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", _DRIVER, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def ask(
        self, questions: Iterable[tuple[object, str | None]], *, is_rendered: bool = False
    ) -> list[dict[str, object]]:
        """Return what it says of receipts and their pins, certificates included if they are wanted."""
        return [self._answer((receipt, pin, is_rendered)) for receipt, pin in questions]

    def _answer(self, question: object) -> dict[str, object]:
        asking, telling = self._driver.stdin, self._driver.stdout
        assert asking is not None
        assert telling is not None
        print(json.dumps(question), file=asking, flush=True)
        line = telling.readline()
        assert line, "the published verifier ended"
        return json.loads(line)

    def end(self) -> None:
        """End its process, if it ever had one."""
        if "_driver" in self.__dict__:
            self._driver.communicate(timeout=120)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    one = Published(tmp_path_factory.mktemp("published"))
    yield one
    one.end()


@pytest.fixture(scope="module", autouse=True)
def every_receipt_is_authentic_by_both_verifiers(published: Published) -> Iterator[None]:
    """Look at what the engines of a module have issued, once it has ended."""
    yield
    issued, ISSUED[:] = [*ISSUED], []
    assert refusals(issued, published) == {}


def refusals(issued: Iterable[tuple[dict[str, object], str]], published: Published) -> Counter[str]:
    """Count the receipts that a verifier refuses, by what it says."""
    said: Counter[str] = Counter()
    for receipt, pin in issued:
        ours = verify_signed_receipt(receipt, expected_public_key_hex=pin)
        [theirs] = published.ask([(receipt, pin)])
        if not ours:
            said[f"ours: {ours.reason}: {receipt['schema']}"] += 1
        if not theirs["authenticated"] or theirs["body"] != receipt["body"]:
            said[f"published: {theirs['reason']}: {receipt['schema']}"] += 1
    return said
