"""The benchmarks run from beginning to end, at their smallest size; figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.servers.programs import require_redis_server

# 0: every aim was reached; 1: some were not, which a small run on a busy machine may well give.
HAS_MEASURED = (0, 1)


def measure(folder: Path, *command: str) -> None:
    """Run a benchmark in a folder of its own, as ``make`` does."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in HAS_MEASURED, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr


def test_the_broker_is_measured_beside_mosquitto(
    program: Callable[[str], Path], tmp_path: Path
) -> None:
    program("mosquitto")
    options = ("--only", "singles", "--repeats", "1", "--seconds", "0.2", "--out", str(tmp_path))
    measure(tmp_path, "bench.broker.beside_peers", *options)
    text = (tmp_path / "broker.json").read_text("utf-8")
    assert "Mosquitto" in text
    assert "spaps memory" in text


def test_qos_1_and_2_are_measured_beside_mosquitto(
    program: Callable[[str], Path], tmp_path: Path
) -> None:
    program("mosquitto")
    require_redis_server()
    for part in ("qos", "latency"):
        options = ("--only", part, "--repeats", "1", "--seconds", "0.1", "--out", str(tmp_path))
        measure(tmp_path, "bench.broker.beside_peers", *options)
        found = json.loads((tmp_path / "broker.json").read_text("utf-8"))
        assert len(found["rates"]) == (8 if part == "qos" else 0)
        assert len(found["aims"]) == (4 if part == "qos" else 3)


def test_many_clients_are_measured_beside_mosquitto(
    program: Callable[[str], Path], tmp_path: Path
) -> None:
    program("mosquitto")
    options = ("--clients", "200", "--rate", "500", "--seconds", "0.5")
    measure(tmp_path, "bench.broker.qos.many_clients", *options)


def test_the_live_resolver_is_measured_beside_postgis(
    program: Callable[[str], Path], tmp_path: Path
) -> None:
    program("postgis-3.so")
    measure(tmp_path, "bench.live", "--entities", "2000", "--references", "2", "--repeats", "1")
    patterns = json.loads((tmp_path / "out" / "live.json").read_text("utf-8"))["patterns"]
    assert len(patterns) == 4
    assert all("PostGIS" in pattern["seconds"] for pattern in patterns)


def test_the_core_is_measured_alone(tmp_path: Path) -> None:
    measure(tmp_path, "bench.broker.core", "--rounds", "1")


def test_finding_things_is_measured(tmp_path: Path) -> None:
    measure(tmp_path, "bench.search", "--entities", "500", "--repeats", "1")
    assert "`spaps find street 12`" in (tmp_path / "out" / "find.md").read_text("utf-8")


def test_the_map_page_is_measured(program: Callable[[str], Path], tmp_path: Path) -> None:
    program("chromium")
    measure(tmp_path, "bench.map_page", "--entities", "500", "--seconds", "0.5")
    assert "frames a second" in (tmp_path / "out" / "map-page.md").read_text("utf-8")


def test_sizes_are_measured(tmp_path: Path) -> None:
    require_redis_server()
    measure(tmp_path, "bench.broker.sizes", "--count", "200", "--settle", "0")
