"""Names that MQTT clients see: user properties, and what a broker publishes about its world.

The notices are JSON, and nothing but plain MQTT (docs/decisions/0110-subscribers-can-know.md). A
client reads them with ``spaps.client.message``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# User properties.
NEIGHBORHOOD: Final = "neighborhood"
NSID: Final = "nsid"
PEID: Final = "peid"
WARNING: Final = "warning"

# Retained: the world version and the generation in force, with counts.
WORLD_TOPIC: Final = "$SYS/broker/world"
# For each subscriber what changed in its own neighborhoods, and nobody else's.
CHANGES_TOPIC: Final = "$SYS/broker/neighborhoods/changed"

PRESENT: Final = "present"
NONE_LEFT: Final = "none left"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldNotice:
    """The state of a broker. Without a generation every neighborhood was resolved live."""

    version: int
    generation: int | None
    # Of the generation: pairs of entity and subscription, and entities that have one.
    pairs: int | None
    entities: int | None
    # Of this broker: neighborhoods in force, and those of which no reference exists now.
    neighborhoods: int
    without_references: int

    def to_json(self) -> str:
        """Return the payload on ``WORLD_TOPIC``."""
        return json.dumps(
            {
                "version": self.version,
                "generation": self.generation,
                "pairs": self.pairs,
                "entities": self.entities,
                "neighborhoods": self.neighborhoods,
                "withoutReferences": self.without_references,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborhoodChange:
    """What a switch to another generation changed in one neighborhood of one client.

    ``gained`` and ``lost`` are numbers of entities; None when nobody has counted, as after a
    broker that was away for several switches.
    """

    nsid: int
    gained: int | None
    lost: int | None
    has_references: bool
    version: int
    generation: int | None


def changes_to_json(changes: Sequence[NeighborhoodChange]) -> str:
    """Return the payload on ``CHANGES_TOPIC``: changes of one switch, at least one."""
    return json.dumps(
        {
            "version": changes[0].version,
            "generation": changes[0].generation,
            "changes": [
                {
                    "nsid": one.nsid,
                    "gained": one.gained,
                    "lost": one.lost,
                    "references": PRESENT if one.has_references else NONE_LEFT,
                }
                for one in changes
            ],
        }
    )
