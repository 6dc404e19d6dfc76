"""Talks to a broker that runs on this machine, over its control socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from schemas.errors import SettingsError
from schemas.settings import control_socket_path, load_settings
from spaps.client.errors import NotConnectedError

SocketOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--socket", metavar="FILE", help="Control socket of the broker; default: that of the world."
    ),
]
JsonLinesOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print each row as a line of JSON.")
]
ANSWER_SECONDS: Final = 30.0


def socket_path(world: str | None, given: Path | None, config: Path | None) -> Path:
    """Return where the broker's control socket is."""
    control = None if given is None else str(given)
    settings = load_settings(config, {"world.dir": world, "broker.control": control})
    path = control_socket_path(settings)
    if path is None:
        raise SettingsError('broker.control is "none": this broker has no control socket')
    return path


class RequestRefusedError(SettingsError):
    """The broker refused a request."""


def ask(path: Path, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Send a request and return the rows of its answer, without the last line."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(ANSWER_SECONDS)
        try:
            link.connect(str(path))
            link.sendall(json.dumps(request).encode() + b"\n")
            with link.makefile("r", encoding="utf-8") as answer:
                for line in answer:
                    row = json.loads(line)
                    if "error" in row:
                        raise RequestRefusedError(row["error"])
                    if "done" in row:
                        return
                    yield row
        except PermissionError:
            raise NotConnectedError(
                f"{path} belongs to another user: run this as the user that runs the broker"
            ) from None
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            raise NotConnectedError(
                f"no broker answers at {path}: give the world of a running broker with --world, "
                "or its control socket with --socket (broker.control in its settings)"
            ) from None
        except (OSError, ValueError) as error:
            raise NotConnectedError(f"the broker at {path} does not answer: {error}") from error
    raise NotConnectedError(f"the broker at {path} ended before it had answered")
