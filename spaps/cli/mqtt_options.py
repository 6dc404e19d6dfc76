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

HostOption: TypeAlias = Annotated[
    str, typer.Option("-h", "--host", metavar="HOST", help="Where the broker is.")
]
PortOption: TypeAlias = Annotated[
    int | None,
    typer.Option("-p", "--port", min=1, max=65535, help="Its port; 1883, with TLS 8883."),
]
QosOption: TypeAlias = Annotated[int, typer.Option("-q", "--qos", min=0, max=2)]
UserOption: TypeAlias = Annotated[
    str | None, typer.Option("-u", "--username", metavar="USER", help="Who logs in.")
]
PasswordOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "-P",
        "--pw",
        metavar="PASSWORD",
        envvar=PASSWORD_VARIABLE,
        show_envvar=False,
        help=f"Better in {PASSWORD_VARIABLE}: others can read the list of processes.",
    ),
]
ClientIdOption: TypeAlias = Annotated[
    str, typer.Option("-i", "--id", metavar="ID", help="Client id; default: the broker's choice.")
]
KeepAliveOption: TypeAlias = Annotated[
    int, typer.Option("-k", "--keepalive", min=1, max=65535, metavar="SECONDS")
]
CafileOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Whom to trust; switches TLS on.")
]
CertOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Our certificate; switches TLS on.")
]
KeyOption: TypeAlias = Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.")]
TlsOption: TypeAlias = Annotated[
    bool, typer.Option("--tls", help="TLS with the authorities that this system trusts.")
]
InsecureOption: TypeAlias = Annotated[
    bool, typer.Option("--insecure", help="Do not compare the broker's name to its certificate.")
]
WebSocketOption: TypeAlias = Annotated[
    str | None, typer.Option("--ws", metavar="PATH", help="Over WebSocket, at this path.")
]


@dataclass(frozen=True, slots=True)
class Connecting:
    """How a command reaches the broker: the options that all of them share, in this order."""

    host: HostOption = "localhost"
    port: PortOption = None
    client_id: ClientIdOption = ""
    user: UserOption = None
    password: PasswordOption = None
    keep_alive: KeepAliveOption = 60
    cafile: CafileOption = None
    cert: CertOption = None
    key: KeyOption = None
    tls: TlsOption = False
    insecure: InsecureOption = False
    websocket: WebSocketOption = None

    def options(self) -> ConnectionOptions:
        """What the client library takes."""
        if (self.cert is None) != (self.key is None):
            raise SettingsError("--cert and --key belong together")
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
    """The command with the shared options in the place of its parameter ``connecting``."""
    hints = get_type_hints(Connecting, include_extras=True)
    shared = [
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(Connecting)
    ]
    names = {one.name for one in shared}

    @wraps(command)
    def whole(**given: Any) -> Result:
        own = {name: value for name, value in given.items() if name not in names}
        connecting = Connecting(**{name: given[name] for name in names & given.keys()})
        return command(connecting=connecting, **own)

    own_hints = get_type_hints(command, include_extras=True)
    own = [
        one.replace(annotation=own_hints[one.name])
        for one in signature(command).parameters.values()
        if one.name != "connecting"
    ]
    # What the option parser looks at.
    whole.__signature__ = Signature([*own, *shared])  # type: ignore[attr-defined]
    whole.__annotations__ = {one.name: one.annotation for one in (*own, *shared)}
    return whole
