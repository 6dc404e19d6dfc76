"""Reads a broker's figures again and again, and shows each reading in the place of the last."""

from __future__ import annotations

import time

from rich.live import Live
from rich.text import Text

from spaps.cli.monitor.metrics_text import Login, read_page
from spaps.cli.monitor.top_table import Reading, top_table
from spaps.cli.terminal import printable, results
from spaps.client.errors import NotConnectedError


def watch(url: str, login: Login, interval: float, count: int | None) -> None:
    """Show ``count`` readings, or all until interrupted.

    A broker that is not there at the start is an error; one that goes away later is waited for.
    """
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
