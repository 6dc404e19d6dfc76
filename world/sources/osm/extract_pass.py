"""Reads an extract in one pass and applies the rules to its nodes, ways and areas.

osmium does not report an area that it cannot build. So the areas that a rule selects are recorded
beforehand as awaited, and removed when they arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import osmium
import shapely

from world.long_work import Progress
from world.sources.candidates import Problem, ProblemKind
from world.sources.osm.rules import GeometryKind, Rules
from world.sources.osm.segments import Locations, RoadWay, line_of, stretches_of

AREA_RELATIONS: Final = ("multipolygon", "boundary")
PROGRESS_STEP: Final = 20_000


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
        cut_off = f"{missing} of its nodes are not in the extract"
        self.ways[way.id] = cut_off if missing else "its outline is not a valid area"

    def arrived(self, *, from_way: bool, osm_id: int) -> None:
        """Remove an area that osmium has built."""
        awaited: dict[int, Any] = self.ways if from_way else self.relations
        awaited.pop(osm_id, None)

    def faults(self) -> Iterator[tuple[ProblemKind, str, str]]:
        """Yield kind, locator and reason for each area that did not arrive."""
        for way, reason in self.ways.items():
            cut_off = "not in the extract" in reason
            kind = ProblemKind.INCOMPLETE_WAY if cut_off else ProblemKind.BROKEN_GEOMETRY
            yield kind, f"way {way}", reason
        for relation, members in self.relations.items():
            missing = sum(member not in self.members_there for member in members)
            kind = ProblemKind.INCOMPLETE_RELATION if missing else ProblemKind.BROKEN_GEOMETRY
            lacking = f"{missing} of its {len(members)} ways are not in the extract"
            reason = lacking if missing else "its ways do not form a valid area"
            yield kind, f"relation {relation}", reason


@dataclass(frozen=True, slots=True)
class Feature:
    """An element that becomes an entity as a whole; ``element`` is node, way or relation."""

    kind: GeometryKind
    element: str
    osm_id: int
    categories: tuple[str, ...]
    name: str | None
    geometry: Any


@dataclass(slots=True)
class Extract:
    """The elements of one extract that rules fit; problems name it by ``source``."""

    source: str
    features: list[Feature] = field(default_factory=list)
    roads: list[RoadWay] = field(default_factory=list)
    locations: Locations = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def note(self, kind: ProblemKind, locator: str, reason: str, *, kept: bool = False) -> None:
        """Add a problem."""
        self.problems.append(Problem(kind, kept, None, self.source, locator, reason))


def read_extract(path: Path, source: str, rules: Rules, tell: Progress) -> Extract:
    """Return everything in the extract that a rule fits."""

    def told(count: int) -> None:
        if count % PROGRESS_STEP == 0:
            tell(f"reading {path.name}", count, None)

    awaited = AwaitedAreas.of_relations(path, rules)
    return read_elements(str(path), Extract(source), rules, awaited, told)


def read_elements(
    file: str | osmium.io.FileBuffer,
    extract: Extract,
    rules: Rules,
    awaited: AwaitedAreas,
    told: Callable[[int], None] = lambda _: None,
) -> Extract:
    """Fill the extract with everything in the file that a rule fits, and return it.

    ``awaited`` has the areas expected from relations, and all ways of area relations.
    """
    reader = _Reader(extract, rules, awaited)
    elements = (
        osmium.FileProcessor(file).with_areas().with_filter(osmium.filter.KeyFilter(*rules.by_key))
    )
    for count, element in enumerate(elements):
        told(count)
        reader.take(element)
    for kind, locator, reason in reader.awaited.faults():
        reader.extract.note(kind, locator, reason)
    return reader.extract


class _Reader:
    def __init__(self, extract: Extract, rules: Rules, awaited: AwaitedAreas) -> None:
        self.extract = extract
        self.awaited = awaited
        self._rules = rules
        self._wkb = osmium.geom.WKBFactory()

    def take(self, element: Any) -> None:
        tags = dict(element.tags)
        if not element.visible:
            return  # the element was deleted
        match element.type_str():
            case "n":
                self._node(element, tags)
            case "w":
                self._way(element, tags)
            case "a":
                self._area(element, tags)

    def _node(self, node: Any, tags: Mapping[str, str]) -> None:
        categories = self._rules.categories(GeometryKind.POINT, tags)
        if not categories:
            return
        if not node.location.valid():
            what = "has no location"
            self.extract.note(ProblemKind.MISSING_GEOMETRY, f"node {node.id}", what)
            return
        point = shapely.Point(node.location.lon, node.location.lat)
        self._add(GeometryKind.POINT, "node", node.id, tags, categories, point)

    def _way(self, way: Any, tags: Mapping[str, str]) -> None:
        encloses = way.is_closed() and tags.get("area") != "no"
        as_area = self._rules.categories(GeometryKind.AREA, tags)
        as_road = self._rules.categories(GeometryKind.ROAD, tags)
        # A rule for both lines and areas makes one entity of a closed way, not two.
        as_line = self._rules.categories(
            GeometryKind.LINE, tags, unless=GeometryKind.AREA if encloses else None
        )
        if as_road:
            self._road(way, tags, as_road)
        if as_line:
            self._line(way, tags, as_line)
        if as_area and encloses:
            self.awaited.await_way(way)
        elif as_area and not as_road and not as_line and way.id not in self.awaited.members:
            # An open way of a relation is a part of the relation's outline.
            what = "says area=no" if way.is_closed() else "is not closed"
            reason = f"has the tags of an area but {what}"
            self.extract.note(ProblemKind.OPEN_AREA, f"way {way.id}", reason)

    def _road(self, way: Any, tags: Mapping[str, str], categories: tuple[str, ...]) -> None:
        stretches = self._stretches(way)
        if stretches:
            name = self._rules.name(tags)
            self.extract.roads.append(RoadWay(way.id, stretches, categories, name))

    def _line(self, way: Any, tags: Mapping[str, str], categories: tuple[str, ...]) -> None:
        locations = self.extract.locations
        lines = [line_of(stretch, locations) for stretch in self._stretches(way)]
        if lines:
            geometry = lines[0] if len(lines) == 1 else shapely.MultiLineString(lines)
            self._add(GeometryKind.LINE, "way", way.id, tags, categories, geometry)

    def _stretches(self, way: Any) -> tuple[tuple[int, ...], ...]:
        """Return the way's nodes without immediate repetitions, cut where nodes are missing."""
        places = {
            node.ref: (node.location.lon, node.location.lat)
            for node in way.nodes
            if node.location.valid()
        }
        self.extract.locations.update(places)
        usable, missing = stretches_of((node.ref, node.ref in places) for node in way.nodes)
        locator = f"way {way.id}"
        if missing:
            reason = f"{missing} of its nodes are not in the extract"
            self.extract.note(ProblemKind.INCOMPLETE_WAY, locator, reason, kept=bool(usable))
        elif not usable:
            reason = "has fewer than two different nodes"
            self.extract.note(ProblemKind.EMPTY_GEOMETRY, locator, reason)
        return usable

    def _area(self, area: Any, tags: Mapping[str, str]) -> None:
        categories = self._rules.categories(GeometryKind.AREA, tags)
        outer_rings, _ = area.num_rings()
        if not categories or not outer_rings or (area.from_way() and tags.get("area") == "no"):
            return
        self.awaited.arrived(from_way=area.from_way(), osm_id=area.orig_id())
        geometry: Any = shapely.from_wkb(self._wkb.create_multipolygon(area))
        if shapely.get_num_geometries(geometry) == 1:
            geometry = shapely.get_geometry(geometry, 0)
        element = "way" if area.from_way() else "relation"
        self._add(GeometryKind.AREA, element, area.orig_id(), tags, categories, geometry)

    def _add(
        self,
        kind: GeometryKind,
        element: str,
        osm_id: int,
        tags: Mapping[str, str],
        categories: tuple[str, ...],
        geometry: Any,
    ) -> None:
        name = self._rules.name(tags)
        self.extract.features.append(Feature(kind, element, osm_id, categories, name, geometry))
