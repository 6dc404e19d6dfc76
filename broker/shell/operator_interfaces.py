"""What operators use beside MQTT: the HTTP pages, and the control socket of this machine.

The pages with a query are /why and /entities.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from broker.access.addresses import Address, cannot_listen, parse_address
from broker.resolver.search_process import SearchProcess, SearchUnavailableError
from broker.shell.control_socket import ControlSocket, Rows
from broker.shell.diagnosis.questions import WhyError, fields_of, read_question
from broker.shell.diagnosis.traces import Traces
from broker.shell.diagnosis.why_answers import WhyAnswers
from broker.shell.http_server import HttpServer, Page
from broker.shell.metrics import Metrics, add_figures, pages
from schemas.errors import SpapsError
from schemas.settings import Settings, control_socket_path

if TYPE_CHECKING:
    from broker.shell.service import BrokerService

HTTP_PORT: Final = 9883
# Values in a query.
MOST_FIELDS: Final = 16
# Time for distances, and for the whole answer on a page; a visit of the HTTP server is longer.
COMMAND_SECONDS: Final = 20.0
PAGE_SECONDS: Final = 3.0
WHOLE_PAGE_SECONDS: Final = 4.0


class OperatorInterfaces:
    """Metrics, pages and commands about one broker service."""

    def __init__(self, settings: Settings, http: Address | None, service: BrokerService) -> None:
        self._address = http
        self.metrics = Metrics()
        add_figures(self.metrics, service)
        if service.redis is not None:
            self.metrics.add(*service.redis.figures())
        self._traces = Traces(service.core)
        why = WhyAnswers(
            service.core.audiences, service.resolver, service.membership_reader, service.wake
        )
        self._control = ControlSocket(
            control_socket_path(settings),
            service.core,
            service.wake,
            {"why": lambda request: why_command(why, request), "trace": self._traces.command},
        )
        is_local = http is None or not (http.is_public or settings.broker.http_from_anywhere)
        is_guarded = is_local or service.admission.page_login is not None
        self._search = SearchProcess(settings.world.dir, lambda: service.world_version)
        self.http = HttpServer(
            pages(self.metrics, service.health),
            service.limits.http,
            service.admission.page_login,
            any_name=settings.broker.http_from_anywhere,
            query_pages={
                "/entities": lambda query: entities_page(self._search, query),
                # It names clients, so it is served only locally or with a login.
                "/why": (lambda query: why_page(why, query)) if is_guarded else no_login_page,
            },
        )

    async def start_pages(self) -> list[tuple[str, Address]]:
        """Serve the HTTP pages, if there is an address; return it with the name of the listener."""
        if self._address is None:
            return []
        try:
            port = await self.http.start(self._address.host, self._address.port)
        except OSError as error:
            raise cannot_listen("broker.http", self._address, error) from error
        return [("http", Address(self._address.host, port))]

    async def start_control(self) -> None:
        """Open the control socket."""
        await self._control.start()

    async def stop_control(self) -> None:
        """Close the control socket: no command changes the broker any more."""
        await self._control.stop()
        await self._traces.stop()

    async def stop(self) -> None:
        """Close the pages, and end the search process."""
        await self.http.stop()
        await self._search.stop()


def http_address(given: str | None) -> Address | None:
    """Return the address of the HTTP pages as the settings have it; None: there are none."""
    return None if given is None else parse_address(given, "broker.http", HTTP_PORT)


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
    """Return why there is no answer on a public address without a login."""
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
