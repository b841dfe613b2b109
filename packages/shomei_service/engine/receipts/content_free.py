"""The last gate before a signature: only fields we know, only forms that carry no content. SEMANTICS.md §1.

An allow-list by field name. A builder that gains a field without a line here cannot get a receipt out.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Final, cast

from ..errors import EgressFault
from ..model import (
    CARRIED,
    ArtifactKind,
    Authority,
    Basis,
    Cause,
    DisclosureGround,
    Disposition,
    Ground,
    HoldScope,
    Json,
    JsonObject,
    LawfulBasis,
    Lift,
    PurgeState,
    Release,
    SourceKind,
)

Rule = Callable[[object], bool]
_NOTHING: Final = object()
_REFUSAL: Final = "a receipt body holds a field or a value that is not known to be content-free"
_WORDS: Final[Mapping[bool | None, str]] = {None: "null", True: "true", False: "false"}
_LARGEST: Final = 2**53 - 1
GENERIC: Final = frozenset({"GENERIC"})


def _form(pattern: str) -> Rule:
    matches = re.compile(pattern).fullmatch
    return lambda value: isinstance(value, str) and matches(value) is not None


def _one_of(*words: str) -> Rule:
    return lambda value: isinstance(value, str) and value in words


def _enum(closed: type[StrEnum]) -> Rule:
    return _one_of(*(member.value for member in closed))


def _integer(value: object) -> bool:
    return type(value) is int and abs(value) <= _LARGEST


def _optional(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


def _list_of(rule: Rule) -> Rule:
    return lambda value: isinstance(value, list) and all(map(rule, cast("list[object]", value)))


_KEYED = _form(r"hmac-sha256:[0-9a-f]{64}")
_MEMORY = _form(r"lm_[0-9a-f]{32}")
_ARTIFACT = _form(r"artifact:[0-9a-f]{32}")
_ORIGIN = _form(r"shomei/[0-9a-f]{32}")
_CUSTODIES: Final = ("ephemeral_test", "dev_local_file", "vault_transit", "kms_aws", "hsm_pkcs11")
_CUSTODY = _one_of(*_CUSTODIES)
_KEY_ID = _form(rf"shomei-receipt:[0-9a-f]{{16}}|({'|'.join(_CUSTODIES)}):[0-9]{{1,16}}|ck_[0-9a-f]{{32}}")

_FLAGGED: Final[Mapping[str, Rule]] = {"id": _ARTIFACT, "recallable": lambda value: isinstance(value, bool)}
_LOG: Final[Mapping[str, Rule]] = {"origin": _ORIGIN, "seq": _integer, "issued_at": _integer}

_FIELDS: Final[Mapping[str, Rule]] = {
    "schema": _form(r"shomei\.[a-z_]{1,40}\.v[0-9]{1,2}"),
    "tenant_id_hash": _KEYED,
    "applied_at": _integer,
    "actor_ref": _form(r"system|key_[0-9a-f]{16}"),
    "commit_key_id": _form(r"ck_[0-9a-f]{32}"),
    "log": lambda value: _is_object(value, _LOG, complete=True),
    "memory_id": _MEMORY,
    "tombstone_id": _form(r"ts_[0-9a-f]{32}"),
    "subject_pseudonym": _optional(_KEYED),
    "semantic_type": _form(r"[A-Z0-9_]{1,64}"),  # and one of the tenant's, see below
    "semantic_type_ref": _KEYED,
    "lawful_basis": _enum(LawfulBasis),
    "purpose_codes": _list_of(_form(r"[a-z0-9_]{1,64}")),
    "source_kind": _enum(SourceKind),
    "derived_from_count": _integer,
    "held_on_arrival": lambda value: isinstance(value, bool),
    "expires_at": _optional(_integer),
    "key_custody": _CUSTODY,
    "cause": _enum(Cause),
    "basis": _enum(Basis),
    "physical_purge_state": _enum(PurgeState),
    "retirement_hashes": _list_of(_KEYED),
    "embedding_retired": lambda value: value is True,
    "derived_affected_count": _integer,
    "obligation_id": _optional(_form(r"obl_[0-9a-f]{32}")),
    "erase_method": _one_of("pprf_puncture_v1"),
    "epoch_before": _integer,
    "epoch_after": _integer,
    "original_epoch": _integer,
    "destroy_method": _one_of(
        "file_overwrite_unlink", "pkcs11_destroy_object", "transit_trim", "kms_schedule_deletion"
    ),
    "finality": _one_of("unassured", "final", "scheduled"),
    "key_final_at": _optional(_integer),
    "resurrection_bound_at": _optional(_integer),
    "backup_detected": lambda value: value is True,
    "matched_count": _integer,
    "erased_count": _integer,
    "deferred_count": _integer,
    "disposition": _enum(Disposition),
    "match_basis": _one_of("subject_exact", "subject_exact_plus_derived"),
    "closed_set_commitment": _KEYED,
    "closed_set_size": _integer,
    "request_id": _form(r"obl_[0-9a-f]{32}"),
    "prior_closure_hash": _optional(_form(r"sha256:[0-9a-f]{64}")),
    "derived_erased_count": _integer,
    "external_artifact_count": _integer,
    "external_ack_count": _integer,
    "previous_id": _MEMORY,
    "carried": _list_of(_one_of(*CARRIED)),
    "action": _one_of("applied", "lifted", "placed", "released", "granted", "withdrawn", "expired"),
    "restricted_state": lambda value: isinstance(value, bool),
    "reason_code": _one_of(*(one.value for one in (*Ground, *Lift))),
    "ground_count": _integer,
    "notice_recorded": lambda value: isinstance(value, bool),
    "hold_id": _form(r"hold_[0-9a-f]{32}"),
    "scope": _enum(HoldScope),
    "authority_code": _enum(Authority),
    "release_code": _enum(Release),
    "matter_ref_hmac": _optional(_KEYED),
    "obligations_fired": _integer,
    "purpose_code": _form(r"[a-z0-9_]{1,64}"),
    "affected_count": _integer,
    "evidence_ref_hmac": _optional(_KEYED),
    "ground_code": _enum(DisclosureGround),
    "recipient_ref": _optional(_KEYED),
    "artifact_id": _ARTIFACT,
    "kind": _enum(ArtifactKind),
    "source_ids": _list_of(_form(r"lm_[0-9a-f]{32}|artifact:[0-9a-f]{32}")),
    "recallable": lambda value: isinstance(value, bool),
    "export_id": _form(r"exp_[0-9a-f]{32}"),
    "as_of_seq": _integer,
    "record_count": _integer,
    "record_set_commitment": _KEYED,
    "artifacts": _list_of(lambda value: _is_object(value, _FLAGGED, complete=True)),
    "artifact_count": _integer,
    "artifact_set_commitment": _KEYED,
    "disclosure_count": _integer,
    "disclosure_set_commitment": _KEYED,
    "tombstone_count": _integer,
    "package_digest": _form(r"sha256:[0-9a-f]{64}"),
    "key_role": _one_of("custody", "signer", "commit"),
    "old_key_id": _KEY_ID,
    "new_key_id": _KEY_ID,
    "new_public_key_hex": _form(r"[0-9a-f]{64}"),
    "previous_origin": _ORIGIN,
    "previous_next_seq": _integer,
}


def _is_object(value: object, rules: Mapping[str, Rule], *, complete: bool = False) -> bool:
    if not isinstance(value, dict):
        return False
    fields = cast("dict[str, object]", value)
    if complete and fields.keys() != rules.keys():
        return False
    for name, item in fields.items():  # a loop, not all(): this runs for every field of every receipt
        rule = rules.get(name)
        if rule is None or not rule(item):
            return False
    return True


def require_content_free(body: Mapping[str, Json], semantic_types: Collection[str] = GENERIC) -> None:
    """Raise EgressFault unless every field is known and every value has its field's content-free form.

    A semantic type is a caller's word: it passes only if the tenant's operator registered it.
    """
    if not _is_object(body, _FIELDS) or body.get("semantic_type", "GENERIC") not in semantic_types:
        raise EgressFault(_REFUSAL)


@dataclass(slots=True)
class _Field:
    """One field of the bodies that have the same fields: what the last of them held there, and its text."""

    name: str
    value: Json = None
    known: object = _NOTHING  # the value once more, if it can not have changed by the next time
    member: str = ""


class Screen:
    """The gate for the bodies of one statement after the other, and how they are written.

    Most of what a body says, the one before has said in the very same words: those are not looked at twice.
    """

    def __init__(self, semantic_types: Collection[str] = GENERIC) -> None:
        """Take the semantic types that the tenant's operator registered."""
        self._semantic_types: Final = semantic_types
        self._shapes: Final[dict[tuple[str, ...], tuple[list[_Field], list[_Field]]]] = {}

    def written(self, body: Mapping[str, Json]) -> tuple[JsonObject, str]:
        """Return a body in the order of its RFC 8785 text, and that; raise as `require_content_free`."""
        names = tuple(body)
        shape = self._shapes.get(names)
        if shape is None:
            fields = [_Field(name) for name in names]
            shape = self._shapes[names] = fields, sorted(fields, key=attrgetter("name"))
        fields, ordered = shape
        for field, value in zip(fields, body.values(), strict=True):
            if value is not field.known:
                _take(field, value)
        if body.get("semantic_type", "GENERIC") not in self._semantic_types:
            raise EgressFault(_REFUSAL)
        text = "{" + ",".join([field.member for field in ordered]) + "}"
        return {field.name: field.value for field in ordered}, text


def _take(field: _Field, value: Json) -> None:
    rule = _FIELDS.get(field.name)
    if rule is None or not rule(value):
        raise EgressFault(_REFUSAL)
    field.member = f"{encode_basestring(field.name)}:{_text(value)}"
    field.value = value
    field.known = _NOTHING if isinstance(value, dict | list) else value


def _text(value: Json) -> str:
    """Return the RFC 8785 text of a value that passed: its names are ASCII, its numbers whole and small."""
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        return (
            "{" + ",".join(f"{encode_basestring(name)}:{_text(value[name])}" for name in sorted(value)) + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return _WORDS[value] if value is None or isinstance(value, bool) else str(value)
