"""spark-submit jobs/import_world.py SOURCE… --world DIR: one more world version.

Parquet and an OSM extract in PBF are read, checked and written by Spark. Everything else goes the
way of ``spaps import``, in one process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from jobs.job_parser import JobParser, metres, whole_number
from schemas.errors import EXIT_DONE, SourceError, exit_code_of
from schemas.world_places import local_folder
from world.imports.import_request import request_of
from world.imports.world_import import ImportReport, import_request
from world.sources.source_files import SourceKind, kind_of
from world.sources.source_options import OPTION_NAMES

PBF: Final = ".osm.pbf"


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
    for note in report.notes:
        print(note)
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for summary in report.problems:
        print(f"{summary.kept} kept, {summary.count - summary.kept} left out: {summary}")
    return EXIT_DONE


def _import(options: argparse.Namespace) -> ImportReport:
    in_store = [source for source in options.sources if local_folder(source) is None]
    is_extract = len(options.sources) == 1 and options.sources[0].lower().endswith(PBF)
    if in_store and not is_extract:
        raise SourceError(
            f"{in_store[0]}: an object store is read for one {PBF} alone; "
            "several extracts become one by 'osmium merge'"
        )
    given: dict[str, Any] = {
        name: getattr(options, name) for name in ("srid", "snap", *OPTION_NAMES)
    }
    how = {"strict": options.strict, "force": options.force, "progress": _PhaseLines()}
    sources = [local_folder(source) or Path(source) for source in options.sources]
    request = request_of(sources, **given)
    kinds = set() if in_store else {kind_of(source.path) for source in request.sources}
    if request.snap or not (is_extract or kinds == {SourceKind.GEOPARQUET}):
        return import_request(request, options.world, **how)
    # Only now: an import in one process needs no JVM.
    from jobs.pipeline.session import spark_session  # noqa: PLC0415
    from jobs.pipeline.world.osm_import import import_osm  # noqa: PLC0415
    from jobs.pipeline.world.world_import import import_parquet  # noqa: PLC0415

    spark = spark_session("spaps-import-world")
    if is_extract:
        return import_osm(spark, options.sources[0], request, options.world, **how)
    return import_parquet(spark, request, options.world, **how)


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
