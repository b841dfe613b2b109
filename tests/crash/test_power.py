"""The power fails at any moment: whatever the disk kept of what was not synced, what was told holds. T-03."""

import json
import random
import shutil
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.deep import is_deep, keep
from tests.crash.power import CALLS, Disk
from tests.crash.runs import KILLED, Run, Server, Stored, after, copied, lapse
from tests.crash.strace import counted, logging, needs_strace, spread
from tests.crash.test_syscalls import steps
from tests.fakes import Home

KEY_BYTES = 32
IMAGES, DEEP_IMAGES = 60, 1500
FILE_CALLS = ("fdatasync", "fsync", "pwrite64", "unlink")
BESIDE, DEEP_BESIDE = 4, 150  # cuts at each of these calls


def test_a_disk_keeps_what_was_synced_and_any_of_the_rest(tmp_path: Path) -> None:
    """The model itself, on a log written by hand."""

    def hexed(text: str) -> str:
        return "".join(f"\\x{octet:02x}" for octet in text.encode())

    root, name = tmp_path / "root", str(tmp_path / "root" / "file")
    root.mkdir()
    opened = f'1 openat(AT_FDCWD<{hexed("/")}>, "{hexed(name)}", O_RDWR|O_CREAT, 0600) = 3<{hexed(name)}>'
    place = f"3<{hexed(name)}>"
    lines = [
        opened,
        f'1 pwrite64({place}, "{hexed("one")}", 3, 0) = 3',
        f"1 fdatasync({place}) = 0",
        f'1 pwrite64({place}, "{hexed("two")}", 3, 3) = 3',
        f'1 openat(AT_FDCWD<{hexed("/")}>, "{hexed(str(root))}", O_RDONLY) = 4<{hexed(str(root))}>',
        f"1 fsync(4<{hexed(str(root))}>) = 0",
        f'1 unlink("{hexed(name)}") = 0',
    ]
    (tmp_path / "log").write_text("\n".join(lines))
    disk, chance = Disk.of(root), random.Random(0)
    seen = [{tuple(disk.image(chance, kept).values()) for kept in (0, 1)} for _ in disk.run(tmp_path / "log")]
    nothing, one, both, gone = (), (b"one",), (b"onetwo",), ()
    assert seen[0] == {nothing, (b"",)}
    assert seen[2] == {nothing, one}, "a file whose directory was not synced may have no name"
    assert seen[3] == {nothing, both}
    assert seen[5] == {one, both}
    assert seen[6] == {one, gone}


@needs_strace
def test_every_image_holds_what_was_told(
    server: Server, small: Stored, folder: Path, request: pytest.FixtureRequest
) -> None:
    (folder / "run").mkdir()
    home = small.copied(folder / "run")
    disk = Disk.of(home.settings.home.parent)
    log, said = folder / "log", folder / "run" / "said"
    whole = server.run(home, steps(small), trace=following(log))
    assert whole.code == 0, whole.errors
    count = sum(1 for _ in Disk.of(home.settings.home.parent).run(log))
    images = DEEP_IMAGES if is_deep(request) else IMAGES
    chance = random.Random(9)
    cuts = sorted(chance.choices(range(1, count + 1), k=images))
    keys: dict[str, bytes] = {}
    for moment, name in enumerate(noting_keys(disk, log, keys), start=1):
        while cuts and cuts[0] == moment:
            cuts.pop(0)
            seed = f"{moment} {name} {chance.getrandbits(32)}"
            told = [json.loads(line) for line in disk.written(said).splitlines()]
            (folder / "image").mkdir()
            holds(small, small.copied(folder / "image"), disk, seed, Run(KILLED, told, ""), keys)
    assert not cuts
    keep(request, "power cuts", {"calls": count, "images": images})


@needs_strace
@pytest.mark.parametrize("call", FILE_CALLS)
def test_a_custody_store_in_a_file_beside_a_server(
    server: Server, small_beside: Stored, folder: Path, call: str, request: pytest.FixtureRequest
) -> None:
    """The server's disk is its own and keeps everything; the files beside it keep what was synced."""
    (folder / "whole").mkdir()
    whole = small_beside.copied(folder / "whole")
    assert server.run(whole, steps(small_beside), trace=logging(folder / "log", call)).code == 0
    calls = counted(folder / "log")[call]
    points = list(spread(calls, DEEP_BESIDE if is_deep(request) else BESIDE))
    for nth in points:
        (folder / str(nth)).mkdir()
        home = small_beside.copied(folder / str(nth))
        disk, keys = Disk.of(home.settings.home.parent), dict[str, bytes]()
        dying = [*following(folder / "log"), "-e", f"inject={call}:signal=KILL:when={nth}"]
        run = server.run(home, steps(small_beside), trace=dying)
        assert run.code == KILLED, (call, nth, run.errors)
        deque(noting_keys(disk, folder / "log", keys), maxlen=0)  # to the end
        lapse(home)
        (folder / "image").mkdir()
        holds(small_beside, copied(home, folder / "image"), disk, f"{call} {nth}", run, keys)
    keep(request, f"power cuts beside a server at {call}", {"calls": calls, "deaths": len(points)})


def following(log: Path) -> list[str]:
    """Return the arguments that write down all that is told a disk."""
    return ["-y", "-xx", "-s", "10000000", "-o", str(log), "-e", "trace=" + ",".join(CALLS)]


def noting_keys(disk: Disk, log: Path, keys: dict[str, bytes]) -> Iterator[str]:
    """Go through a run, and write down each custody key: what is written later overwrites it."""
    for name in disk.run(log):
        for path in (Path(one) for one in disk.names if one.endswith(".key")):
            content = disk.written(path)
            if len(content) == KEY_BYTES:
                keys.setdefault(str(path), content)
        yield name


def holds(stored: Stored, home: Home, disk: Disk, seed: str, run: Run, keys: dict[str, bytes]) -> None:
    """Put one image in place of a home's files, open it, and hold it against what had been said."""
    chance = random.Random(seed)
    image = disk.image(chance, chance.choice([0.0, 0.2, 0.5, 0.8, 1.0]))
    place = home.settings.home.parent
    for path in home.settings.home.rglob("*"):
        if path.is_file():
            path.unlink()
    for path in [path for path in image if path in keys and path not in disk.names]:
        # The name of a destroyed key may come back, the key may not: it was overwritten before.
        assert image.pop(path) != keys[path], seed
    for path, content in image.items():
        target = place / Path(path).relative_to(disk.root)
        target.write_bytes(content)
        target.chmod(0o600)
    try:
        with home.opened() as house:
            after(house, home, stored, run, carried_out=None)
    except BaseException as failure:
        failure.add_note(f"the image of {seed!r}")
        raise
    shutil.rmtree(place)
