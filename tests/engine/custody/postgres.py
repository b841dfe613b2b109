"""A private PostgreSQL server for the length of a test session, reachable through a socket only."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_ADMIN = "shomei"
_SERVICE = "service"  # owns its databases and is nobody's superuser, so the walls between tenants stand


def programs() -> Path | None:
    """Return where the server's programs are; None if there is no PostgreSQL here."""
    found = shutil.which("initdb")
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return Path(found).resolve().parent if found else versions[-1].parent if versions else None


@contextmanager
def server(binaries: Path, below: Path | None = None) -> Iterator["Server"]:
    """Yield a running server, in memory unless it is to lie below a folder; it and its data go at the end."""
    memory = Path("/dev/shm")
    directory = Path(
        tempfile.mkdtemp(prefix="shomei-pg-", dir=below or (memory if memory.is_dir() else None))
    )
    running = Server(binaries, directory)
    try:
        running.initialise()
        running.start()
        running.say(f"CREATE ROLE {_SERVICE} LOGIN")
        yield running
    finally:
        running.stop()
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def running() -> Iterator["Server"]:
    """Yield a running server as `server` does; where there is no PostgreSQL, whoever needs one is skipped."""
    binaries = programs()
    if binaries is None:
        pytest.skip("must: there is no PostgreSQL on this machine")
    with server(binaries) as started:
        yield started


class Server:
    """One cluster in one directory, run by an unprivileged account, which PostgreSQL insists on."""

    def __init__(self, binaries: Path, directory: Path) -> None:
        self._binaries = binaries
        self._directory = directory
        self._account = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        if self._account is not None:
            os.chown(directory, self._account.pw_uid, self._account.pw_gid)

    @property
    def directory(self) -> Path:
        """Where everything of the server lies, `data` with its heaps and logs among it."""
        return self._directory

    def initialise(self) -> None:
        self._run("initdb", "-D", "data", "-A", "trust", "-U", _ADMIN, "-N")

    def start(self, *settings: str) -> None:
        options = f"-k {self._directory} -c listen_addresses= " + " ".join(
            f"-c {setting}" for setting in settings
        )
        self._run("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "data", "-m", "fast", "-w", "stop", check=False)

    def crash(self) -> None:
        """Stop as a power cut would: no checkpoint, every session gone."""
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop", check=False)

    def database(self, name: str) -> str:
        """Make a database and return its URL."""
        self.say(f"CREATE DATABASE {name} OWNER {_SERVICE}")
        return self.url(name)

    def copied(self, url: str, name: str) -> str:
        """Copy a database that nobody is connected to; return the copy's URL."""
        original = url.partition("?")[0].rpartition("/")[2]
        self.say(f"CREATE DATABASE {name} TEMPLATE {original} OWNER {_SERVICE} STRATEGY file_copy")
        return self.url(name)

    def say(self, statement: str, database: str = "postgres") -> None:
        """Run one statement as the server's superuser."""
        where = ["-h", str(self._directory), "-U", _ADMIN, "-d", database]
        self._run("psql", *where, "-v", "ON_ERROR_STOP=1", "-c", statement)

    def shell(self, script: str) -> None:
        """Run a script as the account that runs the server, told where it is and where backups go."""
        path = f"{self._binaries}{os.pathsep}{os.environ['PATH']}"
        here = {"PGHOST": self._directory, "PGDATA": self._directory / "data", "BACKUPS": self._directory}
        names = {name: str(value) for name, value in here.items()}
        names |= {"PATH": path, "PGUSER": _ADMIN, "SHOMEI_DATABASE": "shomei"}
        account = (
            {} if self._account is None else {"user": self._account.pw_uid, "group": self._account.pw_gid}
        )
        subprocess.run(  # type: ignore[call-overload]
            ["bash", "-euc", script],
            env=names,
            cwd=self._directory,
            check=True,
            stdout=subprocess.DEVNULL,
            **account,
        )

    def url(self, name: str, role: str = _SERVICE) -> str:
        return f"postgresql+psycopg://{role}@/{name}?host={self._directory}"

    def superuser_url(self, name: str) -> str:
        """Return the URL of somebody for whom no wall stands: whoever looks at everything."""
        return self.url(name, _ADMIN)

    def _run(self, program: str, *arguments: str, check: bool = True) -> None:
        account = (
            {} if self._account is None else {"user": self._account.pw_uid, "group": self._account.pw_gid}
        )
        command = [str(self._binaries / program), *arguments]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, cwd=self._directory, check=check, **account, **quiet)  # type: ignore[call-overload]
