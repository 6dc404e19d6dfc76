"""Names that MQTT clients see: user properties, and the broker's notices about its world.

The notices are JSON in plain MQTT messages (docs/decisions/0110-subscribers-can-know.md). A client
reads them with ``spaps.client.message``. User properties whose names are nearly ours are found,
because a typing error would otherwise pass unseen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

# User properties.
NEIGHBORHOOD: Final = "neighborhood"
NSID: Final = "nsid"
PEID: Final = "peid"
WARNING: Final = "warning"

# Retained: the world version and the generation in force, with counts.
WORLD_TOPIC: Final = "$SYS/broker/world"
# Each subscriber gets the changes of its own neighborhoods alone.
CHANGES_TOPIC: Final = "$SYS/broker/neighborhoods/changed"

PRESENT: Final = "present"
NONE_LEFT: Final = "none left"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldNotice:
    """The state of a broker. Without a generation, every neighborhood was resolved live."""

    version: int
    generation: int | None
    # In the generation: pairs of entity and subscription, and entities with at least one pair.
    pairs: int | None
    entities: int | None
    # At this broker: neighborhoods in force, and those without an existing reference.
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
    """The change of one neighborhood of one client by a switch to another generation.

    ``gained`` and ``lost`` are numbers of entities; None if they were not counted, as when the
    broker was down during several switches.
    """

    nsid: int
    gained: int | None
    lost: int | None
    has_references: bool
    version: int
    generation: int | None
    # The name whose definition was changed; None: the world was.
    name: str | None = None


def changes_to_json(changes: Sequence[NeighborhoodChange]) -> str:
    """Return the payload on ``CHANGES_TOPIC``: one or more changes of one switch."""
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
                    **({} if one.name is None else {"name": one.name}),
                }
                for one in changes
            ],
        }
    )


OUR_NAMES: Final = (NEIGHBORHOOD, NSID, PEID)
# Longer names are other words. So the work for each name is bounded.
MOST_CHARACTERS: Final = len(NEIGHBORHOOD) + 4
# In short names one other letter makes another word (``pid``), so only case and signs may differ.
MISSPELT_FROM: Final = 8
_SIGNS: Final = str.maketrans("", "", "-_. ")


def name_meant(name: str) -> str | None:
    """Return our name that a name is nearly, None when it is ours or another word."""
    if name in OUR_NAMES or len(name) > MOST_CHARACTERS:
        return None
    letters = name.casefold().translate(_SIGNS)
    for ours in OUR_NAMES:
        if letters == ours or (len(ours) >= MISSPELT_FROM and _is_misspelt(letters, ours)):
            return ours
    return None


def name_warnings(names: Iterable[str], most: int = 3) -> list[str]:
    """Return a line for each different name that is nearly ours, for the first few of them."""
    warnings: list[str] = []
    for name in dict.fromkeys(names):
        ours = name_meant(name)
        if ours is not None:
            warnings.append(f"the user property {name!r} is ignored; did you mean {ours!r}?")
            if len(warnings) == most:
                break
    return warnings


def _is_misspelt(word: str, right: str) -> bool:
    """Return whether one letter is missing, added or another one, or two neighbors are swapped."""
    shorter = min(len(word), len(right))
    start = 0
    while start < shorter and word[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and word[-1 - end] == right[-1 - end]:
        end += 1
    left, expected = word[start : len(word) - end], right[start : len(right) - end]
    if max(len(left), len(expected)) <= 1:
        return True
    return len(left) == 2 and left == expected[::-1]
