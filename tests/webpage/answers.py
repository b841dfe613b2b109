"""The same questions put to the page and to the Python package."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import NamedTuple, cast

from shomei_memory_verify import render, verify_signed_receipt
from tests.webpage.chromium import Chromium

_SEEN = ("valid", "authenticated", "reason", "public_key_hex", "schema", "signer_id")

# Bytes travel as base64, text as it is: lone surrogates and all.
_ASK = """
Promise.all(%s.map(async ([text, base64, pin]) => {
  const given = text ?? Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const result = await verify(given, pin);
  return [...%s.map((name) => result[name]), render(result)];
}))
"""


class Answer(NamedTuple):
    """A verdict and the page that tells it."""

    valid: bool
    authenticated: bool
    reason: str
    public_key_hex: str
    schema: str
    signer_id: str
    page: str

    @property
    def kind(self) -> str:
        """Return the reason without its detail."""
        return self.reason.partition(":")[0]


Question = tuple[str | bytes, str | None]


def of_page(browser: Chromium, questions: Sequence[Question]) -> list[Answer]:
    """Return what the page's own script answers."""
    asked = [
        (receipt, None, pin) if isinstance(receipt, str) else (None, base64.b64encode(receipt).decode(), pin)
        for receipt, pin in questions
    ]
    answers = browser.run(_ASK % (json.dumps(asked), json.dumps(_SEEN)))
    return [Answer(*answer) for answer in cast("list[tuple[bool, bool, str, str, str, str, str]]", answers)]


def of_python(questions: Sequence[Question]) -> list[Answer]:
    """Return what the package answers."""
    answers: list[Answer] = []
    for receipt, pin in questions:
        result = verify_signed_receipt(receipt, expected_public_key_hex=pin)
        seen = cast("tuple[bool, bool, str, str, str, str]", tuple(getattr(result, name) for name in _SEEN))
        answers.append(Answer(*seen, render(result)))
    return answers
