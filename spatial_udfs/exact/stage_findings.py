"""Where an entity stands with a neighborhood: stage by stage, and how far it is from each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import shapely

from schemas.language.neighborhood import Neighborhood
from spatial_udfs.entity_table import CategoryMasks, EntityTable, Int64s, Positions
from spatial_udfs.position_sets import is_in, union
from spatial_udfs.resolution_limits import ResolutionLimits
from spatial_udfs.topology.vertex_steps import distances_in_steps

# Members whose exact distance is computed between two looks at the bounds of the others.
MEASURED_AT_ONCE: Final = 64
# Rounding in bounds of boxes: members that seem a little further than the nearest are measured too.
_SLACK: Final = 2.0**-40


@dataclass(frozen=True, slots=True)
class StageFinding:
    """What one stage has to do with an entity.

    ``is_selectable``: one of its category patterns matches a category of the entity.
    ``is_reference``: it is one of the stage's references, and so excluded. ``distance`` is
    that to the nearest member in metres, None when the stage has no members.
    """

    number: int
    is_visible: bool
    is_member: bool
    is_reference: bool
    is_selectable: bool
    distance: float | None


def stage_findings(
    table: EntityTable,
    masks: CategoryMasks,
    neighborhood: Neighborhood,
    members: tuple[Int64s, ...],
    peid: int,
    limits: ResolutionLimits,
) -> tuple[StageFinding, ...]:
    """Return a finding for each written-out stage; none when the world has no such entity.

    ``members`` are the peids of each stage.
    """
    found, _ = table.positions_of(np.array([peid], np.int64))
    if not len(found):
        return ()
    references, _ = table.positions_of(np.array(neighborhood.refs, np.int64))
    positions = [references, *(table.positions_of(one)[0] for one in members)]
    findings = []
    for stage in neighborhood.written_out():
        own = union([positions[number] for number in stage.ref_stages])
        selected = positions[stage.number]
        is_member = bool(is_in(found, selected)[0])
        findings.append(
            StageFinding(
                number=stage.number,
                is_visible=neighborhood.visible[stage.number - 1],
                is_member=is_member,
                is_reference=bool(is_in(found, own)[0]),
                is_selectable=bool(masks.of(stage.categories)[found[0]]),
                distance=0.0 if is_member else _nearest(table, int(found[0]), selected, limits),
            )
        )
    return tuple(findings)


def _nearest(
    table: EntityTable, entity: int, members: Positions, limits: ResolutionLimits
) -> float | None:
    """Return the distance to the nearest member; boxes tell which can be the nearest."""
    if not len(members):
        return None
    geometries = table.geometries[members]
    west, south, east, north = shapely.bounds(geometries).T
    own_west, own_south, own_east, own_north = shapely.bounds(table.geometries[entity])
    gap_x = np.maximum(np.maximum(west - own_east, own_west - east), 0)
    gap_y = np.maximum(np.maximum(south - own_north, own_south - north), 0)
    at_least = np.hypot(gap_x, gap_y)
    order = np.argsort(at_least)
    nearest = np.inf
    for start in range(0, len(order), MEASURED_AT_ONCE):
        step = order[start : start + MEASURED_AT_ONCE]
        if at_least[step[0]] * (1 - _SLACK) > nearest:
            break
        limits.check_time()
        one = np.repeat(table.geometries[entity : entity + 1], len(step))
        distances = distances_in_steps(geometries[step], one, limits)
        nearest = min(nearest, float(distances.min()))
    return nearest
