"""Keys to object stores: what Spark was given, by the names that the deltalake package has."""

from __future__ import annotations

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


def storage_credentials(setting: Callable[[str], str | None]) -> tuple[tuple[str, str], ...]:
    """Return the keys to stores that Spark was given, by our names.

    ``setting`` returns the value of one of Spark's settings.
    """
    told = ((ours, setting(f"{HADOOP}{theirs}")) for theirs, ours in STORE_KEYS.items())
    return tuple((name, value) for name, value in told if value)
