"""What every provider owes, whoever holds the keys: one module, four of them. CUSTODY.md §5."""

import base64
import logging
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from shomei_service.engine.custody import CustodyMismatch, KeyGone
from shomei_service.engine.custody.providers.protocol import Handle, KeyState, Provider
from shomei_service.engine.errors import CustodyUnavailable, EngineError, IntegrityFault
from tests.providers import Custodian

KEY, AAD = b"\x07" * 32, b"installation, epoch and name"


def new() -> str:
    """Return a name that no key has had, as the custody store makes them."""
    return "epoch-" + secrets.token_hex(16)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def provider(custodian: Custodian, home: Path) -> Provider:
    return custodian.initialised(home)


def said(act: Callable[[], object]) -> str:
    """Return the name of what an act raises."""
    with pytest.raises(EngineError) as raised:
        act()
    return type(raised.value).__name__


def test_it_says_who_it_is(custodian: Custodian, provider: Provider) -> None:
    about = provider.describe()
    assert about.key_custody.value == custodian.code
    assert about.is_development == (custodian.finality == "unassured")


def test_a_key_wraps_and_unwraps_until_it_is_destroyed(custodian: Custodian, provider: Provider) -> None:
    name = new()
    handle = provider.create(name)
    assert handle == name, "an epoch names its key before it exists"
    wrapped = provider.wrap(handle, KEY, AAD)
    assert KEY not in wrapped
    assert provider.wrap(handle, KEY, AAD) != wrapped
    assert provider.unwrap(handle, wrapped, AAD) == KEY
    assert provider.state(handle) is KeyState.ACTIVE
    ended = provider.destroy(handle)
    assert ended.method.value == custodian.destroy_method
    assert ended.finality.value == custodian.finality
    assert (ended.final_at is None) == (custodian.finality != "scheduled")
    assert provider.state(handle) is (
        KeyState.PENDING if custodian.finality == "scheduled" else KeyState.GONE
    )


def test_a_destroyed_key_does_nothing_any_more(custodian: Custodian, provider: Provider, home: Path) -> None:
    handle, other = provider.create(new()), provider.create(new())
    wrapped, kept = provider.wrap(handle, KEY, AAD), provider.wrap(other, KEY, AAD)
    provider.destroy(handle)
    for one in (provider, custodian.opened(home)):
        assert said(lambda one=one: one.unwrap(handle, wrapped, AAD)) == "KeyGone"
        assert said(lambda one=one: one.wrap(handle, KEY, AAD)) == "KeyGone"
        assert one.unwrap(other, kept, AAD) == KEY
    assert custodian.living(home) == {other}, "a wrap under a dead name makes no new key"


def test_destroying_again_finds_what_was_done(custodian: Custodian, provider: Provider, home: Path) -> None:
    handle = provider.create(new())
    ended = provider.destroy(handle)
    assert provider.destroy(handle) == ended
    assert custodian.opened(home).destroy(handle) == ended


def test_a_key_that_never_was_is_gone_and_destroying_it_does_nothing(
    custodian: Custodian, provider: Provider, home: Path
) -> None:
    """A crash between writing a key's name and making the key leaves just this."""
    never = Handle(new())
    assert provider.state(never) is KeyState.GONE
    provider.destroy(never)
    assert said(lambda: provider.wrap(never, KEY, AAD)) == "KeyGone"
    assert said(lambda: provider.unwrap(never, b"vault:v1:AAAA", AAD)) == "KeyGone"
    assert custodian.living(home) == set()
    assert provider.create(never) == never


def test_a_name_is_taken_once(provider: Provider) -> None:
    handle = provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    with pytest.raises(CustodyUnavailable):
        provider.create(handle)
    assert provider.unwrap(handle, wrapped, AAD) == KEY


@pytest.mark.parametrize("change", ["aad", "flipped", "shortened", "empty", "other key", "other provider"])
def test_what_was_not_wrapped_here_does_not_open(provider: Provider, change: str) -> None:
    handle, other = provider.create(new()), provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    blob = {
        "flipped": wrapped[:-9] + (b"A" if wrapped[-9:-8] != b"A" else b"B") + wrapped[-8:],
        "shortened": wrapped[:-3],
        "empty": b"",
        "other provider": bytes(range(92)),
    }.get(change, wrapped)
    asked = other if change == "other key" else handle
    with pytest.raises(IntegrityFault):
        provider.unwrap(asked, blob, AAD + b"!" if change == "aad" else AAD)
    assert provider.unwrap(handle, wrapped, AAD) == KEY


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", "x" * 65, "x.key", "x\n", "é", "shomei-*", "a?b"])
def test_a_name_that_is_none_reaches_nobody(provider: Provider, name: str) -> None:
    handle = Handle(name)
    acts: list[Callable[[], object]] = [
        lambda: provider.create(name),
        lambda: provider.state(handle),
        lambda: provider.destroy(handle),
        lambda: provider.wrap(handle, KEY, AAD),
        lambda: provider.unwrap(handle, b"vault:v1:AAAA", AAD),
    ]
    for act in acts:
        with pytest.raises(CustodyMismatch):
            act()


def test_another_opening_sees_the_same_keys(custodian: Custodian, provider: Provider, home: Path) -> None:
    """Two processes, or two workers: what one made the other uses, what one destroyed is gone for both."""
    second = custodian.opened(home)
    handle = provider.create(new())
    wrapped = second.wrap(handle, KEY, AAD)
    assert provider.unwrap(handle, wrapped, AAD) == KEY
    second.destroy(handle)
    assert provider.state(handle) is not KeyState.ACTIVE
    with pytest.raises(KeyGone):
        provider.unwrap(handle, wrapped, AAD)


def test_any_thread_may_call(provider: Provider) -> None:
    wrong: list[object] = []

    def live(number: int) -> None:
        try:
            for turn in range(3):
                handle = provider.create(new())
                key = bytes([number, turn]) * 16
                wrapped = provider.wrap(handle, key, AAD)
                if provider.unwrap(handle, wrapped, AAD) != key:
                    wrong.append(number)
                provider.destroy(handle)
                if provider.state(handle) is KeyState.ACTIVE:
                    wrong.append(number)
        except Exception as exc:
            wrong.append(exc)

    threads = [threading.Thread(target=live, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_destroyers_at_one_moment_both_succeed(
    custodian: Custodian, provider: Provider, home: Path
) -> None:
    handle = provider.create(new())
    both = [provider, custodian.opened(home)]
    failures: list[object] = []

    def end(one: Provider) -> None:
        for _ in range(20):
            try:
                one.destroy(handle)
            except CustodyUnavailable:
                continue  # it may meet the other's half-way; a repeat finds it done
            except Exception as exc:
                failures.append(exc)
            return
        failures.append("never done")

    threads = [threading.Thread(target=end, args=[one]) for one in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert custodian.living(home) == set()


def test_a_forked_process_asks_for_itself(custodian: Custodian, provider: Provider, home: Path) -> None:
    handle = provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    second = new()
    child = os.fork()
    if child == 0:
        try:
            opened = custodian.opened(home)
            right = opened.unwrap(handle, wrapped, AAD) == KEY
            opened.create(second)
            os._exit(0 if right else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert provider.unwrap(handle, wrapped, AAD) == KEY
    assert custodian.living(home) == {handle, second}


def test_nothing_secret_is_logged_at_any_level(
    custodian: Custodian, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The libraries underneath like to write down what they carry."""
    caplog.set_level(logging.DEBUG)
    provider = custodian.initialised(home)
    handle = provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    provider.unwrap(handle, wrapped, AAD)
    with pytest.raises(IntegrityFault):
        provider.unwrap(handle, wrapped, b"other")
    provider.destroy(handle)
    told = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    hidden = [KEY.hex(), base64.b64encode(KEY).decode(), repr(KEY)[2:-1]]
    hidden += [
        str(custodian.settings[name]) for name in ("vault_token", "pkcs11_pin") if name in custodian.settings
    ]
    assert [one for one in hidden if one in told] == []
