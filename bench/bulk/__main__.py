"""The bulk job beside the engine of 1a227ed and PostGIS: ``python -m bench.bulk``.

What counts is ``spark-submit`` as people run it: a process of its own, timed from its start to
its end, Java and all. All parts take hours, so each can be run by itself (``--parts``); the report
has those that were run, and names those that were not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.bulk.figures import PUSHED, measured_part
from bench.bulk.parts import OUT, Parts
from bench.bulk.report import BulkReport
from testing.postgis_server import PostgisMissingError

NAMES: Final = (
    *("city", "cities", "country", "postgis", "again", "session", "spread"),
    *PUSHED,
)
FIGURES: Final = OUT / "bulk"


def main() -> int:
    """Run the benchmark; 0 when every aim is reached, 1 when not, 2 when it cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--parts", nargs="+", choices=NAMES, default=NAMES, metavar="PART",
                        help=f"some of {', '.join(NAMES)} (all)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3, help="of a part with short runs")
    parser.add_argument("--folder", type=Path, help="where worlds are, or are drawn to, and stay")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spaps-bulk-") as name:
        parts = Parts((options.folder or Path(name)).resolve(), options.rounds)
        for each in options.parts:
            print(f"part {each}", flush=True)
            command = f"python -m bench.bulk --parts {each} --rounds {options.rounds}"
            if each in PUSHED:
                pairs = PUSHED[each]
                measured_part(command, lambda pairs=pairs: parts.push(pairs, options.rounds)).write(
                    FIGURES, each
                )
                continue
            try:
                measured_part(command, getattr(parts, each)).write(FIGURES, each)
            except PostgisMissingError as error:
                print(error, file=sys.stderr)
                return 2
    report = BulkReport.read(FIGURES, NAMES)
    report.write(OUT)
    print(report.markdown())
    print(f"written to {OUT / 'bulk.md'} and {OUT / 'bulk.png'}")
    return 0 if report.reached() else 1


if __name__ == "__main__":
    raise SystemExit(main())
