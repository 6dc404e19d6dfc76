"""spark-submit jobs/resolve_neighborhoods.py: all subscriptions on one world version.

Memberships go into the Delta table DIR/memberships, replaced for that version in one commit;
what the run did goes into DIR/runs and DIR/problems; with ``--redis`` the memberships go into
Redis as a new generation. With no argument: the sample world and its subscriptions.

Exit codes: 0 done; 2 failed, or no subscription could be resolved: memberships are as before;
3 another run writes into the folder, or it is written and another push to Redis is running;
5 it is written, and too much of what is in force in Redis would be gone: nothing was switched.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from jobs.pipeline.session import BegunSession
from schemas.errors import exit_code_of
from schemas.job_parser import JobParser, whole_number

DEFAULT_OUT: Final = "lake"


def main(arguments: Sequence[str] | None = None) -> int:
    """Resolve, write, push when asked; the exit code."""
    options = _parser().parse_args(arguments)
    with closing(BegunSession("spaps-resolve-neighborhoods")) as session:
        # Java takes a second for that: time for what takes long to import.
        from jobs.pipeline import bulk_job  # noqa: PLC0415

        return exit_code_of(lambda: bulk_job.run(options, session))


def _parser() -> argparse.ArgumentParser:
    parser = JobParser(
        prog="resolve_neighborhoods.py",
        description="Resolve all subscriptions on one world version into Delta, and into Redis.",
    )
    parser.add_argument(
        "--world", metavar="DIR", help="Delta tables of the world, or their schema (conf/)"
    )
    parser.add_argument("--version", type=whole_number, metavar="N", help="default: the newest")
    parser.add_argument(
        "--subscriptions",
        metavar="FILE",
        help="JSON lines, a Delta table by path or name, or 'redis' for those registered in Redis "
        "(default: the sample)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        default=DEFAULT_OUT,
        help="folder or schema of the result (%(default)s)",
    )
    parser.add_argument(
        "--redis",
        nargs="?",
        const="",
        metavar="URL",
        help="push the result to Redis; without a URL: the one of conf/, else the embedded server",
    )
    parser.add_argument(
        "--changes",
        action="store_true",
        help="add the rows that the run changed to the table membershipChanges",
    )
    parser.add_argument(
        "--switch-anyway",
        action="store_true",
        help="switch Redis even if more is gone than the settings allow",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
