"""``spaps rebuild`` makes a new world version and resolves all subscriptions on it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schemas.errors import SettingsError
from schemas.settings import Settings, load_settings
from spaps.cli.commands.versions_command import changes_text
from spaps.cli.options import ConfigOption, GraceOption, RedisOption, WorldOption
from spaps.cli.output import PhaseProgress, plain_table, print_remark, print_result, results

if TYPE_CHECKING:  # at run time only when the command runs
    from rich.table import Table

    from rebuild.preview import RebuildPreview
    from redis_link.generation.generation_store import SubscriptionChanges

SHOWN: Final = 10


def rebuild_world(  # noqa: PLR0913  one for each option of the contract
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Files to import; default: rebuild.sources in conf, else those of last time.",
        ),
    ] = None,
    *,
    world: WorldOption = None,
    redis: RedisOption = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="auto|exact|spark",
            help="What resolves: this process (exact) or Spark; default: rebuild.engine in conf.",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Resolve everything, and use no result of an earlier rebuild."),
    ] = False,
    if_changed: Annotated[
        bool, typer.Option("--if-changed", help="Do nothing when the sources have not changed.")
    ] = False,
    switch_anyway: Annotated[
        bool,
        typer.Option(
            "--switch-anyway", help="Switch even if more is gone than the settings allow."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    keep_versions: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of world versions to keep for a rollback."),
    ] = None,
    grace: GraceOption = None,
    category: Annotated[
        str | None, typer.Option(metavar="CATEGORY", help="As in spaps import.")
    ] = None,
    id_field: Annotated[
        str | None, typer.Option(metavar="FIELD", help="As in spaps import.")
    ] = None,
    srid: Annotated[int | None, typer.Option(metavar="CODE", help="As in spaps import.")] = None,
    rules: Annotated[Path | None, typer.Option(metavar="FILE", help="As in spaps import.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="As in spaps import.")] = False,
    cron: Annotated[
        str | None,
        typer.Option(
            metavar="'0 3 * * *'", help="Keep running and rebuild at these times (UTC), as in cron."
        ),
    ] = None,
    config: ConfigOption = None,
) -> int:
    """Import the sources, resolve all subscriptions on the new version, and switch to it."""
    settings = load_settings(
        config,
        {
            "world.dir": world,
            "redis.url": redis,
            "rebuild.engine": engine,
            "rebuild.keep_versions": keep_versions,
            "rebuild.grace_seconds": grace,
        },
    )
    if cron is not None:
        if dry_run:
            raise SettingsError("--dry-run and --cron exclude each other")
        from spaps.cli.rebuild_schedule import own_arguments, serve

        return serve(cron, own_arguments())
    import_options = {
        "category": category, "id_field": id_field, "srid": srid, "rules": rules, "strict": strict,
    }  # fmt: skip
    return _rebuild_once(
        settings, list(sources or []), import_options, full=full, if_changed=if_changed,
        dry_run=dry_run, switch_anyway=switch_anyway,
    )  # fmt: skip


def _rebuild_once(
    settings: Settings,
    sources: list[Path],
    import_options: dict[str, Any],
    *,
    dry_run: bool,
    **how: bool,
) -> int:
    from jobs.pipeline.engine_choice import spark_engine
    from rebuild.request import request_of, sources_of
    from rebuild.run import rebuild
    from redis_link.connection.redis_choice import redis_or_embedded, redis_or_empty
    from world.arrow_without_pandas import hide_pandas_from_arrow

    hide_pandas_from_arrow()

    given = sources_of(sources, settings)
    with redis_or_empty(settings) if dry_run else redis_or_embedded(settings) as url:
        with PhaseProgress() as progress:
            request = request_of(
                settings, url, sources=given, import_options=import_options, say=print_remark,
                progress=progress, bulk=spark_engine, **how,
            )  # fmt: skip
            if dry_run:
                from rebuild.preview import preview

                shown = preview(request)
            else:
                report = rebuild(request)
        if dry_run:
            _print_preview(shown)
            return 0
    # The process ends here: a garbage collection would only take time.
    gc.freeze()
    print_result(report.summary)
    return report.exit_code


def _print_preview(shown: RebuildPreview) -> None:
    for line in preview_lines(shown):
        print_result(line)
    if shown.by_subscription is not None and len(shown.by_subscription):
        results().print(preview_table(shown.by_subscription))


def preview_lines(shown: RebuildPreview) -> Iterator[str]:
    """Yield the lines of a dry run's summary."""
    import numpy as np

    if shown.against is None or shown.changes is None:
        yield f"the first version of the world: {shown.entities:,} entities"
        return
    yield (
        f"{shown.entities:,} entities, against version {shown.against}: "
        f"{changes_text(shown.changes.counts()) or 'no entity is different'}"
    )
    if len(shown.vanishing):
        listed = ", ".join(map(str, shown.vanishing[:SHOWN].tolist()))
        more = len(shown.vanishing) - SHOWN
        yield f"{len(shown.vanishing):,} references vanish: {listed}" + (
            f" and {more:,} more" if more > 0 else ""
        )
    changes = shown.by_subscription
    if changes is None:
        yield f"{shown.subscriptions:,} subscriptions; none was resolved by a rebuild before"
        return
    gaining, losing = np.count_nonzero(changes.gained), np.count_nonzero(changes.lost)
    lacking = np.count_nonzero(changes.lacks_references)
    yield (
        f"of {shown.subscriptions:,} subscriptions {gaining:,} gain {changes.gained.sum():,} "
        f"members, {losing:,} lose {changes.lost.sum():,}; {lacking:,} have no reference then"
    )


def preview_table(changes: SubscriptionChanges) -> Table:
    """Return the subscriptions that change most."""
    import numpy as np

    table = plain_table()
    for title in ("subscription", "gains", "loses", ""):
        table.add_column(title, justify="right" if title else "left")
    order = np.argsort(-(changes.gained + changes.lost), kind="stable")
    for place in order[:SHOWN].tolist():
        table.add_row(
            str(changes.sub_ids[place]),
            f"+{changes.gained[place]:,}",
            f"−{changes.lost[place]:,}",  # noqa: RUF001  the minus of people
            "no reference left" if changes.lacks_references[place] else "",
        )
    if len(order) > SHOWN:
        table.caption = f"and {len(order) - SHOWN:,} more"
    return table
