"""Who may connect, and what clients may do: access files, logins, certificates, web origins."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.access.access_files import WatchedFile
from broker.access.addresses import Address, Origin
from broker.access.amqtt_plugins import PluginAccess
from broker.access.logins import Logins
from broker.access.passwords import PasswordChecker, read_users
from broker.access.topic_rules import AccessRules, read_rules
from broker.codec.reason_codes import ReasonCode
from broker.core.verdicts import AccessControl, Action, AllowAll, Identity, Verdict
from broker.shell.http_server import Login
from broker.shell.limits import ShellLimits
from broker.shell.network.certificates import Certificates
from broker.shell.network.listeners import check_openness
from broker.shell.network.web_origins import WebOrigins
from schemas.errors import Mistakes, SettingsError
from schemas.settings import BrokerSettings

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
# Plugins do not report changes, so their verdicts are asked for again.
PLUGIN_VERDICT_SECONDS: Final = 60.0


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
        check_openness(settings, allows_anonymous=self.logins.allow_anonymous)
        self.page_login = http_login(settings, http, self.logins)
        self.certificates = Certificates(settings.listeners, limits.certificate_warning_days)
        self.origins = WebOrigins(settings.websocket_origins)
        self._warn_of_unknown_users(settings)
        # MQTT 5 has a code for a server that does not wish to reveal its reason.
        self.denial = (
            ReasonCode.NOT_AUTHORIZED if settings.tell_denials else ReasonCode.UNSPECIFIED_ERROR
        )
        self.access_control = access_control(self.files.rules, plugins, self.denial)
        if self.logins.refuses_all:
            log.warning(
                "nobody can connect: give --allow-anonymous, or set broker.password_file "
                "(spaps passwd) or a plugin"
            )

    def _warn_of_unknown_users(self, settings: BrokerSettings) -> None:
        known = () if self.files.passwords is None else self.files.passwords.content.names
        for user in settings.http_users:
            if user not in known:
                log.warning("broker.http_users: %r is not in %s", user, settings.password_file)

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


async def is_page_reader(
    logins: Logins, users: tuple[str, ...], host: str, authorization: str | None
) -> bool:
    """Return whether an Authorization header (basic) has the password of one of the users."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        user = name.decode()
    except (binascii.Error, ValueError):
        return False
    if not colon or user not in users:
        return False
    return await logins.knows(user, password, Origin(host))


def http_login(settings: BrokerSettings, address: Address | None, logins: Logins) -> Login | None:
    """Return the login of the pages, or None; a public address must have one."""
    check_pages(settings, address)
    users = settings.http_users
    return partial(is_page_reader, logins, users) if users else None


def check_pages(settings: BrokerSettings, address: Address | None) -> None:
    """Raise SettingsError when the pages would be open by accident, or have no passwords."""
    users = settings.http_users
    if users and settings.password_file is None:
        raise SettingsError("broker.http_users: needs broker.password_file, which has them")
    if address is not None and address.is_public and not users and not settings.http_from_anywhere:
        raise SettingsError(
            f"broker.http at {address} can be reached from other machines and needs a login: set "
            "broker.http_users, or broker.http_from_anywhere if that is what you want"
        )


def check_access_files(settings: BrokerSettings) -> None:
    """Raise SettingsError with every mistake in the password file and the access rules."""
    mistakes = Mistakes()
    if settings.password_file is not None:
        with mistakes.noted("broker.password_file: "):
            read_users(settings.password_file)
    if settings.acl_file is not None:
        with mistakes.noted("broker.acl_file: "):
            read_rules(settings.acl_file)
    mistakes.check()


class AccessFiles:
    """Password file and access rules; None where the settings name no file.

    A file that cannot be read or understood at the start is an error. When it breaks or
    vanishes later, it denies everything until it is repaired.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.passwords: WatchedFile[PasswordChecker] | None = None
        self.rules: WatchedFile[AccessRules] | None = None
        if settings.password_file is not None:
            self.passwords = WatchedFile(
                settings.password_file,
                lambda path: PasswordChecker(read_users(path)),
                PasswordChecker({}),
            )
        if settings.acl_file is not None:
            self.rules = WatchedFile(settings.acl_file, read_rules, AccessRules())
        if self.broken:
            check_access_files(settings)
        if self.passwords is not None and not self.passwords.content.has_users:
            log.warning("nobody can log in: %s has no users", self.passwords.path)

    @property
    def broken(self) -> list[str]:
        """The files that deny everything because they cannot be understood."""
        return [
            str(file.path)
            for file in (self.passwords, self.rules)
            if file is not None and file.is_broken
        ]

    def reload(self) -> None:
        """Read both files now."""
        for file in (self.passwords, self.rules):
            if file is not None:
                file.reload()
        log.info("access files read again")

    async def watch(self, rules_changed: Callable[[], None]) -> None:
        """Read the files whenever they change, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.passwords is not None and self.passwords.reload_if_changed():
                log.info("password file read again", extra={"file": str(self.passwords.path)})
            if self.rules is not None and self.rules.reload_if_changed():
                log.info("access rules read again", extra={"file": str(self.rules.path)})
                rules_changed()


async def forget_plugin_verdicts(forget: Callable[[], None]) -> None:
    """Forget the verdicts of plugins from time to time, until cancelled."""
    while True:
        await asyncio.sleep(PLUGIN_VERDICT_SECONDS)
        forget()


class RulesAndPlugins:
    """Refused when the file refuses; otherwise the plugins have the last word, if there are any."""

    def __init__(
        self, rules: WatchedFile[AccessRules] | None, denial: Verdict, *, ask_plugins: bool
    ) -> None:
        """``denial`` is what a client gets to see when the file refuses."""
        self._rules = rules
        self._denial = denial
        self._ask_plugins = ask_plugins

    def verdict(self, client: Identity, topic: str, action: Action) -> Verdict | None:
        """Return the file's verdict at once; None when the plugins must be asked."""
        if self._rules is not None:
            verdict = self._rules.content.verdict(client, topic, action)
            if verdict is not ReasonCode.SUCCESS:
                return self._denial
        # Plugins judge topics; they know no names of neighborhoods.
        is_asked = self._ask_plugins and action is not Action.USE_NEIGHBORHOOD
        return None if is_asked else ReasonCode.SUCCESS


def access_control(
    rules: WatchedFile[AccessRules] | None, plugins: PluginAccess, denial: Verdict
) -> AccessControl:
    """Return what decides about topics, given the access file (if any) and the plugins."""
    if rules is None and not plugins.judges_topics:
        return AllowAll()
    return RulesAndPlugins(rules, denial, ask_plugins=plugins.judges_topics)
