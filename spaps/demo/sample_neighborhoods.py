"""Parts 1 to 3: the sample world, and the sample subscriptions resolved one by one and by Spark."""

from __future__ import annotations

import hashlib
import html
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Final

from rich.box import HORIZONTALS
from rich.console import Console
from rich.table import Table
from rich.text import Text

from redis_link.connection.client import connect
from redis_link.connection.redis_choice import redis_or_embedded
from redis_link.generation.generation_store import current_generation
from schemas.errors import SpapsError
from schemas.language.explain import in_words, neighborhood_warnings
from schemas.settings import Settings
from schemas.subscription import Subscription
from spaps.cli.neighborhood_input import read_subscriptions
from spaps.cli.output import PhaseProgress, write_text
from spaps.cli.resolution_output import page_of, reference_names
from spaps.cli.show_generation import generation_lines, names_of_world
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver, Resolution
from world.imports.world_import import import_world
from world.snapshot import load_snapshot
from world.versions.version_tables import VersionFacts


def import_sample(settings: Settings, console: Console) -> VersionFacts:
    """Import the sample sources; a second run finds that nothing has changed."""
    started = time.perf_counter()
    with PhaseProgress() as progress:
        report = import_world(settings.demo.sources, settings.world.dir, progress=progress)
    seconds = time.perf_counter() - started
    facts = report.facts
    console.rule("[bold]1. The world", align="left")
    sources = ", ".join(str(source) for source in settings.demo.sources)
    done = (
        f"imported in {seconds:.1f} s"
        if report.created
        else "nothing has changed since the last import"
    )
    console.print(
        f"{sources} → {settings.world.dir}, version {facts.version}: {facts.entity_count:,} "
        f"entities ({done})"
    )
    tops = list(report.top_categories.items())[:6]
    console.print(f"[dim]{', '.join(f'{count:,} {top}' for top, count in tops)}, …")
    return facts


def resolve_sample(settings: Settings, facts: VersionFacts, console: Console) -> None:
    """Print a table of all sample subscriptions and write a map page for each."""
    subscriptions, unreadable = read_subscriptions(settings.demo.subscriptions)
    table = load_snapshot(settings.world.dir, facts.version)
    resolver = ExactResolver(table)
    console.print()
    console.rule("[bold]2. The neighborhoods, one by one", align="left")
    console.print(
        f"{settings.demo.subscriptions}, by the exact resolver; in brackets: stages that are "
        "not part of the result"
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
        entries.append((name, page.name, len(resolution.peids())))
    console.print(rows)
    for entry in unreadable:
        console.print(f"[yellow]unresolved:[/] {entry.where}: {entry.reason}", markup=True)
    index = settings.demo.out / "index.html"
    write_text(index, _index_page(entries))
    console.print(f"map pages: [bold]{index.resolve().as_uri()}[/]", soft_wrap=True)


def _in_words(table: EntityTable, subscription: Subscription) -> Text:
    neighborhood = subscription.neighborhood
    words = in_words(neighborhood, reference_names(table, neighborhood))
    text = Text.assemble((neighborhood.name or "", "bold"), "\n", (words, "dim"))
    for warning in neighborhood_warnings(neighborhood):
        text.append(f"\nwarning: {warning}", "yellow")
    return text


def _members(resolution: Resolution) -> Text:
    """Return one line for each stage, in brackets where it is not visible."""
    text = Text(justify="right")
    stages = zip(resolution.stages, resolution.visible, strict=True)
    for number, (members, visible) in enumerate(stages, start=1):
        text.append("\n" if number > 1 else "")
        text.append(f"{number}: ", "dim")
        text.append(f"{len(members):,}" if visible else f"({len(members):,})")
    return text


def _index_page(entries: Sequence[tuple[str, str, int]]) -> str:
    """Return a page with a link for each map page: its name, its file, its number of members."""
    links = "\n".join(
        f'<a href="{html.escape(file)}"><span>{html.escape(name)}</span><b>{members:,}</b></a>'
        for name, file, members in entries
    )
    page = resources.files("spaps.demo").joinpath("index_page.html").read_text("utf-8")
    return Template(page).substitute(links=links)


SHOWN_SETS: Final = 6
OUT: Final = Path("lake")


def resolve_in_bulk(settings: Settings, facts: VersionFacts, console: Console) -> None:
    """Run the Spark job with spark-submit, then print what is in Redis."""
    console.print()
    console.rule("[bold]3. The same in bulk: Spark, Delta, Redis", align="left")
    if shutil.which("java") is None:
        console.print("skipped: the Spark jobs need Java 17 to 23, and none is on the PATH")
        return
    with redis_or_embedded(settings) as url:
        client = connect(url)
        _run_job_when_needed(settings, facts, url, console)
        generation = current_generation(client)
        if generation is None:
            raise SpapsError("the job has ended, but Redis has no generation")
        names = names_of_world(settings.world.dir, generation.version)
        for line in generation_lines(client, names, shown=SHOWN_SETS):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def _run_job_when_needed(
    settings: Settings, facts: VersionFacts, url: str, console: Console
) -> None:
    command = ["spark-submit", "jobs/resolve_neighborhoods.py", "--redis", url]
    typed = "spark-submit jobs/resolve_neighborhoods.py --redis …"
    stamp = OUT / "demo-bulk.sha256"
    wanted = _fingerprint(settings, facts)
    generation = current_generation(connect(url))
    if generation is not None and stamp.is_file() and stamp.read_text() == wanted:
        console.print(f"{typed}: skipped, because nothing has changed since the last run")
        return
    console.print(f"{typed}: starting Java takes some seconds …")
    # spark-submit looks for its Spark with the first python3 on the PATH.
    programs = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    command[0] = f"{programs}/spark-submit"
    started = time.perf_counter()
    done = subprocess.run(  # noqa: S603 - our own job
        command, check=False, capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise SpapsError(f"{typed} ended with {done.returncode}: {_last_line(done.stderr)}")
    for line in done.stdout.splitlines():
        console.print(f"[dim]{line}", markup=True, soft_wrap=True)
    console.print(f"{time.perf_counter() - started:.1f} s, with the start of Java")
    stamp.write_text(wanted)


def _fingerprint(settings: Settings, facts: VersionFacts) -> str:
    """Return a hash of everything that the result of the job depends on."""
    digest = hashlib.sha256(Path(settings.demo.subscriptions).read_bytes())
    digest.update(f"{facts.version} {facts.checksum}".encode())
    return digest.hexdigest()


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
