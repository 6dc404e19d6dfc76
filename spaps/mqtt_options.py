"""Options of ``spaps sub`` and ``spaps pub``, with the letters that mosquitto_sub and _pub have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from schemas.errors import SettingsError

if TYPE_CHECKING:
    from spaps.client_options import ConnectionOptions

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


def connection_options(  # noqa: PLR0913  one for each option of the command line
    *,
    client_id: str,
    user: str | None,
    password: str | None,
    keep_alive: int,
    cafile: Path | None,
    cert: Path | None,
    key: Path | None,
    tls: bool,
    insecure: bool,
    websocket: str | None,
) -> ConnectionOptions:
    """What the client library takes."""
    if (cert is None) != (key is None):
        raise SettingsError("--cert and --key belong together")
    return {
        "client_id": client_id,
        "user": user,
        "password": password if user is not None else None,
        "keep_alive": keep_alive,
        "cafile": cafile,
        "certfile": cert,
        "keyfile": key,
        "tls": tls,
        "insecure": insecure,
        "transport": "tcp" if websocket is None else "websockets",
        "websocket_path": websocket or "/mqtt",
    }
