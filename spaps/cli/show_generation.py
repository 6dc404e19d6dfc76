"""python -m spaps.cli.show_generation: print some sets of the generation in force."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from redis_link.connection.client import RedisClient, connect
from redis_link.connection.redis_choice import redis_to_read
from redis_link.generation.generation_store import current_generation
from redis_link.sets.set_reader import read_shards
from schemas import entity
from schemas.errors import EXIT_DONE, exit_code_of
from schemas.job_parser import JobParser, whole_number
from schemas.redis_keys import SHARD_COUNT, membership_key, shard_of
from schemas.settings import load_settings
from spaps.cli.output import printable
from world.versions.store import WorldStore

NO_GENERATION: Final = "Redis holds no generation yet"
ENTITIES_SHOWN: Final = 8
SUBSCRIPTIONS_SHOWN: Final = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the lines; the exit code."""
    options = _parser().parse_args(arguments)
    return exit_code_of(lambda: _shown(options))


def _shown(options: argparse.Namespace) -> int:
    settings = load_settings(options={"redis.url": options.redis, "world.dir": options.world})
    with redis_to_read(settings) as url:
        if url is None:
            sys.stdout.write(f"{NO_GENERATION}\n")
            return EXIT_DONE
        client = connect(url)
        facts = current_generation(client)
        named = facts is not None and not options.no_names
        names = names_of_world(settings.world.dir, facts.version) if facts and named else {}
        for line in generation_lines(client, names, peids=options.peid):
            sys.stdout.write(f"{line}\n")
    return EXIT_DONE


def _parser() -> argparse.ArgumentParser:
    parser = JobParser(
        prog="show_generation.py",
        description="Print sets of the generation in force.",
    )
    parser.add_argument("--redis", metavar="URL", help="default: conf/, else the embedded server")
    parser.add_argument("--world", metavar="DIR", help="where names come from (default: conf/)")
    parser.add_argument("--no-names", action="store_true", help="do not look into the world")
    parser.add_argument(
        "--peid", type=whole_number, action="append", default=[], help="show this entity"
    )
    return parser


def generation_lines(
    client: RedisClient,
    names: Mapping[int, str],
    *,
    peids: Sequence[int] = (),
    shown: int = ENTITIES_SHOWN,
) -> Iterator[str]:
    """Yield the facts of the generation in force, and the sets of some entities."""
    facts = current_generation(client)
    if facts is None:
        yield NO_GENERATION
        return
    yield (
        f"generation {facts.generation}, world version {facts.version}: {facts.pairs:,} pairs "
        f"of {facts.peids:,} entities, checksum {facts.checksum}"
        + (f", run {facts.run}, commit {facts.commit}" if facts.run else "")
    )
    chosen = list(peids) or _with_names_first(client, facts.generation, names, shown)
    for peid in chosen:
        members = sorted(int(member) for member in client.smembers(
            membership_key(facts.generation, peid)))  # fmt: skip
        numbers = ", ".join(map(str, members[:SUBSCRIPTIONS_SHOWN])) or "none"
        more = len(members) - SUBSCRIPTIONS_SHOWN
        rest = f" … and {more:,} more" if more > 0 else ""
        called = f" {printable(names[peid])}" if peid in names else ""
        yield f"  entity {peid}{called} → subscriptions {numbers}{rest}"


def names_of_world(world: str, version: int) -> dict[int, str]:
    """Return the names of the entities that have one."""
    rows = WorldStore(world).entities(version)
    peids, names = rows.column(entity.PEID).to_pylist(), rows.column(entity.NAME).to_pylist()
    return {peid: name for peid, name in zip(peids, names, strict=True) if name}


def _with_names_first(
    client: RedisClient, generation: int, names: Mapping[int, str], shown: int
) -> list[int]:
    """Return the entities to show, named ones first; read only as many shards as needed."""
    named: list[int] = []
    others: list[int] = []
    likely = {shard_of(peid) for peid in names}
    order = sorted(range(SHARD_COUNT), key=lambda shard: shard not in likely)
    for members in read_shards(client, generation, order):
        for peid in members.peids.tolist():
            (named if peid in names else others).append(peid)
        if len(named) >= shown:
            break
    return (sorted(named) + sorted(others))[:shown]


if __name__ == "__main__":
    sys.exit(main())
