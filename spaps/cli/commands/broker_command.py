"""``spaps broker``: the MQTT 5 broker with the spatial filter."""

from __future__ import annotations

from typing import Annotated

import typer

from schemas.settings import load_settings
from spaps.cli.options import ConfigOption, WorldOption


def broker(
    *,
    world: WorldOption = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where MQTT is spoken; default: this machine."),
    ] = None,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Health page and metrics.")
    ] = None,
    redis: Annotated[
        str | None,
        typer.Option(
            metavar="URL|none",
            help="Redis; default: redis.url in conf, else an embedded one. none: nothing is kept.",
        ),
    ] = None,
    memberships: Annotated[
        str | None,
        typer.Option(metavar="memory|redis|none", help="Where memberships are looked up."),
    ] = None,
    allow_anonymous: Annotated[
        bool | None,
        typer.Option("--allow-anonymous", help="Let clients in that do not say who they are."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Run the broker until Ctrl-C or SIGTERM.

    SIGHUP makes it read its certificates and its password and ACL files again.
    """
    from broker.shell.runner import run_broker

    settings = load_settings(
        config,
        {
            "world.dir": world,
            "redis.url": redis,
            "broker.listen": listen,
            "broker.http": http,
            "broker.memberships": memberships,
            "broker.allow_anonymous": allow_anonymous,
        },
    )
    run_broker(settings, typer.echo)
