"""``spaps top``: a live table of a broker's figures."""

from __future__ import annotations

from typing import Annotated

import typer

from schemas.errors import SettingsError
from schemas.settings import load_settings
from spaps.cli.mqtt_options import PasswordOption, UserOption
from spaps.cli.options import ConfigOption


def top(
    *,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="The broker's HTTP pages; default: broker.http in conf."
        ),
    ] = None,
    interval: Annotated[
        float,
        typer.Option("-d", "--interval", min=0.1, metavar="SECONDS", help="Between readings."),
    ] = 2.0,
    count: Annotated[
        int | None, typer.Option("-n", min=1, metavar="N", help="End after N readings.")
    ] = None,
    user: UserOption = None,
    password: PasswordOption = None,
    config: ConfigOption = None,
) -> None:
    """Show what a broker holds and does, again and again until Ctrl-C."""
    from spaps.cli.monitor.metrics_text import metrics_url
    from spaps.cli.monitor.top_view import watch

    address = load_settings(config, {"broker.http": http}).broker.http
    if address is None:
        raise SettingsError("which broker? start it with --http HOST:PORT and give the same here")
    login = None if user is None else (user, password or "")
    watch(metrics_url(address), login, interval, count)
