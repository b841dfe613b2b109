"""Seeds, each one whole history; one that failed is printed and fails again. T-09, T-11, T-14."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.deep import is_deep, keep
from tests.crash.places import quick_folder
from tests.crash.runs import copied
from tests.fakes import Home, new_home
from tests.simulation.simulator import Simulation

SEEDS, DEEP_SEEDS = 60, 2_000


@pytest.fixture(scope="module")
def empty() -> Iterator[Home]:
    """An installation to copy."""
    with quick_folder() as folder:
        yield new_home(folder)


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both processes are one thread: whoever waits for a lock of the other one's waits in vain."""
    monkeypatch.setattr("shomei_service.engine.store.unit._BUSY_TIMEOUT_S", 0)
    monkeypatch.setattr("shomei_service.engine.custody.files._BUSY_TIMEOUT_S", 0)


def simulated(empty: Home, folder: Path, seed: int) -> Simulation:
    """Run one seed in a copy of its own."""
    (folder / str(seed)).mkdir()
    simulation = Simulation(copied(empty, folder / str(seed)), seed, likely=[0.01, 0.03, 0.08][seed % 3])
    simulation.run()
    shutil.rmtree(folder / str(seed))
    return simulation


def test_every_seed_holds(empty: Home, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    seeds = DEEP_SEEDS if is_deep(request) else SEEDS
    with quick_folder() as folder:
        runs = [simulated(empty, folder, seed) for seed in range(seeds)]
    steps = sum(len(run.trace) for run in runs)
    faults = sum("Unavailable" in one or "Pending" in one for run in runs for one in run.trace)
    deaths = sum(run.crashes - 1 for run in runs)
    figures = {"seeds": seeds, "steps": steps, "failures": faults, "deaths": deaths}
    keep(request, "simulation", figures)
    assert faults > seeds / 4
    assert deaths > seeds / 4


def test_a_seed_replays_itself(empty: Home) -> None:
    with quick_folder() as folder:
        traces = [simulated(empty, folder, 5).trace for _ in range(2)]
    assert traces[0] == traces[1]
