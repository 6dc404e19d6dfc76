"""The client library of spaPS, and where spaps-server is installed its command line."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from spaps.version import __version__

if TYPE_CHECKING:
    from spaps.client.aio_client import AsyncSpatialClient
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
    from spaps.client.message import Message
    from spaps.client.notices import NeighborhoodChange
    from spaps.client.options import ConnectionOptions
    from spaps.client.publication import Publication
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

# Imported when somebody asks for them: commands that need no client start without paho.
_HOMES: Final = {
    "AnswerTimeoutError": "spaps.client.errors",
    "AsyncSpatialClient": "spaps.client.aio_client",
    "ClientError": "spaps.client.errors",
    "ClientUseError": "spaps.client.errors",
    "ConnectRefusedError": "spaps.client.errors",
    "ConnectionOptions": "spaps.client.options",
    "Message": "spaps.client.message",
    "NeighborhoodChange": "spaps.client.notices",
    "NeighborhoodRefusedError": "spaps.client.errors",
    "NotConnectedError": "spaps.client.errors",
    "NoticeError": "spaps.client.errors",
    "Publication": "spaps.client.publication",
    "PublishRefusedError": "spaps.client.errors",
    "RefusedError": "spaps.client.errors",
    "SpatialClient": "spaps.client.spatial_client",
    "SubscribeRefusedError": "spaps.client.errors",
    "UnsubscribeRefusedError": "spaps.client.errors",
}


def __getattr__(name: str) -> Any:
    """What this package offers, from the file where it lives."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
