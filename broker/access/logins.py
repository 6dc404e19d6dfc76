"""Decides who may connect, by the password file and amqtt's plugins.

After too many wrong logins of an address its passwords are not checked for a while.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker.access.access_files import WatchedFile
from broker.access.addresses import Origin, quota_host
from broker.access.amqtt_plugins import PluginAccess
from broker.access.password_queue import PasswordOutcome, PasswordQueue
from broker.access.passwords import PasswordChecker
from broker.codec.reason_codes import ReasonCode
from broker.core.requests import Authenticate
from broker.core.verdicts import Identity

# Addresses with wrong logins; beyond this number the one whose last was longest ago is removed.
MOST_ADDRESSES: Final = 10_000
WINDOW_SECONDS: Final = 60.0


class WrongLogins:
    """Allows ``most`` wrong logins of each address, and as many more over a minute."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        # The number of wrong logins that count, and the time for which it was computed.
        self._wrong: OrderedDict[str, tuple[float, float]] = OrderedDict()
        # Logins that were refused unchecked.
        self.refused = 0

    def is_over(self, host: str) -> bool:
        """Return whether the address had too many wrong logins; count the refusal."""
        is_over = self._count(host) > self._most - 1
        self.refused += is_over
        return is_over

    def note(self, host: str) -> None:
        """Count a wrong login."""
        self._wrong[host] = (self._count(host) + 1, self._clock())
        self._wrong.move_to_end(host)
        if len(self._wrong) > MOST_ADDRESSES:
            self._wrong.popitem(last=False)

    def _count(self, host: str) -> float:
        wrong, at = self._wrong.get(host, (0.0, 0.0))
        forgiven = (self._clock() - at) * self._most / WINDOW_SECONDS
        return max(0.0, wrong - forgiven)


@dataclass(frozen=True, slots=True)
class Login:
    """The decision, and the user name that it established: None for anonymous.

    ``text`` says more to a client that is refused.
    """

    reason: ReasonCode
    user_name: str | None = None
    text: str | None = None


WRONG: Final = Login(ReasonCode.BAD_USER_NAME_OR_PASSWORD, text="wrong user name or password")
NAMELESS: Final = Login(
    ReasonCode.NOT_AUTHORIZED, text="clients without a user name may not connect"
)
TOO_MANY_WRONG: Final = Login(
    ReasonCode.CONNECTION_RATE_EXCEEDED,
    text="too many wrong logins from this address: try again in a minute",
)
REFUSALS: Final[dict[PasswordOutcome, Login | None]] = {
    PasswordOutcome.RIGHT: None,
    PasswordOutcome.WRONG: WRONG,
    PasswordOutcome.GONE: Login(ReasonCode.UNSPECIFIED_ERROR, text="the client is gone"),
    PasswordOutcome.ADDRESS_FULL: Login(
        ReasonCode.CONNECTION_RATE_EXCEEDED,
        text="too many logins from this address wait: try again later",
    ),
    PasswordOutcome.ALL_FULL: Login(
        ReasonCode.SERVER_BUSY, text="too many logins wait: try again later"
    ),
}


@dataclass(frozen=True, slots=True)
class LoginLimits:
    """Logins whose password waits to be checked, and wrong ones of an address in a minute."""

    waiting: int = 1_000
    waiting_of_address: int = 20
    wrong_of_address: int = 60


class Logins:
    """Decides about CONNECTs: file and plugins that give a decision must agree, and one must."""

    def __init__(
        self,
        passwords: WatchedFile[PasswordChecker] | None,
        plugins: PluginAccess,
        *,
        allow_anonymous: bool,
        limits: LoginLimits,
    ) -> None:
        self._passwords = passwords
        self._plugins = plugins
        # Whether a client without user name and password may connect.
        self.allow_anonymous = allow_anonymous or plugins.allows_anonymous
        self._queue = PasswordQueue(limits.waiting, limits.waiting_of_address)
        self._wrong = WrongLogins(limits.wrong_of_address)
        self.decided: Counter[ReasonCode] = Counter()

    @property
    def refuses_all(self) -> bool:
        """Whether no client can connect."""
        return (
            not self.allow_anonymous and self._passwords is None and not self._plugins.authenticates
        )

    @property
    def unchecked(self) -> dict[str, int]:
        """How many passwords were not checked, by cause."""
        counts = self._queue.outcomes
        causes = (PasswordOutcome.GONE, PasswordOutcome.ADDRESS_FULL, PasswordOutcome.ALL_FULL)
        return {one.value: counts[one] for one in causes} | {"wrong_logins": self._wrong.refused}

    async def decide(
        self, request: Authenticate, origin: Origin, is_gone: Callable[[], bool]
    ) -> Login:
        """Return the decision about one CONNECT."""
        login = await self._decide(request, origin, is_gone)
        self.decided[login.reason] += 1
        return login

    async def knows(self, user_name: str, password: bytes, origin: Origin) -> bool:
        """Return whether this is a user of the password file; False when too many ask."""
        if self._passwords is None:
            return False
        return await self._refusal(user_name, password, origin, lambda: False) is None

    def close(self) -> None:
        """Check no more passwords."""
        self._queue.close()

    async def _decide(
        self, request: Authenticate, origin: Origin, is_gone: Callable[[], bool]
    ) -> Login:
        is_anonymous = request.user_name is None and request.password is None
        opinions: list[bool | None] = []
        if is_anonymous:
            opinions.append(True if self.allow_anonymous else None)
        elif self._passwords is not None:
            user_name, password = request.user_name or "", request.password or b""
            refusal = await self._refusal(user_name, password, origin, is_gone)
            if refusal is not None:
                return refusal
            opinions.append(True)
        client = Identity(request.client_id, request.user_name)
        opinions.append(await self._plugins.authenticate(client, request.password, origin))
        if False not in opinions and True in opinions:
            return Login(ReasonCode.SUCCESS, request.user_name)
        if False not in opinions and self.allow_anonymous:
            # The name was not authenticated and is not needed, so it is ignored.
            return Login(ReasonCode.SUCCESS)
        return NAMELESS if is_anonymous else WRONG

    async def _refusal(
        self, user_name: str, password: bytes, origin: Origin, is_gone: Callable[[], bool]
    ) -> Login | None:
        """Return why a login by the password file is refused; None when it is right.

        A login that succeeded before costs nothing, so it never waits for others.
        """
        if self._passwords is None:
            return None
        checker = self._passwords.content
        if checker.is_remembered(user_name, password):
            return None
        host = "" if origin.address is None else quota_host(origin.address)
        if self._wrong.is_over(host):
            return TOO_MANY_WRONG
        outcome = await self._queue.check(host, lambda: checker.check(user_name, password), is_gone)
        if outcome is PasswordOutcome.WRONG:
            self._wrong.note(host)
        return REFUSALS[outcome]
