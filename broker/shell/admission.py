"""Admission of clients: access files, logins, certificates, web origins, HTTP readers."""

from __future__ import annotations

import base64
import binascii
import logging

from broker.access.access_control import AccessFiles
from broker.access.addresses import Address, Origin
from broker.access.amqtt_plugins import PluginAccess
from broker.access.logins import Logins
from broker.shell.limits import ShellLimits
from broker.shell.network.certificates import Certificates
from broker.shell.network.listeners import WebOrigins, check_openness
from schemas.errors import SettingsError
from schemas.settings import BrokerSettings

log = logging.getLogger(__name__)


class Admission:
    """All checks on who may connect, built from the settings.

    Raises SettingsError when a file cannot be used, or when the broker would be open by accident.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        limits: ShellLimits,
        plugins: PluginAccess,
        http: Address | None,
    ) -> None:
        self.files = AccessFiles(settings)
        self.logins = Logins(
            self.files.passwords,
            plugins,
            allow_anonymous=settings.allow_anonymous,
            limits=limits.logins,
        )
        check_openness(settings, lets_anybody_in=self.logins.allow_anonymous)
        self.page_login = http_login(settings, http, self.logins)
        self.certificates = Certificates(settings.listeners, limits.certificate_warning_days)
        self.origins = WebOrigins(settings.websocket_origins)
        if self.logins.lets_nobody_in:
            log.warning(
                "nobody can connect: give --allow-anonymous, or set broker.password_file "
                "(spaps passwd) or a plugin"
            )

    @property
    def problems(self) -> list[str]:
        """Problems that keep clients out now."""
        denying = [f"{file} denies everybody" for file in self.files.broken]
        return denying + self.certificates.problems

    @property
    def warnings(self) -> list[str]:
        """Problems that will keep clients out soon."""
        return self.certificates.warnings

    def reload(self) -> None:
        """Read certificates and access files again."""
        self.certificates.reload()
        self.files.reload()


class HttpLogin:
    """HTTP basic authentication with the users of the password file."""

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
    """Return the login of the pages, or None; a public address must have one."""
    users = settings.http_users
    if users and settings.password_file is None:
        raise SettingsError("broker.http_users: needs broker.password_file, which has them")
    if address is not None and address.is_public and not users and not settings.http_from_anywhere:
        raise SettingsError(
            f"broker.http at {address} can be reached from other machines and needs a login: set "
            "broker.http_users, or broker.http_from_anywhere if that is what you want"
        )
    return HttpLogin(logins, users) if users else None
