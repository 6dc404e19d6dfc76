"""Prometheus' text format, as far as a broker's metrics page uses it."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from http.client import HTTPException
from typing import Final, TypeAlias
from urllib.request import Request, urlopen

from schemas.errors import SettingsError
from spaps.client.errors import NotConnectedError

# By name, with labels as they are written: spaps_drops_total{cause="bad_peid"}.
Figures: TypeAlias = Mapping[str, float]
# User name and password, for pages that need them.
Login: TypeAlias = tuple[str, str] | None

PAGE_SECONDS: Final = 5.0
LARGEST_PAGE: Final = 1_000_000
LINE: Final = re.compile(r"^([a-zA-Z_:][\w:]*(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


def metrics_url(address: str) -> str:
    """Where the metrics are, of HOST:PORT, a port alone, or a URL."""
    if address.startswith(("http://", "https://")):
        return address if address.rstrip("/").endswith("/metrics") else f"{address}/metrics"
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        raise SettingsError(f"--http is HOST:PORT or a URL, not {address!r}")
    return f"http://{host or '127.0.0.1'}:{port}/metrics"


def read_page(url: str, login: Login = None) -> Figures:
    """Return all figures of the page."""
    request = Request(url)  # noqa: S310  http or https, see above
    if login is not None:
        encoded = base64.b64encode(":".join(login).encode()).decode()
        request.add_header("Authorization", f"Basic {encoded}")
    try:
        with urlopen(request, timeout=PAGE_SECONDS) as page:  # noqa: S310  the same
            text = page.read(LARGEST_PAGE).decode("utf-8", "replace")
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        reason = getattr(reason, "strerror", None) or reason
        raise NotConnectedError(f"no metrics at {url}: {reason}") from error
    return read_figures(text)


def read_figures(text: str) -> Figures:
    """The figures of a page; lines that say something else are passed over."""
    figures: dict[str, float] = {}
    for name, value in LINE.findall(text):
        try:
            figures[name] = float(value)
        except ValueError:
            continue
    return figures


def labelled(figures: Figures, name: str) -> dict[str, float]:
    """The values of a figure by its one label."""
    pattern = re.compile(re.escape(name) + r'\{\w+="([^"]*)"\}')
    found = ((pattern.fullmatch(key), value) for key, value in figures.items())
    return {match[1]: value for match, value in found if match is not None}
