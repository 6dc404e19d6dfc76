"""Keys to object stores: what Spark was given, by the names that the deltalake package has."""

from __future__ import annotations

from typing import Any, Final

# Keys that Spark was given for a store -> what the deltalake package calls them. Keys that come
# from the environment or the machine's role are found by both.
STORE_KEYS: Final = {
    "s3a.access.key": "AWS_ACCESS_KEY_ID",
    "s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "s3a.session.token": "AWS_SESSION_TOKEN",
    "s3a.endpoint": "AWS_ENDPOINT_URL",
    "s3a.endpoint.region": "AWS_REGION",
}


def storage_credentials(configuration: Any) -> tuple[tuple[str, str], ...]:
    """The keys to stores that Spark was given (its Hadoop configuration), by our names."""
    told = ((ours, configuration.get(f"fs.{theirs}")) for theirs, ours in STORE_KEYS.items())
    return tuple((name, str(value)) for name, value in told if value is not None)
