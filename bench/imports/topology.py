"""How topology survives an import: relations and near misses, in other CRSs and with --snap.

python -m bench.imports.topology SOURCE [--srid CODE …] [--first PATTERN --second PATTERN]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import shapely

from spatial_udfs.entity_table import CategoryMasks, EntityTable
from world.imports.combination import combine
from world.imports.geometry_checks import near_misses
from world.imports.import_request import request_of
from world.long_work import silent
from world.snapshot import entity_table
from world.sources.readings import read_sources
from world.versions.version_tables import VersionFacts

NAMES: Final = ("touches", "crosses", "overlaps", "contains", "within", "disjoint")
SNAP_METRES: Final = 0.001


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one row of a Markdown table for each CRS, without and with --snap."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--srid", type=int, nargs="+", default=[None], help="CRSs to import into")
    parser.add_argument("--first", default="#", help="category of one side of the pairs")
    parser.add_argument("--second", default="#", help="category of the other side")
    options = parser.parse_args(arguments)
    print(
        "| CRS | snap | entities | near misses | vertices | seconds | " + " | ".join(NAMES) + " |"
    )
    print("|---|---|--:|--:|--:|--:|" + "--:|" * len(NAMES))
    readings = list(read_sources(request_of([options.source]).sources, silent))
    for srid in options.srid:
        for snap in (0.0, SNAP_METRES):
            started = time.perf_counter()
            combined = combine(readings, srid, silent, snap)
            seconds = time.perf_counter() - started
            table = entity_table(
                combined.entities, _facts(combined.crs.to_epsg() or 0), combined.geometries
            )
            counts = relations(table, options.first, options.second)
            inserted = 0 if combined.snapped is None else combined.snapped.inserted
            cells = [
                f"EPSG:{table.srid}", f"{snap:g} m" if snap else "-", f"{len(table):,}",
                f"{len(near_misses(table.geometries, silent)):,}", f"{inserted:,}",
                f"{seconds:.1f}", *(f"{counts[name]:,}" for name in NAMES),
            ]  # fmt: skip
            print("| " + " | ".join(cells) + " |", flush=True)
    return 0


def relations(table: EntityTable, first: str, second: str) -> Counter[str]:
    """Return how many pairs, of all whose boxes meet, are in each relation."""
    masks = CategoryMasks(table)
    ones, others = (np.flatnonzero(masks.of((pattern,))) for pattern in (first, second))
    tree = shapely.STRtree(table.geometries[others])
    left, right = tree.query(table.geometries[ones])
    left, right = ones[left], others[right]
    # A pair of two sides with the same category counts once.
    once = (left < right) if first == second else (left != right)
    left, right = table.geometries[left[once]], table.geometries[right[once]]
    return Counter({name: int(getattr(shapely, name)(left, right).sum()) for name in NAMES})


def _facts(srid: int) -> VersionFacts:
    return VersionFacts(1, srid, datetime.now(UTC), (), "", 0, {}, "")


if __name__ == "__main__":
    sys.exit(main())
