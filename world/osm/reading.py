"""One pass through an extract: what the rules make of its nodes, ways and areas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import osmium
import shapely

from schemas.errors import SourceError
from world.osm.rules import GeometryKind, Rules
from world.osm.segments import Locations, RoadWay
from world.problems import Problem, ProblemKind
from world.progress import Progress

PROGRESS_STEP = 20_000


@dataclass(frozen=True, slots=True)
class Feature:
    """An element that became an entity as a whole. ``element``: ``n``, ``w`` or ``r``, and id."""

    kind: GeometryKind
    element: str
    osm_id: int
    categories: tuple[str, ...]
    name: str | None
    geometry: Any


@dataclass(slots=True)
class Extract:
    """What the rules found in one extract."""

    source: str
    features: list[Feature] = field(default_factory=list)
    roads: list[RoadWay] = field(default_factory=list)
    road_categories: list[tuple[str, ...]] = field(default_factory=list)
    road_names: list[str | None] = field(default_factory=list)
    locations: Locations = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_extract(path: Path, rules: Rules, progress: Progress) -> Extract:
    """Everything in the extract that a rule fits."""
    reader = _Reader(path, rules, progress)
    try:
        reader.read()
    except (RuntimeError, OSError, ValueError) as error:
        raise SourceError(f"{path}: {' '.join(str(error).split())}") from error
    return reader.extract


class _Reader:
    def __init__(self, path: Path, rules: Rules, progress: Progress) -> None:
        self.extract = Extract(source=str(path))
        self._path = path
        self._rules = rules
        self._progress = progress
        self._wkb = osmium.geom.WKBFactory()
        # Relations that a rule fits and that no area has come out of yet.
        self._awaited: dict[int, tuple[int, ...]] = {}
        self._ways_seen: set[int] = set()
        self._open_ways: dict[int, str] = {}

    def read(self) -> None:
        self._await_relations()
        processor = (
            osmium.FileProcessor(str(self._path))
            .with_areas()
            .with_filter(osmium.filter.KeyFilter(*self._rules.by_key))
        )
        handlers = {"n": self._node, "w": self._way, "a": self._area}
        for count, element in enumerate(processor):
            handler = handlers.get(element.type_str())
            if handler is not None:
                handler(element, dict(element.tags))
            if count % PROGRESS_STEP == 0:
                self._progress("reading " + self._path.name, count, None)
        self._report_cut_off_relations()

    def _await_relations(self) -> None:
        wanted: set[int] = set()
        relations = osmium.FileProcessor(str(self._path), osmium.osm.RELATION).with_filter(
            osmium.filter.KeyFilter(*self._rules.by_key)
        )
        relation: Any
        for relation in relations:
            tags = dict(relation.tags)
            is_area = tags.get("type") in ("multipolygon", "boundary")
            if is_area and self._rules.categories(GeometryKind.AREA, tags):
                members = tuple(member.ref for member in relation.members if member.type == "w")
                self._awaited[relation.id] = members
                wanted.update(members)
        if wanted:
            ways = osmium.FileProcessor(str(self._path), osmium.osm.WAY).with_filter(
                osmium.filter.IdFilter(wanted)
            )
            self._ways_seen.update(way.id for way in ways)

    def _node(self, node: Any, tags: Mapping[str, str]) -> None:
        categories = self._rules.categories(GeometryKind.POINT, tags)
        if categories:
            geometry = shapely.Point(node.location.lon, node.location.lat)
            self._add(GeometryKind.POINT, "n", node.id, tags, categories, geometry)

    def _way(self, way: Any, tags: Mapping[str, str]) -> None:
        as_road = self._rules.categories(GeometryKind.ROAD, tags)
        as_line = self._rules.categories(GeometryKind.LINE, tags)
        if as_road:
            self._road(way, tags, as_road)
        if as_line:
            self._line(way, tags, as_line)
        if not way.is_closed() and self._rules.categories(GeometryKind.AREA, tags):
            self._note(
                ProblemKind.OPEN_AREA, f"way {way.id}", "should be an area but is not closed"
            )

    def _road(self, way: Any, tags: Mapping[str, str], categories: tuple[str, ...]) -> None:
        stretches = self._stretches(way)
        if stretches:
            self.extract.roads.append(RoadWay(way.id, stretches))
            self.extract.road_categories.append(categories)
            self.extract.road_names.append(self._rules.name(tags))

    def _stretches(self, way: Any) -> tuple[tuple[int, ...], ...]:
        """The way's nodes without immediate repetitions, cut where the extract lacks some."""
        stretches: list[list[int]] = [[]]
        missing = 0
        for node in way.nodes:
            if not node.location.valid():
                missing += 1
                stretches.append([])
            elif not stretches[-1] or stretches[-1][-1] != node.ref:
                stretches[-1].append(node.ref)
                self.extract.locations[node.ref] = (node.location.lon, node.location.lat)
        usable = tuple(tuple(stretch) for stretch in stretches if len(stretch) > 1)
        if missing:
            self._note(
                ProblemKind.INCOMPLETE_WAY,
                f"way {way.id}",
                f"{missing} of its nodes are not in the extract",
                kept=bool(usable),
            )
        return usable

    def _line(self, way: Any, tags: Mapping[str, str], categories: tuple[str, ...]) -> None:
        stretches = self._stretches(way)
        lines = [
            shapely.LineString([self.extract.locations[node] for node in stretch])
            for stretch in stretches
        ]
        if lines:
            geometry = lines[0] if len(lines) == 1 else shapely.MultiLineString(lines)
            self._add(GeometryKind.LINE, "w", way.id, tags, categories, geometry)

    def _area(self, area: Any, tags: Mapping[str, str]) -> None:
        if area.from_way() and tags.get("area") == "no":
            return
        categories = self._rules.categories(GeometryKind.AREA, tags)
        if not categories:
            return
        element, osm_id = ("w" if area.from_way() else "r"), area.orig_id()
        if area.num_rings()[0] == 0:
            return
        geometry: Any = shapely.from_wkb(self._wkb.create_multipolygon(area))
        if shapely.get_num_geometries(geometry) == 1:
            geometry = shapely.get_geometry(geometry, 0)
        if element == "r":
            self._awaited.pop(osm_id, None)
        self._add(GeometryKind.AREA, element, osm_id, tags, categories, geometry)

    def _report_cut_off_relations(self) -> None:
        for relation, members in sorted(self._awaited.items()):
            missing = sum(member not in self._ways_seen for member in members)
            if missing:
                reason = f"{missing} of its {len(members)} ways are not in the extract"
                self._note(ProblemKind.INCOMPLETE_RELATION, f"relation {relation}", reason)
            else:
                reason = "its ways do not close to an area"
                self._note(ProblemKind.BROKEN_GEOMETRY, f"relation {relation}", reason)

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

    def _note(self, kind: ProblemKind, locator: str, reason: str, *, kept: bool = False) -> None:
        self.extract.problems.append(
            Problem(kind, kept, None, self.extract.source, locator, reason)
        )
