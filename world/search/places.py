"""A place that a user gives as longitude and latitude."""

from __future__ import annotations

import math
from dataclasses import dataclass

from schemas.errors import SearchError


@dataclass(frozen=True, slots=True)
class Place:
    """A point on WGS 84, in degrees."""

    longitude: float
    latitude: float


def read_place(text: str) -> Place:
    """Return the place that a text such as 7.42,43.74 names: longitude first."""
    try:
        longitude, latitude = (float(part) for part in text.split(","))
    except ValueError:
        raise _wrong(text, "") from None
    if not (math.isfinite(longitude) and math.isfinite(latitude)):
        raise _wrong(text, "")
    if abs(longitude) > 180 or abs(latitude) > 90:
        swapped = abs(longitude) <= 90 and abs(latitude) <= 180
        hint = "; longitude comes first" if swapped else ""
        raise _wrong(text, f": longitude is -180 to 180, latitude -90 to 90{hint}")
    return Place(longitude, latitude)


def _wrong(text: str, why: str) -> SearchError:
    return SearchError(f"the place {text[:40]!r} is not LON,LAT in degrees such as 7.42,43.74{why}")
