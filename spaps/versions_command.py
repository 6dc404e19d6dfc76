"""``spaps versions``: the versions of a world, and which one is in force."""

from __future__ import annotations

from schemas.settings import load_settings
from spaps.options import ConfigOption, WorldOption
from spaps.rebuild_command import RedisOption


def show_versions(
    *, world: WorldOption = None, redis: RedisOption = None, config: ConfigOption = None
) -> None:
    """List the world versions with their changes and generations."""
    from contextlib import closing

    from jobs.rebuild_record import RebuildRecords
    from jobs.version_list import listed_versions
    from redis_link.client import connect
    from redis_link.world_redis import redis_to_read
    from spaps.rebuild_tables import versions_table
    from spaps.terminal import results
    from world.store import WorldStore

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
