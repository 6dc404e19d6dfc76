"""Makes clients by URL, all with one interface: a server, Sentinel's master, or a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeAlias

from redis import Redis, RedisCluster
from redis.backoff import ExponentialWithJitterBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry
from redis.sentinel import Sentinel

from redis_link.connection.failures import redis_errors_from
from redis_link.connection.url import RedisUrl, Topology, parse_redis_url
from schemas.errors import SettingsError

RedisClient: TypeAlias = Redis | RedisCluster

CONNECT_TIMEOUT: Final = 5.0
RETRIES: Final = 3


def connect(url: str | RedisUrl) -> RedisClient:
    """Return a client whose server has answered; answers are bytes.

    A command is repeated a few times when the connection breaks, so every command must do no harm
    when it runs twice.
    """
    address = parse_redis_url(url) if isinstance(url, str) else url
    for file in filter(None, (address.ca, address.cert, address.key)):
        if not Path(file).is_file():
            raise SettingsError(f"Redis URL: no certificate file {file}")
    with redis_errors_from(f"at {address}"):
        client = _client(address)
        client.ping()
    return client


def _client(address: RedisUrl) -> RedisClient:
    common: dict[str, Any] = {
        "username": address.user,
        "password": address.password,
        "socket_timeout": address.timeout,
        "socket_connect_timeout": min(CONNECT_TIMEOUT, address.timeout),
        "socket_keepalive": True,
        "protocol": 2,
    }
    retry = Retry(ExponentialWithJitterBackoff(base=0.05, cap=1.0), RETRIES)
    host, port = address.hosts[0] if address.hosts else ("", 0)
    match address.topology:
        case Topology.SERVER:
            secure = {"ssl": address.tls, **_tls(address)}
            return Redis(host=host, port=port, db=address.db, retry=retry, **common, **secure)
        case Topology.SOCKET:
            del common["socket_keepalive"]
            return Redis(unix_socket_path=address.path, db=address.db, retry=retry, **common)
        case Topology.SENTINEL:
            return _sentinel_master(address, common | {"db": address.db, "retry": retry})
        case Topology.CLUSTER:
            nodes = [ClusterNode(host, port) for host, port in address.hosts]
            secure = {"ssl": address.tls, **_tls(address)}
            return RedisCluster(startup_nodes=nodes, retry=retry, **common, **secure)


def _sentinel_master(address: RedisUrl, common: dict[str, Any]) -> Redis:
    timeouts = {name: value for name, value in common.items() if name.startswith("socket_")}
    secure = {"ssl": True, **_tls(address)} if address.tls else {}
    identity = {"username": address.sentinel_user, "password": address.sentinel_password}
    sentinel = Sentinel(address.hosts, sentinel_kwargs=timeouts | identity | secure)
    master: Redis = sentinel.master_for(address.service, **common, **secure)
    return master


def _tls(address: RedisUrl) -> dict[str, Any]:
    if not address.tls:
        return {}
    return {
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": True,
        "ssl_ca_certs": address.ca,
        "ssl_certfile": address.cert,
        "ssl_keyfile": address.key,
    }
