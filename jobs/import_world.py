"""spark-submit jobs/import_world.py SOURCE… --world DIR: one more world version.

GeoParquet and an OSM extract in PBF are read, checked and written by Spark. Everything else goes
the way of ``spaps import``, in one process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from jobs.job_parser import JobParser, whole_number
from schemas.errors import EXIT_DONE, SourceError, exit_code_of
from schemas.world_places import local_folder
from world.imports.world_import import ImportReport, import_world
from world.sources.readings import ImportOptions
from world.sources.source_files import SourceKind, kind_of

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
    sources = [local_folder(source) or Path(source) for source in options.sources]
    kinds = [SourceKind.OSM] if in_store else [kind_of(path) for path in sources]
    given: dict[str, Any] = {
        name: getattr(options, name) for name in ("srid", "rules", "category", "id_field")
    }
    how = {"strict": options.strict, "force": options.force, "progress": _PhaseLines()}
    if not is_extract and any(kind is not SourceKind.GEOPARQUET for kind in kinds):
        return import_world(sources, options.world, **given, **how)
    # Only now: an import in one process needs no JVM.
    from jobs.pipeline.session import spark_session  # noqa: PLC0415
    from jobs.pipeline.world.osm_import import import_osm  # noqa: PLC0415
    from jobs.pipeline.world.world_import import import_geoparquet  # noqa: PLC0415

    checked = ImportOptions.checked(**given)
    spark = spark_session("spaps-import-world")
    if is_extract:
        return import_osm(spark, options.sources[0], options.world, checked, **how)
    return import_geoparquet(spark, sources, options.world, checked, **how)


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
        description="One more world version out of one or more sources. Spark reads GeoParquet, "
        "and one OSM extract in PBF, which may lie in an object store. Several extracts, .osm, "
        ".osm.gz, GeoJSON and mixed sources are read in one process, as 'spaps import' does it.",
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="file, or URI of a .osm.pbf")
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
