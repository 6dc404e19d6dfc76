"""amqtt's authentication and topic plugins, asked on behalf of our own connections.

Plugins know a client as amqtt's ``Session``. One is made for each client when it logs in and
kept for its topics, because plugins may leave notes on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable
from typing import Any, Final

from amqtt.contexts import Action as PluginAction
from amqtt.plugins.authentication import AnonymousAuthPlugin
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin
from amqtt.plugins.manager import PluginManager
from amqtt.session import Session

from broker.access.addresses import Origin
from broker.core.verdicts import Action, Identity

log = logging.getLogger(__name__)

# A plugin may ask a database or a web service; a client does not wait longer than this for it.
PLUGIN_SECONDS: Final = 10.0
REMEMBERED_SESSIONS: Final = 10_000


class PluginAccess:
    """Asks the plugins of a manager. A plugin that fails or takes too long refuses."""

    def __init__(self, manager: PluginManager[Any]) -> None:
        self._manager = manager
        kinds = manager.plugins
        # amqtt's anonymous plugin vouches for nobody: at most it lets everybody in.
        self.authenticates = any(
            isinstance(p, BaseAuthPlugin) and not isinstance(p, AnonymousAuthPlugin) for p in kinds
        )
        self.judges_topics = any(isinstance(p, BaseTopicPlugin) for p in kinds)
        self._sessions: OrderedDict[Identity, Session] = OrderedDict()

    @property
    def lets_anybody_in(self) -> bool:
        """Whether amqtt's own anonymous plugin is there and open, as it is by default."""
        return any(
            isinstance(plugin, AnonymousAuthPlugin) and plugin.config.allow_anonymous
            for plugin in self._manager.plugins
        )

    async def authenticate(
        self, client: Identity, password: bytes | None, origin: Origin
    ) -> bool | None:
        """Return what the plugins decide: all that have an opinion must agree; None: none has."""
        if not self.authenticates:
            return None
        session = _session(client, origin)
        # Text for plugins, as amqtt gives it; other bytes cannot be anybody's password there.
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
        """Whether every topic plugin allows it, as amqtt decides: no opinion is a refusal."""
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
