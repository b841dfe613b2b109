"""The name screen: a last, fail-closed look at the key names of what is about to be relayed.

It reads names only, never values: a memory may say "private_key". The service's own egress check is the
boundary that counts; this one withholds the answer when that boundary has failed.
"""

import json
import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import NoReturn, cast

from shomei_memory_mcp.inputs import JsonObject
from shomei_memory_mcp.refusals import Withheld

MAX_DEPTH = 100  # a receipt may nest 64 levels and lies three deep in an answer
MIN_SECRET_CHARACTERS = 8  # ours have 64; cutting a short test key out of texts would only mangle them
MAX_NODES = 100_000  # a 64 KiB answer cannot hold a third of that

# Names that pass although one of the words below is in them: public by contract.
_PUBLIC = {"key_custody", "public_key_hex", "retirement_hashes", "closed_set_commitment", "commit_key_id"}
_SECRET_WORDS = {"dek", "kek", "passphrase", "password", "passwd", "plaintext", "bearer", "authorization"} | {
    *("keystore", "secret", "credential", "seed", "ikm", "pepper", "salt")
}
_SECRET_KEYS = {
    "private",
    "secret",
    "wrapped",
    "wrapping",
    "commitment",
    "commit",
    "api",
    "master",
    "signing",
} | {*("data", "row", "epoch", "root", "leaf", "encryption", "decryption", "symmetric", "session", "hmac")}
_CASE_STEP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])")
_WORD = re.compile(r"[^\W_]+")


def parse(body: bytes) -> JsonObject:
    """Read a JSON object strictly; raise Withheld on anything two readers could read differently."""
    try:
        value = cast(
            object, json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_constant)
        )
    except (ValueError, RecursionError):
        raise Withheld("it is not plain JSON") from None
    if not isinstance(value, dict):
        raise Withheld("it is not a JSON object")
    return cast(JsonObject, value)


def without(secret: str, text: str) -> str:
    """Return the text with the key cut out, wherever it stands."""
    return text.replace(secret, "[redacted]") if len(secret) >= MIN_SECRET_CHARACTERS else text


def admit(answer: JsonObject) -> None:
    """Let an answer pass, or raise Withheld for a secret-looking name, too much depth or too many nodes."""
    level: list[object] = [answer]
    nodes = 0
    for _ in range(MAX_DEPTH):
        nodes += len(level)
        if nodes > MAX_NODES:
            raise Withheld("it has too many parts")
        level = [child for value in level for child in _children(value)]
        if not level:
            return
    raise Withheld("it is nested too deeply")


def _children(value: object) -> list[object]:
    if isinstance(value, list):
        return cast(list[object], value)
    if not isinstance(value, dict):
        return []
    members = cast(JsonObject, value)
    if any(is_secret(name) for name in members):
        raise Withheld("a field is named like key material")
    return list(members.values())


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """Tell whether a field name, however it is spelled, names key material or a credential."""
    if name in _PUBLIC:
        return False
    spelled = unicodedata.normalize("NFKC", name)
    spelled = "".join(each for each in spelled if unicodedata.category(each) != "Cf")
    words = [word.removesuffix("s") for word in _WORD.findall(_CASE_STEP.sub(" ", spelled).lower())]
    pairs = set(pairwise(words))
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or any(first in _SECRET_KEYS and second in ("key", "dek", "kek") for first, second in pairs)
        or any(word == f"{owner}key" for word in words for owner in _SECRET_KEYS)
    )


def _unique(pairs: list[tuple[str, object]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _constant(_: str) -> NoReturn:
    raise ValueError
