"""A rebuild on a real Redis: what is in force is what the new version gives."""

from __future__ import annotations

import pytest
import shapely
from deltalake import DeltaTable

from rebuild.run import rebuild, rollback
from redis_link.generation.generation_store import all_generations, current_generation
from schemas.errors import WorldError
from schemas.generation import GenerationState
from tests.scenes.rebuild_scene import NEIGHBORHOODS, RebuildScene, edited_town, grid_town
from tests.scenes.registrations import unregister
from tests.servers.redis_content import numbers_of_generations
from world.memberships.run_commits import read_marks
from world.versions.store import WorldStore


def test_a_rebuild_puts_the_new_version_in_force(scene: RebuildScene) -> None:
    assert scene.rebuild() == 1
    scene.assert_in_force(1)
    scene.write_source(edited_town())
    assert scene.rebuild() == 2
    scene.assert_in_force(2)
    [first, second] = scene.records()
    assert first["steps"]["resolve"]["base"] is None
    assert second["steps"]["compare"]["changes"] == {
        "added": 1, "removed": 1, "moved": 1, "recategorised": 1, "renamed": 0,
    }  # fmt: skip
    assert second["steps"]["push"]["how"] == "changes"
    assert list(second["steps"]) == ["import", "compare", "resolve", "push", "clean"]
    assert numbers_of_generations(scene.client) == {second["steps"]["push"]["generation"]}


def test_a_generation_names_the_run_and_the_commit_that_it_is_made_of(
    scene: RebuildScene,
) -> None:
    """By a full push, and by a copy of which only the differences were sent."""
    for entities in (grid_town(), edited_town()):
        scene.write_source(entities)
        scene.rebuild()
        record, facts = scene.records()[-1], current_generation(scene.client)
        assert facts is not None
        assert (facts.run, facts.commit) == (record["run"], record["steps"]["resolve"]["commit"])
        [*_, mark] = read_marks(DeltaTable(f"{scene.places.out}/runs"))
        assert (mark.run, mark.commit, mark.version) == (facts.run, facts.commit, facts.version)
        state = DeltaTable(f"{scene.places.out}/memberships", version=facts.commit)
        rows = state.to_pyarrow_table(filters=[("version", "=", facts.version)])
        assert rows.num_rows == mark.rows > 0


def test_only_what_can_be_affected_is_resolved(scene: RebuildScene) -> None:
    scene.rebuild()
    town = grid_town()
    town[900] = (["shop"], shapely.Point(5.5, 1.5))  # sees {2}, and what looks from afar
    scene.write_source(town)
    scene.rebuild()
    scene.assert_in_force(2)
    steps = scene.records()[-1]["steps"]
    assert steps["resolve"]["base"] == 1
    assert 0 < steps["resolve"]["resolved"] < len(NEIGHBORHOODS)


def test_several_processes_resolve_the_same(
    scene: RebuildScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebuild.exact_workers.WORTH_PROCESSES", 1)
    monkeypatch.setattr("rebuild.exact_workers.SETS_IN_TASK", 2)
    scene.rebuild(workers=2)
    scene.assert_in_force(1)


def test_full_takes_nothing_over(scene: RebuildScene) -> None:
    scene.rebuild()
    scene.rebuild(full=True)
    steps = scene.records()[-1]["steps"]
    assert steps["resolve"]["resolved"] == len(NEIGHBORHOODS)
    assert steps["push"]["how"] == "all"
    scene.assert_in_force(1)


def test_subscriptions_that_came_and_went(scene: RebuildScene) -> None:
    scene.rebuild()
    unregister(scene.client, "tester", (2, 5))
    scene.subscribe(["({4},{road/#},C)", NEIGHBORHOODS[0]], "another")
    scene.rebuild()
    scene.assert_in_force(1)
    assert scene.records()[-1]["steps"]["resolve"]["resolved"] == 1
    unregister(scene.client, "tester")
    unregister(scene.client, "another")
    scene.rebuild()
    scene.assert_in_force(1)
    assert scene.pairs_in_force() == set()


def test_a_vanished_reference_comes_back(scene: RebuildScene) -> None:
    scene.rebuild()
    town = grid_town()
    del town[1]
    scene.write_source(town)
    scene.rebuild()
    scene.assert_in_force(2)
    steps = scene.records()[-1]["steps"]
    assert steps["resolve"]["unresolved"] == [1, 2, 3]
    facts = current_generation(scene.client)
    assert facts is not None
    changes = scene.changes_of(facts.generation)
    assert changes.sub_ids[changes.lacks_references].tolist() == [1, 2, 3]
    scene.write_source(grid_town())
    scene.rebuild()
    scene.assert_in_force(3)
    assert scene.records()[-1]["steps"]["resolve"]["unresolvedCount"] == 0


def test_changes_are_told_by_subscription(scene: RebuildScene) -> None:
    scene.rebuild()
    before = scene.pairs_in_force()
    scene.write_source(edited_town())
    scene.rebuild()
    after = scene.pairs_in_force()
    facts = current_generation(scene.client)
    assert facts is not None
    changes = scene.changes_of(facts.generation)
    told = zip(
        changes.sub_ids.tolist(), changes.gained.tolist(), changes.lost.tolist(), strict=True
    )
    for sub_id, gained, lost in told:
        assert gained == sum(1 for pair in after - before if pair[1] == sub_id)
        assert lost == sum(1 for pair in before - after if pair[1] == sub_id)
    assert set(changes.sub_ids.tolist()) == {sub_id for _, sub_id in before ^ after}


def test_if_changed_ends_early(scene: RebuildScene) -> None:
    scene.rebuild(if_changed=True)
    generation = current_generation(scene.client)
    report = rebuild(scene.request(if_changed=True))
    assert report.rebuild is None
    assert "nothing to do" in report.summary
    assert current_generation(scene.client) == generation


def test_if_changed_rebuilds_when_redis_was_emptied(scene: RebuildScene) -> None:
    scene.rebuild(if_changed=True)
    scene.client.flushall()
    scene.subscribe(NEIGHBORHOODS[:2])
    assert rebuild(scene.request(if_changed=True)).rebuild == 2
    scene.assert_in_force(1)
    assert rebuild(scene.request(if_changed=True)).rebuild is None


def test_rollback_and_back_again(scene: RebuildScene) -> None:
    scene.rebuild()
    scene.write_source(edited_town())
    scene.rebuild()
    scene.subscribe(["({4},{road/#},C)"], "since then")
    assert rollback(scene.request(), None).version == 1
    scene.assert_in_force(1)
    # The sources are unchanged, and the rollback was meant.
    assert rebuild(scene.request(if_changed=True)).rebuild is None
    scene.assert_in_force(1)
    assert scene.rebuild() == 2
    scene.assert_in_force(2)
    with pytest.raises(WorldError, match="no version 7"):
        rollback(scene.request(), 7)
    rollback(scene.request(), 1)
    with pytest.raises(WorldError, match="no version before 1"):
        rollback(scene.request(), None)


def test_old_versions_go_but_none_that_is_in_use(scene: RebuildScene) -> None:
    town = grid_town()
    for number in range(4):
        town[900 + number] = (["shop"], shapely.Point(number, 0.5))
        scene.write_source(town)
        scene.rebuild(keep_versions=3)
    store = WorldStore(scene.places.world)
    assert [facts.version for facts in store.versions()] == [2, 3, 4]
    assert scene.rows_in_delta(1) == []
    rollback(scene.request(keep_versions=3), 2)
    town[950] = (["shop"], shapely.Point(3, 3.5))
    scene.write_source(town)
    rebuild(scene.request(keep_versions=1))
    assert [facts.version for facts in store.versions()] == [5]
    scene.assert_in_force(5)
    states = {facts.state for facts in all_generations(scene.client)}
    assert states <= {GenerationState.COMPLETE, GenerationState.REMOVED}
