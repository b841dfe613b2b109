"""`shomei serve`, `shomei migrate`, `shomei config`: run the service, and look at what it would run with."""

import argparse
import ipaddress
import os
import resource
from typing import Any

from ..engine.errors import StartRefused
from ..home import held
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
    # Before numpy is imported: more threads for small products cost half as much again.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import uvicorn

    from ..api.app import create_app
    from ..api.journal import contain_crashes
    from ..api.server import configuration
    from ..bootstrap import opened

    settings = read_settings()
    _require_private_transport(settings)
    contain_crashes()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold keys and plaintext
    with opened(settings, alone=True) as engine:
        app = create_app(engine, settings=settings)
        uvicorn.Server(
            configuration(app, host=settings.host, port=settings.port, log_level=settings.log_level)
        ).run()
    return {}


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
