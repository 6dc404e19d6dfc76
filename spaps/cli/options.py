"""Options that several commands share, and commands whose help shows them plainly.

The options of an MQTT connection have the letters of mosquitto_sub and mosquitto_pub.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from schemas.errors import SettingsError

if TYPE_CHECKING:
    from spaps.client.options import ConnectionOptions

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

PASSWORD_VARIABLE: Final = "SPAPS_MQTT_PASSWORD"  # noqa: S105  the name of the variable
# Here -h is the host, as in Mosquitto's commands; help is --help alone.
HELP_OPTIONS: Final = {"help_option_names": ["--help"]}

QosOption: TypeAlias = Annotated[
    int, typer.Option("-q", "--qos", metavar="QOS", min=0, max=2, help="Quality of service.")
]
UserOption: TypeAlias = Annotated[
    str | None, typer.Option("-u", "--username", metavar="USER", help="User name.")
]
PasswordOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "-P",
        "--pw",
        metavar="PASSWORD",
        envvar=PASSWORD_VARIABLE,
        show_envvar=False,
        help=f"Password. Better set {PASSWORD_VARIABLE}: other users can see your command line.",
    ),
]

Result = TypeVar("Result")


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


@dataclass(frozen=True, slots=True)
class MqttConnection:
    """The options of a connection that ``sub`` and ``pub`` share, in this order."""

    host: Annotated[
        str, typer.Option("-h", "--host", metavar="HOST", help="Host of the broker.")
    ] = "localhost"
    port: Annotated[
        int | None,
        typer.Option(
            "-p",
            "--port",
            metavar="PORT",
            min=1,
            max=65535,
            help="Port; default: 1883, with TLS 8883.",
        ),
    ] = None
    client_id: Annotated[
        str,
        typer.Option("-i", "--id", metavar="ID", help="Client id; default: the broker's choice."),
    ] = ""
    user: UserOption = None
    password: PasswordOption = None
    keep_alive: Annotated[
        int,
        typer.Option(
            "-k", "--keepalive", min=1, max=65535, metavar="SECONDS", help="Keep-alive interval."
        ),
    ] = 60
    cafile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificate authorities to trust; switches TLS on."),
    ] = None
    cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificate of this client; switches TLS on."),
    ] = None
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Key of the certificate.")] = None
    tls: Annotated[
        bool, typer.Option("--tls", help="TLS with the certificate authorities of this system.")
    ] = False
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Do not check the host name in the broker's certificate."),
    ] = False
    websocket: Annotated[
        str | None,
        typer.Option("--ws", metavar="PATH", help="Connect by WebSocket, with this path."),
    ] = None

    def options(self) -> ConnectionOptions:
        """Return the options for the client library."""
        if (self.cert is None) != (self.key is None):
            raise SettingsError("--cert and --key need each other: give both")
        return {
            "client_id": self.client_id,
            "user": self.user,
            "password": self.password if self.user is not None else None,
            "keep_alive": self.keep_alive,
            "cafile": self.cafile,
            "certfile": self.cert,
            "keyfile": self.key,
            "tls": self.tls,
            "insecure": self.insecure,
            "transport": "tcp" if self.websocket is None else "websockets",
            "websocket_path": self.websocket or "/mqtt",
        }


def with_connection(command: Callable[..., Result]) -> Callable[..., Result]:
    """Return the command with the shared options in place of its parameter ``connection``."""
    hints = get_type_hints(MqttConnection, include_extras=True)
    shared = [
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(MqttConnection)
    ]
    names = {one.name for one in shared}

    @wraps(command)
    def whole(**given: Any) -> Result:
        own = {name: value for name, value in given.items() if name not in names}
        connection = MqttConnection(**{name: given[name] for name in names & given.keys()})
        return command(connection=connection, **own)

    own_hints = get_type_hints(command, include_extras=True)
    own = [
        one.replace(annotation=own_hints[one.name])
        for one in signature(command).parameters.values()
        if one.name != "connection"
    ]
    # The option parser reads these two.
    whole.__signature__ = Signature([*own, *shared])  # type: ignore[attr-defined]
    whole.__annotations__ = {one.name: one.annotation for one in (*own, *shared)}
    return whole
