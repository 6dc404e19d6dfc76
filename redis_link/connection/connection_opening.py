"""Opening wires by URL: TCP, socket file or TLS, then who we are and which database."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from redis_link.connection.failures import link_error
from redis_link.connection.redis_connection import RedisConnection, first_answer, pack
from redis_link.connection.url import RedisUrl, Topology
from schemas.errors import RedisLinkError, SettingsError

CONNECT_TIMEOUT: Final = 5.0

Place = tuple[str, int]


async def open_wire(
    address: RedisUrl, place: Place | None, answer_seconds: float
) -> RedisConnection:
    """A wire that has spoken with the server at a place of the URL, or on its socket file."""
    words: list[tuple[str, ...]] = []
    if address.password is not None:
        user = () if address.user is None else (address.user,)
        words.append(("AUTH", *user, address.password))
    if address.db:
        words.append(("SELECT", str(address.db)))
    return await _open(address, place, words, answer_seconds)


async def sentinel_master(address: RedisUrl, answer_seconds: float) -> Place:
    """Where the master is, by the first Sentinel that knows it."""
    words: list[tuple[str, ...]] = []
    if address.sentinel_password is not None:
        user = () if address.sentinel_user is None else (address.sentinel_user,)
        words.append(("AUTH", *user, address.sentinel_password))
    failures = []
    for place in address.hosts:
        try:
            wire = await _open(address, place, words, answer_seconds)
            try:
                found = await wire.ask("SENTINEL", "get-master-addr-by-name", address.service)
            finally:
                wire.close()
        except RedisLinkError as error:
            failures.append(str(error))
            continue
        if found is not None:
            return found[0].decode(), int(found[1])
        failures.append(f"{place[0]}:{place[1]} does not know {address.service!r}")
    raise RedisLinkError(f"Redis {address}: {'; '.join(failures)}")


async def _open(
    address: RedisUrl, place: Place | None, words: list[tuple[str, ...]], answer_seconds: float
) -> RedisConnection:
    where = address if place is None else f"{place[0]}:{place[1]}"
    loop = asyncio.get_running_loop()

    def make() -> RedisConnection:
        return RedisConnection(where, answer_seconds)

    wire: RedisConnection | None = None
    try:
        async with asyncio.timeout(min(CONNECT_TIMEOUT, answer_seconds)):
            if address.topology is Topology.SOCKET:
                _, wire = await loop.create_unix_connection(make, address.path)
            else:
                host, port = place or address.hosts[0]
                secure = _tls(address) if address.tls else None
                _, wire = await loop.create_connection(make, host, port, ssl=secure)
            words = [*words, ("PING",)]
            packed = b"".join(pack(*command) for command in words)
            first_answer(await wire.send(packed, len(words)))
    except (OSError, TimeoutError, RedisLinkError) as error:
        if wire is not None:
            wire.close()
        if isinstance(error, RedisLinkError):
            raise
        raise link_error(f"Redis at {where}", error) from error
    return wire


def _tls(address: RedisUrl) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=address.ca)
        if address.cert is not None:
            context.load_cert_chain(address.cert, address.key)
    except OSError as error:
        raise SettingsError(f"Redis URL: the certificate files cannot be used: {error}") from error
    return context
