"""Which web pages may open a WebSocket."""

from __future__ import annotations

import pytest

from broker.shell.network.web_origins import WebOrigins
from schemas.errors import SettingsError


@pytest.mark.parametrize(
    ("origin", "host", "local", "public"),
    [
        ("http://localhost:3000", "localhost:8083", True, True),
        ("http://127.0.0.1", "127.0.0.1:8083", True, True),
        ("http://[::1]:3000", "[::1]:8083", True, True),
        ("https://map.example", "map.example:8084", False, True),
        ("https://MAP.example", "map.EXAMPLE", False, True),
        # Another page, whatever name the broker is called by.
        ("https://evil.example", "localhost:8083", False, False),
        ("https://evil.example", "map.example", False, False),
        ("https://localhost.evil.example", "localhost", False, False),
        # Its own name was made to point at this machine.
        ("https://evil.example", "evil.example:8083", False, True),
        ("null", "localhost", False, False),
        ("", "localhost", False, False),
        ("https://[", "[", False, False),
    ],
)
def test_by_default_only_pages_of_the_same_host(
    origin: str, host: str, local: bool, public: bool
) -> None:
    origins = WebOrigins(())
    assert origins.allows(origin, host, is_public=False) is local
    assert origins.allows(origin, host, is_public=True) is public


def test_others_by_setting() -> None:
    origins = WebOrigins(("https://map.example/",))
    assert origins.allows("https://map.example", "localhost", is_public=False)
    assert not origins.allows("http://map.example", "localhost", is_public=False)
    assert not origins.allows("https://map.example:444", "localhost", is_public=False)
    assert WebOrigins(("*",)).allows("null", "localhost", is_public=False)


@pytest.mark.parametrize(
    "text",
    ["", "map.example", "localhost:3000", "https://", "https://map.example/page", "https://[",
     "https://a@map.example", "https://*.example/x", "http://map.example:x", "https://a?b"],
)  # fmt: skip
def test_a_setting_that_is_no_origin_is_an_error(text: str) -> None:
    with pytest.raises(SettingsError, match=r"broker\.websocket_origins: .* is no origin"):
        WebOrigins(("https://fine.example", text))
