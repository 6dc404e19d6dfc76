"""The pages with a query, /why and /entities, and the question why over the control socket."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

from broker.resolver.search_process import SearchProcess, SearchUnavailableError
from broker.shell.control_socket import Rows
from broker.shell.diagnosis.why_answers import WhyAnswers
from broker.shell.diagnosis.why_question import WhyError, fields_of, read_question
from broker.shell.http_server import Page
from schemas.errors import SpapsError

MOST_FIELDS: Final = 16
# Time for distances, and for the whole answer on a page; a visit of the HTTP server is longer.
COMMAND_SECONDS: Final = 20.0
PAGE_SECONDS: Final = 3.0
WHOLE_PAGE_SECONDS: Final = 4.0


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


async def why_command(answers: WhyAnswers, request: dict[str, Any]) -> Rows:
    """Yield the rows of the answer to a request on the control socket."""
    for row in await answers.answer(read_question(request), COMMAND_SECONDS):
        yield row


async def no_login_page(_query: str) -> Page:
    """Return why there is no answer on an address that strangers can reach without a login."""
    text = "this page names clients, so it needs a login: set broker.http_users\n"
    return Page(text.encode(), status=HTTPStatus.FORBIDDEN)


async def why_page(answers: WhyAnswers, query: str) -> Page:
    """Return the answer to a query string as one JSON object."""
    try:
        question = read_question(fields_of(read_query(query)))
    except (QueryError, WhyError) as error:
        return Page(f"{error}\n".encode(), status=HTTPStatus.BAD_REQUEST)
    try:
        async with asyncio.timeout(WHOLE_PAGE_SECONDS):
            first, *found = await answers.answer(question, PAGE_SECONDS)
    except (WhyError, TimeoutError) as error:
        text = str(error) or "the answer takes longer than a visit: ask with limit=10"
        return Page(f"{text}\n".encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)
    content = {
        "message": first,
        "subscriptions": [row for row in found if "verdict" in row],
        "left": sum(row.get("left", 0) for row in found),
    }
    return Page(json.dumps(content, ensure_ascii=False).encode() + b"\n", "application/json")


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
