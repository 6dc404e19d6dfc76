"""``spaps rollback``: back to an earlier world version, with all subscriptions of today."""

from __future__ import annotations

from typing import Annotated

import typer

from schemas.errors import PushBusyError, RebuildBusyError, RunBusyError
from schemas.settings import load_settings
from spaps.cli.commands.rebuild_command import RedisOption
from spaps.cli.options import ConfigOption, WorldOption


def rollback_world(
    version: Annotated[
        int | None, typer.Argument(metavar="[N]", help="Default: the one before that in force.")
    ] = None,
    *,
    world: WorldOption = None,
    redis: RedisOption = None,
    grace: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Until the old generation is removed.")
    ] = None,
    config: ConfigOption = None,
) -> int:
    """Put an earlier world version in force again."""
    from jobs.bulk_engine import spark_engine
    from rebuild.request import request_of, require_version
    from rebuild.run import rollback
    from redis_link.connection.redis_choice import redis_or_embedded
    from schemas.errors import EXIT_BUSY
    from spaps.cli.terminal import PhaseProgress, printable, remarks, results

    def say(line: str) -> None:
        remarks().print(printable(line), soft_wrap=True, markup=False)

    options = {"world.dir": world, "redis.url": redis, "rebuild.grace_seconds": grace}
    settings = load_settings(config, options)
    require_version(settings, version)
    with (
        redis_or_embedded(settings) as url,
        PhaseProgress() as progress,
    ):
        try:
            request = request_of(settings, url, say=say, progress=progress, bulk=spark_engine)
            report = rollback(request, version)
        except (RebuildBusyError, PushBusyError, RunBusyError) as error:
            say(f"spaps: {error}")
            return EXIT_BUSY
    results().print(report.summary, soft_wrap=True, markup=False)
    return report.exit_code
