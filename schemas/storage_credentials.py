"""Where a path lies and the keys to it: what Spark was given, as the deltalake package wants it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

# Keys that Spark was given for a store -> what the deltalake package calls them. Keys that come
# from the environment or the machine's role are found by both.
STORE_KEYS: Final = {
    "s3a.access.key": "AWS_ACCESS_KEY_ID",
    "s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "s3a.session.token": "AWS_SESSION_TOKEN",
    "s3a.endpoint": "AWS_ENDPOINT_URL",
    "s3a.endpoint.region": "AWS_REGION",
}
# How Spark's settings name what Hadoop reads.
HADOOP: Final = "spark.hadoop.fs."
LOCAL: Final = "file://"


def storage_credentials(setting: Callable[[str], str | None]) -> tuple[tuple[str, str], ...]:
    """Return the keys to stores that Spark was given, by our names.

    ``setting`` returns the value of one of Spark's settings.
    """
    told = ((ours, setting(f"{HADOOP}{theirs}")) for theirs, ours in STORE_KEYS.items())
    return tuple((name, value) for name, value in told if value)


def place_of(
    path: str, setting: Callable[[str], str | None]
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the URI of a path, and the keys to its store.

    A path without a scheme is of Spark's default file system: ``spark.hadoop.fs.defaultFS``, or
    else the disk. ``setting`` returns the value of one of Spark's settings.
    """
    scheme, slashes, place = path.partition(":/")
    keys = storage_credentials(setting)
    if slashes and scheme != "file":
        return path.rstrip("/"), keys
    if slashes:
        return f"{LOCAL}/{place.strip('/')}".rstrip("/"), keys
    default = (setting(f"{HADOOP}defaultFS") or LOCAL).rstrip("/")
    if default.startswith("file:"):
        return f"{LOCAL}{os.path.abspath(path)}".rstrip("/"), keys  # noqa: PTH100 - of a URI
    return f"{default}/{path.strip('/')}", keys
