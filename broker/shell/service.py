"""The whole broker: built from the settings, started, monitored, stopped."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from amqtt.events import BrokerEvents

from broker.access.addresses import Address
from broker.access.amqtt_plugins import PluginAccess, PluginHost
from broker.codec.gateway_rules import GatewayRules
from broker.core.broker_core import Core
from broker.core.message import Message
from broker.core.world_changes import world_of_this_run
from broker.ports import Stores, memberships_of_mode
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.search_process import KeyLookUps
from broker.shell.admission import Admission, forget_plugin_verdicts
from broker.shell.core_driver import CoreDriver
from broker.shell.limits import read_limits, use_all_files
from broker.shell.metrics import sample_filter_times
from broker.shell.network.links import TcpLink, WebSocketLink
from broker.shell.network.listeners import ConnectionHandlers, Listeners, amqtt_config
from broker.shell.operator_interfaces import OperatorInterfaces, http_address
from broker.shell.process import Work, run_with_restarts, steady_clock
from broker.shell.request_answers import Services
from schemas.settings import Settings

if TYPE_CHECKING:
    from broker.shell.redis_backing import RedisBacking

log = logging.getLogger(__name__)


class BrokerService:
    """One broker. ``start``, then ``stop``; everything on one event loop."""

    def __init__(self, settings: Settings) -> None:
        """Check the settings and build the parts; nothing listens yet.

        A Redis is used when the settings name one; the runner starts the embedded one.
        """
        self._settings = settings.broker
        self._started_at = time.time()
        http = http_address(settings.broker.http)
        core_limits, limits = read_limits(settings.broker.limits)
        self.limits = replace(limits, connections=use_all_files(limits.connections))
        if self.limits.connections < limits.connections:
            log.warning("room for %d connections: too few open files", self.limits.connections)
        self.resolver: LiveResolver | None = None
        self.memberships = memberships_of_mode(
            settings.broker.memberships, has_redis=settings.redis.url is not None
        )
        if self.memberships.serves_neighborhoods:
            self.resolver = LiveResolver(settings.world.dir, limits.resolver)
        self._plugin_host = PluginHost(amqtt_config(settings.broker), self._publish)
        plugins = PluginAccess(self._plugin_host.plugins_manager)
        self.admission = Admission(settings.broker, limits, plugins, http)
        clock = steady_clock()
        self.core = Core(
            clock=clock,
            limits=core_limits,
            memberships=self.memberships,
            access=self.admission.access_control,
            gateway=GatewayRules(settings.broker.gateway, has_world=self.resolver is not None),
            durable=settings.redis.url is not None,
            version=version("spaps-server"),
            knows_entity=self._knows_entity,
        )
        self.redis: RedisBacking | None = None
        if settings.redis.url is not None:
            # Imported late: loading the client of Redis takes 0.1 s.
            from broker.shell.redis_backing import RedisBacking  # noqa: PLC0415

            self.redis = RedisBacking(
                settings.redis.url,
                settings.broker.name,
                self.core,
                self.memberships,
                self.resolver,
                self.wake,
                self.limits,
            )
        stores = Stores() if self.redis is None else self.redis.stores
        self._store = stores.journal
        self.membership_reader = stores.reader
        self._keys = KeyLookUps(settings.world.dir, lambda: self.world_version)
        services = Services(
            self.admission.logins, plugins, self.resolver, stores, self._keys, self.admission.denial
        )
        self.core_driver = CoreDriver(self.core, services, self._store, self.limits, clock)
        handlers = ConnectionHandlers(
            lambda: TcpLink(self.core_driver),
            lambda socket: WebSocketLink(self.core_driver, socket).run(),
            self.admission.certificates.context_of,
            self.admission.origins,
            connect_timeout=core_limits.connect_timeout,
            packet_bytes=core_limits.packet_bytes_before_connect,
        )
        self._listeners = Listeners(settings.broker, handlers)
        self.operator_interfaces = OperatorInterfaces(settings, http, self)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_starting = True
        self._asks_plugins = plugins.judges_topics

    @property
    def world_version(self) -> int:
        """The world version on which new neighborhoods are resolved; 0 when there is none."""
        return 0 if self.resolver is None else self.resolver.version

    @property
    def generation(self) -> int:
        """The generation of memberships in force; 0 without Redis."""
        return 0 if self.redis is None else self.redis.generation

    async def start(self) -> list[tuple[str, Address]]:
        """Load the state, then listen; return the names and addresses of the listeners."""
        try:
            # Started first: its health page shows that the rest is starting.
            bound = await self.operator_interfaces.start_pages()
            if self.resolver is not None:
                await self.resolver.start()
            self.core.restore(await self._store.load())
            if self.redis is not None:
                await self.redis.load_memberships()
            elif self.resolver is not None:
                self.core.world_notifier.publish_world(world_of_this_run(self.resolver.version))
            await self._plugin_host.fire(BrokerEvents.PRE_START)
            bound = await self._listeners.open() + bound
            await self._plugin_host.fire(BrokerEvents.POST_START)
        except BaseException:
            await self._close_store()
            await self._stop_resolver()
            await self.operator_interfaces.stop()
            raise
        self._is_starting = False
        await self.operator_interfaces.start_control()
        self._run(lambda: self.admission.files.watch(self.access_changed), "access files")
        self._run(
            lambda: sample_filter_times(self.operator_interfaces.metrics, self), "filter times"
        )
        if self.redis is not None:
            self._run(self.redis.run, "Redis")
        if self._asks_plugins:
            self._run(lambda: forget_plugin_verdicts(self.access_changed), "plugin verdicts")
        return bound

    async def stop(self) -> None:
        """Stop listening, disconnect every client, store what is left."""
        await self.operator_interfaces.stop_control()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listeners.stop_listening()
        await self.core_driver.stop()
        await self._close_store()
        await self._plugin_host.fire(BrokerEvents.PRE_SHUTDOWN)
        await self._listeners.close()
        await self._plugin_host.close()
        await self.operator_interfaces.stop()
        await self._stop_resolver()
        self.admission.logins.close()

    def access_changed(self) -> None:
        """Check the rights of all clients again after they changed."""
        self.core.access_changed()
        if self.redis is not None:
            self.redis.rights_changed()
        self.wake()

    def reload_files(self) -> None:
        """Read the access files and certificates again."""
        self.admission.reload()
        self.access_changed()

    def health(self) -> dict[str, Any]:
        """Return what the health page shows."""
        problems = self.admission.problems
        problems += [] if self.redis is None else self.redis.problems
        warnings = () if self.redis is None else self.redis.warnings
        if not self._is_starting and self.resolver is not None and not self.resolver.is_running:
            problems.append("the resolver process is starting again: new neighborhoods wait")
        status = "degraded" if problems else "ok"
        return {
            "status": "starting" if self._is_starting else status,
            "problems": problems,
            "warnings": [*self.admission.warnings, *warnings],
            "version": version("spaps-server"),
            "uptime_seconds": round(time.time() - self._started_at),
            "connections": len(self.core_driver.connections),
            "sessions": len(self.core.sessions),
            "memberships": self._settings.memberships,
            "world_version": self.world_version,
            "generation": self.generation,
            "neighborhoods_waiting": 0 if self.redis is None else self.redis.unanswered,
        }

    def _knows_entity(self, peid: int) -> bool | None:
        if self.resolver is None or not self._settings.tell_unknown_entities:
            return None
        return self.resolver.knows(peid)

    def _publish(self, message: Message) -> None:
        """Publish a message of a plugin."""
        self.core.publish(message)
        self.wake()

    def wake(self) -> None:
        """Schedule the core's output for the end of this turn of the event loop."""
        self.core_driver.soon()

    async def _close_store(self) -> None:
        await (self._store if self.redis is None else self.redis).close()

    async def _stop_resolver(self) -> None:
        await self._keys.stop()
        if self.resolver is not None:
            await self.resolver.stop()

    def _run(self, work: Work, name: str) -> None:
        self._tasks.append(asyncio.create_task(run_with_restarts(work, name), name=name))
