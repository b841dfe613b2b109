"""Codes in plain words, for a person who knows none of them. An unknown code is shown as it is."""

import time
from collections.abc import Mapping
from typing import Final

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

SOURCES: Final[Mapping[str, str]] = {
    "provided": "told by you, or on your behalf",
    "observed": "noticed while you used the service",
    "derived": "worked out from other memories",
    "imported": "brought in from another system",
}
BASES: Final[Mapping[str, str]] = {
    "consent": "your consent",
    "contract": "a contract with you",
    "legal_obligation": "a legal obligation",
    "vital_interests": "somebody's vital interests",
    "public_task": "a public task",
    "legitimate_interests": "legitimate interests",
    "not_recorded": "not recorded",
}
GROUNDS: Final[Mapping[str, str]] = {
    "art18_request": "you asked for it to be set aside",
    "art18_1_a_accuracy_contested": "you say that it is wrong, and that is being checked",
    "art18_1_b_unlawful_opposes_erasure": "you prefer it set aside to erased",
    "art18_1_c_legal_claims": "you need it for a legal claim",
    "art18_1_d_objection_pending": "you objected, and that is being decided",
    "controller_initiative": "set aside by us",
    "security_quarantine": "set aside for security reasons",
    "retention_review": "being reviewed: is it still needed?",
    "poisoning_suspected": "its content is suspected to be manipulated",
    "art17_deferred_hold": "its erasure is decided, and waits until the law no longer requires it to be kept",
    "source_erased": "a memory it was made from has been erased",
    "source_superseded": "a memory it was made from has been corrected",
    "integrity_fault": "its stored form is damaged",
}
REDACTIONS: Final[Mapping[str, str]] = {
    "art15_4_rights_of_others": "left out: it would affect the rights of others (Art. 15(4))",
    "art23_restriction": "left out: a law restricts access to it (Art. 23)",
    "trade_secret": "left out: it would reveal a trade secret (Recital 63)",
}
CAUSES: Final[Mapping[str, str]] = {
    "delete_request": "it was deleted",
    "subject_forget": "you asked to be forgotten",
    "deferred_hold_release": "it no longer had to be kept by law",
    "superseded_update": "it was corrected; the new version took its place",
    "derived_cascade": "a memory it was made from was erased",
    "retention_expired": "its time was over",
    "consent_withdrawn": "consent was withdrawn",
    "resurrection_reerase": "it came back with a restored backup and was erased again",
    "tenant_offboarding": "the service was closed",
}
VERBS: Final[Mapping[str, str]] = {
    "get": "read",
    "list": "listed",
    "search": "found in a search",
    "verify": "state checked",
    "lineage": "origin looked up",
    "disclose": "disclosed",
    "export": "exported for you",
    "consents": "consent looked up",
}
RECIPIENTS: Final[Mapping[str, str]] = {
    "data": "an application",
    "admin": "an administrator",
    "system": "the service itself",
    "external_artifact": "holder of something made from your memories",
}
ACTIONS: Final[Mapping[str, str]] = {"granted": "given", "withdrawn": "withdrawn", "expired": "expired"}


def day(at: object) -> str:
    """Return an epoch second as a day; nothing for what is none."""
    if not isinstance(at, int):
        return ""
    moment = time.gmtime(at)
    return f"{moment.tm_mday} {_MONTHS[moment.tm_mon - 1]} {moment.tm_year}"


def moment(at: object) -> str:
    """Return an epoch second as a day and a time; nothing for what is none."""
    if not isinstance(at, int):
        return ""
    return f"{day(at)}, {time.strftime('%H:%M', time.gmtime(at))} UTC"


def said(words: Mapping[str, str], code: object) -> str:
    """Return the plain words for a code."""
    return words.get(str(code), str(code).replace("_", " "))
