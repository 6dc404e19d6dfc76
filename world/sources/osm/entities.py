"""The rows of OSM extracts: features as they are, roads in segments, each with its peid."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

import numpy as np
import osmium

from schemas.errors import SourceError
from world.long_work import Progress
from world.sources.candidates import Candidates, Problem, ProblemKind, objects
from world.sources.osm import peids
from world.sources.osm.extract_pass import Extract, Feature, read_extract
from world.sources.osm.merging import merged
from world.sources.osm.rules import GeometryKind, Rules
from world.sources.osm.segments import Segment, junctions_of, line_of, split_at

BASES: Final = {
    (GeometryKind.POINT, "node"): peids.POINT_BASE,
    (GeometryKind.LINE, "way"): peids.LINE_BASE,
    (GeometryKind.AREA, "way"): peids.WAY_AREA_BASE,
    (GeometryKind.AREA, "relation"): peids.RELATION_AREA_BASE,
}


def read_osm(
    paths: Sequence[Path], rules: Rules, tell: Progress
) -> tuple[Candidates, list[Problem]]:
    """The entities of all extracts taken as one, in longitude and latitude, and the problems."""
    source = " + ".join(str(path) for path in paths)
    try:
        with merged(paths, tell) as (path, contradictions):
            extract = read_extract(path, source, rules, tell)
    except (RuntimeError, OSError, ValueError, osmium.InvalidLocationError) as error:
        raise SourceError(f"{source}: {' '.join(str(error).split())}") from error
    rows = ExtractRows(extract, junctions_of(extract.roads))
    return rows.candidates(), [*contradictions, *extract.problems, *rows.problems]


class ExtractRows:
    """The entities of an extract, or of a part of one, and the problems met in numbering them.

    ``seeds`` are what the peids of segments are made from, by peid.
    """

    def __init__(self, extract: Extract, junctions: AbstractSet[int]) -> None:
        self.problems: list[Problem] = []
        self.seeds: dict[int, peids.SegmentSeed] = {}
        self._extract = extract
        self._columns: list[tuple[int, tuple[str, ...], str | None, Any, str]] = []
        self._segments: dict[int, tuple[int, tuple[int, ...]]] = {}
        for feature in extract.features:
            self._add_feature(feature)
        segments = split_at(junctions, extract.roads, extract.locations)
        # Older ways come first, so that in a collision the newer one has to give way.
        for segment in sorted(segments, key=lambda segment: (segment.road.way, segment.nodes)):
            self._add_segment(segment)

    def _add_feature(self, feature: Feature) -> None:
        locator = f"{feature.element} {feature.osm_id}"
        if not self._is_lasting(feature.osm_id, locator):
            return
        peid = BASES[feature.kind, feature.element] + feature.osm_id
        self._columns.append((peid, feature.categories, feature.name, feature.geometry, locator))

    def _add_segment(self, segment: Segment) -> None:
        road, nodes = segment.road, segment.nodes
        locator = f"way {road.way}, nodes {nodes[0]} to {nodes[-1]}"
        if not self._is_lasting(road.way, locator):
            return
        identity = (road.way, min(nodes, nodes[::-1]))
        attempt = 0
        peid = peids.segment_peid(road.way, nodes)
        while self._segments.get(peid, identity) != identity:
            attempt += 1
            peid = peids.segment_peid(road.way, nodes, attempt)
        if peid in self._segments:
            reason = "the way passes this stretch more than once"
            self._note(ProblemKind.DUPLICATE_IDENTICAL, locator, reason, peid=peid, kept=True)
            return
        if attempt:
            reason = f"its hash is that of another segment; it got its {attempt + 1}. choice"
            self._note(ProblemKind.PEID_COLLISION, locator, reason, peid=peid, kept=True)
        self._segments[peid] = identity
        self.seeds[peid] = peids.segment_seed(road.way, nodes)
        line = line_of(nodes, self._extract.locations)
        self._columns.append((peid, road.categories, road.name, line, locator))

    def _is_lasting(self, osm_id: int, locator: str) -> bool:
        """Editors number what was never uploaded from -1 downwards, anew at each save."""
        lasting = 0 <= osm_id <= peids.MAX_OSM_ID
        if not lasting:
            reason = "has an OSM id that does not last, so no peid"
            self._note(ProblemKind.PEID_OUT_OF_RANGE, locator, reason, peid=None, kept=False)
        return lasting

    def candidates(self) -> Candidates:
        """Return the rows, in longitude and latitude."""
        columns = list(zip(*self._columns, strict=True)) or [()] * 5
        numbers, categories, names, geometries, locators = columns
        return Candidates(
            source=self._extract.source,
            locator=locators.__getitem__,
            ordinals=np.arange(len(numbers)),
            peids=np.array(numbers, np.int64),
            categories=objects(categories),
            names=objects(names),
            geometries=objects(geometries),
        )

    def _note(
        self, kind: ProblemKind, locator: str, reason: str, *, peid: int | None, kept: bool
    ) -> None:
        self.problems.append(Problem(kind, kept, peid, self._extract.source, locator, reason))
