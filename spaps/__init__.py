"""The face of spaPS: client library and command line."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from schemas.world_notices import NeighborhoodChange
    from spaps.client.aio_client import AsyncSpatialClient
    from spaps.client.errors import ClientError, RefusedError
    from spaps.client.message import Message
    from spaps.client.spatial_client import SpatialClient

__all__ = [
    "AsyncSpatialClient",
    "ClientError",
    "Message",
    "NeighborhoodChange",
    "RefusedError",
    "SpatialClient",
]

# Imported when somebody asks for them: commands that need no client start without paho.
_HOMES: Final = {
    "AsyncSpatialClient": "spaps.client.aio_client",
    "ClientError": "spaps.client.errors",
    "Message": "spaps.client.message",
    "NeighborhoodChange": "schemas.world_notices",
    "RefusedError": "spaps.client.errors",
    "SpatialClient": "spaps.client.spatial_client",
}


def __getattr__(name: str) -> Any:
    """What this package offers, from the file where it lives."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
