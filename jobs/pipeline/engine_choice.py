"""Starts Spark where the work needs it: a small one needs no Java, and imports none of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from schemas.errors import SourceError
from schemas.world_places import local_folder
from world.imports.import_request import request_of
from world.imports.world_import import ImportReport, import_request
from world.sources.source_files import SourceKind, kind_of

if TYPE_CHECKING:  # at run time only where Spark is the engine
    from pyspark.sql import SparkSession

    from jobs.pipeline.rebuild_engine import SparkRebuild

PBF: Final = ".osm.pbf"


def spark_engine(world: str, out: str, say: Callable[[str], None]) -> SparkRebuild:
    """Return Spark as the engine of a rebuild; its session starts with the first request."""
    from jobs.pipeline.rebuild_engine import SparkRebuild  # noqa: PLC0415 - as the module says

    return SparkRebuild(world, out, say)


def session_until(ending: ExitStack, app_name: str) -> Callable[[], SparkSession]:
    """Return what starts a session when it is called; the session ends with the stack."""

    def session() -> SparkSession:
        from jobs.pipeline.session import spark_session  # noqa: PLC0415 - as the module says

        spark = spark_session(app_name)
        # On Connect the process would not end without it.
        ending.callback(spark.stop)
        return spark

    return session


def import_sources(
    sources: Sequence[str],
    world: str,
    given: Mapping[str, Any],
    *,
    strict: bool,
    force: bool,
    session: Callable[[], SparkSession],
) -> ImportReport:
    """Import the sources as one more version; ``given`` are options of ``request_of``.

    Spark reads Parquet and one OSM extract in PBF, in the session that it is given; one process
    imports everything else.
    """
    in_store = [source for source in sources if local_folder(source) is None]
    is_extract = len(sources) == 1 and sources[0].lower().endswith(PBF)
    if in_store and not is_extract:
        raise SourceError(
            f"{in_store[0]}: an object store is read for one {PBF} alone; "
            "several extracts become one by 'osmium merge'"
        )
    how: dict[str, Any] = {"strict": strict, "force": force, "progress": _PhaseLines()}
    places = [local_folder(source) or Path(source) for source in sources]
    request = request_of(places, **given)
    kinds = set() if in_store else {kind_of(source.path) for source in request.sources}
    if request.snap or not (is_extract or kinds == {SourceKind.GEOPARQUET}):
        return import_request(request, world, **how)
    from jobs.pipeline.world.osm_import import import_osm  # noqa: PLC0415 - as the module says
    from jobs.pipeline.world.world_import import import_parquet  # noqa: PLC0415

    if is_extract:
        return import_osm(session(), sources[0], request, world, **how)
    return import_parquet(session(), request, world, **how)


class _PhaseLines:
    """One line for each phase: the output of a job ends up in a log."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, phase: str, done: int, total: int | None) -> None:
        del done, total  # a log does not want bars
        if phase != self._last:
            print(phase, file=sys.stderr)
        self._last = phase
