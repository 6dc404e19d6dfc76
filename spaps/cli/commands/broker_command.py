"""``spaps broker`` runs the MQTT broker, ``passwd`` and ``config check`` manage its settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from schemas.errors import Mistakes, SettingsError
from schemas.settings import load_settings, read_settings
from spaps.cli.options import ConfigOption, PlainCommand, WorldOption, command_group
from spaps.cli.output import printable


def broker(
    *,
    world: WorldOption = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address for MQTT; default: broker.listen in conf."),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address for the health page and metrics."),
    ] = None,
    redis: Annotated[
        str | None,
        typer.Option(
            metavar="URL|none",
            help="Redis server; default: redis.url in conf, else an embedded one. With none "
            "nothing is kept after the broker ends.",
        ),
    ] = None,
    memberships: Annotated[
        str | None,
        typer.Option(metavar="memory|redis|none", help="Where the broker looks up memberships."),
    ] = None,
    allow_anonymous: Annotated[
        bool | None,
        typer.Option("--allow-anonymous", help="Accept clients without a user name."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Run the broker until Ctrl-C or SIGTERM.

    On SIGHUP it reads its certificates and its password and ACL files again.
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


def passwd(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Password file (broker.password_file in conf).")
    ],
    user: Annotated[str, typer.Argument(metavar="USER", help="User name.")],
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the user.")] = False,
) -> None:
    """Add a user to a password file, or change a password.

    The password is asked for, or read from standard input.
    """
    from broker.access.passwords import check_user_name, hash_password, read_users, write_users

    check_user_name(user)
    users = read_users(file) if file.exists() else {}
    if delete:
        if users.pop(user, None) is None:
            raise SettingsError(f"{file}: no user {user!r}")
        done = "deleted"
    else:
        done = "changed" if user in users else "added"
        users[user] = hash_password(_password(user))
    write_users(file, users)
    typer.echo(f"{file}: user {user!r} {done}, {len(users)} in all")


def _password(user: str) -> str:
    """Return the password: typed twice at a terminal, or one line of standard input.

    It is no argument, because all users of the machine can read the list of processes.
    """
    if sys.stdin.isatty():
        password: str = typer.prompt(
            f"Password for {user}", hide_input=True, confirmation_prompt=True, err=True
        )
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise SettingsError("the password is empty")
    return password


MISTAKES: Final = 2

config = command_group("Check the settings of a broker.")


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
