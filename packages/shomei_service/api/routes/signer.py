"""Who signs the receipts. CONTRACT.md §1."""

from typing import Final

from ...engine.errors import Unsupported
from ...engine.model import Scope
from ..answers import SignerAnswer
from ..exchange import Ask, Operation
from ..lanes import Lane
from ..shapes import Nothing


def show_signer(ask: Ask[Nothing, Nothing]) -> SignerAnswer:
    """Name the signing key. Raises Unsupported where receipts are not signed."""
    signer = ask.engine.signer
    if signer is None:
        raise Unsupported("this installation does not sign its receipts")
    return {"signer_id": signer.signer_id, "public_key_hex": signer.public_key_hex, "retired_keys": []}


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
