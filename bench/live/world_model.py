"""How long the world model takes: import of Monaco, writing and loading a city.

    python -m bench.live.world_model [ENTITIES]

Each line is the best of three runs; the processor's seconds stand beside those of the clock,
because a machine that does other things makes the latter worthless.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from testing.synthetic_city import SRID, synthetic_city
from testing.world_writers import entity_rows
from world.imports.world_import import import_world
from world.snapshot import load_snapshot
from world.versions.store import WorldStore

RUNS = 3
# In a process of its own: what was freed before would be used again, and hide what is needed.
MEMORY = """
import sys
from pathlib import Path
from world.snapshot import load_snapshot

def megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024

before = megabytes()
table = load_snapshot(sys.argv[1])
print(megabytes() - before)
"""
MONACO = Path(__file__).resolve().parents[2] / "data" / "monaco.osm.pbf"


def main() -> None:
    """Measure and print."""
    entities = int(sys.argv[1]) if len(sys.argv) > 1 else 225_150
    with tempfile.TemporaryDirectory(prefix="spaps-bench-") as folder:
        monaco, city = Path(folder) / "monaco", Path(folder) / "city"
        count = import_world([MONACO], monaco).facts.entity_count
        _report(f"import Monaco ({count:,} entities)", lambda: _import(monaco))
        rows = entity_rows(synthetic_city(entities))
        _report(f"write {entities:,} entities", lambda: _write(city, rows))
        _report(f"load {entities:,} entities", lambda: load_snapshot(str(city)))
        grown = subprocess.run(
            [sys.executable, "-c", MEMORY, str(city)], check=True, capture_output=True, text=True
        )
        print(f"{'a loaded city in memory':40} {int(grown.stdout):8,} MB")


def _import(world: Path) -> None:
    shutil.rmtree(world, ignore_errors=True)
    import_world([MONACO], world)


def _write(world: Path, rows: object) -> None:
    shutil.rmtree(world, ignore_errors=True)
    WorldStore(str(world)).write_version(rows, srid=SRID)


def _report(what: str, work: Callable[[], object]) -> None:
    best = (float("inf"), float("inf"))
    for _ in range(RUNS):
        clock, processor = time.perf_counter(), time.process_time()
        work()
        best = min(best, (time.perf_counter() - clock, time.process_time() - processor))
    print(f"{what:40} {best[0]:8.2f} s ({best[1]:.2f} s of the processor)")


if __name__ == "__main__":
    main()
