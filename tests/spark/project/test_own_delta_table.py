"""A data engineer's way: a Delta table with string ids, imported and resolved by spark-submit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import shapely
from deltalake import DeltaTable, write_deltalake

from schemas.entity import peid_of_key
from tests.servers.submitted_job import WAIT_SECONDS, submitted

pytestmark = pytest.mark.spark

SENSORS = {f"sensor-{number:02}": shapely.Point(number * 10, 5) for number in range(20)}
ZONES = {"zone-west": shapely.box(-5, 0, 95, 10), "zone-east": shapely.box(95, 0, 195, 10)}
COLUMNS = ("--id-field", "asset", "--category-field", "kind", "--geometry-field", "shape")


def write_assets(table: Path) -> None:
    """A table as it lies in a lake: text ids, one kind for each row, WKB without a CRS."""
    rows = {**SENSORS, **ZONES}
    content = {
        "asset": list(rows),
        "kind": ["city/" + key.split("-")[0] for key in rows],
        "shape": [shapely.to_wkb(geometry) for geometry in rows.values()],
        "owner": ["works"] * len(rows),
    }
    write_deltalake(table, pa.table(content))


def submit(log: Path, *arguments: object) -> str:
    with submitted(arguments, log) as process:
        code = process.wait(WAIT_SECONDS)
    assert code == 0, log.read_text()
    return log.read_text()


def test_members_can_be_joined_with_the_table_by_its_own_ids(
    program: Callable[[str], Path], repository: Path, tmp_path: Path
) -> None:
    program("java")
    write_assets(tmp_path / "assets")
    jobs, world = repository / "jobs", ("--world", tmp_path / "world")
    said = submit(
        tmp_path / "import.log", jobs / "import_world.py", tmp_path / "assets", *world, *COLUMNS,
        "--crs", "EPSG:25832",
    )  # fmt: skip
    assert "version 1: imported, EPSG:25832\n22 entities" in said
    lines = [
        {"subId": number, "descriptor": {"refs": [str(peid_of_key(zone))], "stages": [
            {"cats": ["city/sensor"], "cond": "C"}]}}
        for number, zone in enumerate(ZONES, start=1)
    ]  # fmt: skip
    subscriptions = tmp_path / "subscriptions.jsonl"
    subscriptions.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    job = jobs / "resolve_neighborhoods.py"
    options = ("--subscriptions", subscriptions, "--out", tmp_path / "out")
    said = submit(tmp_path / "resolve.log", job, *world, *options)
    assert "2 of 2 subscriptions resolved on world version 1" in said
    memberships = DeltaTable(tmp_path / "out" / "memberships").to_pyarrow_table()
    entities = DeltaTable(tmp_path / "world" / "entities").to_pyarrow_table()
    joined = memberships.join(entities.select(["peid", "key"]), "peid").to_pylist()
    found = {(row["subId"], row["key"]) for row in joined}
    assert found == {(1 if point.x < 95 else 2, key) for key, point in SENSORS.items()}
