"""The key process: holds the keys of one world version and finds entities by key for the broker.

It is not the resolver process, so that heavy neighborhoods do not delay publishers, and not the
search process, which ends when nobody searches.
"""

from __future__ import annotations

from typing import Any

from broker.resolver.search_worker import serve
from world.entity_lookup import EntityLookup, open_lookup


def answer_of(lookup: EntityLookup, request: dict[str, Any]) -> dict[str, Any]:
    """Return the peids of the keys that exist."""
    try:
        return {"peids": lookup.peids_of(request["parameters"]["key"])}
    except Exception as error:  # noqa: BLE001 - every request must be answered
        return {"failed": f"the look-up failed ({type(error).__name__})"}


def main() -> None:
    """Answer look-ups."""
    serve(open_lookup, lambda lookup: lookup.table.version, answer_of)


if __name__ == "__main__":
    main()
