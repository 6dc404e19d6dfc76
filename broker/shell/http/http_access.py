"""Who may read the HTTP pages: users with a password, or everybody on this machine."""

from __future__ import annotations

import base64
import binascii

from broker.access.addresses import Address, Origin
from broker.access.logins import Logins
from schemas.errors import SettingsError
from schemas.settings import BrokerSettings


class HttpLogin:
    """HTTP's basic authentication with users of the password file."""

    def __init__(self, logins: Logins, users: tuple[str, ...]) -> None:
        self._logins = logins
        self._users = users

    async def allows(self, host: str, authorization: str | None) -> bool:
        """Return whether the header names one of the users, with the right password."""
        scheme, _, encoded = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            name, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
            user = name.decode()
        except (binascii.Error, ValueError):
            return False
        if not colon or user not in self._users:
            return False
        return await self._logins.knows(user, password, Origin(host))


def http_login(
    settings: BrokerSettings, address: Address | None, logins: Logins
) -> HttpLogin | None:
    """Return the login that the pages need, None for none; a public address must have one."""
    users = settings.http_users
    if users and settings.password_file is None:
        raise SettingsError("broker.http_users: needs broker.password_file, which has them")
    if address is not None and address.is_public and not users and not settings.http_from_anywhere:
        raise SettingsError(
            f"broker.http at {address} can be reached from other machines and needs a login: set "
            "broker.http_users, or broker.http_from_anywhere if that is what you want"
        )
    return HttpLogin(logins, users) if users else None
