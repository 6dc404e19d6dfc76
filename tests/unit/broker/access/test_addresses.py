"""Addresses to listen on, and which of them count as public."""

from __future__ import annotations

import pytest

from broker.access.addresses import Address, parse_address
from schemas.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:1884", "127.0.0.1", 1884),
        ("1884", "127.0.0.1", 1884),
        (":1884", "127.0.0.1", 1884),
        ("broker.example", "broker.example", 1883),
        ("0.0.0.0:0", "0.0.0.0", 0),  # noqa: S104 - only read here
        ("[::1]:1884", "::1", 1884),
        ("[::1]", "::1", 1883),
        (" localhost:65535 ", "localhost", 65535),
    ],
)
def test_reading(text: str, host: str, port: int) -> None:
    assert parse_address(text, "broker.listen", 1883) == Address(host, port)


@pytest.mark.parametrize(
    "text", ["", "host:port", "host:65536", "host:-1", "::1", "[::1", "[::1]1883", "a b:1", "x:²"]
)
def test_what_is_no_address_names_its_setting(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^broker\.listen must be HOST:PORT"):
        parse_address(text, "broker.listen", 1883)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_alone(host: str) -> None:
    assert not Address(host, 1883).is_public


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "8.8.8.8", "broker.example", ""])  # noqa: S104 - only read here
def test_whatever_else_is_public(host: str) -> None:
    assert Address(host, 1883).is_public


def test_an_address_is_written_as_it_is_read() -> None:
    for text in ("127.0.0.1:1883", "[::1]:8883"):
        assert str(parse_address(text, "listen", 1)) == text
