"""Extract files before they are read: in order, and several of them as one.

Roads must be split with all roads in sight. Two extracts that meet at a border are therefore
merged first: read one by one, a junction on the border would be seen by neither.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import osmium

from schemas.errors import SourceError
from world.long_work import Progress
from world.sources.candidates import Problem, ProblemKind

SORTED: Final = "Type_then_ID"
TYPE_ORDER: Final = {"n": 0, "w": 1, "r": 2}
ELEMENT_NAMES: Final = {"n": "node", "w": "way", "r": "relation"}
PROGRESS_STEP: Final = 100_000


@contextlib.contextmanager
def merged(paths: Sequence[Path], tell: Progress) -> Iterator[tuple[Path, list[Problem]]]:
    """One sorted extract with the elements of all files, and where the files contradict."""
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
            # The newest version; of equal ones the first, because max() takes the first.
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
    """All of an element but who changed it when."""
    tags = {tag.k: tag.v for tag in element.tags}
    match element.type_str():
        case "n":
            return tags, element.location.x, element.location.y
        case "w":
            return tags, [node.ref for node in element.nodes]
        case _:
            return tags, [(member.type, member.ref, member.role) for member in element.members]


def _refuse_unsorted(path: Path) -> None:
    """Nodes, ways, relations, each by id and once: areas and merging need it so."""
    processor = osmium.FileProcessor(str(path))
    header = processor.header
    if header.has_multiple_object_versions:
        raise SourceError(f"{path}: a history file; import an extract of one moment")
    if header.get("sorting") == SORTED:
        return
    last = (-1, False, 0)
    for element in processor:
        # Negative ids come first and by their size, as all OSM tools have it.
        place = (TYPE_ORDER[element.type_str()], element.id > 0, abs(element.id))
        if place <= last:
            name = f"{ELEMENT_NAMES[element.type_str()]} {element.id}"
            raise SourceError(f"{path}: {name} is twice or not in order; use 'osmium sort'")
        last = place
