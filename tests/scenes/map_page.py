"""A small world on a map page, with a name that tries to become markup."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import shapely

from schemas.language.notation import read_neighborhood
from spaps.map_page.page import PageTexts, map_page, world_page
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver
from tests.strategies.worlds import table_of

EVIL = "</script><script>document.title='pwned'</script><img src=x onerror=alert(1)>"


LARGEST_PEID = 2**63 - 1


def small_world() -> EntityTable:
    zone = shapely.box(500_000, 5_000_000, 500_100, 5_000_100)
    table = table_of(
        [
            (7, ("zone",), zone),
            (8, ("road/main",), shapely.LineString([(500_010, 5_000_010), (500_090, 5_000_010)])),
            (9, ("road/main",), shapely.LineString([(500_090, 5_000_010), (500_190, 5_000_010)])),
            (LARGEST_PEID, ("stop",), shapely.Point(500_300, 5_000_010)),
        ]
    )
    return replace(table, names=np.array(["Zone", EVIL, None, "Stop"], object))


def page_and_world(title: str = "Roads") -> tuple[str, dict[str, Any]]:
    """Return the page of a neighborhood in the small world, and what it says about the world."""
    table = small_world()
    neighborhood = read_neighborhood("({7},{road/#},C) • (Anc,{road/#},T) visible 01")
    resolution = ExactResolver(table).resolve(neighborhood)
    words = PageTexts(title, "({7},…)", ["roads inside", "roads that touch them"], "© someone")
    page = map_page(table, neighborhood, resolution, words)
    return page, world_of(page)


def whole_world_page(table: EntityTable, title: str = "World") -> tuple[str, dict[str, Any]]:
    """Return the page of a whole world, and what it says about it."""
    page = world_page(table, PageTexts(title))
    return page, world_of(page)


def world_of(page: str) -> dict[str, Any]:
    """Return what a page says about its world."""
    return dict(json.loads(_embedded(page, "world")))


def columns_of(page: str) -> dict[str, Any]:
    """Return the columns of a page by their names, numbers as arrays."""
    world = world_of(page)
    content = zlib.decompress(base64.b64decode(_embedded(page, "columns")))
    columns: dict[str, Any] = {}
    for name, kind, start, length in world["columns"]:
        if kind == "json":
            columns[name] = json.loads(content[start : start + length])
        else:
            columns[name] = np.frombuffer(content, f"<{kind}".replace("<u1", "u1"), length, start)
    return columns


def _embedded(page: str, name: str) -> str:
    found = re.search(rf'id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return found.group(1)
