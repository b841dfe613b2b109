"""SoftHSM2, a PKCS#11 token in files, for a test session. Debian: softhsm2; scripts/test finds it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PIN = "4321-pin-of-a-test"
_SO_PIN = "87654321"
_MODULES = (
    "usr/lib/softhsm/libsofthsm2.so",
    "usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
    "usr/lib64/pkcs11/libsofthsm2.so",
    "usr/local/lib/softhsm/libsofthsm2.so",
)


def _root() -> Path:
    """Return below what SoftHSM is looked for: scripts/test may have unpacked it without root."""
    return Path(os.environ.get("SOFTHSM2_ROOT", "/"))


def module() -> Path | None:
    """Return the PKCS#11 library; None if SoftHSM is not on this machine."""
    found = [place for name in _MODULES if (place := _root() / name).is_file()]
    return found[0] if found and _tool() else None


def _tool() -> str | None:
    return shutil.which("softhsm2-util", path=f"{_root() / 'usr/bin'}{os.pathsep}{os.environ['PATH']}")


@contextmanager
def tokens(folder: Path) -> Iterator[None]:
    """Point this process, and what it starts, at a token directory of its own."""
    kept = os.environ.get("SOFTHSM2_CONF")
    os.environ["SOFTHSM2_CONF"] = str(configured(folder))
    try:
        yield
    finally:
        if kept is None:
            del os.environ["SOFTHSM2_CONF"]
        else:
            os.environ["SOFTHSM2_CONF"] = kept


def configured(folder: Path) -> Path:
    """Write the configuration of a token directory and return its path."""
    (folder / "tokens").mkdir(parents=True, exist_ok=True)
    lines = ("objectstore.backend = file", "log.level = ERROR", "slots.removable = false")
    text = f"directories.tokendir = {folder / 'tokens'}\n" + "\n".join(lines) + "\n"
    (folder / "softhsm2.conf").write_text(text)
    return folder / "softhsm2.conf"


def new_token(label: str) -> None:
    """Make a token in the directory that this process points at."""
    tool = _tool()
    assert tool is not None
    command = [tool, "--init-token", "--free", "--label", label, "--so-pin", _SO_PIN, "--pin", PIN]
    path = os.environ.get("LD_LIBRARY_PATH", "")
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{_root() / 'usr/lib'}{os.pathsep}{path}"}
    library = module()
    done = subprocess.run(
        [*command, "--module", str(library)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
