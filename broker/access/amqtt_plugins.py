"""amqtt's plugins: loads them, asks them about logins and topics, and publishes their messages.

Only public parts of amqtt are used. Its listeners and packet handlers are not.
Plugins know a client as amqtt's ``Session``. One is made for each client when it logs in and is
used again for its topics, because plugins may store values in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final

from amqtt.broker import Broker
from amqtt.contexts import Action as PluginAction
from amqtt.contexts import BrokerConfig
from amqtt.errors import PluginError, PluginLoadError
from amqtt.events import BrokerEvents
from amqtt.plugins.authentication import AnonymousAuthPlugin
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin
from amqtt.plugins.manager import PluginManager
from amqtt.session import Session

from broker.access.addresses import Origin
from broker.core.message import Message
from broker.core.verdicts import Action, Identity
from schemas.errors import SettingsError

log = logging.getLogger(__name__)

# A plugin may call a database or a web service; a client waits no longer than this.
PLUGIN_SECONDS: Final = 10.0
REMEMBERED_SESSIONS: Final = 10_000


class PluginHost(Broker):
    """Loads the plugins. It is an amqtt broker that is never started and opens no listeners."""

    def __init__(self, config: BrokerConfig, publish: Callable[[Message], None]) -> None:
        """``publish`` passes messages of plugins to the core."""
        self._publish_to_core = publish
        try:
            super().__init__(config, plugin_namespace="amqtt.plugins")
        except (PluginError, PluginLoadError) as error:
            raise SettingsError(f"broker.plugins: {innermost_text(error)}") from error

    async def fire(self, event: BrokerEvents) -> None:
        """Send an event to the plugins, and wait until they have handled it."""
        await self.plugins_manager.fire_event(event, wait=True)

    async def close(self) -> None:
        """Send the last event, and close the plugins."""
        await self.plugins_manager.wait_fired_events()
        await self.fire(BrokerEvents.POST_SHUTDOWN)
        await self.plugins_manager.close()

    async def internal_message_broadcast(
        self, topic: str, data: bytes, qos: int | None = None
    ) -> None:
        """Override amqtt's method: the core publishes what plugins broadcast."""
        self._publish_to_core(Message(topic, bytes(data), qos=qos or 0))

    async def retain_message(
        self,
        source_session: object,  # noqa: ARG002 - amqtt's shape
        topic_name: str | None,
        data: bytes | bytearray | None,
        qos: int | None = None,
    ) -> None:
        """Override amqtt's method: the core publishes and retains what plugins retain."""
        if topic_name:
            message = Message(topic_name, bytes(data or b""), qos=qos or 0, retain=True)
            self._publish_to_core(message)


def innermost_text(error: BaseException) -> str:
    """Return the text of the first error in a chain of causes, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


class PluginAccess:
    """Asks the plugins of a manager. A plugin that fails or takes too long refuses."""

    def __init__(self, manager: PluginManager[Any]) -> None:
        self._manager = manager
        kinds = manager.plugins
        # amqtt's anonymous plugin authenticates no user; it can only admit all clients.
        self.authenticates = any(
            isinstance(p, BaseAuthPlugin) and not isinstance(p, AnonymousAuthPlugin) for p in kinds
        )
        self.judges_topics = any(isinstance(p, BaseTopicPlugin) for p in kinds)
        self._sessions: OrderedDict[Identity, Session] = OrderedDict()

    @property
    def allows_anonymous(self) -> bool:
        """Whether amqtt's anonymous plugin is loaded and allows anonymous clients (its default)."""
        return any(
            isinstance(plugin, AnonymousAuthPlugin) and plugin.config.allow_anonymous
            for plugin in self._manager.plugins
        )

    async def authenticate(
        self, client: Identity, password: bytes | None, origin: Origin
    ) -> bool | None:
        """Return the plugins' decision: those that give one must agree; None: none gives one."""
        if not self.authenticates:
            return None
        session = _session(client, origin)
        # amqtt gives passwords to plugins as text.
        try:
            session.password = None if password is None else password.decode()
        except UnicodeDecodeError:
            return False
        answers = await self._asked(self._manager.map_plugin_auth(session=session), client)
        session.password = None
        if answers is None:
            return False
        opinions = [
            bool(answer)
            for plugin, answer in answers.items()
            if answer is not None and not isinstance(plugin, AnonymousAuthPlugin)
        ]
        if opinions and all(opinions):
            self._remember(client, session)
        return all(opinions) if opinions else None

    async def allows(self, client: Identity, topic: str, action: Action) -> bool:
        """Return whether every topic plugin allows it; as in amqtt, no decision is a refusal."""
        session = self._sessions.get(client)
        if session is None:
            session = _session(client, Origin())
            self._remember(client, session)
        question = self._manager.map_plugin_topic(
            session=session, topic=topic, action=PluginAction(action.value)
        )
        answers = await self._asked(question, client)
        return answers is not None and all(answers.values())

    def _remember(self, client: Identity, session: Session) -> None:
        self._sessions[client] = session
        self._sessions.move_to_end(client)
        if len(self._sessions) > REMEMBERED_SESSIONS:
            self._sessions.popitem(last=False)

    async def _asked(
        self, question: Awaitable[dict[Any, Any]], client: Identity
    ) -> dict[Any, Any] | None:
        """Return the plugins' answers; None when one of them failed."""
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                return await question
        except TimeoutError:
            log.warning("a plugin took too long, refused", extra={"client": client.client_id})
        except Exception:
            log.exception("a plugin failed, refused", extra={"client": client.client_id})
        return None


def _session(client: Identity, origin: Origin) -> Session:
    session = Session()
    session.client_id = client.client_id
    session.username = client.user_name
    session.is_anonymous = client.user_name is None
    session.remote_address = origin.address
    session.remote_port = origin.port
    session.ssl_object = origin.tls
    return session
