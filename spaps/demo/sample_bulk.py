"""Part 3: the same subscriptions by the Spark job, and the sets that it writes to Redis."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console

from redis_link.connection.client import connect
from redis_link.connection.redis_choice import redis_or_embedded
from redis_link.generation.generation_store import current_generation
from schemas.errors import SpapsError
from schemas.settings import Settings
from spaps.cli.show_generation import generation_lines, names_of_world
from world.versions.version_tables import VersionFacts

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
