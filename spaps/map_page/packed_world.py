"""The world of a map page as columns of numbers: compressed, as base64, with a list of columns.

The script ``world.js`` unpacks them. A city of 225,150 entities takes a few megabytes.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from schemas.language.references import PLACE
from spatial_udfs.entity_table import EntityTable, Geometries, Int64s, Positions
from spatial_udfs.place_geometries import projected_places

# Decimetres: finer than any screen shows, and half the size of the same numbers as decimals.
UNITS_PER_METRE: Final = 10
# Columns begin at multiples of this, because a script reads eight bytes only there.
ALIGNMENT: Final = 8
# Level 6 takes five times as long, for a page that is 9 percent smaller.
LEVEL: Final = 2
TYPE_NAMES: Final = {"uint8": "u1", "uint32": "u4", "int32": "i4", "uint64": "u8"}
# The category of a place among entities.
CATEGORY: Final = "place"


@dataclass(slots=True)
class PackedColumns:
    """Columns one after the other; ``listed`` has name, type, first byte and length of each."""

    listed: list[tuple[str, str, int, int]] = field(default_factory=list)
    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0

    def add(self, name: str, values: NDArray[Any]) -> None:
        """Append a column of numbers."""
        content = np.ascontiguousarray(values)
        little = content.astype(content.dtype.newbyteorder("<"), copy=False)
        self._append(name, TYPE_NAMES[content.dtype.name], little.tobytes(), len(values))

    def add_json(self, name: str, value: Any) -> None:
        """Append a value as JSON."""
        content = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
        self._append(name, "json", content, len(content))

    def text(self) -> str:
        """Return all columns as text."""
        return base64.b64encode(zlib.compress(b"".join(self._parts), LEVEL)).decode()

    def _append(self, name: str, kind: str, content: bytes, length: int) -> None:
        self.listed.append((name, kind, self._size, length))
        padded = content + bytes(-len(content) % ALIGNMENT)
        self._parts.append(padded)
        self._size += len(padded)


@dataclass(frozen=True, slots=True)
class Paths:
    """Points, lines and rings of geometries, in their order, as steps in units."""

    paths: NDArray[np.uint32]  # how many each geometry has
    vertices: NDArray[np.uint32]  # how many each path has
    steps: NDArray[np.int32]  # from one vertex to the next, x and y


def paths_of(geometries: Geometries, origin: tuple[float, float]) -> Paths:
    """Return the paths of geometries; steps begin at the origin and go on from path to path."""
    parts, owners = _parts(geometries)
    areas = shapely.get_dimensions(parts) == 2
    # Shells and holes have opposite orientation, because the page fills overlapping areas as one.
    rings, ring_owners = shapely.get_rings(shapely.orient_polygons(parts[areas]), return_index=True)
    paths = np.concatenate([parts[~areas], rings])
    path_owners = np.concatenate([owners[~areas], owners[areas][ring_owners]])
    order = np.argsort(path_owners, kind="stable")
    coordinates, path_of = shapely.get_coordinates(paths[order], return_index=True)
    units = np.rint((coordinates - np.array(origin)) * UNITS_PER_METRE).astype(np.int64)
    return Paths(
        paths=np.bincount(path_owners, minlength=len(geometries)).astype(np.uint32),
        vertices=np.bincount(path_of, minlength=len(paths)).astype(np.uint32),
        steps=np.diff(units, axis=0, prepend=np.zeros((1, 2), np.int64)).astype(np.int32),
    )


def _parts(geometries: Geometries) -> tuple[Geometries, Int64s]:
    """Return all parts, and the places of the geometries that they are of.

    Only geometries of several parts are taken apart, because most have one.
    """
    several = shapely.get_type_id(geometries) >= shapely.GeometryType.MULTIPOINT
    taken, owners = shapely.get_parts(geometries[several], return_index=True)
    return (
        np.concatenate([geometries[~several], taken]),
        np.concatenate([np.flatnonzero(~several), np.flatnonzero(several)[owners]]),
    )


@dataclass(frozen=True, slots=True)
class CategorySets:
    """The distinct sets of categories, as codes, and the number of the set of each entity."""

    sets: list[list[int]]
    numbers: NDArray[np.uint32]


def category_sets(table: EntityTable, positions: Positions) -> CategorySets:
    """Return the category sets of some entities."""
    known: dict[bytes, int] = {}
    numbers = np.empty(len(positions), np.uint32)
    offsets, codes = table.category_offsets, table.category_codes
    # Most entities have one category: these are numbered at once.
    alone = np.diff(offsets)[positions] == 1
    single, numbers[alone] = np.unique(codes[offsets[positions[alone]]], return_inverse=True)
    sets = [[code] for code in single.tolist()]
    for place in np.flatnonzero(~alone).tolist():
        position = positions[place]
        own = codes[offsets[position] : offsets[position + 1]]
        key = own.tobytes()
        number = known.setdefault(key, len(sets))
        if number == len(sets):
            sets.append(own.tolist())
        numbers[place] = number
    return CategorySets(sets, numbers)


def pack(
    table: EntityTable, positions: Positions, stages: Sequence[Int64s]
) -> tuple[PackedColumns, dict[str, Any]]:
    """Return columns of the entities at these positions, and what the script must know of them.

    ``stages`` are the peids of each stage, references first.
    """
    geometries = table.geometries[positions]
    bounds = shapely.total_bounds(geometries) if len(positions) else np.zeros(4)
    west, south = (float(value) if np.isfinite(value) else 0.0 for value in bounds[:2])
    paths = paths_of(geometries, (west, south))
    sets = category_sets(table, positions)
    names, name_codes = _coded(table.names[positions].tolist())
    peids = table.peids[positions]
    members = [_places_of(peids, stage) for stage in stages]
    packed = PackedColumns()
    packed.add("peids", peids.astype(np.uint64))
    packed.add("kinds", np.maximum(shapely.get_dimensions(geometries), 0).astype(np.uint8))
    packed.add("categorySets", sets.numbers)
    packed.add("nameCodes", name_codes)
    packed.add("paths", paths.paths)
    packed.add("vertices", paths.vertices)
    packed.add("xSteps", paths.steps[:, 0])
    packed.add("ySteps", paths.steps[:, 1])
    packed.add("stageMembers", np.concatenate([np.empty(0, np.uint32), *members]))
    packed.add_json("names", names)
    if table.keys is not None:
        packed.add_json("keys", table.keys.take(pa.array(positions)).to_pylist())
    facts = {
        "perMetre": UNITS_PER_METRE,
        "origin": [west, south],
        "categories": table.category_names,
        "categorySets": sets.sets,
        "stageSizes": [len(stage) for stage in members],
    }
    return packed, facts


def _places_of(peids: Int64s, wanted: Int64s) -> NDArray[np.uint32]:
    """Return the places of the wanted peids, which are left out where they are not."""
    order = np.argsort(peids, kind="stable")
    found = np.searchsorted(peids, wanted, sorter=order)
    found = order[found[found < len(peids)]]
    return found[np.isin(peids[found], wanted)].astype(np.uint32)


def _coded(names: list[str | None]) -> tuple[list[str | None], NDArray[np.uint32]]:
    """Return the distinct names, and the number of each name among them."""
    known: dict[str | None, int] = {}
    codes = [known.setdefault(name, len(known)) for name in names]
    return list(known), np.array(codes, np.uint32)


def with_places(table: EntityTable, places: Sequence[str]) -> tuple[EntityTable, Int64s]:
    """Return the table with the places in front, and the numbers that stand for their peids.

    The name of a place is what a neighborhood says in the place of a peid; the script shows it.
    """
    geometries, lacking = projected_places(places, table.srid)
    held = [place for place in places if place not in lacking]
    count = len(held)
    numbers = np.arange(-count, 0, dtype=np.int64)
    if not count:
        return table, numbers
    names = np.array([f"{PLACE}:{place}" for place in held], dtype=object)
    keys = table.keys
    if keys is not None:
        keys = pa.concat_arrays([pa.array([""] * count, keys.type), keys])
    with_category = tuple(dict.fromkeys((*table.category_names, CATEGORY)))
    code = with_category.index(CATEGORY)
    return (
        replace(
            table,
            peids=np.concatenate([numbers, table.peids]),
            geometries=np.concatenate([geometries, table.geometries]),
            names=np.concatenate([names, table.names]),
            category_names=with_category,
            category_offsets=np.concatenate([np.arange(count), table.category_offsets + count]),
            category_codes=np.concatenate([np.full(count, code, np.int32), table.category_codes]),
            keys=keys,
        ),
        numbers,
    )
