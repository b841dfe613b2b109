"""--batch: every receipt judged, every log audited, on one core or many."""

import fcntl
import io
import json
import os
import random
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shomei_memory_verify import batch, verify_signed_receipt
from shomei_memory_verify.audit import judge
from shomei_memory_verify.cli import main
from tests.verify import corpus
from tests.verify.conftest import Ran
from tests.verify.examples import EXAMPLES

Run = Callable[..., Ran]
ORIGIN = "shomei/" + "0f" * 16
OTHER_ORIGIN = "shomei/" + "1f" * 16


def logged(seq: object, origin: object = ORIGIN, **fields: object) -> dict[str, object]:
    return corpus.seal({**EXAMPLES["memory_add"], "log": {"origin": origin, "seq": seq}, **fields})


def write_lines(file: Path, receipts: list[dict[str, object]]) -> Path:
    file.write_text("".join(corpus.text_of(receipt) + "\n" for receipt in receipts))
    return file


def audit(
    run: Run, *arguments: str | Path, stdin: bytes = b"", pin: str | None = corpus.PIN
) -> dict[str, object]:
    ran = run("--batch", "--json", *([] if pin is None else ["--pin", pin]), *arguments, stdin=stdin)
    report = json.loads(ran.out)
    assert ran.err == ""
    assert report["status"] == ran.status
    return report


def log_of(report: dict[str, object], origin: str = ORIGIN) -> dict[str, object]:
    logs = report["logs"]
    assert isinstance(logs, dict)
    return logs[origin]


def test_a_whole_log(run: Run, tmp_path: Path) -> None:
    report = audit(run, write_lines(tmp_path / "a.jsonl", [logged(seq) for seq in (2, 0, 1)]))
    assert report == {
        "status": 0,
        "receipts": 3,
        "verdicts": {
            "ok": 3,
            "ok_unpinned": 0,
            "public_key_mismatch": 0,
            "signature_or_hash_invalid": 0,
            "malformed": 0,
        },
        "first_bad": {},
        "without_log": 0,
        "partial": False,
        "logs": {
            ORIGIN: {
                "receipts": 3,
                "first": 0,
                "last": 2,
                "missing": 0,
                "gaps": [],
                "gap_count": 0,
                "repeats": 0,
                "conflicts": [],
                "conflict_count": 0,
            }
        },
    }


def test_without_a_pin_the_set_is_valid_and_unattributed(run: Run, tmp_path: Path) -> None:
    report = audit(run, write_lines(tmp_path / "a.jsonl", [logged(0), logged(1)]), pin=None)
    assert (report["status"], report["verdicts"]["ok_unpinned"]) == (3, 2)  # type: ignore[index]


def test_the_first_of_each_kind_is_named(run: Run, tmp_path: Path) -> None:
    lines = [
        corpus.text_of(logged(0)),
        "",
        "not json",
        '{"a":1,"a":1}',
        "not json either",
        corpus.text_of(corpus.seal({"schema": "s"}, corpus.STRANGER)),
        corpus.text_of({**logged(1), "signature_hex": "0" * 128}),
        "   ",
        "x" * 70_000,
        corpus.text_of(logged(1)),
    ]
    (tmp_path / "a.jsonl").write_text("\r\n".join(lines))
    report = audit(run, tmp_path / "a.jsonl")
    assert (report["status"], report["receipts"]) == (1, 8)
    assert report["verdicts"] == {
        "ok": 2,
        "ok_unpinned": 0,
        "public_key_mismatch": 1,
        "signature_or_hash_invalid": 1,
        "malformed": 4,
    }
    assert report["first_bad"] == {
        "malformed: not JSON": f"{tmp_path}/a.jsonl:3",
        "malformed: a duplicate name": f"{tmp_path}/a.jsonl:4",
        "public_key_mismatch": f"{tmp_path}/a.jsonl:6",
        "signature_or_hash_invalid": f"{tmp_path}/a.jsonl:7",
        "malformed: larger than 65536 bytes": f"{tmp_path}/a.jsonl:9",
    }
    assert log_of(report)["missing"] == 0


def test_gaps(run: Run, tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "a.jsonl", [logged(seq) for seq in (2, 3, 7, 9)] + [logged(0, OTHER_ORIGIN)]
    )
    report = audit(run, file)
    assert report["status"] == 1
    assert log_of(report)["gaps"] == [[0, 1], [4, 6], [8, 8]]
    assert (log_of(report)["gap_count"], log_of(report)["missing"]) == (3, 6)
    assert log_of(report, OTHER_ORIGIN)["missing"] == 0
    assert audit(run, file, "--partial")["status"] == 0


@pytest.mark.parametrize(
    ("name", "status", "missing", "conflicts"),
    [
        ("set-complete", 3, 0, []),
        ("set-omission", 1, 1, []),
        ("set-truncated", 3, 0, []),  # only someone who holds a checkpoint can tell
        ("set-equivocation", 1, 0, [2]),
    ],
)
def test_the_worked_example_of_a_log(
    name: str, status: int, missing: int, conflicts: list[int], run: Run, tmp_path: Path
) -> None:
    example = corpus.load("log_example.json")
    assert isinstance(example, dict)
    (receipts,) = [case["receipts"] for case in example["cases"] if case["id"] == name]
    report = audit(run, write_lines(tmp_path / "a.jsonl", receipts), pin=None)
    log = log_of(report, example["origin"])
    assert (report["status"], log["missing"]) == (status, missing)
    assert [conflict["seq"] for conflict in log["conflicts"]] == conflicts  # type: ignore[attr-defined]


def test_a_proof_beside_the_body_changes_no_verdict() -> None:
    example = corpus.load("log_example.json")
    assert isinstance(example, dict)
    receipts = [case["receipt"] for case in example["cases"] if case["kind"] == "receipt"]
    assert len(receipts) == 16
    for receipt in receipts:
        bare = {name: value for name, value in receipt.items() if name != "log_proof"}
        result = verify_signed_receipt(receipt, expected_public_key_hex=receipt["public_key_hex"])
        assert result == verify_signed_receipt(bare, expected_public_key_hex=receipt["public_key_hex"])
        assert result.authenticated


def test_repeats_are_no_fault_and_conflicts_are(run: Run, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", [logged(0), logged(1), logged(0)])
    report = audit(run, file)
    assert (report["status"], log_of(report)["repeats"], log_of(report)["conflict_count"]) == (0, 1, 0)
    write_lines(tmp_path / "b.jsonl", [logged(1, note="another")])
    report = audit(run, file, tmp_path / "b.jsonl", "--partial")
    assert (report["status"], log_of(report)["conflict_count"]) == (1, 1)
    assert log_of(report)["conflicts"] == [{"seq": 1, "at": f"{tmp_path}/b.jsonl:1"}]


def test_long_lists_are_cut_and_counted(run: Run, tmp_path: Path) -> None:
    receipts = [logged(seq) for seq in range(0, 60, 2)] + [logged(seq, note=seq) for seq in range(0, 60, 2)]
    log = log_of(audit(run, write_lines(tmp_path / "a.jsonl", receipts)))
    assert (len(log["gaps"]), log["gap_count"]) == (20, 29)  # type: ignore[arg-type]
    assert (len(log["conflicts"]), log["conflict_count"]) == (20, 30)  # type: ignore[arg-type]


def test_a_forger_cannot_put_a_gap_or_a_conflict_into_a_log(run: Run, tmp_path: Path) -> None:
    foreign = corpus.seal(
        {**EXAMPLES["memory_add"], "log": {"origin": ORIGIN, "seq": 0}, "n": 1}, corpus.STRANGER
    )
    report = audit(run, write_lines(tmp_path / "a.jsonl", [logged(0), foreign]))
    assert (log_of(report)["receipts"], log_of(report)["conflict_count"]) == (1, 0)


@pytest.mark.parametrize(
    "log",
    [
        None,
        [],
        {},
        {"origin": ORIGIN},
        {"origin": 1, "seq": 1},
        {"origin": ORIGIN, "seq": -1},
        {"origin": ORIGIN, "seq": True},
    ],
)
def test_a_receipt_that_names_no_log_is_counted_apart(log: object, run: Run, tmp_path: Path) -> None:
    report = audit(run, write_lines(tmp_path / "a.jsonl", [corpus.seal({"schema": "s", "log": log})]))
    assert (report["status"], report["without_log"], report["logs"]) == (0, 1, {})


def test_keys_that_followed_each_other(run: Run, tmp_path: Path) -> None:
    later = corpus.seal({**EXAMPLES["memory_add"], "log": {"origin": ORIGIN, "seq": 1}}, corpus.STRANGER)
    file = write_lines(tmp_path / "a.jsonl", [logged(0), later])
    assert audit(run, file)["status"] == 1
    assert audit(run, file, "--pin", corpus.STRANGER_PIN)["status"] == 0
    assert audit(run, file, "--pin", "")["status"] == 1


def test_files_folders_and_lines_together(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "folder" / "below"
    folder.mkdir(parents=True)
    (folder / "0.json").write_text(json.dumps(logged(0), indent=2))
    write_lines(folder / "more.ndjson", [logged(1), logged(2)])
    (folder / "notes.txt").write_text("no receipt")
    (tmp_path / "named").write_text(corpus.text_of(logged(3)))
    stdin = corpus.text_of(logged(4)).encode() + b"\n" + corpus.text_of(logged(5)).encode()
    report = audit(run, tmp_path / "folder", tmp_path / "named", "-", stdin=stdin)
    assert (report["status"], report["receipts"], log_of(report)["last"]) == (0, 6, 5)


def test_an_empty_set_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments in ((tmp_path / "empty",), ("-",)):
        report = audit(run, *arguments)
        assert (report["status"], report["receipts"]) == (1, 0)


def test_usage(run: Run, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", [logged(0)])
    for arguments in (
        ("--batch", tmp_path / "missing"),
        ("--batch", file, tmp_path / "missing.jsonl"),
        ("--batch", file, "--render"),
        ("--batch", file, "--html"),
        ("--batch",),
        ("--batch", "a\0b"),
        (file, file),
        (file, "--partial"),
        (file, "--pin", corpus.PIN, "--pin", corpus.PIN),
    ):
        ran = run(*arguments)
        assert (ran.status, ran.out) == (2, "")
        assert "Traceback" not in ran.err


def test_the_summary_for_people(run: Run, tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "a.jsonl",
        [
            logged(0),
            logged(2),
            logged(3),
            logged(6),
            logged(6),
            logged(6, note=1),
            corpus.seal({"schema": "s"}),
        ],
    )
    with file.open("a") as more:
        more.write("x\n")
    ran = run("--batch", file, "--pin", corpus.PIN)
    assert ran.status == 1
    assert ran.out.split("\n") == [
        "8 receipts",
        "  ok                                 7",
        "  ok_unpinned                        0",
        "  public_key_mismatch                0",
        "  signature_or_hash_invalid          0",
        "  malformed                          1",
        "  naming no log                      1",
        f"first malformed: not JSON: {file}:8",
        f"log {ORIGIN}: 4 receipts, seq 0 to 6, 3 missing, 1 repeated, 1 in conflict",
        "  missing: 1",
        "  missing: 4 to 5",
        f"  conflict: seq 6, second receipt at {file}:6",
        "verdict on the set: REFUSED",
        "",
    ]
    good = write_lines(tmp_path / "b.jsonl", [logged(0)])
    assert run("--batch", good, "--pin", corpus.PIN).out.endswith("verdict on the set: authenticated\n")
    assert run("--batch", good).out.endswith("verdict on the set: valid, signer unknown (no --pin)\n")


def test_neither_names_nor_origins_can_steer_a_terminal(run: Run, tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "\x1b[2J\u202eé.jsonl",
        [logged(0, "\x1b]0;x\x07\n\u2028\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"))],
    )
    with file.open("a") as more:
        more.write("x\n")
    for form in ([], ["--json"]):
        ran = run("--batch", file, *form)
        assert all(char == "\n" or " " <= char <= "~" for char in ran.out)
    assert len(run("--batch", file).out.split("\n")) == 10


def many(count: int) -> list[dict[str, object]]:
    return [logged(seq) for seq in range(count)]


@pytest.mark.parametrize("chunk", [16, 128, 1_000])
def test_many_processes_give_the_report_of_one(
    chunk: int, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_CHUNK", chunk)
    receipts = many(700)
    random.Random(7).shuffle(receipts)
    receipts[650] = {**receipts[650], "signature_hex": "0" * 128}
    receipts[651] = {**receipts[651], "signature_hex": "0" * 128}
    report = audit(run, write_lines(tmp_path / "a.jsonl", receipts))
    assert report["receipts"] == 700
    assert report["first_bad"] == {"signature_or_hash_invalid": f"{tmp_path}/a.jsonl:651"}
    assert log_of(report)["missing"] == 2


def test_a_judgement_is_the_verdict_on_the_whole_corpus() -> None:
    for case in corpus.receipt_cases():
        for pins in ([], [case.pin], [corpus.STRANGER_PIN, case.pin]):
            given = [pin for pin in pins if pin is not None]
            if not given and case.pin is not None:
                expected = verify_signed_receipt(case.as_bytes()).reason
            else:
                expected = verify_signed_receipt(
                    case.as_bytes(), expected_public_key_hex=given[-1] if given else None
                ).reason
            if case.pin is None and pins[:1] == [corpus.STRANGER_PIN]:
                continue
            assert judge(case.as_bytes(), given).reason == expected, case.id


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_progress_bar_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    file = write_lines(tmp_path / "a.jsonl", [logged(0)])
    assert main(["--batch", str(file), "--pin", corpus.PIN]) == 0
    assert terminal.getvalue() == f"\r[{'#' * 30}] 100% 1 receipts, {rate(terminal)}/s \x1b[K\r\x1b[K"
    assert "\x1b" not in capsys.readouterr().out

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert main(["--batch", "-", "--pin", corpus.PIN]) == 0
    assert terminal.getvalue() == f"\r1 receipts, {rate(terminal)}/s \x1b[K\r\x1b[K"


def rate(terminal: Terminal) -> str:
    return terminal.getvalue().split(" receipts, ")[1].split("/s")[0]


class Interrupting(io.BytesIO):
    def readline(self, _size: int | None = None) -> bytes:
        raise KeyboardInterrupt


def test_an_interrupt_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Interrupting()))
    assert main(["--batch", "-"]) == 130


def is_at_work(process: "subprocess.Popen[bytes]") -> bool:
    """Say whether it has read all that was sent, and has processes of which none would answer for itself."""
    assert process.stdin is not None
    (unread,) = struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4)))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return bool(children) and not unread and all(ignores_interrupts(int(pid)) for pid in children)


def ignores_interrupts(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    (ignored,) = (line for line in status.splitlines() if line.startswith("SigIgn:"))
    return bool(int(ignored.split()[1], 16) & 1 << signal.SIGINT - 1)


def test_an_interrupt_ends_every_process() -> None:
    command = [sys.executable, "-m", "shomei_memory_verify", "--batch", "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    process.stdin.write(
        (corpus.text_of(logged(0)).encode() + b"\n") * 400
    )  # enough for more than one process
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not is_at_work(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
