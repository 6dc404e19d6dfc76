"""spark-submit jobs/import_world.py SOURCE… --world DIR: one more world version.

Parquet and an OSM extract in PBF are read, checked and written by Spark. Everything else goes the
way of ``spaps import``, in one process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from jobs.pipeline.engine_choice import import_sources, session_until
from schemas.errors import EXIT_DONE, exit_code_of
from schemas.job_parser import JobParser, metres, whole_number
from world.sources.source_options import OPTION_NAMES


def main(arguments: Sequence[str] | None = None) -> int:
    """Import, print what came out, and give the exit code."""
    options = _parser().parse_args(arguments)
    return exit_code_of(lambda: _imported(options))


def _imported(options: argparse.Namespace) -> int:
    given = {name: getattr(options, name) for name in ("srid", "snap", *OPTION_NAMES)}
    with ExitStack() as ending:
        report = import_sources(
            options.sources, options.world, given, strict=options.strict, force=options.force,
            session=session_until(ending, "spaps-import-world"),
        )  # fmt: skip
    facts = report.facts
    done = "imported" if report.created else "unchanged"
    print(f"world {options.world}, version {facts.version}: {done}, EPSG:{facts.srid}")
    print(f"{facts.entity_count} entities, checksum {facts.checksum}")
    if report.extent is not None:
        print(report.extent)
    for note in report.notes:
        print(note)
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for summary in report.problems:
        print(f"{summary.kept} kept, {summary.count - summary.kept} left out: {summary}")
    return EXIT_DONE


def _parser() -> argparse.ArgumentParser:
    parser = JobParser(
        prog="import_world.py",
        description="One more world version out of one or more sources, or out of an import file "
        "(.toml). Spark reads Parquet, and one OSM extract in PBF, also from an object store. "
        "Other sources, mixed sources and --snap are done in one process, as in 'spaps import'.",
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="file, or URI of a .osm.pbf")
    parser.add_argument("--world", required=True, help="folder or URI of the world's Delta tables")
    parser.add_argument("--srid", type=whole_number, help="EPSG code of a metric CRS")
    parser.add_argument("--snap", type=metres, metavar="METRES", help="insert missing vertices")
    for name in OPTION_NAMES:
        flag = name.replace("_", "-")
        parser.add_argument(f"--{flag}", help=f"as in 'spaps import' ({flag})")
    parser.add_argument("--strict", action="store_true", help="fail on any problem")
    parser.add_argument(
        "--force", action="store_true", help="a new version even if nothing changed"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
