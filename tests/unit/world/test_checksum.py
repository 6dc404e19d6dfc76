"""The checksum of a version: the sum of the rows' hashes, whatever the order and the batches."""

from __future__ import annotations

import hashlib
from unittest.mock import patch

import pyarrow as pa
import pytest

from world.versions import version_tables
from world.versions.version_tables import content_checksum

Row = tuple[int, list[str], str | None, bytes, str | None]
ROWS: list[Row] = [
    (1, ["road/minor"], "Hauptstraße", bytes(range(40)), "way/1#2"),
    (2, ["a", "b/c"], None, b"\x00\xff", "2"),
    (2**63 - 1, ["é" * 20], "", b"", None),
    (7, ["zone"], "|:1", b"\x01" * 100, "é"),
]


def table_of(rows: list[Row]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 5
    return pa.table(
        [
            pa.array(column, field.type)
            for column, field in zip(columns, version_tables.UNVERSIONED_ENTITIES, strict=True)
        ],
        schema=version_tables.UNVERSIONED_ENTITIES,
    )


def by_definition(rows: list[Row]) -> str:
    """Row by row, as the page of the decision says it."""
    sums = [0, 0, 0, 0]
    for peid, categories, name, geometry, key in rows:
        listed = "".join(f"{len(category)}:{category}" for category in categories)
        named = "" if name is None else f"{len(name)}:{name}"
        keyed = "" if key in (None, str(peid)) else f"|{len(key)}:{key}"
        text = f"{peid}|{listed}|{named}|{geometry.hex().upper()}{keyed}"
        digest = hashlib.sha256(text.encode())
        for quarter in range(4):
            part = digest.digest()[8 * quarter : 8 * quarter + 8]
            sums[quarter] = (sums[quarter] + int.from_bytes(part, "big")) % 2**64
    return "".join(f"{quarter:016x}" for quarter in sums)


@pytest.mark.parametrize("count", range(len(ROWS) + 1))
def test_as_defined(count: int) -> None:
    assert content_checksum(table_of(ROWS[:count])) == by_definition(ROWS[:count])


def test_order_and_batches_do_not_matter() -> None:
    parts = pa.concat_tables([table_of(ROWS[2:]), table_of(ROWS[:2])])
    with patch.object(version_tables, "ROWS_AT_ONCE", 1):
        assert content_checksum(parts) == by_definition(ROWS)
    assert content_checksum(parts.slice(1, 2)) == by_definition([ROWS[3], ROWS[0]])


def test_the_control_one_byte_shows() -> None:
    for other in (b"\x01" * 99 + b"\x02", "é"), (b"\x01" * 100, "e"):
        changed = [*ROWS[:3], (7, ["zone"], "|:1", *other)]
        assert content_checksum(table_of(changed)) != by_definition(ROWS)
