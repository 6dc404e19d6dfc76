"""Who is admitted: access files, logins, certificates, web pages, readers of the HTTP pages."""

from __future__ import annotations

import logging

from broker.access.access_control import AccessFiles
from broker.access.addresses import Address
from broker.access.amqtt_plugins import PluginAccess
from broker.access.logins import Logins
from broker.shell.http.http_access import http_login
from broker.shell.limits import ShellLimits
from broker.shell.network.certificates import Certificates
from broker.shell.network.listeners import check_openness
from broker.shell.network.web_origins import WebOrigins
from schemas.settings import BrokerSettings

log = logging.getLogger(__name__)


class Admission:
    """Everything that decides about admission, built from the settings.

    SettingsError when a file cannot be used, or when the broker would be open by accident.
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
        """What keeps clients out at present."""
        denying = [f"{file} denies everybody" for file in self.files.broken]
        return denying + self.certificates.problems

    @property
    def warnings(self) -> list[str]:
        """What will keep clients out soon."""
        return self.certificates.warnings

    def reload(self) -> None:
        """Read certificates and access files again."""
        self.certificates.reload()
        self.files.reload()
