"""How many neighborhoods a change of the world can reach: ``python -m bench.rebuild.reach``.

Behind decision 0250. Nothing is timed: these are counts by the rule of
``spatial_udfs/incremental/affected_sets.py``, on the city and the subscriptions of the benchmark.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Final

import numpy as np

from bench.rebuild.registration import SEED
from rebuild.exact_workers import ExactWorkers, WorldPlace
from rebuild.registered_sets import RegisteredSets, registered_sets
from rebuild.resolve import plan_all, resolve_by_plan
from schemas.generation import RegistryCoverage
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.neighborhood import neighborhood_hash
from schemas.subscription import Registration
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.incremental.affected_sets import affected_sets
from testing.city_edits import edited_city
from testing.mixed_subscriptions import mixed_descriptors
from testing.synthetic_city import synthetic_city
from testing.world_writers import entity_rows
from world.versions.changes import compare_entities

SHARES: Final = (0.01, 0.001)


def main() -> int:
    """Print a table of counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entities", type=int, default=225_150)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    options = parser.parse_args()
    city = synthetic_city(options.entities)
    sets = _sets(city, options.subscriptions)
    place = WorldPlace("nowhere", city.version, city)
    before = resolve_by_plan(sets, plan_all(sets), place, ExactWorkers(1))
    print("| change | entities changed | neighborhoods reached |")
    print("|---|--:|--:|")
    for where, in_one_place in (("in one place", True), ("all over the city", False)):
        for share in SHARES:
            new = edited_city(city, share, seed=1, in_one_place=in_one_place)
            changes = compare_entities(entity_rows(city), entity_rows(new))
            asked = np.ones(len(sets), np.bool_)
            reached = affected_sets(sets.neighborhoods, before.rows, changes, new, asked)
            print(
                f"| {share:.1%} {where} | {len(changes.touched()):,} | "
                f"{int(reached.sum()):,} of {len(sets):,} |",
                flush=True,
            )
    return 0


def _sets(city: EntityTable, count: int) -> RegisteredSets:
    """Return the different neighborhoods of so many subscriptions."""
    written = (json.dumps(each) for each in mixed_descriptors(city, count, SEED))
    texts = sorted(set(written))

    def entries() -> Iterator[tuple[int, Registration]]:
        for number, text in enumerate(texts, start=1):
            digest = neighborhood_hash(parse_descriptor(text))
            yield number, Registration("bench", number, "#", text, digest)

    return registered_sets(RegistryCoverage("bench", len(texts)), entries())


if __name__ == "__main__":
    raise SystemExit(main())
