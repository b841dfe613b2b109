"""`shomei serve`, `shomei migrate`, `shomei config`: run the service, and look at what it would run with."""

import argparse
import gc
import ipaddress
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..engine import core_dumps
from ..engine.errors import EngineError, StartRefused, StorageUnavailable
from ..home import held
from ..settings import Environment, Settings, read_settings
from .workers import Workers

if TYPE_CHECKING:
    from ..engine.parts import Engine

_BACKLOG: Final = 2048
_NO_WALL_NOTICE: Final = (
    "shomei: row-level security does not bind the database role, so queries alone keep tenants apart; "
    "use a role without SUPERUSER and BYPASSRLS"
)


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the commands to the tree."""
    commands.add_parser("serve", help="run the service in the foreground").set_defaults(run=run_serve)
    commands.add_parser("migrate", help="bring the database to this version's schema").set_defaults(
        run=run_migrate
    )
    commands.add_parser("config", help="print the effective settings, without secrets").set_defaults(
        run=run_config
    )


def run_serve(_: argparse.Namespace) -> dict[str, Any]:
    """Serve until SIGTERM or SIGINT, in as many processes as the settings say."""
    # Before numpy is imported: more threads for small products cost half as much again.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from ..api.journal import contain_crashes

    settings = read_settings()
    _require_private_transport(settings)
    contain_crashes()
    core_dumps.switch_off()
    if settings.workers == 1:
        _serve(settings)
        return {}
    if settings.database_url is None:
        raise StartRefused("SQLite has one server process; several workers need SHOMEI_DATABASE_URL")
    with _listening(settings) as listening:
        code = Workers(settings.workers, listening, partial(_serve_one, settings)).run()
    if code:
        raise SystemExit(code)  # the worker has said why
    return {}


def _serve(
    settings: Settings, listening: socket.socket | None = None, opened_now: Callable[[], None] = lambda: None
) -> None:
    import uvicorn

    from ..api.app import create_app
    from ..api.server import configuration
    from ..bootstrap import opened

    with opened(settings, alone=True) as engine:
        _require_walls(settings, engine)

        def end() -> None:
            server.should_exit = True

        app = create_app(engine, settings=settings, on_broken=end)
        server = uvicorn.Server(
            configuration(app, host=settings.host, port=settings.port, log_level=settings.log_level)
        )
        gc.freeze()  # what is here stays: nobody is to wait while all of it is looked through for garbage
        opened_now()
        server.run(sockets=None if listening is None else [listening])
        if engine.is_broken:
            raise StorageUnavailable(
                "a disk failed to keep what was written, so nothing more was answered; "
                "look at the disk, then start again: what was answered is there"
            )


def _require_walls(settings: Settings, engine: "Engine") -> None:
    """Refuse, or in development regret, a database role that row-level security does not bind."""
    if engine.store.is_walled():
        return
    if settings.env is Environment.PRODUCTION:
        raise StartRefused(
            "production refuses a database role that row-level security does not bind; "
            "use one without SUPERUSER and BYPASSRLS"
        )
    print(_NO_WALL_NOTICE, file=sys.stderr)


def _serve_one(settings: Settings, listening: socket.socket, opened_now: Callable[[], None]) -> int:
    try:
        _serve(settings, listening, opened_now)
    except EngineError as refusal:
        print(f"shomei: {refusal.message}", file=sys.stderr)
        return 1
    return 0


def _listening(settings: Settings) -> socket.socket:
    """Return the socket all workers accept from. Raise StartRefused if the address can not be had."""
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as failure:
        raise StartRefused("the address is not free, or not one of this machine's") from failure


def run_migrate(_: argparse.Namespace) -> dict[str, Any]:
    """Run the migrations the database lacks, in one transaction."""
    from ..engine.store.unit import Store

    settings = read_settings()
    with held(settings, alone=True):
        store = Store.existing(settings.database)
        try:
            return {"schema": store.migrate()}
        finally:
            store.close()


def run_config(_: argparse.Namespace) -> dict[str, Any]:
    """Show the effective settings."""
    return {**read_settings().shown()}


def _require_private_transport(settings: Settings) -> None:
    """Refuse plain http on an address that others can reach, unless the operator says so. CONTRACT.md §4."""
    try:
        loopback = ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        loopback = settings.host == "localhost"
    if not loopback and not settings.insecure_http:
        raise StartRefused(
            "plain http on a non-loopback address exposes keys and memories; put TLS in front of 127.0.0.1, "
            "or set SHOMEI_INSECURE_HTTP=true knowing that"
        )
