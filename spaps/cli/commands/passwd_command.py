"""``spaps passwd``: users of the broker and their passwords, hashed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from schemas.errors import SettingsError


def passwd(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Password file (broker.password_file in conf).")
    ],
    user: Annotated[str, typer.Argument(metavar="USER", help="Who logs in.")],
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Take the user out.")] = False,
) -> None:
    """Add a user to a password file, or change a password; it is asked for, or read from stdin."""
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
    """Typed twice at a terminal, or one line that a script pipes in.

    Never an argument: everybody on the machine could read it in the list of processes.
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
