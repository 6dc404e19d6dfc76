"""What people call the references of a neighborhood, for everything that people read."""

from __future__ import annotations

import numpy as np

from schemas.language.neighborhood import Neighborhood
from spatial_udfs.entity_table import EntityTable


def reference_names(table: EntityTable, neighborhood: Neighborhood) -> dict[int, str]:
    """Names by peid, of those references that exist and have one."""
    positions, _ = table.positions_of(np.array(neighborhood.refs, np.int64))
    return {
        int(table.peids[position]): table.names[position]
        for position in positions
        if table.names[position]
    }
