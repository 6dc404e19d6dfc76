"""The rows of an extract: its features as they are, its roads in segments, each with a peid."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from world.candidates import Candidates, objects
from world.osm import peids
from world.osm.reading import Extract, read_extract
from world.osm.rules import GeometryKind, Rules
from world.osm.segments import line_of, split_roads
from world.problems import Problem, ProblemKind
from world.progress import Progress

BASES: Final = {
    (GeometryKind.POINT, "n"): peids.POINT_BASE,
    (GeometryKind.LINE, "w"): peids.LINE_BASE,
    (GeometryKind.AREA, "w"): peids.WAY_AREA_BASE,
    (GeometryKind.AREA, "r"): peids.RELATION_AREA_BASE,
}
ELEMENTS: Final = {"n": "node", "w": "way", "r": "relation"}


def read_osm(path: Path, rules: Rules, progress: Progress) -> tuple[Candidates, list[Problem]]:
    """The entities of an extract, in longitude and latitude, and what could not become one."""
    extract = read_extract(path, rules, progress)
    rows = _Rows(extract)
    rows.add_features()
    rows.add_segments()
    return rows.candidates(), [*extract.problems, *rows.problems]


class _Rows:
    def __init__(self, extract: Extract) -> None:
        self.problems: list[Problem] = []
        self._extract = extract
        self._peids: list[int] = []
        self._categories: list[tuple[str, ...]] = []
        self._names: list[str | None] = []
        self._geometries: list[object] = []
        self._locators: list[str] = []

    def add_features(self) -> None:
        for feature in self._extract.features:
            locator = f"{ELEMENTS[feature.element]} {feature.osm_id}"
            if not 0 <= feature.osm_id <= peids.MAX_OSM_ID:
                self._note(
                    ProblemKind.PEID_OUT_OF_RANGE, locator, "its OSM id makes no peid", kept=False
                )
                continue
            peid = BASES[feature.kind, feature.element] + feature.osm_id
            self._add(peid, feature.categories, feature.name, feature.geometry, locator)

    def add_segments(self) -> None:
        taken: dict[int, tuple[int, tuple[int, ...]]] = {}
        extract = self._extract
        segments = split_roads(extract.roads, extract.locations)
        # Older ways come first, so that a newer one is the one to give way in a collision.
        for segment in sorted(segments, key=lambda s: (extract.roads[s.road].way, s.nodes)):
            way = extract.roads[segment.road].way
            locator = f"way {way}, nodes {segment.nodes[0]} to {segment.nodes[-1]}"
            forward = min(segment.nodes, segment.nodes[::-1])
            attempt = 0
            peid = peids.segment_peid(way, segment.nodes)
            while peid in taken and taken[peid] != (way, forward):
                attempt += 1
                peid = peids.segment_peid(way, segment.nodes, attempt)
            if peid in taken:
                self._note(
                    ProblemKind.DUPLICATE_IDENTICAL,
                    locator,
                    "the way passes this stretch twice",
                    peid=peid,
                )
                continue
            if attempt:
                self._note(
                    ProblemKind.PEID_COLLISION,
                    locator,
                    f"its hash is taken by another segment; it got number {attempt + 1}",
                    peid=peid,
                )
            taken[peid] = (way, forward)
            self._add(
                peid,
                extract.road_categories[segment.road],
                extract.road_names[segment.road],
                line_of(segment.nodes, extract.locations),
                locator,
            )

    def candidates(self) -> Candidates:
        return Candidates(
            source=self._extract.source,
            locator=self._locators.__getitem__,
            ordinals=np.arange(len(self._peids)),
            peids=np.array(self._peids, np.int64),
            categories=objects(self._categories),
            names=objects(self._names),
            geometries=objects(self._geometries),
        )

    def _add(
        self,
        peid: int,
        categories: tuple[str, ...],
        name: str | None,
        geometry: object,
        locator: str,
    ) -> None:
        self._peids.append(peid)
        self._categories.append(categories)
        self._names.append(name)
        self._geometries.append(geometry)
        self._locators.append(locator)

    def _note(
        self,
        kind: ProblemKind,
        locator: str,
        reason: str,
        *,
        peid: int | None = None,
        kept: bool = True,
    ) -> None:
        self.problems.append(Problem(kind, kept, peid, self._extract.source, locator, reason))
