"""A neighborhood of the test city, with one entity inside and one outside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Surroundings:
    """A neighborhood of the city that is in force, an entity in it and one outside of it."""

    descriptor: str
    inside: int
    outside: int
