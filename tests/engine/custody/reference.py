"""The key tree again, written flat and from the specification alone; nothing of ours is imported."""

import hashlib
import hmac

DEPTH = 56


def children(seed: bytes) -> tuple[bytes, bytes]:
    digest = hashlib.blake2b(b"", digest_size=64, key=seed, person=b"shomei/ggm/v1").digest()
    return digest[:32], digest[32:]


def leaf(root: bytes, address: int) -> bytes:
    """Walk from the root, one bit at a time."""
    seed = root
    for bit in format(address, f"0{DEPTH}b"):
        seed = children(seed)[int(bit)]
    return seed


class FlatTree:
    """The live frontier as one dictionary: (depth, path as a number) -> seed."""

    def __init__(self, root: bytes) -> None:
        self.frontier: dict[tuple[int, int], bytes] = {(0, 0): root}

    def puncture(self, depth: int, path: int) -> None:
        """Replace the seed at or above the node by the seeds of the siblings on the way down to it."""
        above = next((up for up in range(depth, -1, -1) if (up, path >> (depth - up)) in self.frontier), None)
        if above is not None:
            seed = self.frontier.pop((above, path >> (depth - above)))
            for level in range(above + 1, depth + 1):
                node = path >> (depth - level)
                pair = children(seed)
                self.frontier[level, node ^ 1] = pair[(node & 1) ^ 1]
                seed = pair[node & 1]
        for level, node in list(self.frontier):
            if level >= depth and node >> (level - depth) == path:
                del self.frontier[level, node]

    def derive(self, address: int) -> bytes | None:
        for depth in range(DEPTH + 1):
            seed = self.frontier.get((depth, address >> (DEPTH - depth)))
            if seed is not None:
                for shift in range(DEPTH - depth - 1, -1, -1):
                    seed = children(seed)[address >> shift & 1]
                return seed
        return None


def expand(key: bytes, info: bytes) -> bytes:
    """RFC 5869 §2.3 for one block."""
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()


def bind(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
