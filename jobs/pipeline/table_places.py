"""Where Delta tables lie, by what the session knows: its catalog, its file system and its keys.

What has a slash, and what exists on the disk, is a path. A world and an output folder are named by
the schema that has their tables, ``catalog.schema``; the tables must lie beside each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from schemas.entity import ENTITIES_TABLE, VERSIONS_TABLE
from schemas.errors import WorldError
from schemas.membership import MEMBERSHIPS_TABLE
from schemas.storage_credentials import LOCAL, place_of
from world.lake.lake_tables import LakeTable

# Else a disk is read and written in the way that works for every store: for tests of that way.
DISKS_AS_DISKS = True
# The tables by which a schema is known as a world, or as an output folder.
WORLD: Final = (ENTITIES_TABLE, VERSIONS_TABLE)
OUTPUT: Final = (MEMBERSHIPS_TABLE,)

_PART: Final = r"[^\W\d]\w*"
_TABLE: Final = re.compile(rf"{_PART}(\.{_PART}){{1,2}}")
_SCHEMA: Final = re.compile(rf"{_PART}\.{_PART}")


def lake_table(spark: SparkSession, path: str) -> LakeTable:
    """Return the table at a path; without a scheme it is of Spark's default file system."""
    uri, keys = place_of(path, lambda name: spark.conf.get(name, None))
    on_disk = uri.startswith(LOCAL)
    return LakeTable(uri, () if on_disk else keys, on_disk=on_disk and DISKS_AS_DISKS)


def table_place(spark: SparkSession, given: str) -> str:
    """Return the path of a table that is given by its path or by its name in the catalog."""
    if not _TABLE.fullmatch(given) or Path(given).exists() or not _is_there(spark, given):
        return given
    return _location(spark, given)


def folder_place(spark: SparkSession, given: str, tables: Sequence[str]) -> str:
    """Return the folder of tables that is given by its path or by the schema that has them."""
    names = [f"{given}.{table}" for table in tables]
    if not _SCHEMA.fullmatch(given) or Path(given).exists() or not _is_there(spark, names[0]):
        return given
    folders = set()
    for name, table in zip(names, tables, strict=True):
        folder, slash, last = _location(spark, name).rpartition("/")
        if not slash or last != table:
            raise WorldError(f"{name} lies in {folder}/{last}: it must lie in a folder {table}")
        folders.add(folder)
    if len(folders) > 1:
        raise WorldError(f"{' and '.join(names)} must lie in one folder, not in {sorted(folders)}")
    return folders.pop()


def _is_there(spark: SparkSession, name: str) -> bool:
    try:
        return spark.catalog.tableExists(name)
    except PySparkException:  # no such catalog
        return False


def _location(spark: SparkSession, name: str) -> str:
    try:
        [detail] = spark.sql(f"DESCRIBE DETAIL {name}").select("format", "location").collect()
    except PySparkException as error:
        raise WorldError(f"{name} is no Delta table of the catalog") from error
    if detail["format"] != "delta":
        raise WorldError(f"{name} is a table of {detail['format']}, not of Delta")
    return str(detail["location"]).rstrip("/")
