"""Answers the core's requests: logins, verdicts, neighborhoods, look-ups.

Each request is a task. It is answered exactly once, also after an error in the task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from broker.access.addresses import Origin
from broker.access.amqtt_plugins import PluginAccess
from broker.access.logins import Login, Logins
from broker.codec.reason_codes import ReasonCode
from broker.core.requests import (
    Authenticate,
    FindKeys,
    Forget,
    Judge,
    LookUp,
    Request,
    Resolution,
    ResolutionRefusal,
    Resolve,
)
from broker.core.verdicts import Verdict
from broker.ports import StoreAwayError, Stores
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_requests import Asker, NeighborhoodRefusedError
from broker.resolver.search_process import KeyLookUps, SearchUnavailableError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Services:
    """The services that answer requests."""

    logins: Logins
    plugins: PluginAccess
    resolver: LiveResolver | None
    stores: Stores
    keys: KeyLookUps
    # The reason string when a plugin refuses a topic.
    denial: Verdict = ReasonCode.NOT_AUTHORIZED


class RequestAnswers:
    """Runs requests and gives each its answer; calls ``answered`` after each."""

    def __init__(self, services: Services, answered: Callable[[], None]) -> None:
        self._services = services
        self._answered = answered
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, request: Request) -> None:
        """Start to answer a request."""
        match request:
            case Authenticate():
                self._start(self._authenticate(request), "login")
            case Judge():
                self._start(self._judge(request), "verdict")
            case Resolve():
                self._start(self._resolve(request), "neighborhood")
            case LookUp():
                self._start(self._look_up(request), "look-up")
            case FindKeys():
                self._start(self._find_keys(request), "keys")
            case Forget():
                self._start(self._services.stores.registry.forget(request.sub_ids), "forget")

    async def stop(self) -> None:
        """Cancel the requests in progress."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        # The event loop holds only weak references to tasks.
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._answered()

    async def _authenticate(self, request: Authenticate) -> None:
        connection = request.connection
        origin: Origin = connection.peer.origin
        try:
            login = await self._services.logins.decide(
                request, origin, lambda: connection.is_closed or connection.peer.is_gone
            )
        except Exception:
            log.exception("a login failed, refused", extra=connection.log_fields)
            login = Login(ReasonCode.UNSPECIFIED_ERROR)
        request.answer(login.reason, login.user_name, login.text)

    async def _judge(self, request: Judge) -> None:
        allowed = await self._services.plugins.allows(request.client, request.topic, request.action)
        request.answer(ReasonCode.SUCCESS if allowed else self._services.denial)

    async def _resolve(self, request: Resolve) -> None:
        who = {"client": request.client.client_id, "nsids": request.nsids}
        try:
            resolved = await self._registered(request)
        except NeighborhoodRefusedError as error:
            reason, text = error.reason, str(error)
        except StoreAwayError as error:
            reason, text = ReasonCode.UNSPECIFIED_ERROR, str(error)
        except Exception:
            log.exception("a neighborhood failed, refused", extra=who)
            reason, text = ReasonCode.UNSPECIFIED_ERROR, "the neighborhood could not be resolved"
        else:
            request.answer(resolved)
            return
        request.answer(ResolutionRefusal(reason, text))

    async def _registered(self, request: Resolve) -> Resolution:
        resolver = self._services.resolver
        if resolver is None:
            raise NeighborhoodRefusedError(
                ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, "this broker serves no neighborhoods"
            )
        asker = Asker(request.owner, request.client.client_id)
        descriptor, named = request.descriptor, None
        if request.name is not None:
            named = await self._services.stores.names.find(request.name)
            descriptor = named.descriptor
        resolution = await resolver.resolve(descriptor, asker)
        sub_ids = await self._services.stores.registry.register(request, resolution.present)
        granted = resolution.present
        # References by key or by name are what they were when the subscription was registered.
        kept = granted.descriptor if granted.is_rewritten else None
        descriptor = kept or descriptor
        while not resolver.is_current(resolution):
            # The world changed meanwhile. The subId stays: it identifies the neighborhood.
            try:
                resolution = await resolver.resolve(descriptor, asker)
            except NeighborhoodRefusedError:
                await self._services.stores.registry.forget(sub_ids)
                raise
        present, coming = resolution.present, resolution.coming
        return Resolution(
            sub_ids,
            present.peids,
            tuple(dict.fromkeys(granted.warnings + present.warnings)),
            None if coming is None else coming.peids,
            descriptor=kept if named is None else named.descriptor,
        )

    async def _look_up(self, request: LookUp) -> None:
        try:
            found = await self._services.stores.reader.look_up(request.peids)
        except StoreAwayError as error:
            request.answer({}, str(error))
        except Exception:
            log.exception("a look-up failed")
            request.answer({}, "memberships could not be read")
        else:
            request.answer(found, None)

    async def _find_keys(self, request: FindKeys) -> None:
        try:
            found = await self._services.keys.find(request.keys)
        except SearchUnavailableError as error:
            log.warning("entities cannot be looked up by key: %s", error)
            request.answer({}, str(error))
        except Exception:
            log.exception("a look-up of keys failed")
            request.answer({}, "keys could not be looked up")
        else:
            request.answer(found, None)
