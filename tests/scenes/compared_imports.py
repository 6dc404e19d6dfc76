"""Two imports of the same sources, compared row by row."""

from __future__ import annotations

from pathlib import Path

from world.imports.world_import import ImportReport
from world.versions.store import WorldStore


def assert_same(tmp_path: Path, plain: ImportReport, spark: ImportReport) -> None:
    """Assert that the worlds ``plain`` and ``spark`` in a folder have the same newest version."""
    for name in ("srid", "sources", "rules_sha256", "entity_count", "problem_counts", "checksum"):
        assert getattr(plain.facts, name) == getattr(spark.facts, name), name
    assert plain.top_categories == spark.top_categories
    assert [(s.kind, s.count, s.kept) for s in plain.problems] == [
        (s.kind, s.count, s.kept) for s in spark.problems
    ]
    stores = [WorldStore(str(tmp_path / name)) for name in ("plain", "spark")]
    versions = [plain.facts.version, spark.facts.version]
    entities = [
        store.entities(version).sort_by("peid")
        for store, version in zip(stores, versions, strict=True)
    ]
    assert entities[0].cast(entities[1].schema).equals(entities[1])
    problems = [
        sorted(map(repr, store.problems(version).to_pylist()))
        for store, version in zip(stores, versions, strict=True)
    ]
    assert problems[0] == problems[1]
