"""The page /entities: a search for programs, as JSON."""

from __future__ import annotations

import json
from http import HTTPStatus
from urllib.parse import parse_qs

from broker.resolver.search_process import SearchProcess, SearchUnavailableError
from broker.shell.http_server import Page

MOST_FIELDS = 16


async def entities_page(search: SearchProcess, query: str) -> Page:
    """Return the result of a query string; the status says when there is none."""
    try:
        fields = parse_qs(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict",
            max_num_fields=MOST_FIELDS,
        )  # fmt: skip
    except ValueError:
        text = "the query is not a list of NAME=VALUE in UTF-8, separated by '&'"
        return _line(text, HTTPStatus.BAD_REQUEST)
    try:
        answer = await search.ask(fields)
    except SearchUnavailableError as error:
        return _line(str(error), HTTPStatus.SERVICE_UNAVAILABLE)
    if "refused" in answer:
        return _line(answer["refused"], HTTPStatus.BAD_REQUEST)
    if "failed" in answer:
        return _line(answer["failed"], HTTPStatus.SERVICE_UNAVAILABLE)
    content = json.dumps(answer["result"], ensure_ascii=False).encode()
    return Page(content + b"\n", "application/json")


def _line(text: str, status: HTTPStatus) -> Page:
    return Page(f"{text}\n".encode(), status=status)
