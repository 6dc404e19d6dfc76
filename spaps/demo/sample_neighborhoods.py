"""The second part: the sample subscriptions, resolved by the exact resolver, and their pages."""

from __future__ import annotations

import time

from rich.box import HORIZONTALS
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemas.language.explain import in_words, neighborhood_warnings
from schemas.settings import Settings
from schemas.subscription import Subscription
from spaps.cli.output_file import write_text
from spaps.cli.resolution.reference_names import reference_names
from spaps.cli.resolution.resolve_one import page_of
from spaps.cli.subscription_file import read_subscriptions
from spaps.demo.index_page import Entry, index_page
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver, Resolution
from world.snapshot import load_snapshot
from world.versions.version_facts import VersionFacts


def resolve_sample(settings: Settings, facts: VersionFacts, console: Console) -> None:
    """A table of all sample subscriptions, and a map page for each."""
    subscriptions, unreadable = read_subscriptions(settings.demo.subscriptions)
    table = load_snapshot(settings.world.dir, facts.version)
    resolver = ExactResolver(table)
    console.print()
    console.rule("[bold]2. The neighborhoods, one by one", align="left")
    console.print(
        f"{settings.demo.subscriptions}, by the exact resolver; in brackets: stages that only "
        "help to find the others"
    )
    rows = Table(box=HORIZONTALS, show_lines=True, pad_edge=False, border_style="dim")
    rows.add_column("#", justify="right")
    rows.add_column("subscription")
    rows.add_column("members by stage", justify="right", width=8)
    rows.add_column("ms", justify="right")
    entries = []
    for subscription in subscriptions:
        started = time.perf_counter()
        resolution = resolver.resolve(subscription.neighborhood)
        milliseconds = 1000 * (time.perf_counter() - started)
        rows.add_row(
            str(subscription.sub_id),
            _in_words(table, subscription),
            _members(resolution),
            f"{milliseconds:.1f}",
        )
        page = settings.demo.out / f"{subscription.sub_id:02}.html"
        write_text(page, page_of(table, subscription.neighborhood, resolution, facts))
        name = subscription.neighborhood.name or f"subscription {subscription.sub_id}"
        entries.append(Entry(name, page.name, len(resolution.peids())))
    console.print(rows)
    for entry in unreadable:
        console.print(f"[yellow]unresolved:[/] {entry.where}: {entry.reason}", markup=True)
    index = settings.demo.out / "index.html"
    write_text(index, index_page(entries))
    console.print(f"map pages: [bold]{index.resolve().as_uri()}[/]", soft_wrap=True)


def _in_words(table: EntityTable, subscription: Subscription) -> Text:
    neighborhood = subscription.neighborhood
    words = in_words(neighborhood, reference_names(table, neighborhood))
    text = Text.assemble((neighborhood.name or "", "bold"), "\n", (words, "dim"))
    for warning in neighborhood_warnings(neighborhood):
        text.append(f"\nwarning: {warning}", "yellow")
    return text


def _members(resolution: Resolution) -> Text:
    """One line for each stage, in brackets where it is not visible."""
    text = Text(justify="right")
    stages = zip(resolution.stages, resolution.visible, strict=True)
    for number, (members, visible) in enumerate(stages, start=1):
        text.append("\n" if number > 1 else "")
        text.append(f"{number}: ", "dim")
        text.append(f"{len(members):,}" if visible else f"({len(members):,})")
    return text
