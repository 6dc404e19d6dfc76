"""``spaps versions``: the versions of a world, and which one is in force."""

from __future__ import annotations

from schemas.settings import load_settings
from spaps.cli.commands.rebuild_command import RedisOption
from spaps.cli.options import ConfigOption, WorldOption


def show_versions(
    *, world: WorldOption = None, redis: RedisOption = None, config: ConfigOption = None
) -> None:
    """List the world versions with their changes and generations."""
    from contextlib import closing

    from rebuild.preview import listed_versions
    from rebuild.record import RebuildRecords
    from redis_link.connection.client import connect
    from redis_link.connection.redis_choice import redis_to_read
    from spaps.cli.rebuilds.rebuild_tables import versions_table
    from spaps.cli.terminal import results
    from world.versions.store import WorldStore

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
