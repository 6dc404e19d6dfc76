"""python -m jobs.show_generation: print some sets of the generation in force."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from jobs.job_parser import JobParser, whole_number
from jobs.pipeline.generation.generation_lines import (
    NO_GENERATION,
    generation_lines,
    names_of_world,
)
from redis_link.connection.client import connect
from redis_link.connection.redis_choice import redis_to_read
from redis_link.generation.generation_store import current_generation
from schemas.errors import SpapsError
from schemas.settings import load_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the lines; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        settings = load_settings(options={"redis.url": options.redis, "world.dir": options.world})
        with redis_to_read(settings) as url:
            if url is None:
                print(NO_GENERATION)
                return 0
            client = connect(url)
            facts = current_generation(client)
            named = facts is not None and not options.no_names
            names = names_of_world(settings.world.dir, facts.version) if facts and named else {}
            for line in generation_lines(client, names, peids=options.peid):
                print(line)
    except SpapsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


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


if __name__ == "__main__":
    sys.exit(main())
