"""Who may connect: the password file and amqtt's plugins, and what they decide together."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from broker.access import Identity
from broker.access_files import WatchedFile
from broker.access_passwords import PasswordChecker
from broker.access_plugins import Origin, PluginAccess
from broker.codec.reason_codes import ReasonCode
from broker.effects import Authenticate

# Checking a password costs memory and a core on purpose; so many at a time may do so.
CHECKERS: Final = 2


@dataclass(frozen=True, slots=True)
class Login:
    """The decision, and the user name that it established: None for anonymous."""

    reason: ReasonCode
    user_name: str | None = None


class Logins:
    """Decides about CONNECTs: all who have an opinion must agree, and somebody must have one."""

    def __init__(
        self,
        passwords: WatchedFile[PasswordChecker] | None,
        plugins: PluginAccess,
        *,
        allow_anonymous: bool,
        max_waiting: int,
    ) -> None:
        self._passwords = passwords
        self._plugins = plugins
        # Whether a client that says nothing about itself gets in.
        self.allow_anonymous = allow_anonymous or plugins.lets_anybody_in
        self._max_waiting = max_waiting
        self._waiting = 0
        self._threads = ThreadPoolExecutor(CHECKERS, thread_name_prefix="password")
        self.decided: Counter[ReasonCode] = Counter()

    @property
    def lets_nobody_in(self) -> bool:
        """Whether there is no way in at all."""
        return (
            not self.allow_anonymous and self._passwords is None and not self._plugins.authenticates
        )

    async def decide(self, request: Authenticate, origin: Origin) -> Login:
        """The decision about one CONNECT."""
        login = await self._decide(request, origin)
        self.decided[login.reason] += 1
        return login

    def close(self) -> None:
        """Check no more passwords."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _decide(self, request: Authenticate, origin: Origin) -> Login:
        says_nothing = request.user_name is None and request.password is None
        opinions: list[bool | None] = []
        if says_nothing:
            opinions.append(True if self.allow_anonymous else None)
        elif self._passwords is not None:
            if self._waiting >= self._max_waiting:
                return Login(ReasonCode.SERVER_BUSY)
            opinions.append(await self._check(request, self._passwords.content))
        client = Identity(request.client_id, request.user_name)
        if False not in opinions:
            opinions.append(await self._plugins.authenticate(client, request.password, origin))
        if False not in opinions and True in opinions:
            return Login(ReasonCode.SUCCESS, request.user_name)
        if False not in opinions and self.allow_anonymous:
            # Nobody vouches for the name, and nobody needs one: it counts for nothing.
            return Login(ReasonCode.SUCCESS)
        wrong = ReasonCode.BAD_USER_NAME_OR_PASSWORD
        return Login(ReasonCode.NOT_AUTHORIZED if says_nothing else wrong)

    async def _check(self, request: Authenticate, checker: PasswordChecker) -> bool:
        user_name, password = request.user_name or "", request.password or b""
        if checker.is_remembered(user_name, password):
            return True
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, checker.check, user_name, password)
        finally:
            self._waiting -= 1
