"""What the build of spaps-server computes: it needs the client library of its own version."""

from __future__ import annotations

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ServerMetadata(MetadataHookInterface):
    """Adds the dependencies of the server, of which one has its version."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dependencies: spaps-mqtt brings ``spaps`` itself, the rest is the command."""
        needed = self.config["dependencies"]
        metadata["dependencies"] = [f"spaps-mqtt=={metadata['version']}", *needed]
