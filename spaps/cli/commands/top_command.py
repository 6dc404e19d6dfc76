"""``spaps top`` shows the metrics of a broker as a table, again and again."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from urllib.request import Request, urlopen

import typer

from schemas.errors import SettingsError
from schemas.settings import load_settings
from spaps.cli.options import ConfigOption, PasswordOption, UserOption
from spaps.cli.output import plain_table, printable, results
from spaps.client.errors import NotConnectedError

if TYPE_CHECKING:  # at run time only when the command runs
    from rich.table import Table

# By name, with labels as they are written: spaps_drops_total{cause="bad_peid"}.
Figures: TypeAlias = Mapping[str, float]
# User name and password, for pages that need them.
Login: TypeAlias = tuple[str, str] | None

PAGE_SECONDS: Final = 5.0
LARGEST_PAGE: Final = 1_000_000
LINE: Final = re.compile(r"^([a-zA-Z_:][\w:]*(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


def top(
    *,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Address of the broker's metrics; default: broker.http in conf.",
        ),
    ] = None,
    interval: Annotated[
        float,
        typer.Option("-d", "--interval", min=0.1, metavar="SECONDS", help="Time between readings."),
    ] = 2.0,
    count: Annotated[
        int | None, typer.Option("-n", min=1, metavar="N", help="End after N readings.")
    ] = None,
    user: UserOption = None,
    password: PasswordOption = None,
    config: ConfigOption = None,
) -> None:
    """Show the metrics of a broker, again and again until Ctrl-C."""
    address = load_settings(config, {"broker.http": http}).broker.http
    if address is None:
        raise SettingsError(
            "which broker? start it with --http HOST:PORT and give the same --http here"
        )
    login = None if user is None else (user, password or "")
    watch(metrics_url(address), login, interval, count)


@dataclass(frozen=True, slots=True)
class Reading:
    """The figures at one time."""

    seconds: float
    figures: Figures


def watch(url: str, login: Login, interval: float, count: int | None) -> None:
    """Show ``count`` readings, or all until interrupted.

    It is an error when the broker does not answer at first; later this waits for it.
    """
    from rich.live import Live
    from rich.text import Text

    console = results()
    before: Reading | None = None
    now = Reading(time.monotonic(), read_page(url, login))
    done = 0
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(top_table(now, before), refresh=True)
            done += 1
            if done == count:
                return
            time.sleep(interval)
            while True:
                try:
                    latest = Reading(time.monotonic(), read_page(url, login))
                    break
                except NotConnectedError as error:
                    live.update(Text(printable(str(error)), "yellow"), refresh=True)
                    time.sleep(interval)
            before, now = now, latest


def top_table(now: Reading, before: Reading | None) -> Table:
    """Return each figure, and for counters the rate since the reading before."""
    from rich.markup import escape

    table = plain_table()
    table.add_column("broker")
    table.add_column("now", justify="right")
    table.add_column("a second", justify="right")
    for name, value, rate in _rows(now, before):
        table.add_row(escape(name), value, rate)
    return table


def _rows(now: Reading, before: Reading | None) -> Iterator[tuple[str, str, str]]:
    figures = now.figures
    for name, key in (
        ("connections", "spaps_connections"),
        ("sessions", "spaps_sessions"),
        ("subscriptions", "spaps_subscriptions"),
        ("  with a neighborhood", "spaps_neighborhoods"),
        ("pairs in the broker", "spaps_membership_pairs"),
        ("pairs in Redis", "spaps_generation_pairs"),
        ("retained messages", "spaps_retained_messages"),
        ("queued messages", "spaps_queued_messages"),
        ("in flight", "spaps_in_flight_messages"),
        ("world version", "spaps_world_version"),
        ("generation", "spaps_generation"),
    ):
        yield name, _count(figures.get(key)), ""
    for name, key in (
        ("messages in", "spaps_publishes_received_total"),
        ("  about an entity", "spaps_spatial_publishes_total"),
        ("matches", "spaps_matches_total"),
        ("messages out", "spaps_publishes_sent_total"),
        ("bytes in", "spaps_bytes_received_total"),
        ("bytes out", "spaps_bytes_sent_total"),
    ):
        yield name, _count(figures.get(key)), _rate(now, before, key)
    yield "filter time, mean", _filter_time(now, before), ""
    for cause, number in sorted(labelled(figures, "spaps_drops_total").items()):
        if number:
            key = f'spaps_drops_total{{cause="{cause}"}}'
            yield (
                f"dropped: {printable(cause.replace('_', ' '))}",
                _count(number),
                _rate(now, before, key),
            )


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _growth(now: Reading, before: Reading, key: str) -> float | None:
    """Return the growth; None without the figure, or when the broker has restarted meanwhile."""
    if key not in now.figures or key not in before.figures:
        return None
    growth = now.figures[key] - before.figures[key]
    return growth if growth >= 0 else None


def _rate(now: Reading, before: Reading | None, key: str) -> str:
    growth = None if before is None else _growth(now, before, key)
    if before is None or growth is None or now.seconds <= before.seconds:
        return "-"
    return f"{growth / (now.seconds - before.seconds):,.0f}"


def _filter_time(now: Reading, before: Reading | None) -> str:
    """Return the mean of the last interval; of all time when there is no reading before."""
    if before is None:
        total = now.figures.get("spaps_filter_seconds_sum", 0.0)
        count = now.figures.get("spaps_filter_seconds_count", 0.0)
    else:
        total = _growth(now, before, "spaps_filter_seconds_sum") or 0.0
        count = _growth(now, before, "spaps_filter_seconds_count") or 0.0
    return f"{1e6 * total / count:.1f} µs" if count else "-"


def metrics_url(address: str) -> str:
    """Return the URL of the metrics for HOST:PORT, a port alone, or a URL."""
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
    """Return the figures of a page in Prometheus' text format; skip all other lines."""
    figures: dict[str, float] = {}
    for name, value in LINE.findall(text):
        try:
            figures[name] = float(value)
        except ValueError:
            continue
    return figures


def labelled(figures: Figures, name: str) -> dict[str, float]:
    """Return the values of a figure by its one label."""
    pattern = re.compile(re.escape(name) + r'\{\w+="([^"]*)"\}')
    found = ((pattern.fullmatch(key), value) for key, value in figures.items())
    return {match[1]: value for match, value in found if match is not None}
