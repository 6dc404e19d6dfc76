"""Redis URLs: what each form means, and that no secret gets into messages."""
# ruff: noqa: S105, S106 - passwords of nobody, made up to see where they turn up

from __future__ import annotations

import pytest

from redis_link.connection.url import RedisUrl, Topology, masked, parse_redis_url
from schemas.errors import SettingsError

SECRET = "Sw0rdfish"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host", RedisUrl(Topology.SERVER, (("host", 6379),))),
        ("redis://[::1]:7000/3", RedisUrl(Topology.SERVER, (("::1", 7000),), db=3)),
        (
            "redis://ann:p%40ss%2F@host:1",
            RedisUrl(Topology.SERVER, (("host", 1),), user="ann", password="p@ss/"),
        ),
        ("redis://:p@host", RedisUrl(Topology.SERVER, (("host", 6379),), password="p")),
        (
            "rediss://host?ca=/a.pem&cert=/c.pem&key=/k.pem&timeout=2.5",
            RedisUrl(Topology.SERVER, (("host", 6379),), tls=True, ca="/a.pem", cert="/c.pem",
                     key="/k.pem", timeout=2.5),
        ),
        ("unix:///run/redis.sock?db=2", RedisUrl(Topology.SOCKET, path="/run/redis.sock", db=2)),
        (
            "redis+sentinel://:p@a,b:5/mymaster/1?sentinel_password=q&sentinel_user=u",
            RedisUrl(Topology.SENTINEL, (("a", 26379), ("b", 5)), service="mymaster", db=1,
                     password="p", sentinel_user="u", sentinel_password="q"),
        ),
        (
            "rediss+cluster://a:1,b:2,c",
            RedisUrl(Topology.CLUSTER, (("a", 1), ("b", 2), ("c", 6379)), tls=True),
        ),
    ],
)  # fmt: skip
def test_forms(url: str, expected: RedisUrl) -> None:
    assert parse_redis_url(url, {}) == expected


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://host", "begins with none of"),
        ("host:6379", "begins with none of"),
        ("redis://", "no host"),
        ("redis://host:99999", "no host"),
        ("redis://host:port", "no host"),
        ("redis://a,b", "several hosts"),
        ("redis://host/one", "no database number"),
        ("redis://host/1?db=2", "no database number"),
        ("redis://host?db=-1", "no database number"),
        ("redis://host?verify=no", "unknown option verify"),
        ("redis://host?timeout=0", "timeout"),
        ("redis://host?timeout", "options are written"),
        ("redis+sentinel://host", "name of the service"),
        ("redis+cluster://host/1", "database 0 only"),
        ("unix://", "path of the socket"),
    ],
)
def test_errors_name_the_url_and_what_is_wrong(url: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        parse_redis_url(url, {})


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{SECRET}@host:port",
        f"redis://user:{SECRET}@host:port",
        f"redis://user:{SECRET}/with@odd:signs@host:port",
        f"http://user:{SECRET}@host",
        f"redis+sentinel://host/name?bad=1&sentinel_password={SECRET}",
        f"redis+sentinel://:{SECRET}@host",
    ],
)
def test_secrets_stay_out_of_messages(url: str) -> None:
    assert SECRET in url
    with pytest.raises(SettingsError) as caught:
        parse_redis_url(url, {})
    assert SECRET not in str(caught.value)
    assert SECRET not in masked(url)


def test_secrets_stay_out_of_the_parsed_url() -> None:
    url = parse_redis_url(f"redis+sentinel://:{SECRET}@h/s?sentinel_password={SECRET}", {})
    assert url.password == url.sentinel_password == SECRET
    assert SECRET not in repr(url)
    assert SECRET not in str(url)


def test_masking_keeps_what_is_no_secret() -> None:
    assert masked("redis://ann:x@host:1/2?timeout=3") == "redis://ann:***@host:1/2?timeout=3"
    assert masked("redis://host:1/2") == "redis://host:1/2"


def test_password_from_the_environment_fills_in_only_where_none_is_given() -> None:
    environment = {"SPAPS_REDIS_PASSWORD": "from outside"}
    assert parse_redis_url("redis://host", environment).password == "from outside"
    assert parse_redis_url("redis://:own@host", environment).password == "own"
