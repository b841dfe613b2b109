"""What an attack is made of, in one file: to be made again once a scheduled deletion has come to its date."""

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from ..engine.errors import StartRefused
from .thief import Loot, SealedRow

_FORMAT: Final = "shomei.proof.v1"


@dataclass(frozen=True, slots=True, repr=False)
class Material:
    """A backup's rows, custody stores, and what each row holds: random words of the proof's own."""

    rows: Sequence[SealedRow]
    loots: Sequence[Loot]
    kept: Mapping[str, str]
    gone: Mapping[str, str]
    retired: Sequence[str]  # names of the keys whose deletion is scheduled
    final_at: int

    def write(self, file: Path) -> None:
        """Write a new private file; raise StartRefused if there is one."""
        loots = [
            asdict(loot) | {"blobs": [[*name, sealed] for name, sealed in loot.blobs.items()]}
            for loot in self.loots
        ]
        document = {
            "format": _FORMAT,
            "rows": [asdict(row) for row in self.rows],
            "loots": loots,
            **{name: getattr(self, name) for name in ("kept", "gone", "retired", "final_at")},
        }
        try:
            descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        except OSError as exc:
            raise StartRefused("the file to keep the attack in is there already, or can not be made") from exc
        with os.fdopen(descriptor, "w") as opened:
            json.dump(document, opened, default=_packed)

    @classmethod
    def read(cls, file: Path) -> "Material":
        """Read what `write` wrote; raise StartRefused for anything else."""
        try:
            document = cast("dict[str, Any]", json.loads(file.read_bytes(), object_hook=_unpacked))
            if document["format"] != _FORMAT:
                raise StartRefused("the file is none that prove-erasure --keep wrote")
            loots = [
                Loot(**loot | {"blobs": {(prefix, epoch): sealed for prefix, epoch, sealed in loot["blobs"]}})
                for loot in document["loots"]
            ]
            rest = {name: document[name] for name in ("kept", "gone", "retired", "final_at")}
            return cls(rows=[SealedRow(**row) for row in document["rows"]], loots=loots, **rest)
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise StartRefused("the file is none that prove-erasure --keep wrote") from exc


def _packed(value: object) -> dict[str, str]:
    if not isinstance(value, bytes):
        raise TypeError
    return {"b64": base64.b64encode(value).decode()}


def _unpacked(value: dict[str, Any]) -> object:
    return base64.b64decode(value["b64"], validate=True) if value.keys() == {"b64"} else value
