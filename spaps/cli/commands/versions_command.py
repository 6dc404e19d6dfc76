"""``spaps versions`` lists world versions; ``spaps rollback`` puts an earlier one in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.settings import load_settings
from spaps.cli.options import ConfigOption, GraceOption, RedisOption, WorldOption
from spaps.cli.output import PhaseProgress, plain_table, print_remark, print_result, results

if TYPE_CHECKING:  # at run time only when the command runs
    from rich.table import Table

    from rebuild.preview import ListedVersion


def show_versions(
    *, world: WorldOption = None, redis: RedisOption = None, config: ConfigOption = None
) -> None:
    """List world versions with their changes and generations, and which one is in force."""
    from contextlib import closing

    from rebuild.preview import listed_versions
    from rebuild.record import RebuildRecords
    from redis_link.connection.client import connect
    from redis_link.connection.redis_choice import redis_to_read
    from world.arrow_without_pandas import hide_pandas_from_arrow
    from world.versions.store import WorldStore

    hide_pandas_from_arrow()
    settings = load_settings(config, {"world.dir": world, "redis.url": redis})
    store = WorldStore(settings.world.dir)
    store.latest()
    records = RebuildRecords(settings.rebuild.records)
    with redis_to_read(settings) as url:
        if url is None:
            listed = listed_versions(store, records, None)
        else:
            with closing(connect(url)) as client:
                listed = listed_versions(store, records, client)
    results().print(versions_table(listed))


def rollback_world(
    version: Annotated[
        int | None,
        typer.Argument(metavar="N", help="Version; default: the one before the version in force."),
    ] = None,
    *,
    world: WorldOption = None,
    redis: RedisOption = None,
    grace: GraceOption = None,
    config: ConfigOption = None,
) -> int:
    """Put an earlier world version in force again, with all subscriptions of today."""
    from jobs.pipeline.engine_choice import spark_engine
    from rebuild.request import request_of, require_version
    from rebuild.run import rollback
    from redis_link.connection.redis_choice import redis_or_embedded
    from world.arrow_without_pandas import hide_pandas_from_arrow

    hide_pandas_from_arrow()
    options = {"world.dir": world, "redis.url": redis, "rebuild.grace_seconds": grace}
    settings = load_settings(config, options)
    require_version(settings, version)
    with redis_or_embedded(settings) as url, PhaseProgress() as progress:
        request = request_of(settings, url, say=print_remark, progress=progress, bulk=spark_engine)
        report = rollback(request, version)
    print_result(report.summary)
    return report.exit_code


def versions_table(versions: Sequence[ListedVersion]) -> Table:
    """Return a table with one row for each world version, newest first."""
    table = plain_table()
    for title in ("version", "imported", "entities", "changes", "generation", "current"):
        right = title in ("version", "entities", "generation")
        table.add_column(title, justify="right" if right else "left", no_wrap=title != "changes")
    for listed in reversed(versions):
        table.add_row(
            str(listed.version),
            f"{listed.created_at:%Y-%m-%d %H:%M}",
            f"{listed.entities:,}",
            changes_text(listed.changes),
            "-" if listed.generation is None else str(listed.generation),
            "yes" if listed.in_force else "",
            style="bold" if listed.in_force else None,
        )
    return table


def changes_text(counts: dict[str, int] | None) -> str:
    """Return numbers of changed entities as text: 3 added, 1 removed."""
    if counts is None:
        return "-"
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
