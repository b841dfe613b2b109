"""`shomei serve`, `shomei migrate`, `shomei config`: run the service, and look at what it would run with."""

import argparse
import fcntl
import ipaddress
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..engine.errors import StartRefused
from ..settings import Settings, read_settings


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
    """Serve until SIGTERM or SIGINT."""
    import uvicorn

    from ..api.app import create_app
    from ..bootstrap import open_engine

    settings = read_settings()
    _require_private_transport(settings)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold keys and plaintext
    with _alone(settings):
        engine = open_engine(settings)
        server = uvicorn.Server(
            uvicorn.Config(
                create_app(engine),
                host=settings.host,
                port=settings.port,
                log_level=settings.log_level,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=10,
            )
        )
        try:
            server.run()
        finally:
            engine.close()
    return {}


def run_migrate(_: argparse.Namespace) -> dict[str, Any]:
    """Run the migrations the database lacks, in one transaction."""
    from ..engine.store.unit import Store

    settings = read_settings()
    with _alone(settings):
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


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Hold the home for one server: SQLite has one writer process. Other commands work beside it."""
    if settings.database_url is not None or not settings.data.is_dir():
        yield
        return
    with (settings.data / "serve.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartRefused("another shomei serve already runs on this home") from None
        yield
