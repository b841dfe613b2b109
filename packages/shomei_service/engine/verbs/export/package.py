"""A finished export on its way out: as one JSON object, or as a ZIP archive. docs/spec/export.md §4-§5."""

import hashlib
import io
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from typing_extensions import Buffer

from shomei_memory_verify.canonical import canonical_bytes

from ...custody.spool import Spool
from ...model import Attested, JsonObject

NONCE_BYTES: Final = 32
_FORMAT: Final = "shomei-export-manifest/v1"
_MANIFEST: Final = "manifest.json"
_WITNESS: Final = "witness.json"
_READ_ONLY: Final = 0o100600 << 16  # a person's data is for its reader alone
_DEFLATE_LEVEL: Final = 6
_EARLIEST: Final = 315_532_800  # 1980: a ZIP archive knows no earlier time


def digest(nonce: bytes, files: Sequence[tuple[str, str]]) -> str:
    """Return what the witness binds the files by; without the nonce, which only the package holds, no guess
    of a file confirms itself."""
    return "sha256:" + hashlib.sha256(nonce + canonical_bytes([[*one] for one in files])).hexdigest()


def manifest(nonce: bytes, files: Sequence[tuple[str, str]]) -> bytes:
    """Return the list of the files and the nonce."""
    return canonical_bytes({"files": [[*one] for one in files], "format": _FORMAT, "nonce": nonce.hex()})


class Package:
    """Files put aside, their manifest and the receipt that is their witness."""

    def __init__(
        self,
        export_id: str,
        made_at: int,
        receipt: Attested,
        manifest: bytes,
        spools: Mapping[str, Spool],
    ) -> None:
        self.export_id = export_id
        self.receipt = receipt
        self._made_at = made_at
        self._manifest = manifest
        self._spools = spools

    def as_json(self) -> Iterator[bytes]:
        """Yield one JSON object: export, manifest and receipt."""
        (spool,) = self._spools.values()
        yield b'{"export":'
        yield from spool.pieces()
        told = {name: canonical_bytes(value) for name, value in self._statement().items()}
        rest = {"manifest": self._manifest, **told}
        yield b"".join(b"," + canonical_bytes(name) + b":" + value for name, value in rest.items()) + b"}"

    def as_zip(self) -> Iterator[bytes]:
        """Yield a ZIP archive, a piece at a time."""
        out = _Collected()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=_DEFLATE_LEVEL) as archive:
            for name, spool in sorted(self._spools.items()):
                with archive.open(self._entry(name), "w", force_zip64=True) as entry:
                    for piece in spool.pieces():
                        entry.write(piece)
                        yield from out.taken()
            archive.writestr(self._entry(_MANIFEST), self._manifest)
            archive.writestr(self._entry(_WITNESS), canonical_bytes(self._witness()))
        yield from out.taken()

    def close(self) -> None:
        """Let go of what was put aside."""
        for spool in self._spools.values():
            spool.close()

    def _statement(self) -> JsonObject:
        told: JsonObject = {"receipt": dict(self.receipt.body), "receipt_hash": self.receipt.receipt_hash}
        if self.receipt.envelope is not None:
            told["signed_receipt"] = dict(self.receipt.envelope)
        return told

    def _witness(self) -> JsonObject:
        """Return the signed receipt; where nobody signs, the statement alone, which no verifier accepts."""
        return dict(self.receipt.envelope) if self.receipt.envelope is not None else self._statement()

    def _entry(self, name: str) -> zipfile.ZipInfo:
        moment = time.gmtime(max(self._made_at, _EARLIEST))
        entry = zipfile.ZipInfo(name, moment[:6])
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = _READ_ONLY
        return entry


class _Collected(io.RawIOBase):
    """A file that can only be written to, and whose bytes are taken away as they come."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[bytes] = []

    def writable(self) -> bool:
        """Say yes."""
        return True

    def write(self, data: Buffer, /) -> int:
        """Take bytes."""
        taken = bytes(data)
        self._waiting.append(taken)
        return len(taken)

    def taken(self) -> Iterator[bytes]:
        """Yield what was written since the last time, if anything was."""
        if self._waiting:
            yield b"".join(self._waiting)
            self._waiting.clear()
