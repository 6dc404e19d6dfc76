"""spark-submit jobs/import_world.py SOURCE… --world DIR: one more world version.

GeoParquet is read, checked and written by Spark. OSM and GeoJSON go the way of ``spaps
import``: they fit into memory, and roads can only be split with all roads in sight.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.job_parser import JobParser, whole_number
from schemas.errors import EXIT_DONE, exit_code_of
from world.imports.world_import import ImportReport, import_world
from world.sources.readings import ImportOptions
from world.sources.source_files import SourceKind, kind_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Import, print what came out, and give the exit code."""
    options = _parser().parse_args(arguments)
    return exit_code_of(lambda: _imported(options))


def _imported(options: argparse.Namespace) -> int:
    report = _import(options)
    facts = report.facts
    done = "imported" if report.created else "unchanged"
    print(f"world {options.world}, version {facts.version}: {done}, EPSG:{facts.srid}")
    print(f"{facts.entity_count} entities, checksum {facts.checksum}")
    if report.extent is not None:
        print(report.extent)
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for summary in report.problems:
        print(f"{summary.kept} kept, {summary.count - summary.kept} left out: {summary}")
    return EXIT_DONE


def _import(options: argparse.Namespace) -> ImportReport:
    if any(kind_of(path) is not SourceKind.GEOPARQUET for path in options.sources):
        return import_world(
            options.sources,
            options.world,
            srid=options.srid,
            rules=options.rules,
            category=options.category,
            id_field=options.id_field,
            strict=options.strict,
            force=options.force,
            progress=_PhaseLines(),
        )
    # Only now: an OSM import needs no JVM.
    from jobs.pipeline.session import spark_session  # noqa: PLC0415
    from jobs.pipeline.world.world_import import import_geoparquet  # noqa: PLC0415

    checked = ImportOptions.checked(
        srid=options.srid,
        rules=options.rules,
        category=options.category,
        id_field=options.id_field,
    )
    return import_geoparquet(
        spark_session("spaps-import-world"),
        options.sources,
        options.world,
        checked,
        strict=options.strict,
        force=options.force,
        progress=_PhaseLines(),
    )


class _PhaseLines:
    """One line for each phase: the output of a job ends up in a log."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, phase: str, done: int, total: int | None) -> None:
        del done, total  # a log does not want bars
        if phase != self._last:
            print(phase, file=sys.stderr)
        self._last = phase


def _parser() -> argparse.ArgumentParser:
    parser = JobParser(
        prog="import_world.py", description="One more world version out of one or more sources."
    )
    parser.add_argument("sources", nargs="+", type=Path, metavar="SOURCE")
    parser.add_argument("--world", required=True, help="folder or URI of the world's Delta tables")
    parser.add_argument("--srid", type=whole_number, help="EPSG code of a metric CRS")
    parser.add_argument("--rules", type=Path, help="category rules for OSM")
    parser.add_argument("--category", help="category of rows that have none")
    parser.add_argument("--id-field", help="column that holds the peid")
    parser.add_argument("--strict", action="store_true", help="fail on any problem")
    parser.add_argument(
        "--force", action="store_true", help="a new version even if nothing changed"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
