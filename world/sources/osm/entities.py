"""Reads OSM extracts as rows: features whole, roads in segments, each with its peid.

Several extracts are merged first. Read one by one, a junction on the border of two extracts would
be missed in both, and the roads there would not be split.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
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
from world.sources.osm.rules import GeometryKind, Rules
from world.sources.osm.segments import Segment, junctions_of, line_of, split_at

BASES: Final = {
    (GeometryKind.POINT, "node"): peids.POINT_BASE,
    (GeometryKind.LINE, "way"): peids.LINE_BASE,
    (GeometryKind.AREA, "way"): peids.WAY_AREA_BASE,
    (GeometryKind.AREA, "relation"): peids.RELATION_AREA_BASE,
}
SORTED: Final = "Type_then_ID"
TYPE_ORDER: Final = {"n": 0, "w": 1, "r": 2}
ELEMENT_NAMES: Final = {"n": "node", "w": "way", "r": "relation"}
PROGRESS_STEP: Final = 100_000


def read_osm(
    paths: Sequence[Path], rules: Rules, tell: Progress
) -> tuple[Candidates, list[Problem]]:
    """Return the entities of all extracts as one, in longitude and latitude, and the problems."""
    source = " + ".join(str(path) for path in paths)
    try:
        with merged(paths, tell) as (path, contradictions):
            extract = read_extract(path, source, rules, tell)
    except (RuntimeError, OSError, ValueError, osmium.InvalidLocationError) as error:
        raise SourceError(f"{source}: {' '.join(str(error).split())}") from error
    rows = ExtractRows(extract, junctions_of(extract.roads))
    return rows.candidates(), [*contradictions, *extract.problems, *rows.problems]


class ExtractRows:
    """The entities of an extract or of a part of one, and the problems of giving them peids.

    ``seeds`` has the seed of each segment, by peid.
    """

    def __init__(self, extract: Extract, junctions: AbstractSet[int]) -> None:
        self.problems: list[Problem] = []
        self.seeds: dict[int, peids.SegmentSeed] = {}
        self._extract = extract
        self._columns: list[tuple[int, tuple[str, ...], str | None, Any, str, str]] = []
        self._segments: dict[int, tuple[int, tuple[int, ...]]] = {}
        for feature in extract.features:
            self._add_feature(feature)
        segments = split_at(junctions, extract.roads, extract.locations)
        # Older ways come first, so that in a collision the newer one gets another peid.
        for segment in sorted(segments, key=lambda segment: (segment.road.way, segment.nodes)):
            self._add_segment(segment)

    def _add_feature(self, feature: Feature) -> None:
        locator = f"{feature.element} {feature.osm_id}"
        if not self._has_permanent_id(feature.osm_id, locator):
            return
        base = BASES[feature.kind, feature.element]
        peid, key = base + feature.osm_id, peids.whole_key(base, feature.osm_id)
        self._columns.append(
            (peid, feature.categories, feature.name, feature.geometry, locator, key)
        )

    def _add_segment(self, segment: Segment) -> None:
        road, nodes = segment.road, segment.nodes
        locator = f"way {road.way}, nodes {nodes[0]} to {nodes[-1]}"
        if not self._has_permanent_id(road.way, locator):
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
            reason = f"another segment has its peid; it got the peid of attempt {attempt + 1}"
            self._note(ProblemKind.PEID_COLLISION, locator, reason, peid=peid, kept=True)
        self._segments[peid] = identity
        self.seeds[peid] = peids.segment_seed(road.way, nodes)
        line = line_of(nodes, self._extract.locations)
        key = peids.segment_key(road.way, peid)
        self._columns.append((peid, road.categories, road.name, line, locator, key))

    def _has_permanent_id(self, osm_id: int, locator: str) -> bool:
        """Return whether an OSM id gives a peid; note a problem if not.

        Editors number elements that were never uploaded from -1 downwards, anew at each save.
        """
        permanent = 0 <= osm_id <= peids.MAX_OSM_ID
        if not permanent:
            reason = "has no permanent OSM id, so it gets no peid"
            self._note(ProblemKind.PEID_OUT_OF_RANGE, locator, reason, peid=None, kept=False)
        return permanent

    def candidates(self) -> Candidates:
        """Return the rows, in longitude and latitude."""
        columns = list(zip(*self._columns, strict=True)) or [()] * 6
        numbers, categories, names, geometries, locators, keys = columns
        return Candidates(
            source=self._extract.source,
            locator=locators.__getitem__,
            ordinals=np.arange(len(numbers)),
            peids=np.array(numbers, np.int64),
            categories=objects(categories),
            names=objects(names),
            geometries=objects(geometries),
            keys=objects(keys),
        )

    def _note(
        self, kind: ProblemKind, locator: str, reason: str, *, peid: int | None, kept: bool
    ) -> None:
        self.problems.append(Problem(kind, kept, peid, self._extract.source, locator, reason))


@contextlib.contextmanager
def merged(paths: Sequence[Path], tell: Progress) -> Iterator[tuple[Path, list[Problem]]]:
    """Yield one sorted extract with the elements of all files, and the conflicts of the files."""
    for path in paths:
        _refuse_unsorted(path)
    if len(paths) == 1:
        yield paths[0], []
        return
    with tempfile.TemporaryDirectory(prefix="spaps-import-") as folder:
        target = Path(folder) / "merged.osm.pbf"
        yield target, _merge(paths, target, tell)


def _merge(paths: Sequence[Path], target: Path, tell: Progress) -> list[Problem]:
    problems: list[Problem] = []
    processors = [osmium.FileProcessor(str(path)) for path in paths]
    with osmium.SimpleWriter(str(target)) as writer:
        for count, elements in enumerate(osmium.zip_processors(*processors)):
            if count % PROGRESS_STEP == 0:
                tell("merging extracts", count, None)
            there: list[tuple[Any, Path]] = [
                (element, path)
                for element, path in zip(elements, paths, strict=True)
                if element is not None
            ]
            # The newest version; of equal versions the first, because max() takes the first.
            newest, origin = max(there, key=lambda pair: pair[0].version)
            writer.add(newest)
            problems += [
                _conflict(element, path, origin)
                for element, path in there
                if path != origin and _content(element) != _content(newest)
            ]
    return problems


def _conflict(element: Any, path: Path, origin: Path) -> Problem:
    return Problem(
        kind=ProblemKind.DUPLICATE_CONFLICTING,
        kept=False,
        peid=None,
        source=str(path),
        locator=f"{ELEMENT_NAMES[element.type_str()]} {element.id}",
        reason=f"is not the same in {origin}, which is newer or comes first and stays",
    )


def _content(element: Any) -> tuple[Any, ...]:
    """Return an element's tags and geometry, without its author and time."""
    tags = {tag.k: tag.v for tag in element.tags}
    match element.type_str():
        case "n":
            return tags, element.location.x, element.location.y
        case "w":
            return tags, [node.ref for node in element.nodes]
        case _:
            return tags, [(member.type, member.ref, member.role) for member in element.members]


def _refuse_unsorted(path: Path) -> None:
    """Raise SourceError unless nodes, ways and relations come in this order, each by id and once.

    Building areas and merging files need that order.
    """
    processor = osmium.FileProcessor(str(path))
    header = processor.header
    if header.has_multiple_object_versions:
        raise SourceError(f"{path}: a history file; import an extract of one moment")
    if header.get("sorting") == SORTED:
        return
    last = (-1, False, 0)
    for element in processor:
        # Negative ids come first, by absolute value, as in all OSM tools.
        place = (TYPE_ORDER[element.type_str()], element.id > 0, abs(element.id))
        if place <= last:
            name = f"{ELEMENT_NAMES[element.type_str()]} {element.id}"
            raise SourceError(f"{path}: {name} is twice or not in order; use 'osmium sort'")
        last = place
