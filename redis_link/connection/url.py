"""Parses Redis URLs: one text says where Redis is, how it is run and how to reach it.

| form | reaches |
|---|---|
| ``redis://[[user]:password@]host[:port][/db]`` | one server |
| ``unix:///path/to/socket[?db=N]`` | one server on this machine (the embedded one) |
| ``redis+sentinel://[…@]host[:port],host[:port]/service[/db]`` | the master that Sentinel names |
| ``redis+cluster://[…@]host[:port],host[:port]`` | a cluster, found from any of its nodes |

``rediss`` instead of ``redis`` means TLS, always with the certificate checked. Options after
``?``: ``ca``, ``cert``, ``key`` (PEM files), ``timeout`` (seconds), and for Sentinel its own
``sentinel_user`` and ``sentinel_password``. User and password are percent-encoded. A URL without
a password takes it from SPAPS_REDIS_PASSWORD.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from schemas.errors import SettingsError

PASSWORD_VARIABLE: Final = "SPAPS_REDIS_PASSWORD"  # noqa: S105 - the name of a variable
DEFAULT_PORT: Final = 6379
DEFAULT_SENTINEL_PORT: Final = 26379
DEFAULT_TIMEOUT: Final = 30.0
MASK: Final = "***"


class Topology(StrEnum):
    """How the Redis behind a URL is run."""

    SERVER = "server"
    SOCKET = "socket"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


# Scheme -> what it reaches, and whether by TLS.
SCHEMES: Final = {
    "redis": (Topology.SERVER, False),
    "rediss": (Topology.SERVER, True),
    "unix": (Topology.SOCKET, False),
    "redis+sentinel": (Topology.SENTINEL, False),
    "rediss+sentinel": (Topology.SENTINEL, True),
    "redis+cluster": (Topology.CLUSTER, False),
    "rediss+cluster": (Topology.CLUSTER, True),
}
OPTIONS: Final = ("ca", "cert", "key", "timeout", "db", "sentinel_user", "sentinel_password")


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """The parts of a URL; its ``repr`` shows no secrets."""

    topology: Topology
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    service: str = ""
    db: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_user: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    timeout: float = DEFAULT_TIMEOUT

    def __str__(self) -> str:
        """Return where Redis is, for people and logs."""
        if self.topology is Topology.SOCKET:
            return f"the socket {self.path}"
        places = ", ".join(f"{host}:{port}" for host, port in self.hosts)
        if self.topology is Topology.SENTINEL:
            return f"{self.service!r} by Sentinel at {places}"
        return f"the cluster at {places}" if self.topology is Topology.CLUSTER else places


def masked(url: str) -> str:
    """Return the URL without its secrets, also when it is no valid URL."""
    hidden = re.sub(r"//([^:@/]*):.*@", rf"//\1:{MASK}@", url)
    return re.sub(r"([?&][^=&]*password=)[^&]*", rf"\1{MASK}", hidden)


def parse_redis_url(url: str, environment: Mapping[str, str] | None = None) -> RedisUrl:
    """Return the parts of a URL; a SettingsError says what is wrong with it."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise _wrong(url, f"begins with none of {', '.join(f'{name}://' for name in SCHEMES)}")
    topology, tls = SCHEMES[parts.scheme]
    options = _options(url, parts.query)
    surroundings = os.environ if environment is None else environment
    user, password, places = _credentials(parts.netloc)
    service, db = _service_and_db(url, topology, parts, options.get("db"))
    return RedisUrl(
        topology=topology,
        hosts=() if topology is Topology.SOCKET else _hosts(url, topology, places),
        path=unquote(parts.path) if topology is Topology.SOCKET else "",
        service=service,
        db=db,
        user=user,
        password=password or surroundings.get(PASSWORD_VARIABLE) or None,
        sentinel_user=options.get("sentinel_user"),
        sentinel_password=options.get("sentinel_password"),
        tls=tls,
        ca=options.get("ca"),
        cert=options.get("cert"),
        key=options.get("key"),
        timeout=_timeout(url, options.get("timeout")),
    )


def _wrong(url: str, why: str) -> SettingsError:
    return SettingsError(f"Redis URL {masked(url)}: {why}")


def _options(url: str, query: str) -> dict[str, str]:
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise _wrong(url, "options are written ?name=value&name=value") from None
    for name in options:
        if name not in OPTIONS:
            raise _wrong(url, f"unknown option {name}; known: {', '.join(OPTIONS)}")
    return options


def _credentials(netloc: str) -> tuple[str | None, str | None, str]:
    """Return user, password and the rest; a name alone is a user, ``:secret`` a password."""
    identity, _, places = netloc.rpartition("@")
    user, _, password = identity.partition(":")
    return unquote(user) or None, unquote(password) or None, places


def _hosts(url: str, topology: Topology, places: str) -> tuple[tuple[str, int], ...]:
    default = DEFAULT_SENTINEL_PORT if topology is Topology.SENTINEL else DEFAULT_PORT
    hosts = []
    for place in places.split(","):
        found = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]+)(?::(\d{1,5}))?", place)
        if found is None or int(found[2] or 0) > 65535:
            raise _wrong(url, f"{place!r} is no host or host:port")
        hosts.append((found[1].strip("[]"), int(found[2] or default)))
    if topology is Topology.SERVER and len(hosts) > 1:
        raise _wrong(url, "several hosts need redis+sentinel:// or redis+cluster://")
    return tuple(hosts)


def _service_and_db(
    url: str, topology: Topology, parts: SplitResult, option: str | None
) -> tuple[str, int]:
    """Return the Sentinel service and the database number, from the path or the option."""
    segments = [unquote(part) for part in parts.path.split("/") if part]
    service = ""
    if topology is Topology.SENTINEL:
        if not segments:
            raise _wrong(url, "the name of the service must follow the hosts, as in …/mymaster")
        service = segments.pop(0)
    if topology is Topology.SOCKET:
        if not segments:
            raise _wrong(url, "the path of the socket is missing")
        segments = []
    texts = segments + ([option] if option is not None else [])
    if not texts:
        return service, 0
    if len(texts) > 1 or not re.fullmatch(r"\d{1,5}", texts[0]):
        raise _wrong(url, f"{'/'.join(texts)!r} is no database number")
    if topology is Topology.CLUSTER and int(texts[0]) != 0:
        raise _wrong(url, "a cluster has database 0 only")
    return service, int(texts[0])


def _timeout(url: str, text: str | None) -> float:
    if text is None:
        return DEFAULT_TIMEOUT
    if not re.fullmatch(r"\d{1,5}(\.\d{1,3})?", text) or float(text) == 0:
        raise _wrong(url, f"timeout must be seconds above 0, not {text!r}")
    return float(text)
