"""``spaps config check`` reads the settings as the broker does, and says what it would do."""

from __future__ import annotations

from typing import Final

import typer

from schemas.errors import Mistakes
from schemas.settings import read_settings
from spaps.cli.options import ConfigOption, PlainCommand, PlainGroup
from spaps.cli.terminal import printable

MISTAKES: Final = 2

config = typer.Typer(
    cls=PlainGroup, help="Check the settings of a broker.", invoke_without_command=True
)


@config.callback()
def start(context: typer.Context) -> None:
    """Print help when no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@config.command("check", cls=PlainCommand)
def check_config(*, config: ConfigOption = None) -> None:
    """Read the settings, users, access rules and certificates as the broker does at its start.

    Each mistake is one line, and the exit code is 2. Without mistakes this says what the broker
    would do: where it listens, who may connect, what it keeps. Nothing is started.
    """
    from broker.shell.operations.settings_report import report_on

    mistakes = Mistakes()
    settings = read_settings(mistakes, config)
    report = None
    if settings is not None:
        with mistakes.noted():
            report = report_on(settings)
    for mistake in mistakes:
        typer.echo(f"spaps: {printable(' '.join(mistake.split()))}", err=True)
    if mistakes or report is None:
        raise typer.Exit(MISTAKES)
    for line in report.statements:
        typer.echo(printable(line))
    for line in report.warnings:
        typer.echo(f"warning: {printable(line)}", err=True)
