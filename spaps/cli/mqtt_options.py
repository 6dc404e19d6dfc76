"""Options of ``spaps sub`` and ``spaps pub``, with the letters that mosquitto_sub and _pub have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

import typer

from schemas.errors import SettingsError

if TYPE_CHECKING:
    from spaps.client.options import ConnectionOptions

Result = TypeVar("Result")

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
