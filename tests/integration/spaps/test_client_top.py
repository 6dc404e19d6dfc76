"""``spaps top`` on a real broker."""

from __future__ import annotations

import re
import subprocess
import sys

from spaps import SpatialClient
from spaps.cli.commands.top_command import Reading, read_figures, top_table
from tests.scenes.surroundings import Surroundings
from tests.servers.running_broker import PATIENCE, RunningBroker

SPAPS = [sys.executable, "-c", "from spaps.cli.command_line import main; main()"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SPAPS, "top", *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def cells(now: Reading, before: Reading | None) -> dict[str, tuple[str, str]]:
    names, values, rates = (list(column.cells) for column in top_table(now, before).columns)
    return {
        str(name).strip(): (str(value), str(rate))
        for name, value, rate in zip(names, values, rates, strict=True)
    }


def test_what_a_broker_holds(open_broker: RunningBroker, surroundings: Surroundings) -> None:
    with SpatialClient("127.0.0.1", open_broker.port) as client:
        client.subscribe("top", surroundings.descriptor)
        done = run("--http", f"127.0.0.1:{open_broker.ports['http']}", "-n", "2", "-d", "0.1")
    assert done.returncode == 0, done.stderr
    assert re.search(r"with a neighborhood\s+[1-9]", done.stdout)
    assert re.search(r"world version\s+2\b", done.stdout)


def test_rates_are_of_the_time_between_two_readings() -> None:
    page = 'spaps_matches_total {}\nspaps_drops_total{{cause="bad_peid"}} {}\n# a remark\n'
    before = Reading(10.0, read_figures(page.format(100, 0)))
    now = Reading(12.0, read_figures(page.format(300, 8)))
    table = cells(now, before)
    assert table["matches"] == ("300", "100")
    assert table["dropped: bad peid"] == ("8", "4")
    assert cells(now, None)["matches"] == ("300", "-")
    # A broker that started anew counts from zero: no rate is better than a negative one.
    assert cells(before, now)["matches"] == ("100", "-")


def test_mistakes_are_one_line() -> None:
    for arguments, complaint in (
        (("--http", "127.0.0.1:1"), "no metrics at http://127.0.0.1:1/metrics"),
        (("--http", "nonsense"), "HOST:PORT"),
        ((), "which broker?"),
    ):
        done = run(*arguments)
        assert done.returncode == 2
        assert complaint in done.stderr
        assert len(done.stderr.splitlines()) == 1
