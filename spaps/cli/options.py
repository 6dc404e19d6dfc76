"""Options that several commands share, and commands whose help shows them plainly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

WorldOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Folder or URI of the world; default: world.dir in conf."),
]
VersionOption: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="World version; default: the newest.")
]
ConfigOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Settings file; defaults: conf/spaps.toml.")
]
RedisOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="URL", help="Redis server; default: redis.url in conf.")
]
GraceOption: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Time until the old generation is removed from Redis."),
]


class PlainCommand(TyperCommand):
    """A command whose ``--help`` shows a value only for options that take one."""

    def get_params(self, ctx: Any) -> Any:
        """Return all parameters, those of ``--help`` included."""
        return without_flag_values(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """The same for a command that has commands of its own."""

    def get_params(self, ctx: Any) -> Any:
        """Return all parameters, those of ``--help`` included."""
        return without_flag_values(super().get_params(ctx))


def command_group(purpose: str) -> typer.Typer:
    """Return a command that has commands of its own, and prints its help when none is given."""
    group = typer.Typer(cls=PlainGroup, help=purpose, invoke_without_command=True)

    @group.callback()
    def start(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return group


def without_flag_values(parameters: Any) -> Any:
    """Leave the column of values empty for flags and arguments.

    Typer would print types of Python there: ``<bool>``, ``<list[str]>``.
    """
    for parameter in parameters:
        if isinstance(parameter, TyperArgument):
            parameter.display_type_rich = _nothing  # type: ignore[method-assign]
        if isinstance(parameter, TyperOption) and parameter.is_flag and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


def _nothing(ctx: Any) -> str | None:  # noqa: ARG001  the name that typer passes
    return None
