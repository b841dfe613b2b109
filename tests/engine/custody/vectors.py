"""Build tests/vectors/keytree.json out of the flat reference, so that it needs nothing of ours."""

import hashlib
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.engine.custody.reference import FlatTree, bind, expand, leaf

SEED = hashlib.sha256(b"shomei keytree vector seed").digest()
ROW = 1 << 40
FIRST, SECOND, LAST = 1 * ROW + 300, 1 * ROW + 301, 65535 * ROW + ROW - 1
PROBES = [0, 1 * ROW, 1 * ROW + 255, FIRST, SECOND, 1 * ROW + 511, 2 * ROW + 300, LAST, LAST - 1]


def build() -> dict[str, Any]:
    """Return the whole file."""
    return {
        "about": [
            "Addresses are 56 bits, hex, big-endian: tenant (16) then row (40); bit 55 is the first turn.",
            "G(seed) = BLAKE2b-512(key=seed, message='', person='shomei/ggm/v1'); left half, right half.",
            "Steps are done in order on one tree; a derived leaf of null means: it must not be derivable.",
            "frontier: depth, path in hex, seed of every node that is left after the last step.",
            "bind(parts) = each part led by its length in 4 bytes, big-endian.",
            "sealed = 12-byte nonce, AES-256-GCM ciphertext, 16-byte tag.",
        ],
        "tree": _tree(),
        "blob": _blob(),
        "row": _row(),
    }


def _tree() -> dict[str, Any]:
    flat = FlatTree(SEED)
    steps: list[dict[str, Any]] = [_derive(flat, probe) for probe in PROBES]
    for target in ([FIRST], [SECOND, LAST], [FIRST]):
        for address in target:
            flat.puncture(56, address)
        steps.append({"do": "puncture", "addresses": [f"{address:014x}" for address in target]})
        steps += [_derive(flat, probe) for probe in PROBES]
    flat.puncture(16, 1)
    steps.append({"do": "puncture_prefix", "prefix": "0001"})
    steps += [_derive(flat, probe) for probe in PROBES]
    frontier = [[depth, f"{path:x}", seed.hex()] for (depth, path), seed in sorted(flat.frontier.items())]
    return {"seed": SEED.hex(), "steps": steps, "frontier": frontier}


def _derive(flat: FlatTree, address: int) -> dict[str, Any]:
    found = flat.derive(address)
    return {"do": "derive", "address": f"{address:014x}", "leaf": None if found is None else found.hex()}


def _blob() -> dict[str, Any]:
    """A blob with seeds at nodes 3 and 511 and links under bytes 1 and 200."""
    seeds = {3: b"\x03" * 32, 511: b"\x05" * 32}
    links = {1: (b"\x11" * 32, 7), 200: (b"\xcc" * 32, 2**40)}
    packed = b"\x01" + sum(1 << node for node in seeds).to_bytes(64, "big")
    packed += sum(1 << byte for byte in links).to_bytes(32, "big") + b"".join(seeds.values())
    packed += b"".join(key + epoch.to_bytes(8, "big") for key, epoch in links.values())
    key, nonce, prefix, epoch = b"\x77" * 32, b"\x88" * 12, b"\x00\x01", 9
    aad = bind(b"shomei/v1/tree", b"ab" * 16, bytes([len(prefix)]), prefix, epoch.to_bytes(8, "big"))
    return {
        "seeds": {str(node): seed.hex() for node, seed in seeds.items()},
        "links": {str(byte): {"key": key.hex(), "epoch": epoch} for byte, (key, epoch) in links.items()},
        "packed": packed.hex(),
        "domain": "ab" * 16,
        "prefix": prefix.hex(),
        "epoch": epoch,
        "key": key.hex(),
        "aad": aad.hex(),
        "sealed": (nonce + AESGCM(key).encrypt(nonce, packed, aad)).hex(),
    }


def _row() -> dict[str, Any]:
    root = leaf(SEED, FIRST)
    kek, dek, nonce = expand(root, b"shomei/v1/row/kek"), b"\x44" * 32, b"\x99" * 12
    place = [b"shomei/v1", b"ab" * 16, b"t_1", b"lm_2", (3).to_bytes(8, "big")]
    columns = {}
    for column in ("content", "recall"):
        key, aad = expand(dek, b"shomei/v1/col/" + column.encode()), bind(*place, column.encode())
        sealed = nonce + AESGCM(key).encrypt(nonce, b"plain " + column.encode(), aad)
        columns[column] = {"key": key.hex(), "aad": aad.hex(), "sealed": sealed.hex()}
    dek_aad = bind(*place, b"dek")
    return {
        "leaf": root.hex(),
        "kek": kek.hex(),
        "commitment_key": expand(root, b"shomei/v1/tenant/commit").hex(),
        "place": {"domain": "ab" * 16, "tenant": "t_1", "memory_id": "lm_2", "version": 3},
        "dek": dek.hex(),
        "sealed_dek": (nonce + AESGCM(kek).encrypt(nonce, dek, dek_aad)).hex(),
        "dek_aad": dek_aad.hex(),
        "columns": columns,
    }
