"""The client library of spaPS. The distribution spaps-server adds the command line."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from spaps.version import __version__

if TYPE_CHECKING:
    from spaps.client.aio_client import AsyncSpatialClient
    from spaps.client.answers import Publication
    from spaps.client.errors import (
        AnswerTimeoutError,
        ClientError,
        ClientUseError,
        ConnectRefusedError,
        NeighborhoodRefusedError,
        NotConnectedError,
        NoticeError,
        PublishRefusedError,
        RefusedError,
        SubscribeRefusedError,
        UnsubscribeRefusedError,
    )
    from spaps.client.message import Message, NeighborhoodChange
    from spaps.client.options import ConnectionOptions
    from spaps.client.spatial_client import SpatialClient

__all__ = [
    "AnswerTimeoutError",
    "AsyncSpatialClient",
    "ClientError",
    "ClientUseError",
    "ConnectRefusedError",
    "ConnectionOptions",
    "Message",
    "NeighborhoodChange",
    "NeighborhoodRefusedError",
    "NotConnectedError",
    "NoticeError",
    "Publication",
    "PublishRefusedError",
    "RefusedError",
    "SpatialClient",
    "SubscribeRefusedError",
    "UnsubscribeRefusedError",
    "__version__",
]

# The modules of the client that define the names above; all other names are errors.
_MODULES: Final = {
    "AsyncSpatialClient": "aio_client",
    "ConnectionOptions": "options",
    "Message": "message",
    "NeighborhoodChange": "message",
    "Publication": "answers",
    "SpatialClient": "spatial_client",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is used, so that a command without a client needs no paho."""
    if name in __all__:
        module = import_module(f"spaps.client.{_MODULES.get(name, 'errors')}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
