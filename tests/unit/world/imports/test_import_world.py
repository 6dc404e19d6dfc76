"""Versions: when a new one comes, what it says about itself, and what stops an import."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import shapely

from rebuild.request import sources_of
from schemas.errors import SettingsError, SourceError, WorldError
from schemas.settings import load_settings
from tests.scenes.source_files import feature, write_geojson, write_geoparquet
from world.imports.world_import import import_world
from world.snapshot import load_snapshot
from world.sources.candidates import problems_of
from world.versions.store import WorldStore
from world.versions.version_tables import SourceFacts

POINT = shapely.Point(13.4, 52.5)
VILLAGE = Path(__file__).resolve().parents[3] / "extracts" / "village.osm"
RULES = Path(__file__).resolve().parents[4] / "conf" / "categories.toml"


def shop(peid: int, name: str | None = None, place: Any = POINT) -> dict[str, Any]:
    return feature(place, peid=peid, categories=["shop"], name=name)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_geojson(tmp_path / "shops.geojson", [shop(1), shop(2, "Two")])


def test_the_same_source_makes_no_new_version(tmp_path: Path, source: Path) -> None:
    world = tmp_path / "world"
    first = import_world([source], world)
    moved = shutil.copy(source, tmp_path / "copy.geojson")
    again = import_world([moved], world)
    assert (first.created, again.created) == (True, False)
    assert again.facts == first.facts
    assert again.top_categories == first.top_categories == {"shop": 2}
    assert len(WorldStore(str(world)).versions()) == 1


def test_force_makes_a_new_version_of_the_same_content(tmp_path: Path, source: Path) -> None:
    first = import_world([source], tmp_path / "world").facts
    forced = import_world([source], tmp_path / "world", force=True).facts
    assert (first.version, forced.version) == (1, 2)
    assert first.checksum == forced.checksum


@pytest.mark.parametrize(
    "options", [{"srid": 25833}, {"category": "else"}, {"id_field": "peid"}], ids=str
)
def test_another_option_makes_a_new_version(
    tmp_path: Path, source: Path, options: dict[str, Any]
) -> None:
    import_world([source], tmp_path / "world")
    assert import_world([source], tmp_path / "world", **options).created
    assert not import_world([source], tmp_path / "world", **options).created


def test_going_back_to_an_older_source_is_a_new_version(tmp_path: Path, source: Path) -> None:
    other = write_geojson(tmp_path / "other.geojson", [shop(3)])
    reports = [import_world([path], tmp_path / "world") for path in (source, other, source)]
    assert [report.facts.version for report in reports] == [1, 2, 3]
    assert reports[0].facts.checksum == reports[2].facts.checksum != reports[1].facts.checksum


def test_other_rules_make_another_version(tmp_path: Path, source: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES.read_text() + "\n# changed\n")
    import_world([source], tmp_path / "shops")
    assert import_world([source], tmp_path / "shops", rules=rules).created
    assert not import_world([source], tmp_path / "shops", rules=rules).created
    import_world([VILLAGE], tmp_path / "village")
    assert not import_world([VILLAGE], tmp_path / "village").created
    assert import_world([VILLAGE], tmp_path / "village", rules=rules).created


def test_a_version_knows_where_it_came_from(tmp_path: Path, source: Path) -> None:
    parquet = write_geoparquet(
        tmp_path / "p.parquet", [{"peid": 9, "categories": ["a"], "geometry": POINT}], crs=4326
    )
    facts = import_world([source, parquet], tmp_path / "world").facts
    stored = WorldStore(str(tmp_path / "world")).latest()
    assert stored == facts
    assert [(s.path, s.kind, s.sha256, s.bytes) for s in stored.sources] == [
        (str(path), kind, hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
        for path, kind in ((source, "geojson"), (parquet, "geoparquet"))
    ]
    assert stored.entity_count == 3
    assert stored.problem_counts == {}
    assert timedelta(0) <= datetime.now(UTC) - stored.created_at < timedelta(minutes=10)


def test_older_versions_stay_as_they_were(tmp_path: Path, source: Path) -> None:
    import_world([source], tmp_path / "world")
    import_world([write_geojson(tmp_path / "b.geojson", [shop(3)])], tmp_path / "world")
    assert load_snapshot(str(tmp_path / "world"), 1).peids.tolist() == [1, 2]
    assert load_snapshot(str(tmp_path / "world"), 2).peids.tolist() == [3]
    assert load_snapshot(str(tmp_path / "world")).version == 2


def test_duplicates_are_told_apart_and_the_first_stays(tmp_path: Path) -> None:
    sources = [
        write_geojson(tmp_path / "a.geojson", [shop(1, "first"), shop(1, "second"), shop(2)]),
        write_geojson(
            tmp_path / "b.geojson",
            [shop(2), shop(1, "first", shapely.Point(13.5, 52.5)), shop(3)],
        ),
    ]
    report = import_world(sources, tmp_path / "world")
    assert report.facts.problem_counts == {"duplicate-identical": 1, "duplicate-conflicting": 2}
    assert [(s.kind.value, s.count, s.kept) for s in report.problems] == [
        ("duplicate-identical", 1, 1),
        ("duplicate-conflicting", 2, 0),
    ]
    table = load_snapshot(str(tmp_path / "world"))
    assert table.peids.tolist() == [1, 2, 3]
    assert table.names.tolist() == ["first", None, None]
    listed = problems_of(WorldStore(str(tmp_path / "world")).problems(1))
    assert [(p.peid, Path(p.source).name, p.locator) for p in listed] == [
        (1, "a.geojson", "feature 2"),
        (2, "b.geojson", "feature 1"),
        (1, "b.geojson", "feature 2"),
    ]
    assert listed[0].reason.endswith("a.geojson, feature 1, but other name; the first stays")


def test_a_file_and_an_extract_can_claim_the_same_peid(tmp_path: Path) -> None:
    """Node 140 of the village is entity 10^15 + 140, whoever says so first."""
    taken = write_geojson(tmp_path / "a.geojson", [shop(1_000_000_000_000_140, "mine")])
    report = import_world([taken, VILLAGE], tmp_path / "world")
    assert report.facts.problem_counts["duplicate-conflicting"] == 1
    table = load_snapshot(str(tmp_path / "world"))
    position, _ = table.positions_of(table.peids[table.peids == 1_000_000_000_000_140])
    assert table.names[position].tolist() == ["mine"]


def test_strict_fails_on_any_problem_and_changes_nothing(tmp_path: Path, source: Path) -> None:
    world = tmp_path / "world"
    before = import_world([source], world, strict=True).facts
    twice = write_geojson(tmp_path / "twice.geojson", [shop(5), shop(5)])
    with pytest.raises(SourceError, match=r"strict.*1 duplicate-identical .*feature 2") as caught:
        import_world([twice], world, strict=True)
    assert "\n" not in str(caught.value)
    assert WorldStore(str(world)).versions() == [before]
    assert import_world([twice], world).facts.version == 2
    # The same source again makes no version, but its problems are still problems.
    with pytest.raises(SourceError, match="strict"):
        import_world([twice], world, strict=True)


def test_sources_without_a_single_entity_are_refused(tmp_path: Path, source: Path) -> None:
    before = import_world([source], tmp_path / "world").facts
    nowhere = write_geojson(tmp_path / "n.geojson", [feature(None, peid=1, categories=["a"])])
    with pytest.raises(SourceError, match=r"no entity.*1 missing-geometry"):
        import_world([nowhere], tmp_path / "world")
    assert WorldStore(str(tmp_path / "world")).latest() == before


def test_progress_tells_every_phase(tmp_path: Path, source: Path) -> None:
    news: list[tuple[str, int, int | None]] = []
    import_world([source, VILLAGE], tmp_path / "world", progress=lambda *n: news.append(n))
    phases = list(dict.fromkeys(phase for phase, _, _ in news))
    assert phases == [
        "checksums",
        "reading shops.geojson",
        "reading village.osm",
        "checking",
        "projecting",
        "looking for near misses",
        "writing",
    ]
    size = source.stat().st_size + VILLAGE.stat().st_size
    assert [n for n in news if n[0] == "checksums"][-1] == ("checksums", size, size)
    assert all(total is None or 0 <= done <= total for _, done, total in news)


def test_a_second_import_at_the_same_time_says_who_runs(tmp_path: Path, source: Path) -> None:
    world = tmp_path / "world"
    import_world([source], world)
    with (world / ".import.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 12345 on elsewhere since noon\n")
        lock.truncate()
        lock.flush()
        with pytest.raises(WorldError, match="by process 12345 on elsewhere since noon"):
            import_world([source], world, force=True)
    assert import_world([source], world, force=True).facts.version == 2


def test_a_writer_that_was_overtaken_publishes_nothing(tmp_path: Path, source: Path) -> None:
    """Without a lock, as on an object store: the tables changed after our rows were written."""
    import_world([source], tmp_path / "world")
    slow = WorldStore(str(tmp_path / "world"))
    state, facts = slow.state(), slow.latest()
    import_world([source], tmp_path / "world", force=True)
    with pytest.raises(WorldError, match="another import"):
        slow.publish(facts, state)
    assert [facts.version for facts in slow.versions()] == [1, 2]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.geojson", "no such file"),
        ("notes.txt", "known endings"),
        ("", "without a .parquet"),
    ],
)
def test_a_source_of_no_known_kind_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "notes.txt").touch()
    with pytest.raises(SourceError, match=reason):
        import_world([tmp_path / "sources" / name], tmp_path / "world")
    assert not (tmp_path / "world").exists()


def test_no_source_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no source"):
        import_world([], tmp_path / "world")


def test_a_category_option_must_be_a_category(tmp_path: Path, source: Path) -> None:
    with pytest.raises(SettingsError, match=r"--category.*wildcard"):
        import_world([source], tmp_path / "world", category="road/#")


def test_a_world_that_cannot_be_written_is_one_line(tmp_path: Path, source: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorldError) as caught:
        import_world([source], tmp_path / "file" / "world")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("folder", ["with space", "größe", "100%", "a+b#c?d", "'quoted'"])
def test_a_world_may_have_any_name(tmp_path: Path, source: Path, folder: str) -> None:
    import_world([source], tmp_path / folder / "world")
    import_world([source], tmp_path / folder / "world", force=True)
    assert load_snapshot(str(tmp_path / folder / "world")).peids.tolist() == [1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([folder, source.name])


def test_a_world_may_be_given_as_uri_or_relative(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    import_world([source], "here/world/")
    import_world([source], f"file://{tmp_path}/here/world", force=True)
    assert [v.version for v in WorldStore("here/world").versions()] == [1, 2]


def test_sources_are_found_from_another_folder(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = tmp_path / "world"
    monkeypatch.chdir(tmp_path)
    facts = import_world([source.name], world).facts
    assert [each.path for each in facts.sources] == [str(source)]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    settings = load_settings(options={"world.dir": str(world)})
    assert sources_of([], settings) == (str(source),)
    assert not import_world(sources_of([], settings), world).created


def test_a_relative_path_of_an_earlier_release_is_explained(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = import_world([source], tmp_path / "world")
    assert known.combined is not None
    old = SourceFacts(source.name, "geojson", "00", 1)
    store = WorldStore(str(tmp_path / "world"))
    store.write_version(known.combined.entities, srid=known.facts.srid, sources=(old,))
    settings = load_settings(options={"world.dir": str(tmp_path / "world")})
    monkeypatch.chdir(tmp_path)
    assert sources_of([], settings) == (source.name,)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match=r"imported from shops\.geojson, a path relative to"):
        sources_of([], settings)


def test_a_file_name_that_is_no_text_is_refused(tmp_path: Path, source: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.geojson"))
    source.rename(odd)
    with pytest.raises(SourceError, match="its name is not UTF-8 text; rename it"):
        import_world([odd], tmp_path / "world")
    assert not (tmp_path / "world").exists()
