"""Finds the areas that a rule selects and osmium could not build, and why.

osmium's assembler does not report an area that it cannot build. So the expected areas are recorded
beforehand, and removed when they arrive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import osmium

from world.sources.candidates import ProblemKind
from world.sources.osm.rules import GeometryKind, Rules

AREA_RELATIONS: Final = ("multipolygon", "boundary")


@dataclass(slots=True)
class AwaitedAreas:
    """The expected areas. ``members`` has the ways of all area relations, expected or not."""

    relations: dict[int, tuple[int, ...]] = field(default_factory=dict)
    ways: dict[int, str] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)
    members_there: set[int] = field(default_factory=set)

    @classmethod
    def of_relations(cls, path: Path, rules: Rules) -> AwaitedAreas:
        """Return the areas expected from the relations of a file."""
        awaited = cls()
        relation: Any
        for relation in osmium.FileProcessor(str(path), osmium.osm.RELATION):
            tags = dict(relation.tags)
            if tags.get("type") not in AREA_RELATIONS or not relation.visible:
                continue
            members = tuple(member.ref for member in relation.members if member.type == "w")
            awaited.await_relation(relation.id, tags, members, rules)
        if awaited.members:
            ways = osmium.FileProcessor(str(path), osmium.osm.WAY).with_filter(
                osmium.filter.IdFilter(awaited.members)
            )
            awaited.members_there.update(way.id for way in ways)
        return awaited

    def await_relation(
        self, osm_id: int, tags: Mapping[str, str], members: tuple[int, ...], rules: Rules
    ) -> None:
        """Expect an area from an area relation if a rule fits; ``members`` are its ways."""
        self.members.update(members)
        if rules.categories(GeometryKind.AREA, tags):
            self.relations[osm_id] = members

    def await_way(self, way: Any) -> None:
        """Expect an area from a closed way, and keep the reason in case none arrives."""
        missing = sum(not node.location.valid() for node in way.nodes)
        self.ways[way.id] = (
            f"{missing} of its nodes are not in the extract"
            if missing
            else "its outline is not a valid area"
        )

    def arrived(self, *, from_way: bool, osm_id: int) -> None:
        """Remove an area that osmium has built."""
        if from_way:
            self.ways.pop(osm_id, None)
        else:
            self.relations.pop(osm_id, None)

    def faults(self) -> Iterator[tuple[ProblemKind, str, str]]:
        """Yield kind, locator and reason for each area that did not arrive."""
        for way, reason in self.ways.items():
            cut_off = "not in the extract" in reason
            kind = ProblemKind.INCOMPLETE_WAY if cut_off else ProblemKind.BROKEN_GEOMETRY
            yield kind, f"way {way}", reason
        for relation, members in self.relations.items():
            missing = sum(member not in self.members_there for member in members)
            if missing:
                reason = f"{missing} of its {len(members)} ways are not in the extract"
                yield ProblemKind.INCOMPLETE_RELATION, f"relation {relation}", reason
            else:
                reason = "its ways do not form a valid area"
                yield ProblemKind.BROKEN_GEOMETRY, f"relation {relation}", reason
