"""Many callers at once: shared epochs, several openings of one store, and readers left behind."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.custody import Custody, Punctured, address
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.turnstile import Turnstile
from shomei_service.engine.errors import CustodyUnavailable, IntegrityFault
from tests.engine.custody.home import Home, Meddling, leaves, punctures


def at_once(acts: Sequence[Callable[[], object]]) -> list[object]:
    """Run every act in a thread of its own, started together; return what each returned or raised."""
    barrier = threading.Barrier(len(acts))
    results: list[object] = [None] * len(acts)

    def run(index: int) -> None:
        barrier.wait()
        try:
            results[index] = acts[index]()
        except Exception as exc:
            results[index] = exc

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_thirty_two_callers_share_epochs_and_all_succeed(home: Home, custody: Custody) -> None:
    before = leaves(custody, range(256, 512))
    rows = range(300, 332)
    with ThreadPoolExecutor(len(rows)) as pool:
        with custody._turnstile.alone():  # until all have arrived
            asked = [pool.submit(custody.puncture, punctures([row]), now=row) for row in rows]
            while custody._turnstile.count_waiting() < len(rows):
                time.sleep(0.001)
        results = [one.result() for one in asked]
    assert custody.epoch <= 8
    assert leaves(custody, range(256, 512)) == {
        row: None if row in rows else leaf for row, leaf in before.items()
    }
    for row, result in zip(rows, results, strict=True):
        assert custody.puncture(punctures([row]), now=999) == result
    assert {number for entry in custody.epochs_after(0) for number in entry.addresses} == {
        address(1, row) for row in rows
    }
    assert len(home.key_names()) == 1


def test_one_leaf_punctured_by_many_at_once_is_punctured_once(custody: Custody) -> None:
    results = at_once([lambda: custody.puncture(punctures([300]), now=5)] * 16)
    assert len(set(results)) == 1
    assert custody.epoch == 1


def test_readers_see_a_leaf_or_its_end_while_others_erase(custody: Custody) -> None:
    before = leaves(custody, range(256, 512))
    stop = threading.Event()

    def read() -> None:
        while not stop.wait(0.001):
            for row, leaf in leaves(custody, range(296, 320)).items():
                assert leaf == before[row] or (leaf is None and row in range(300, 316))

    def erase() -> None:
        try:
            for row in range(300, 316):
                custody.puncture(punctures([row]), now=row)
                with pytest.raises(Punctured):
                    custody.derive(address(1, row))
        finally:
            stop.set()

    assert at_once([read, read, read, erase]) == [None] * 4


def test_two_openings_move_one_store_in_turn(home: Home, custody: Custody) -> None:
    before = leaves(custody, range(256, 512))
    other = home.open()
    for row in range(300, 310):
        one, two = (custody, other) if row % 2 else (other, custody)
        assert one.puncture(punctures([row]), now=row).epoch_after == row - 299
        assert two.refresh()
        assert not two.refresh()
        assert leaves(two, [row]) == {row: None}
    assert leaves(custody, range(310, 512)) == {row: before[row] for row in range(310, 512)}
    assert len(home.key_names()) == 1
    other.close()


def test_two_openings_race_and_nothing_is_lost(home: Home, custody: Custody) -> None:
    before = leaves(custody, range(256, 512))
    other = home.open()
    rows = range(300, 316)

    def erase(opened: Custody, mine: Sequence[int]) -> None:
        for row in mine:
            opened.puncture(punctures([row]), now=row)

    acts = [
        lambda opened=opened, mine=rows[start::4]: erase(opened, mine)
        for start, opened in enumerate([custody, other, custody, other])
    ]
    assert at_once(acts) == [None] * 4
    for opened in (custody, other):
        opened.refresh()
        assert leaves(opened, range(256, 512)) == {
            row: None if row in rows else leaf for row, leaf in before.items()
        }
    assert custody.status().keys_to_destroy == 0
    custody.rotate(now=400)
    other.close()
    custody.close()
    reopened = home.open()
    assert len(home.key_names()) == 1
    assert leaves(reopened, [299, 300]) == {299: before[299], 300: None}
    reopened.close()


def test_a_reader_left_behind_still_reads_and_catches_up_when_it_must(home: Home, custody: Custody) -> None:
    other = home.open()
    before = leaves(other, range(256, 512))
    custody.puncture(punctures([300]), now=5)
    custody.puncture(punctures([301]), now=6)
    assert other.epoch == 0
    assert leaves(other, [299, 511]) == {299: before[299], 511: before[511]}  # cached, the 5 s window of §8
    third = home.open()
    custody.puncture(punctures([302]), now=7)  # replaces the blobs that the third has not read yet
    assert leaves(third, [299, 300, 301, 302]) == {299: before[299], 300: None, 301: None, 302: None}
    assert third.epoch == 3
    other.close()
    third.close()


def test_a_key_struck_by_anothers_recovery_is_made_anew(home: Home, custody: Custody) -> None:
    custody.close()
    others: list[Custody] = []

    def interrupts() -> None:
        if not others and opened_once:
            others.append(home.open())  # recovers: strikes the pending name and destroys the key

    opened_once: list[bool] = []
    opened = home.open(Meddling(LocalFile(home.keys_dir), create=interrupts))
    opened_once.append(True)
    before = leaves(opened, range(256, 310))
    done = opened.puncture(punctures([300]), now=5)
    assert (len(others), done.epoch_after) == (1, 1)
    assert leaves(opened, before) == {**before, 300: None}
    assert len(home.key_names()) == 1
    others[0].close()
    opened.close()


def test_a_key_made_ahead_after_its_name_was_struck_goes_at_once(home: Home, custody: Custody) -> None:
    """Nobody names it any more, so nobody else would ever destroy it."""
    custody.close()
    armed: list[bool] = []

    def interrupts() -> None:
        if armed:
            armed.clear()
            home.open().close()  # recovers: strikes the pending name, whose key is not there yet

    opened = home.open(Meddling(LocalFile(home.keys_dir), create_later=interrupts))
    opened.puncture(punctures([300]), now=5)
    armed.append(True)
    opened.prepare()
    assert not armed
    assert len(home.key_names()) == 1
    opened.puncture(punctures([301]), now=6)
    assert len(home.key_names()) == 1
    opened.close()


def test_endless_recovery_elsewhere_gives_up_and_loses_nothing(home: Home, custody: Custody) -> None:
    custody.close()
    armed: list[bool] = []
    opened = home.open(
        Meddling(LocalFile(home.keys_dir), create=lambda: home.open().close() if armed else None)
    )
    armed.append(True)
    before = leaves(opened, range(256, 310))
    with pytest.raises(CustodyUnavailable):
        opened.puncture(punctures([300]), now=5)
    armed.clear()
    assert leaves(opened, before) == before
    opened.puncture(punctures([300]), now=6)
    assert len(home.key_names()) == 1
    opened.close()


def test_what_another_erased_meanwhile_keeps_its_epoch(home: Home, custody: Custody) -> None:
    other = home.open()
    custody.close()
    armed: list[bool] = []

    def overtakes() -> None:
        if armed:
            armed.clear()
            other.puncture(punctures([300]), now=5)

    opened = home.open(Meddling(LocalFile(home.keys_dir), create=overtakes))
    armed.append(True)
    done = opened.puncture(punctures([300]), now=6)
    assert (done.epoch_after, done.at) == (1, 5)
    assert len(opened.epochs_after(0)) == 1
    other.close()
    opened.close()


def test_one_process_finishes_what_another_left_between_two_steps(home: Home, custody: Custody) -> None:
    other = home.open()
    failpoints.arm("e3.after:raise")
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([300]), now=5)
    failpoints.disarm()
    done = other.puncture(punctures([300]), now=9)
    assert (done.epoch_after, done.at, done.destroyed_at) == (1, 5, 9)
    assert len(home.key_names()) == 1
    assert custody.puncture(punctures([300]), now=10) == done
    other.close()


def test_a_head_that_moves_between_reading_and_opening_is_read_again(home: Home, custody: Custody) -> None:
    other = home.open()
    custody.close()
    turns: list[int] = []

    def overtakes() -> None:
        if turns:
            other.puncture(punctures([turns.pop()]), now=5)

    opened = home.open(Meddling(LocalFile(home.keys_dir), unwrap=overtakes))
    other.rotate(now=4)
    turns.append(301)
    assert opened.refresh()
    assert opened.epoch == 2
    assert leaves(opened, [301]) == {301: None}
    other.close()
    opened.close()


def test_no_key_goes_that_a_head_nobody_has_opened_yet_replaced(home: Home, custody: Custody) -> None:
    """Step P holds for each head: only whoever has opened a head may destroy what it replaced."""
    other = home.open()
    custody.close()
    before = leaves(other, [300, 301, 302])
    armed: list[bool] = []

    def overtakes() -> None:
        if armed:
            armed.clear()
            failpoints.arm("e3.after:raise")
            with pytest.raises(CustodyUnavailable):
                other.puncture(punctures([301]), now=5)  # a newer head is written, and not yet opened
            failpoints.disarm()

    opened = home.open(Meddling(LocalFile(home.keys_dir), unwrap=overtakes))
    armed.append(True)
    opened.puncture(punctures([300]), now=4)
    assert len(home.key_names()) == 2
    assert other.puncture(punctures([301]), now=6).at == 5
    assert len(home.key_names()) == 1
    assert other.status().blobs == 7  # and no blob is left that nothing leads to
    assert leaves(other, before) == {300: None, 301: None, 302: before[302]}
    other.close()
    opened.close()


def test_an_older_tree_never_replaces_a_newer_one(custody: Custody) -> None:
    old = custody._heads.tree
    custody.puncture(punctures([300]), now=5)
    custody._heads.adopt(old)
    assert (custody.epoch, leaves(custody, [300])) == (1, {300: None})


# The turnstile alone


def test_followers_are_served_by_one_leader() -> None:
    inside, release = threading.Event(), threading.Event()
    batches: list[list[int]] = []

    def serve(asked: Sequence[int]) -> list[int]:
        batches.append(list(asked))
        inside.set()
        release.wait()
        return [number * 2 for number in asked]

    turnstile = Turnstile(serve)
    results: dict[int, int] = {}
    threads = [
        threading.Thread(target=lambda n=number: results.update({n: turnstile.enter(n)}))
        for number in range(9)
    ]
    threads[0].start()
    inside.wait()
    for thread in threads[1:]:
        thread.start()
    while turnstile.count_waiting() < 8:
        pass
    release.set()
    for thread in threads:
        thread.join()
    assert results == {number: number * 2 for number in range(9)}
    assert (batches[0], sorted(batches[1]), len(batches)) == ([0], list(range(1, 9)), 2)


def test_one_bad_question_does_not_fail_the_others() -> None:
    def serve(asked: Sequence[int]) -> list[int]:
        if 3 in asked:
            raise IntegrityFault("sealed bytes do not open here")
        return [number + 100 for number in asked]

    turnstile = Turnstile(serve)
    with turnstile.alone():
        threads_results: list[object] = []
        threads = [
            threading.Thread(target=lambda n=number: threads_results.append(_outcome(turnstile, n)))
            for number in range(1, 6)
        ]
        for thread in threads:
            thread.start()
        while turnstile.count_waiting() < 5:
            pass
    for thread in threads:
        thread.join()
    assert sorted(map(str, threads_results)) == ["101", "102", "104", "105", "IntegrityFault"]


def test_a_failure_reaches_everyone_who_waited() -> None:
    def serve(asked: Sequence[int]) -> list[int]:
        raise OSError("gone")

    turnstile = Turnstile[int, int](serve)
    with pytest.raises(CustodyUnavailable) as failure:
        turnstile.enter(1)
    assert isinstance(failure.value.__cause__, OSError)


def test_a_stopped_leader_still_answers_its_followers() -> None:
    def serve(asked: Sequence[int]) -> list[int]:
        if len(asked) > 1:
            raise KeyboardInterrupt
        return list(asked)

    turnstile = Turnstile(serve)
    results: list[object] = []
    with turnstile.alone():
        threads = [
            threading.Thread(target=lambda n=number: results.append(_outcome(turnstile, n)))
            for number in range(2)
        ]
        for thread in threads:
            thread.start()
        while turnstile.count_waiting() < 2:
            pass
    for thread in threads:
        thread.join()
    assert sorted(map(str, results)) == ["CustodyUnavailable", "KeyboardInterrupt"]


def _outcome(turnstile: Turnstile[int, int], number: int) -> int | str:
    try:
        return turnstile.enter(number)
    except BaseException as exc:
        return type(exc).__name__
