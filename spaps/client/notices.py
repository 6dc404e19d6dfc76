"""What a broker tells its subscribers about their neighborhoods, on a topic of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from spaps.client.errors import NoticeError
from spaps.client.protocol import NONE_LEFT


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborhoodChange:
    """What a switch to another generation changed in one neighborhood of this client.

    ``gained`` and ``lost`` are numbers of entities; None when nobody has counted, as after a
    broker that was away for several switches.
    """

    nsid: int
    gained: int | None
    lost: int | None
    has_references: bool
    version: int
    generation: int | None

    def __str__(self) -> str:
        counts = "changed" if self.gained is None else f"+{self.gained} -{self.lost}"
        rest = "" if self.has_references else ", no reference is left"
        return f"neighborhood {self.nsid}: {counts} (world version {self.version}{rest})"


def changes_from_json(payload: bytes) -> list[NeighborhoodChange]:
    """Return the changes that a payload tells; NoticeError when it is something else."""
    try:
        content: dict[str, Any] = json.loads(payload)
        version, generation = int(content["version"]), _number(content["generation"])
        return [
            NeighborhoodChange(
                nsid=int(one["nsid"]),
                gained=_number(one["gained"]),
                lost=_number(one["lost"]),
                has_references=one["references"] != NONE_LEFT,
                version=version,
                generation=generation,
            )
            for one in content["changes"]
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise NoticeError(
            f"a notice of changed neighborhoods is not understood: {error}"
        ) from error


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
