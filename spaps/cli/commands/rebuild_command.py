"""``spaps rebuild``: a new world version, all subscriptions on it, and the switch to it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schemas.errors import PushBusyError, RebuildBusyError, RunBusyError, SettingsError
from schemas.settings import Settings, load_settings
from spaps.cli.options import ConfigOption, WorldOption

if TYPE_CHECKING:  # at run time only when the command runs
    from rebuild.preview import RebuildPreview
    from rebuild.request import RebuildReport

RedisOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Redis; default: redis.url in conf.")
]


def rebuild_world(  # noqa: PLR0913  one for each option of the contract
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[SOURCE…]", help="Default: rebuild.sources in conf, else as last."),
    ] = None,
    *,
    world: WorldOption = None,
    redis: RedisOption = None,
    engine: Annotated[
        str | None, typer.Option(help="Who resolves: auto, exact or spark; default in conf.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Take nothing over from earlier rebuilds.")
    ] = False,
    if_changed: Annotated[
        bool, typer.Option("--if-changed", help="End early when the sources are the same.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    keep_versions: Annotated[
        int | None, typer.Option(metavar="N", help="World versions that stay for a rollback.")
    ] = None,
    grace: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Until the old generation is removed.")
    ] = None,
    category: Annotated[str | None, typer.Option(help="As in spaps import.")] = None,
    id_field: Annotated[str | None, typer.Option(help="As in spaps import.")] = None,
    srid: Annotated[int | None, typer.Option(help="As in spaps import.")] = None,
    rules: Annotated[Path | None, typer.Option(help="As in spaps import.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on any problem.")] = False,
    cron: Annotated[
        str | None,
        typer.Option(metavar="'0 3 * * *'", help="Stay, and rebuild at these times (UTC)."),
    ] = None,
    config: ConfigOption = None,
) -> int:
    """Import the sources, resolve all subscriptions, and switch to the result."""
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
            raise SettingsError("--dry-run shows one rebuild: leave --cron out")
        from spaps.cli.rebuilds.rebuild_service import own_arguments, serve

        return serve(cron, own_arguments())
    import_options = {
        "category": category, "id_field": id_field, "srid": srid, "rules": rules, "strict": strict,
    }  # fmt: skip
    return _one(
        settings, list(sources or []), import_options, full=full, if_changed=if_changed,
        dry_run=dry_run,
    )  # fmt: skip


def _one(
    settings: Settings,
    sources: list[Path],
    import_options: dict[str, Any],
    *,
    dry_run: bool,
    **how: bool,
) -> int:
    from jobs.bulk_engine import spark_engine
    from rebuild.request import request_of, sources_of
    from rebuild.run import rebuild
    from redis_link.connection.redis_choice import redis_or_embedded, redis_or_empty
    from schemas.errors import EXIT_BUSY
    from spaps.cli.terminal import PhaseProgress, printable, remarks
    from world.arrow_alone import keep_pandas_out

    keep_pandas_out()

    def say(line: str) -> None:
        remarks().print(printable(line), soft_wrap=True, markup=False)

    given = sources_of(sources, settings)
    with redis_or_empty(settings) if dry_run else redis_or_embedded(settings) as url:
        with PhaseProgress() as progress:
            request = request_of(
                settings, url, sources=given,
                import_options=import_options, say=say, progress=progress, bulk=spark_engine, **how,
            )  # fmt: skip
            if dry_run:
                from rebuild.preview import preview

                shown = preview(request)
            else:
                try:
                    report = rebuild(request)
                except (RebuildBusyError, PushBusyError, RunBusyError) as error:
                    say(f"spaps: {error}")
                    return EXIT_BUSY
        if dry_run:
            _print_preview(shown)
            return 0
    # All that it made ends with the process: nobody need look through it for garbage.
    gc.freeze()
    return _print_report(report)


def _print_report(report: RebuildReport) -> int:
    from spaps.cli.terminal import results

    results().print(report.summary, soft_wrap=True, markup=False)
    return report.exit_code


def _print_preview(shown: RebuildPreview) -> None:
    from spaps.cli.rebuilds.rebuild_tables import preview_lines, preview_table
    from spaps.cli.terminal import results

    for line in preview_lines(shown):
        results().print(line, soft_wrap=True, markup=False)
    if shown.by_subscription is not None and len(shown.by_subscription):
        results().print(preview_table(shown.by_subscription))
