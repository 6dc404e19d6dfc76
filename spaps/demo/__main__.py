"""``make demo``: imports the sample world, resolves sample subscriptions and delivers messages."""

from __future__ import annotations

import sys

from rich.console import Console

from schemas.settings import load_settings
from spaps.cli.command_line import run_safely
from spaps.demo.live_broker import run_live
from spaps.demo.sample_neighborhoods import import_sample, resolve_in_bulk, resolve_sample


def main() -> None:
    """Run all parts in order."""
    settings = load_settings()
    console = Console(highlight=False)
    facts = import_sample(settings, console)
    resolve_sample(settings, facts, console)
    resolve_in_bulk(settings, facts, console)
    run_live(settings, facts, console)


if __name__ == "__main__":
    sys.exit(run_safely(main))
