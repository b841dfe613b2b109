"""Epoch keys in a PKCS#11 token: made in it, used in it, destroyed in it. CUSTODY.md §5.

The token computes HMAC-SHA-256 of a fresh salt and the associated data under the epoch key, and what comes
out is the one-time key that seals. Every token can do that; AES-GCM in the token is not portable, because
tokens in FIPS mode insist on nonces of their own. docs/decisions/ has the reasons.
"""

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from ...errors import CustodyUnavailable, StartRefused
from ..faults import CustodyMismatch, KeyGone
from ..sealing import KEY_BYTES, bind, open_sealed, seal
from .protocol import Description, Destroyed, DestroyMethod, Finality, Handle, KeyCustody, KeyState, named

if TYPE_CHECKING:
    from pkcs11 import Object, Session, SignMixin, Token

_PREFIX: Final = "shomei-"
_ANCHOR: Final = "shomei-custody"  # a key that is always there: seen by whoever can see our keys at all
_SALT_BYTES: Final = 32
_LABEL: Final = b"shomei/v1/pkcs11"
# python-pkcs11 sets modules up for one thread: two inside at once, whatever their sessions, end the process.
_PROCESS: Final = threading.Lock()
_SOFTWARE: Final = "SoftHSM"  # keys in files that call themselves a token


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """The module that speaks to the token, and the token's label."""

    module: Path
    token: str


class Pkcs11:
    """Keys that never leave a token: private, sensitive, not extractable.

    One call at a time in a process: an epoch needs six, and none is on the way of a read. A module has no
    time limit of its own to give; set one in its configuration.
    """

    def __init__(self, place: TokenPlace, pin: Callable[[], str], *, initialise: bool = False) -> None:
        """Log in; raise StartRefused if token, PIN or our anchor in the token is not there.

        With `initialise`, the anchor is made where it is missing.
        """
        self._pkcs11: Final = _imported()
        self._place: Final = place
        self._pin: Final = pin
        self._session: Session | None = None
        self._session_of: int = 0
        self._has_started: bool = False
        self._is_refused: bool = False
        with self._using() as session:
            self._is_software: Final = _SOFTWARE in self._maker(session)
            if not self._named(session, _ANCHOR):
                if not initialise:
                    raise StartRefused("the token holds no Shomei custody; name the right one, or init first")
                self._generate(session, _ANCHOR)

    def create(self, name: str) -> Handle:
        """Make a key in the token; the token stores it before it answers."""
        with self._using() as session:
            if self._named(session, _PREFIX + named(name)):
                raise CustodyUnavailable("the token has a key of that name already")
            self._generate(session, _PREFIX + name)
        return Handle(name)

    def wrap(self, handle: Handle, key: bytes, aad: bytes) -> bytes:
        """Return salt and sealed key."""
        salt = os.urandom(_SALT_BYTES)
        return salt + seal(self._one_time_key(handle, salt, aad), key, aad)

    def unwrap(self, handle: Handle, blob: bytes, aad: bytes) -> bytes:
        """Return what was wrapped."""
        salt, sealed = blob[:_SALT_BYTES], blob[_SALT_BYTES:]
        return open_sealed(self._one_time_key(handle, salt, aad), sealed, aad)

    def destroy(self, handle: Handle) -> Destroyed:
        """Destroy every object of the name; what a lost answer left counts too."""
        with self._using() as session:
            for key in self._named(session, _PREFIX + named(handle)):
                key.destroy()
            self._require_anchor(session)
        finality = Finality.UNASSURED if self._is_software else Finality.FINAL
        return Destroyed(DestroyMethod.PKCS11_DESTROY_OBJECT, finality)

    def state(self, handle: Handle) -> KeyState:
        """Return whether the token still has the key."""
        with self._using() as session:
            if self._named(session, _PREFIX + named(handle)):
                return KeyState.ACTIVE
            self._require_anchor(session)
        return KeyState.GONE

    def describe(self) -> Description:
        """Say that keys are in a token; one in software is for development."""
        return Description(KeyCustody.HSM_PKCS11, is_development=self._is_software)

    def _maker(self, session: "Session") -> str:
        return session.token.manufacturer_id or ""

    def _one_time_key(self, handle: Handle, salt: bytes, aad: bytes) -> bytes:
        with self._using() as session:
            found = self._named(session, _PREFIX + named(handle))
            if not found:
                self._require_anchor(session)
                raise KeyGone("the token no longer has the epoch key")
            if len(found) > 1:
                raise CustodyMismatch("the token has two keys of one name; somebody copied one in")
            key = cast("SignMixin", found[0])
            made = key.sign(bind(_LABEL, salt, aad), mechanism=self._pkcs11.Mechanism.SHA256_HMAC)
        if len(made) != KEY_BYTES:
            raise CustodyUnavailable("the token did not compute what it was asked for")
        return made

    def _require_anchor(self, session: "Session") -> None:
        """Trust "no such key" only from a session that sees our keys: one logged out sees none at all."""
        if not self._named(session, _ANCHOR):
            raise CustodyUnavailable("the token shows none of our keys: logged out, cleared or exchanged")

    def _named(self, session: "Session", label: str) -> "list[Object]":
        attribute, of_class = self._pkcs11.Attribute, self._pkcs11.ObjectClass
        return list(session.get_objects({attribute.CLASS: of_class.SECRET_KEY, attribute.LABEL: label}))

    def _generate(self, session: "Session", label: str) -> None:
        attribute = self._pkcs11.Attribute
        never = ("ENCRYPT", "DECRYPT", "WRAP", "UNWRAP", "DERIVE", "VERIFY", "EXTRACTABLE", "MODIFIABLE")
        template: dict[Any, object] = {getattr(attribute, name): False for name in never}
        template |= {getattr(attribute, name): True for name in ("SIGN", "PRIVATE", "SENSITIVE")}
        session.generate_key(
            self._pkcs11.KeyType.GENERIC_SECRET,
            KEY_BYTES * 8,
            id=label.encode(),
            label=label,
            store=True,
            mechanism=self._pkcs11.Mechanism.GENERIC_SECRET_KEY_GEN,
            template=template,
        )

    @contextmanager
    def _using(self) -> "Generator[Session]":
        """Yield the session, opened if it must be; one that failed is not used again."""
        with _PROCESS:
            try:
                yield self._opened()
            except self._pkcs11.PKCS11Error as exc:
                self._drop()
                raise CustodyUnavailable("the token does not answer, or will not do it") from exc

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None and self._session_of == os.getpid():
            with suppress(self._pkcs11.PKCS11Error):
                session.close()

    def _opened(self) -> "Session":
        if self._session is None or self._session_of != os.getpid():
            if self._is_refused:
                raise CustodyUnavailable("the token refused the PIN; it is not tried again before a restart")
            try:
                self._session = self._logged_in(self._token())
            except StartRefused as exc:
                if not self._has_started:
                    raise
                raise CustodyUnavailable(
                    "the token can no longer be opened; look at it, and restart"
                ) from exc
            self._session_of, self._has_started = os.getpid(), True
        return self._session

    def _logged_in(self, token: "Token") -> "Session":
        errors = self._pkcs11
        try:
            return token.open(rw=True, user_pin=self._pin())
        except errors.UserAlreadyLoggedIn:
            return token.open(rw=True)  # a login is for the whole process
        except (errors.PinIncorrect, errors.PinInvalid, errors.PinLenRange) as exc:
            self._is_refused = True  # a token locks itself after a few wrong PINs
            raise StartRefused("the token refuses the PIN; look at SHOMEI_PKCS11_PIN_FILE") from exc
        except (errors.PinLocked, errors.PinExpired, errors.UserPinNotInitialized) as exc:
            self._is_refused = True
            raise StartRefused("the token's user PIN is locked, expired or was never set") from exc

    def _token(self) -> "Token":
        errors = self._pkcs11
        if not self._place.module.is_file():
            raise StartRefused("SHOMEI_PKCS11_MODULE is no file; name the token maker's PKCS#11 library")
        try:
            library = errors.lib(str(self._place.module))
            if self._session is not None:  # of the process this one was forked from
                library.reinitialize()
            return library.get_token(token_label=self._place.token)
        except errors.NoSuchToken as exc:
            raise StartRefused("no token has the label that SHOMEI_PKCS11_TOKEN names") from exc
        except errors.MultipleTokensReturned as exc:
            raise StartRefused("several tokens have the label that SHOMEI_PKCS11_TOKEN names") from exc
        except errors.PKCS11Error as exc:
            raise StartRefused("SHOMEI_PKCS11_MODULE is no PKCS#11 library that can be used here") from exc


def _imported() -> ModuleType:
    try:
        import pkcs11
    except ImportError as exc:
        raise StartRefused(
            "PKCS#11 custody needs the extra: pip install 'shomei-governed-memory[pkcs11]'"
        ) from exc
    return pkcs11
