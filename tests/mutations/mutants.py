"""Mistakes that must not go unnoticed: each a change of a few words, and tests of which one must turn red."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ENGINE: Final = "packages/shomei_service/engine/"
_RED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """Changes by file, each of text that is there exactly once, and where to look for red."""

    changes: Mapping[str, tuple[tuple[str, str], ...]]
    tests: tuple[str, ...]


MUTANTS: Final = {
    "skip the fsync of the database": Mutant(
        {
            _ENGINE + "store/unit.py": (
                ('"synchronous=FULL"', '"synchronous=OFF"'),
                ('"synchronous": "2"', '"synchronous": "0"'),
            )
        },
        ("tests/crash/test_power.py",),
    ),
    "skip the fsync of custody": Mutant(
        {
            _ENGINE + "custody/store.py": (
                ('"synchronous=FULL"', '"synchronous=OFF"'),
                ('"synchronous": 2', '"synchronous": 0'),
            )
        },
        ("tests/crash/test_power.py",),
    ),
    "answer before E6": Mutant(
        {
            _ENGINE + "disposal.py": (
                (
                    "        with engine.unit(tenant_id) as unit:\n"
                    "            chunk = _complete_chunk(engine, unit, intent, destroyed)\n",
                    "        try:\n"
                    "            with engine.unit(tenant_id) as unit:\n"
                    "                chunk = _complete_chunk(engine, unit, intent, destroyed)\n"
                    "                raise InterruptedError  # upkeep will do it, the answer does not wait\n"
                    "        except InterruptedError:\n"
                    "            pass\n",
                ),
            )
        },
        ("tests/engine/test_erase_and_forget.py",),
    ),
    "drop step P": Mutant(
        {
            _ENGINE + "custody/heads.py": (
                (
                    "        if found.epoch == tree.epoch and not found.has_same_root(tree):\n",
                    "        if False:\n",
                ),
                ("        found = self.probe()\n        if False", "        found = tree\n        if False"),
            )
        },
        ("tests/engine/custody/test_vault.py",),
    ),
    "ignore the hold": Mutant(
        {_ENGINE + "policy.py": (("    if held:\n        raise Held", "    if False:\n        raise Held"),)},
        ("tests/engine/verbs/test_public_reports.py",),
    ),
    "skip the tenant filter": Mutant(
        {
            _ENGINE + "store/memories.py": (
                ("_MINE = memories.c.tenant_id == TENANT", "_MINE = TENANT == TENANT"),
            )
        },
        ("tests/laws/test_tenants.py",),
    ),
    "leave the wall open": Mutant(
        {_ENGINE + "store/walls.py": ((' {"tenant": tenant or _EVERYONE}', ' {"tenant": _EVERYONE}'),)},
        ("tests/crash/test_workers.py::test_the_service_enters_by_its_own_door",),
    ),
    "write on after a failed sync": Mutant(
        {_ENGINE + "store/unit.py": (("        if self.is_fatal:\n", "        if False:\n"),)},
        ("tests/crash/test_disks.py::test_after_a_failed_sync_nothing_more_is_written",),
    ),
    "keep no room for erasing": Mutant(
        {_ENGINE + "reserve.py": (("os.posix_fallocate(descriptor, 0, self._size)", "pass"),)},
        ("tests/crash/test_disks.py::test_a_full_disk_refuses_what_grows_and_still_erases",),
    ),
    "hide the line of somebody who died": Mutant(
        {
            _ENGINE + "parts.py": (
                ("        self._take_back(seen)\n        unit.journaled", "        unit.journaled"),
            )
        },
        ("tests/engine/verbs/test_cut_short.py",),
    ),
    "carry out a line that was taken back": Mutant(
        {
            _ENGINE + "journal.py": (
                ("if line.seq in standing and not _was_withdrawn(engine, line)", "if line.seq in standing"),
            )
        },
        ("tests/engine/verbs/test_cut_short.py",),
    ),
    "take back a line whose act is kept": Mutant(
        {
            _ENGINE + "parts.py": (
                ("self._take_back(tenants.journal_seen(connection, lock=True))", "self._take_back(0)"),
            )
        },
        ("tests/engine/verbs/test_cut_short.py",),
    ),
    "let another worker's erasure lie": Mutant(
        {_ENGINE + "store/leases.py": (("return or_(leases.c.until <= time, ", "return or_("),)},
        (
            "tests/crash/test_workers.py::test_an_erasure_is_left_to_whoever_has_it_until_its_lease_is_over",
            "tests/crash/test_workers.py::test_a_lease_is_one_holders_and_ends_by_itself",
        ),
    ),
}


def applied(text: str, changes: tuple[tuple[str, str], ...]) -> str:
    """Return the text with the changes made; raise ValueError unless each fits exactly once."""
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"found {text.count(old)} times: {old!r}")
        text = text.replace(old, new)
    return text


def noticed_by(root: Path, mutant: Mutant) -> str:
    """Make the mutant in a copy and run its tests; return the first that turned red, or nothing."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for name in filter(None, listed.stdout.split("\0")):
            if (root / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, copy / name)
        for name, changes in mutant.changes.items():
            (copy / name).write_text(applied((copy / name).read_text(), changes))
        environment = {**os.environ, "PYTHONPATH": f"{copy / 'packages'}{os.pathsep}{copy}"}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests]
        ran = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
        if ran.returncode not in {0, 1}:
            raise RuntimeError("the tests did not run: " + ran.stdout[-500:])
        red = _RED.search(ran.stdout)
        return red[1] if ran.returncode == 1 and red else ""
