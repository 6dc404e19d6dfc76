"""Areas that the rules want: which of them came out of the extract, and why the others did not.

The assembler says nothing about an area that it cannot build, so what is wanted is written
down beforehand and crossed out when it comes.
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
    """``members``: all ways that belong to an area relation, wanted or not."""

    relations: dict[int, tuple[int, ...]] = field(default_factory=dict)
    ways: dict[int, str] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)
    members_there: set[int] = field(default_factory=set)

    @classmethod
    def of_relations(cls, path: Path, rules: Rules) -> AwaitedAreas:
        """Await an area for each relation that a rule fits."""
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
        """Await an area for an area relation, if a rule fits; ``members`` are its ways."""
        self.members.update(members)
        if rules.categories(GeometryKind.AREA, tags):
            self.relations[osm_id] = members

    def await_way(self, way: Any) -> None:
        """Await an area for a closed way; keeps what to say if none comes."""
        missing = sum(not node.location.valid() for node in way.nodes)
        self.ways[way.id] = (
            f"{missing} of its nodes are not in the extract"
            if missing
            else "its outline is no valid area"
        )

    def arrived(self, *, from_way: bool, osm_id: int) -> None:
        """Cross an area out."""
        if from_way:
            self.ways.pop(osm_id, None)
        else:
            self.relations.pop(osm_id, None)

    def faults(self) -> Iterator[tuple[ProblemKind, str, str]]:
        """Kind, locator and reason for each area that did not come."""
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
                reason = "its ways do not close to a valid area"
                yield ProblemKind.BROKEN_GEOMETRY, f"relation {relation}", reason
