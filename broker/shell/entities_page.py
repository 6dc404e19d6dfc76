"""The page /entities: a search for programs, as JSON."""

from __future__ import annotations

import json
from http import HTTPStatus

from broker.resolver.search_process import SearchProcess, SearchUnavailableError
from broker.shell.http_server import Page
from broker.shell.query import QueryError, read_query


async def entities_page(search: SearchProcess, query: str) -> Page:
    """Return the result of a query string; the status says when there is none."""
    try:
        answer = await search.ask(read_query(query))
    except QueryError as error:
        return _line(str(error), HTTPStatus.BAD_REQUEST)
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
