"""The third part: the same subscriptions by the Spark job, and the sets that it puts into Redis."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from rich.box import HORIZONTALS
from rich.console import Console
from rich.table import Table

from redis_link.client import connect
from redis_link.embedded import redis_or_embedded
from redis_link.generation_store import current_generation
from redis_link.set_reader import read_generation
from schemas.errors import SpapsError
from schemas.generation import GenerationFacts
from schemas.redis_keys import membership_key
from schemas.settings import Settings
from spatial_udfs.entity_table import EntityTable, Int64s
from world.snapshot import load_snapshot
from world.version_facts import VersionFacts

SHOWN_SETS: Final = 6
OUT: Final = Path("lake")


def resolve_in_bulk(settings: Settings, facts: VersionFacts, console: Console) -> None:
    """Run the job as people do, then read back what it left in Redis."""
    console.print()
    console.rule("[bold]3. The same in bulk: Spark, Delta, Redis", align="left")
    if shutil.which("java") is None:
        console.print("left out: the Spark jobs need Java 17 to 23, and none is on the PATH")
        return
    with redis_or_embedded(settings.redis.url, settings.redis.data_dir) as url:
        client = connect(url)
        _run_job_when_needed(settings, facts, url, console)
        generation = current_generation(client)
        if generation is None:
            raise SpapsError("the job has ended, and Redis has no generation")
        sets = list(read_generation(client, generation.generation))
    _show(sets, generation, load_snapshot(settings.world.dir, facts.version), console)


def _run_job_when_needed(
    settings: Settings, facts: VersionFacts, url: str, console: Console
) -> None:
    command = ["spark-submit", "jobs/resolve_neighborhoods.py", "--redis", url]
    typed = "spark-submit jobs/resolve_neighborhoods.py --redis …"
    stamp = OUT / "demo-bulk.sha256"
    wanted = _fingerprint(settings, facts)
    generation = current_generation(connect(url))
    if generation is not None and stamp.is_file() and stamp.read_text() == wanted:
        console.print(f"{typed}: done before, nothing changed")
        return
    console.print(f"{typed}: Java starts, some seconds …")
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
    console.print(f"{time.perf_counter() - started:.1f} s from start to end, Java and all")
    stamp.write_text(wanted)


def _fingerprint(settings: Settings, facts: VersionFacts) -> str:
    """What the job's result depends on."""
    digest = hashlib.sha256(Path(settings.demo.subscriptions).read_bytes())
    digest.update(f"{facts.version} {facts.checksum}".encode())
    return digest.hexdigest()


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def _show(
    sets: list[tuple[int, Int64s]],
    generation: GenerationFacts,
    table: EntityTable,
    console: Console,
) -> None:
    console.print(
        f"generation {generation.generation} of world version {generation.version}: "
        f"{generation.pairs:,} pairs in {generation.peids:,} sets; those with the most members:"
    )
    rows = Table(box=HORIZONTALS, pad_edge=False, border_style="dim")
    for title in ("set in Redis", "the entity", "subIds in it"):
        rows.add_column(title, overflow="fold")
    sets.sort(key=lambda pair: (-len(pair[1]), pair[0]))
    for peid, sub_ids in sets[:SHOWN_SETS]:
        members = " ".join(str(sub_id) for sub_id in sorted(sub_ids.tolist()))
        rows.add_row(membership_key(generation.generation, peid), _entity(table, peid), members)
    console.print(rows)


def _entity(table: EntityTable, peid: int) -> str:
    position = int(table.peids.searchsorted(peid))
    name = table.names[position]
    return f"{name or peid} ({', '.join(table.categories_at(position))})"
