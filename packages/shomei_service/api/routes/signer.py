"""Who signs the receipts. CONTRACT.md §1."""

from typing import Final

from ...engine.errors import Unsupported
from ...engine.model import Scope
from ...engine.verbs import signer
from ..answers import SignerAnswer, Statement
from ..exchange import Ask, Operation
from ..lanes import Lane
from ..shapes import Nothing


def show_signer(ask: Ask[Nothing, Nothing]) -> SignerAnswer:
    """Name the signing key, and those before it with the ranges they signed."""
    shown = signer.show(ask.engine, ask.caller)
    ranges: dict[tuple[str, str], list[Statement]] = {}
    for one in shown.retired:
        part = {"origin": one.origin, "first_seq": one.first_seq, "last_seq": one.last_seq}
        ranges.setdefault((one.signer_id, one.public_key_hex), []).append(part)
    return {
        "signer_id": shown.signer_id,
        "public_key_hex": shown.public_key_hex,
        "retired_keys": [
            {"signer_id": signer_id, "public_key_hex": key, "ranges": parts}
            for (signer_id, key), parts in ranges.items()
        ],
    }


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/signer",
        scope=Scope.DATA,
        act=show_signer,
        answer=SignerAnswer,
        body=Nothing,
        query=Nothing,
        lane=Lane.READ,
        refused={Unsupported: {}},
    ),
)
