"""A generated OSM extract imported by Spark and by one process: ``make bench-osm``.

Both must make the same version: equal count of entities, equal checksum of all rows, equal
counts of problems. Spark runs in executors of their own, so that the driver's heap can be
limited to what it may need.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from bench.process_tree import Finished, run_watched
from testing.generated_extract import write_generated_extract
from world.versions.store import WorldStore

OUT = Path("out")
PROGRAMS = Path(sys.executable).parent


def main() -> int:
    """Import both ways; 0 when the versions are equal, 1 when not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ways", type=int, default=5_000_000)
    parser.add_argument("--master", default="local-cluster[2,1,3072]")
    parser.add_argument("--driver-memory", default="1g", help="heap of the driver")
    parser.add_argument("--executor-memory", default="2g")
    options = parser.parse_args()
    # spark-submit takes the Python that stands first.
    os.environ["PATH"] = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    folder = OUT / "osm_import"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    extract = write_generated_extract(folder / "generated.osm.pbf", options.ways)
    plain = [str(PROGRAMS / "spaps"), "import", str(extract), "--world", str(folder / "plain")]
    submit = [
        *(str(PROGRAMS / "spark-submit"), "--master", options.master),
        *("--driver-memory", options.driver_memory, "--executor-memory", options.executor_memory),
        *("jobs/import_world.py", str(extract), "--world", str(folder / "spark")),
    ]
    runs = {
        "plain": run_watched(plain, folder / "plain.log"),
        "spark": run_watched(submit, folder / "spark.log"),
    }
    report = {name: figures(folder / name, run) for name, run in runs.items()}
    report["input"] = {"ways": options.ways, "bytes": extract.stat().st_size, **vars(options)}
    (OUT / "osm_import.json").write_text(json.dumps(report, indent=1))
    print(json.dumps(report, indent=1))
    same = ("entities", "checksum", "problems")
    return 0 if all(report["plain"][key] == report["spark"][key] for key in same) else 1


def figures(world: Path, run: Finished) -> dict[str, Any]:
    """Return what a run took, and what it made."""
    facts = WorldStore(str(world)).latest()
    return {
        "seconds": round(run.seconds, 1),
        "megabytes of all processes": round(run.peak_megabytes),
        "entities": facts.entity_count,
        "checksum": facts.checksum,
        "problems": dict(sorted(facts.problem_counts.items())),
    }


if __name__ == "__main__":
    sys.exit(main())
