"""Requests to a running broker over its control socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from schemas.errors import SettingsError
from spaps.client.errors import NotConnectedError

ANSWER_SECONDS: Final = 30.0


class RequestRefusedError(SettingsError):
    """The broker has not done what it was asked for."""


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
                f"no broker answers at {path}: name the world of a running one with --world, or "
                "its socket with --socket (broker.control in its settings)"
            ) from None
        except (OSError, ValueError) as error:
            raise NotConnectedError(f"the broker at {path} does not answer: {error}") from error
    raise NotConnectedError(f"the broker at {path} ended before it had answered")
