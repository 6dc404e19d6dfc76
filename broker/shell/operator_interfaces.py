"""What operators use beside MQTT: the HTTP pages, and the control socket of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.access.addresses import Address, parse_address
from broker.resolver.search_process import SearchProcess
from broker.shell.control_socket import ControlSocket
from broker.shell.diagnosis.query_pages import entities_page, no_login_page, why_command, why_page
from broker.shell.diagnosis.traces import Traces
from broker.shell.diagnosis.why_answers import WhyAnswers
from broker.shell.http_server import HttpServer
from broker.shell.metrics import Metrics, add_figures, pages
from schemas.settings import Settings, control_socket_path

if TYPE_CHECKING:
    from broker.shell.service import BrokerService

HTTP_PORT: Final = 9883


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
                # It names clients, so strangers never see it.
                "/why": (lambda query: why_page(why, query)) if is_guarded else no_login_page,
            },
        )

    async def start_pages(self) -> list[tuple[str, Address]]:
        """Serve the HTTP pages, if there is an address; return it with the name of the listener."""
        if self._address is None:
            return []
        port = await self.http.start(self._address.host, self._address.port)
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
