"""Reads the query of an address: its NAME=VALUE pairs."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from schemas.errors import SpapsError

MOST_FIELDS: Final = 16


class QueryError(SpapsError):
    """A query that is no list of pairs."""


def read_query(query: str) -> dict[str, list[str]]:
    """Return the values of each name."""
    try:
        return parse_qs(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict",
            max_num_fields=MOST_FIELDS,
        )  # fmt: skip
    except ValueError:
        text = "the query is not a list of NAME=VALUE in UTF-8, separated by '&'"
        raise QueryError(text) from None
