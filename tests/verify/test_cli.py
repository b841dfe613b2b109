"""The command: verdict, page or JSON out; the exit status is the answer."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shomei_memory_verify import render, to_html
from shomei_memory_verify.cli import main
from tests.verify import corpus
from tests.verify.conftest import Ran
from tests.verify.examples import EXAMPLES

Run = Callable[..., Ran]


@pytest.fixture
def receipt(tmp_path: Path) -> Path:
    file = tmp_path / "receipt.json"
    file.write_text(corpus.text_of(corpus.seal(EXAMPLES["memory_add"])))
    return file


def test_the_line(run: Run, receipt: Path) -> None:
    ran = run(receipt, "--pin", corpus.PIN)
    assert ran == Ran(0, "valid=True authenticated=True reason=ok schema=shomei.memory_add.v1\n", "")


def test_either_name_of_the_pin(run: Run, receipt: Path) -> None:
    assert run(receipt, "--expected-public-key", corpus.PIN).status == 0
    assert run(f"--pin={corpus.PIN.upper()}", receipt).status == 0


def test_an_empty_pin_is_a_pin(run: Run, receipt: Path) -> None:
    ran = run(receipt, "--pin", "")
    assert (ran.status, ran.out) == (
        1,
        "valid=False authenticated=False reason=public_key_mismatch schema=shomei.memory_add.v1\n",
    )


def test_json(run: Run, receipt: Path) -> None:
    ran = run(receipt, "--json", "--pin", corpus.PIN)
    assert ran.status == 0
    assert json.loads(ran.out) == {
        "valid": True,
        "authenticated": True,
        "reason": "ok",
        "public_key_hex": corpus.PIN,
        "schema": "shomei.memory_add.v1",
    }


def test_pages(run: Run, receipt: Path) -> None:
    page = render(receipt.read_bytes(), expected_public_key_hex=corpus.PIN)
    assert run(receipt, "--render", "--pin", corpus.PIN).out == page
    assert run(receipt, "--html", "--pin", corpus.PIN).out == to_html(page)


def test_standard_input_and_help(run: Run, receipt: Path) -> None:
    assert run("-", "--pin", corpus.PIN, stdin=receipt.read_bytes()).status == 0
    assert run("-", "--pin", corpus.PIN, stdin=b"").status == 1
    ran = run("--help")
    assert ran.status == 0
    assert "exit status: 0 authenticated, 1 refused, 2 usage, 3 valid but no pin was given" in ran.out


def test_a_file_beyond_the_cap_is_not_read_whole(run: Run, tmp_path: Path) -> None:
    big = tmp_path / "big"
    with open(big, "wb") as file:
        file.truncate(1 << 40)
    assert (
        run(big).out == "valid=False authenticated=False reason=malformed: larger than 65536 bytes schema=\n"
    )


@pytest.mark.parametrize("form", ["--line", "--json", "--render", "--html"])
def test_signed_strings_cannot_steer_a_terminal(form: str, run: Run, tmp_path: Path) -> None:
    text = "\x1b[2J\x9b\u202e\x7f\x00\r\nvalid=True authenticated=True\u2028é"
    file = tmp_path / "receipt.json"
    file.write_text(corpus.text_of(corpus.seal({"schema": text, text: text}, signer_id=text)))
    ran = run(file, *([] if form == "--line" else [form]), "--pin", corpus.PIN)
    assert ran.status == 0
    assert re.fullmatch(r"[\n -~]*", ran.out)
    if form == "--line":
        assert ran.out.count("\n") == 1
    if form == "--json":
        assert json.loads(ran.out)["schema"] == text


@pytest.mark.parametrize("name", ["missing", ".", "impossible\0name"])
def test_what_cannot_be_read_is_a_usage_error(name: str, run: Run, tmp_path: Path) -> None:
    ran = run(f"{tmp_path}/{name}")
    assert (ran.status, ran.out) == (2, "")
    assert "a receipt cannot be read: " in ran.err
    assert "Traceback" not in ran.err


def spawn(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *arguments], input=stdin, capture_output=True, timeout=20)


def test_the_module_is_the_command(receipt: Path) -> None:
    done = spawn("-m", "shomei_memory_verify", str(receipt), "--pin", corpus.PIN)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"valid=True authenticated=True reason=ok schema=shomei.memory_add.v1\n"


LOADED = """
import sys
before = set(sys.modules)
{code}
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*(loaded - sys.stdlib_module_names))
"""


@pytest.mark.parametrize(
    "code",
    [
        "import shomei_memory_verify.cli",
        "from shomei_memory_verify import *",
        "import shomei_memory_verify.canonical",
    ],
)
def test_only_the_standard_library_and_pynacl_are_loaded(code: str) -> None:
    done = spawn("-c", LOADED.format(code=code))
    assert done.stderr == b""
    assert set(done.stdout.decode().split()) <= {"_cffi_backend", "_sodium", "nacl", "shomei_memory_verify"}


def test_a_verdict_loads_nothing_that_only_a_page_needs(receipt: Path) -> None:
    code = "from shomei_memory_verify.cli import main; main(sys.argv[1:])"
    done = spawn("-X", "importtime", "-c", f"import sys; {code}", str(receipt), "--json", "--pin", corpus.PIN)
    loaded = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    assert "shomei_memory_verify.verify" in loaded
    assert not loaded & {
        "shomei_memory_verify.certificate",
        "html",
        "asyncio",
        "multiprocessing",
        "importlib.metadata",
        "nacl.bindings",
    }


def test_a_closed_pipe_is_not_a_traceback(receipt: Path) -> None:
    code = "import sys; from shomei_memory_verify.cli import main; sys.exit(main(sys.argv[1:]))"
    read_end, write_end = os.pipe()
    os.close(read_end)
    with open(write_end, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-c", code, str(receipt), "--pin", corpus.PIN],
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=20,
        )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0


def test_a_closed_pipe_leaves_the_status(receipt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with open(write_end, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert main([str(receipt), "--pin", corpus.PIN]) == 0
        assert main([str(receipt)]) == 3


def test_main_uses_the_process_arguments(monkeypatch: pytest.MonkeyPatch, receipt: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["shomei-memory-verify", str(receipt), "--pin", corpus.PIN])
    assert main() == 0
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module("shomei_memory_verify", run_name="__main__")
    assert stopped.value.code == 0
