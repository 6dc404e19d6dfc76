"""jobs/import_world.py under plain spark-submit, as it stands in the contract."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import shapely

from tests.scenes.odd_extract import write_odd_extract
from tests.scenes.source_files import write_geoparquet
from tests.servers.submitted_job import SHORT_LIVED_JVM
from world.imports.world_import import import_world
from world.snapshot import load_snapshot
from world.versions.store import WorldStore

pytestmark = pytest.mark.spark

VILLAGE = Path(__file__).resolve().parents[2] / "extracts" / "village.osm"


@pytest.fixture
def submit(
    repository: Path, program: Callable[[str], Path]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    program("java")
    folder = Path(sys.executable).parent

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(folder / "spark-submit"), "jobs/import_world.py", *map(str, arguments)],
            cwd=repository,
            env={
                **os.environ,
                "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
                "JDK_JAVA_OPTIONS": SHORT_LIVED_JVM,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    return run


def test_geoparquet_goes_through_spark(
    submit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    rows = [{"peid": n, "categories": ["a"], "geometry": shapely.Point(n, n)} for n in range(40)]
    source = write_geoparquet(tmp_path / "s.parquet", [*rows, rows[0]])
    expected = import_world([source], tmp_path / "plain", srid=25832).facts
    result = submit(source, "--world", tmp_path / "world", "--srid", 25832)
    assert result.returncode == 0, result.stderr
    assert f"version 1: imported, EPSG:25832\n40 entities, checksum {expected.checksum}\n" in (
        result.stdout
    )
    assert "1 kept, 0 left out: 1 duplicate-identical" in result.stdout
    assert load_snapshot(str(tmp_path / "world")).peids.tolist() == list(range(40))
    # Written by Spark: its files have names of their own kind.
    assert list((tmp_path / "world" / "entities" / "version=1").glob("part-00000-*.c000.*"))


def test_an_extract_in_pbf_goes_through_spark(
    submit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    source = write_odd_extract(tmp_path / "odd.osm.pbf")
    expected = import_world([source], tmp_path / "plain").facts
    result = submit(source.as_uri(), "--world", tmp_path / "world")
    assert result.returncode == 0, result.stderr
    made = f"{expected.entity_count} entities, checksum {expected.checksum}\n"
    assert made in result.stdout
    assert "looking through the extract" in result.stdout + result.stderr


def test_osm_goes_the_way_of_spaps_import(
    submit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    result = submit(VILLAGE, "--world", tmp_path / "world")
    assert result.returncode == 0, result.stderr
    expected = import_world([VILLAGE], tmp_path / "plain").facts
    assert WorldStore(str(tmp_path / "world")).latest().checksum == expected.checksum


def test_a_bad_source_is_one_line_and_exit_code_2(
    submit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    result = submit(tmp_path / "missing.parquet", "--world", tmp_path / "world")
    assert result.returncode == 2
    # spark-submit sends both of Python's streams to its own standard output.
    assert f"error: {tmp_path}/missing.parquet: no such file\n" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr
