"""Keys as files: durable before use, overwritten before removal, and never read when others may."""

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from shomei_service.engine.custody import CustodyMismatch, KeyGone
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.providers.protocol import (
    Destroyed,
    DestroyMethod,
    Finality,
    Handle,
    KeyCustody,
    KeyState,
    Provider,
)
from shomei_service.engine.errors import CustodyUnavailable, IntegrityFault
from tests.engine.custody.test_together import at_once

KEY = b"\x07" * 32


@pytest.fixture
def provider(tmp_path: Path) -> LocalFile:
    return LocalFile.initialise(tmp_path / "keys")


def test_it_fits_the_port(provider: LocalFile) -> None:
    port: Provider = provider
    assert port.describe().key_custody is KeyCustody.DEV_LOCAL_FILE
    assert port.describe().is_development


def test_a_key_wraps_and_unwraps_until_it_is_destroyed(provider: LocalFile) -> None:
    handle = provider.create("epoch-1")
    other = provider.create("epoch-2")
    wrapped = provider.wrap(handle, KEY, b"aad")
    assert provider.state(handle) is KeyState.ACTIVE
    assert provider.unwrap(handle, wrapped, b"aad") == KEY
    for wrong in ((handle, b"aae"), (other, b"aad")):
        with pytest.raises(IntegrityFault):
            provider.unwrap(wrong[0], wrapped, wrong[1])
    ended = Destroyed(DestroyMethod.FILE_OVERWRITE_UNLINK, Finality.UNASSURED)
    assert provider.destroy(handle) == ended
    assert provider.destroy(handle) == ended
    assert provider.state(handle) is KeyState.GONE
    for use in (lambda: provider.wrap(handle, KEY, b""), lambda: provider.unwrap(handle, wrapped, b"aad")):
        with pytest.raises(KeyGone):
            use()


def test_the_old_bytes_are_overwritten_before_the_name_goes(provider: LocalFile, tmp_path: Path) -> None:
    handle = provider.create("epoch-1")
    where = tmp_path / "keys" / "epoch-1.key"
    before = where.read_bytes()
    os.link(where, tmp_path / "second-name")  # the same inode, so what is on it can still be seen
    provider.destroy(handle)
    after = (tmp_path / "second-name").read_bytes()
    assert not where.exists()
    assert len(after) == 32
    assert after != before


def test_a_key_whose_bytes_are_gone_and_whose_name_is_not_is_gone(
    provider: LocalFile, tmp_path: Path
) -> None:
    """Whoever reads between the two must not take a key that another process destroys for a damaged one."""
    handle = provider.create("epoch-1")
    wrapped = provider.wrap(handle, KEY, b"aad")
    where = tmp_path / "keys" / "epoch-1.key"
    os.link(where, tmp_path / "second-name")
    provider.destroy(handle)
    (tmp_path / "second-name").rename(where)
    for use in (lambda: provider.wrap(handle, KEY, b""), lambda: provider.unwrap(handle, wrapped, b"aad")):
        with pytest.raises(KeyGone):
            use()
    provider.destroy(handle)
    assert not where.exists()


def test_who_reads_while_another_destroys_gets_the_key_or_hears_that_it_is_gone(provider: LocalFile) -> None:
    for number in range(30):
        handle = provider.create(f"epoch-{number}")
        wrapped = provider.wrap(handle, KEY, b"aad")
        acts: list[Callable[[], object]] = [lambda held=handle: provider.destroy(held)]
        acts += [lambda held=handle, blob=wrapped: provider.unwrap(held, blob, b"aad")] * 5
        _, *read = at_once(acts)
        assert all(one == KEY or isinstance(one, KeyGone) for one in read), read


def test_a_name_is_taken_once(provider: LocalFile) -> None:
    provider.create("epoch-1")
    with pytest.raises(CustodyUnavailable):
        provider.create("epoch-1")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", "x" * 65, "x.key", "x\n"])
def test_a_name_that_is_none_is_refused(provider: LocalFile, name: str) -> None:
    for act in (
        provider.create,
        lambda text: provider.state(Handle(text)),
        lambda text: provider.destroy(Handle(text)),
    ):
        with pytest.raises(CustodyMismatch):
            act(name)


def test_a_directory_in_use_is_not_initialised(provider: LocalFile, tmp_path: Path) -> None:
    LocalFile.initialise(tmp_path / "keys")  # empty still
    provider.create("epoch-1")
    with pytest.raises(CustodyMismatch):
        LocalFile.initialise(tmp_path / "keys")


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"")
    with pytest.raises(CustodyMismatch):
        LocalFile(tmp_path / "keys")


def test_a_directory_that_vanished_is_unavailable_and_not_made_anew(
    provider: LocalFile, tmp_path: Path
) -> None:
    handle = provider.create("epoch-1")
    (tmp_path / "keys").rename(tmp_path / "aside")
    for act in (
        lambda: provider.create("epoch-2"),
        lambda: provider.unwrap(handle, b"\x00" * 60, b""),
        lambda: provider.state(handle),
        lambda: provider.destroy(handle),
    ):
        with pytest.raises(CustodyUnavailable):
            act()
    assert not (tmp_path / "keys").exists()


def test_a_key_replaced_by_a_directory_is_unavailable(provider: LocalFile, tmp_path: Path) -> None:
    (tmp_path / "keys" / "epoch-1.key").mkdir(mode=0o700)
    handle = Handle("epoch-1")
    for act in (lambda: provider.unwrap(handle, b"", b""), lambda: provider.destroy(handle)):
        with pytest.raises(CustodyUnavailable):
            act()


def test_a_key_directory_that_became_a_file_is_unavailable(provider: LocalFile, tmp_path: Path) -> None:
    (tmp_path / "keys").rmdir()
    (tmp_path / "keys").write_bytes(b"")
    for act in (
        lambda: provider.state(Handle("epoch-1")),
        lambda: provider.destroy(Handle("epoch-1")),
        lambda: provider.wrap(Handle("epoch-1"), KEY, b""),
    ):
        with pytest.raises(CustodyUnavailable):
            act()


def test_two_processes_may_destroy_one_key(provider: LocalFile, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = provider.create("epoch-1")
    fsync = os.fsync

    def overtaken(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        provider.destroy(handle)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", overtaken)
    provider.destroy(handle)
    assert provider.state(handle) is KeyState.GONE


@pytest.mark.parametrize("room", [0, 16])
def test_a_disk_without_room_is_unavailable(provider: LocalFile, tmp_path: Path, room: int) -> None:
    handle = provider.create("epoch-1")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        for act in (lambda: provider.create("epoch-2"), lambda: provider.destroy(handle)):
            with pytest.raises(CustodyUnavailable):
                act()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert provider.state(handle) is KeyState.ACTIVE
    provider.destroy(handle)
    provider.destroy(Handle("epoch-2"))
    assert list((tmp_path / "keys").iterdir()) == []
