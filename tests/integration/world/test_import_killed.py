"""An import that is killed leaves the old state, and the next one a clean world."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import shapely

from schemas import entity
from schemas.errors import WorldError
from tests.scenes.source_files import write_geoparquet
from world.imports.world_import import import_world
from world.snapshot import load_snapshot
from world.versions.store import WorldStore

OLD_ENTITIES = 3
NEW_ENTITIES = 30_000
REPOSITORY = Path(__file__).resolve().parents[3]

# Where a process kills itself: before or after the n-th call of a function of the store.
POINTS = {
    "first table made": ("world.versions.store", "DeltaTable.create", 1, "after"),
    "nothing written": ("world.versions.store", "write_deltalake", 1, "before"),
    "entities written": ("world.versions.store", "write_deltalake", 1, "after"),
    "problems written": ("world.versions.store", "write_deltalake", 2, "after"),
    "not yet published": ("world.versions.store", "write_deltalake", 3, "before"),
}

SUICIDE = """
    import functools, importlib, os, signal, sys
    from world.imports.world_import import import_world

    module, path, number, when, source, world = sys.argv[1:]
    holder, _, name = path.rpartition(".")
    owner = importlib.import_module(module)
    owner = getattr(owner, holder) if holder else owner
    original = getattr(owner, name)
    calls = 0

    @functools.wraps(original)
    def deadly(*arguments, **options):
        global calls
        calls += 1
        if when == "before" and calls == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **options)
        if calls == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, deadly)
    import_world([source], world)
"""

ANNOUNCING = """
    import sys
    from world.imports.world_import import import_world

    import_world(
        [sys.argv[1]], sys.argv[2],
        progress=lambda phase, done, total: print(phase, flush=True),
    )
"""


def points(path: Path, count: int, step: int = 1) -> Path:
    chance = np.random.default_rng(0)
    places = shapely.points(chance.uniform(0, 10_000, (count, 2)))
    rows = [
        {"peid": step * n, "categories": ["a"], "geometry": place} for n, place in enumerate(places)
    ]
    # One row twice, so that there is a problem to write too.
    return write_geoparquet(path, [*rows, rows[0]])


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sources")
    return points(folder / "old.parquet", OLD_ENTITIES), points(
        folder / "new.parquet", NEW_ENTITIES, step=2
    )


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )


def assert_clean(world: Path) -> None:
    """Every data file on disk belongs to a published version."""
    store = WorldStore(str(world))
    for table in (entity.ENTITIES_TABLE, entity.PROBLEMS_TABLE, entity.VERSIONS_TABLE):
        known = {Path(uri).name for uri in store.open_table(table).file_uris()}
        found = {path.name for path in (world / table).rglob("*.parquet")}
        assert found == known
    published = {facts.version for facts in store.versions()}
    written = {int(p[entity.VERSION]) for p in store.open_table("entities").partitions()}
    assert written == published


@pytest.mark.parametrize(
    ("point", "first"),
    [
        *((point, False) for point in POINTS),
        ("first table made", True),
        ("entities written", True),
    ],
)
def test_killed_at(tmp_path: Path, sources: tuple[Path, Path], point: str, *, first: bool) -> None:
    world = tmp_path / "world"
    old, new = sources
    if not first:
        import_world([old], world)
    process = child(SUICIDE, *POINTS[point], new, world)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    if first:
        assert WorldStore(str(world)).versions() == []
        with pytest.raises(WorldError, match="no world"):
            load_snapshot(str(world))
    else:
        assert len(load_snapshot(str(world))) == OLD_ENTITIES
    report = import_world([new], world)
    assert (report.created, report.facts.version) == (True, 1 if first else 2)
    assert len(load_snapshot(str(world))) == NEW_ENTITIES
    assert WorldStore(str(world)).problems(report.facts.version).num_rows == 1
    assert_clean(world)


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.1, 0.2])
def test_killed_from_outside_while_writing(
    tmp_path: Path, sources: tuple[Path, Path], delay: float
) -> None:
    """At any moment: wholly the old state, or wholly the new one."""
    world = tmp_path / "world"
    old, new = sources
    import_world([old], world)
    process = child(ANNOUNCING, new, world)
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "writing":
            break
    time.sleep(delay)
    process.kill()
    process.communicate(timeout=120)
    expected = {1: OLD_ENTITIES, 2: NEW_ENTITIES}
    table = load_snapshot(str(world))
    assert len(table) == expected[table.version]
    assert load_snapshot(str(world), 1).peids.tolist() == list(range(OLD_ENTITIES))
    import_world([new], world)
    assert len(load_snapshot(str(world), 2)) == NEW_ENTITIES
    assert_clean(world)


def test_imports_at_the_same_time_do_no_damage(tmp_path: Path, sources: tuple[Path, Path]) -> None:
    """Four at once: each makes its version, or says that another one runs."""
    world = tmp_path / "world"
    old, new = sources
    outcomes: list[str] = []

    def one(source: Path) -> None:
        try:
            outcomes.append(f"version {import_world([source], world, force=True).facts.version}")
        except WorldError as error:
            outcomes.append("refused" if f"process {os.getpid()}" in str(error) else str(error))

    threads = [threading.Thread(target=one, args=(source,)) for source in (old, new, old, new)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = sorted(outcome for outcome in outcomes if outcome.startswith("version"))
    assert made == [f"version {number}" for number in range(1, len(made) + 1)]
    assert len(made) >= 1
    assert set(outcomes) - set(made) <= {"refused"}
    for facts in WorldStore(str(world)).versions():
        assert len(load_snapshot(str(world), facts.version)) == facts.entity_count
    assert_clean(world)
