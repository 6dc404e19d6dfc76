"""The question why, over the control socket and over HTTP."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final

from broker.shell.control_socket import Rows
from broker.shell.diagnosis.why_answers import WhyAnswers
from broker.shell.diagnosis.why_question import WhyError, fields_of, read_question
from broker.shell.http_server import Page
from broker.shell.query import QueryError, read_query

# Time for distances, and for the whole answer on a page; a visit of the HTTP server is longer.
COMMAND_SECONDS: Final = 20.0
PAGE_SECONDS: Final = 3.0
WHOLE_PAGE_SECONDS: Final = 4.0


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
