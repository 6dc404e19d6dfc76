"""Commands whose help shows a value only for options that take one."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption


class PlainCommand(TyperCommand):
    """A command whose flags stand alone in ``--help``."""

    def get_params(self, ctx: Any) -> Any:
        """Return all parameters, those of ``--help`` included."""
        return without_flag_values(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """The same for a command that has commands of its own."""

    def get_params(self, ctx: Any) -> Any:
        """Return all parameters, those of ``--help`` included."""
        return without_flag_values(super().get_params(ctx))


def without_flag_values(parameters: Any) -> Any:
    """Leave the column of values empty for flags, where typer would print ``<bool>``."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_flag and parameter.metavar is None:
            parameter.metavar = ""
    return parameters
