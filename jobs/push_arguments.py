"""The command line of jobs/push_to_redis.py."""

from __future__ import annotations

from jobs.job_parser import JobParser, seconds, whole_number
from redis_link.generation.generation_store import GRACE_SECONDS


def push_parser() -> JobParser:
    """Return the parser of the command line."""
    parser = JobParser(
        prog="push_to_redis.py",
        description="Push the memberships of one world version into Redis, as a new generation.",
    )
    parser.add_argument("--memberships", required=True, metavar="DIR",
                        help="Delta table of memberships, or the folder that holds it")  # fmt: skip
    parser.add_argument("--version", type=whole_number, help="world version (default: the newest)")
    parser.add_argument("--run", metavar="ID", help="the run that wrote them, by the table runs "
                        "(default: the last complete one)")  # fmt: skip
    parser.add_argument(
        "--commit", type=whole_number, metavar="N", help="the Delta commit to read instead"
    )
    parser.add_argument("--redis", metavar="URL", help="default: conf/, else the embedded server")
    parser.add_argument("--grace", type=seconds, default=GRACE_SECONDS, metavar="SECONDS",
                        help="how long readers may stay on the old one (%(default)g)")  # fmt: skip
    parser.add_argument("--keep", type=whole_number, default=0, metavar="N",
                        help="how many replaced generations stay (%(default)s)")  # fmt: skip
    parser.add_argument("--switch-anyway", action="store_true",
                        help="switch even if more is gone than the settings allow")  # fmt: skip
    parser.add_argument("--changes", action="store_true",
                        help="add what the run changed to the table membershipChanges")  # fmt: skip
    return parser
