"""spark-submit jobs/rebuild.py SOURCE…: a new world version, and all subscriptions on it.

Import → what changed → resolve → Delta → Redis → switch → clean up, as ``spaps rebuild`` does it,
with Spark's session and settings from spark-submit. Killed at any moment, it goes on from what is
complete when it is started again.

Exit codes: 0 done or nothing to do, 2 failed and the old generation stays in force, 3 another
rebuild or push runs, 4 the new generation is in force and cleaning up failed, 5 too much would be
gone and nothing was switched.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# spark-submit puts the folder of this file first on the path, where the file would stand before
# the package of the same name.
_FOLDER: Final = Path(__file__).resolve().parent
sys.path[:] = [place for place in sys.path if Path(place).resolve() != _FOLDER]

from jobs.pipeline.engine_choice import spark_engine
from rebuild.bulk_engine import Engine
from rebuild.request import request_of, sources_of
from rebuild.run import rebuild
from redis_link.connection.redis_choice import redis_or_embedded
from schemas.errors import exit_code_of
from schemas.job_parser import JobParser, whole_number
from schemas.settings import load_settings

# As `spaps import` has them: they are part of what makes a version.
IMPORT_OPTIONS: Final = ("srid", "rules", "category", "id_field", "strict")


def main(arguments: Sequence[str] | None = None) -> int:
    """Rebuild and print one line; the exit code."""
    options = _parser().parse_args(arguments)
    return exit_code_of(lambda: _rebuilt(options))


def _rebuilt(options: argparse.Namespace) -> int:
    settings = load_settings(
        options={
            "world.dir": options.world,
            "redis.url": options.redis,
            "rebuild.out": options.out,
            "rebuild.engine": options.engine,
        }
    )
    sources = sources_of(options.sources, settings)
    with redis_or_embedded(settings) as url:
        request = request_of(
            settings, url, sources=sources, full=options.full,
            if_changed=options.if_changed, switch_anyway=options.switch_anyway,
            say=_say, bulk=spark_engine,
            import_options={name: getattr(options, name) for name in IMPORT_OPTIONS},
        )  # fmt: skip
        report = rebuild(request)
    print(report.summary, flush=True)
    return report.exit_code


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = JobParser(
        prog="rebuild.py", description="A new world version, with all subscriptions resolved on it."
    )
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help="default: conf/, else as last")
    parser.add_argument("--world", metavar="DIR", help="Delta tables of the world (conf/)")
    parser.add_argument("--out", metavar="DIR", help="folder of the memberships (conf/)")
    parser.add_argument("--redis", metavar="URL", help="default: conf/, else the embedded server")
    parser.add_argument(
        "--engine", choices=[each.value for each in Engine], help="who resolves (conf/)"
    )
    parser.add_argument(
        "--srid", type=whole_number, help="EPSG code of the metric CRS (the UTM zone)"
    )
    parser.add_argument("--rules", metavar="FILE", help="category rules for OSM (built in)")
    parser.add_argument("--category", help="category of all entities of a file that has none")
    parser.add_argument("--id-field", metavar="NAME", help="field that holds the peid")
    parser.add_argument("--strict", action="store_true", help="fail on any problem of the sources")
    parser.add_argument("--full", action="store_true", help="take nothing over from earlier ones")
    parser.add_argument(
        "--if-changed", action="store_true", help="end when the sources are the same"
    )
    parser.add_argument(
        "--switch-anyway", action="store_true",
        help="switch even if more is gone than the settings allow",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
