"""Times of ``spaps find``, ``categories`` and ``map``: ``python -m bench.search``.

Each command runs as a process of its own, from its start to its end, on a generated city. The
result goes to out/find.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from testing.processor import cpu_name

OUT = Path("out")
WANTED_SECONDS = 1.0
# The city lies around this place.
PLACE = "13.45,52.39"
COMMANDS = (
    ("find", "street 12"),
    ("find", "shop"),
    ("find", "633630"),
    ("find", "--category", "zone/#"),
    ("find", "pharm", "--category", "shop/#"),
    ("find", "--near", PLACE),
    ("find", "shop", "--near", PLACE, "--within", "500"),
    ("categories",),
    ("map", "--out", "/dev/null"),
)


def main() -> int:
    """Run the benchmark; 0 when every command is quick enough, 1 when one is not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entities", type=int, default=225_150)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    load_average = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="spaps-find-") as world:
        draw = [sys.executable, "-m", "bench.live.world", world, str(options.entities)]
        subprocess.run(draw, check=True)
        figures = {command: measure(command, world, options.repeats) for command in COMMANDS}
    lines = [
        (
            f"`python -m bench.search --entities {options.entities} --repeats {options.repeats}` "
            f"on {cpu_name()}, {os.cpu_count()} cores, load {load_average:.1f}"
        ),
        "",
        "| command | seconds (median) | seconds of the processor (median) |",
        "|---|--:|--:|",
        *(
            f"| `spaps {' '.join(command)}` | {wall:.2f} | {cpu:.2f} |"
            for command, (wall, cpu) in figures.items()
        ),
    ]
    text = "\n".join(lines) + "\n"
    OUT.mkdir(exist_ok=True)
    (OUT / "find.md").write_text(text, "utf-8")
    print(text)
    return 0 if all(wall <= WANTED_SECONDS for wall, _ in figures.values()) else 1


def measure(command: tuple[str, ...], world: str, repeats: int) -> tuple[float, float]:
    """Return the median seconds of a command: by the clock, and of the processor."""
    walls, cpus = [], []
    for _ in range(repeats):
        before, start = _children_seconds(), time.perf_counter()
        program = [sys.executable, "-c", "from spaps.cli.command_line import main; main()"]
        subprocess.run([*program, *command, "--world", world], check=True, capture_output=True)
        walls.append(time.perf_counter() - start)
        cpus.append(_children_seconds() - before)
    return median(walls), median(cpus)


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
