"""What Delta's log keeps about a Parquet file, so that readers can leave it out."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq


def statistics_of(footer: pq.FileMetaData) -> str:
    """Rows, and the least and largest number of each column of numbers, as the footer has them."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    content: dict[str, Any] = {
        "numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {},
    }  # fmt: skip
    for place in range(footer.num_columns):
        found = [group.column(place).statistics for group in groups if group.num_rows]
        name = footer.schema.column(place).path
        if "." in name or not found or any(one is None for one in found):
            continue
        content["nullCount"][name] = sum(one.null_count or 0 for one in found)
        bounded = [one for one in found if one.has_min_max and type(one.min) is int]
        if bounded and len(bounded) == len(found):
            content["minValues"][name] = min(one.min for one in bounded)
            content["maxValues"][name] = max(one.max for one in bounded)
    return json.dumps(content, separators=(",", ":"))
