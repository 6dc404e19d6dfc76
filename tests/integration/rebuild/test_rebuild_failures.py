"""A rebuild that fails or runs beside another one leaves what is in force, and can be repeated."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rebuild.run import rebuild
from redis_link.generation.generation_store import current_generation
from schemas.errors import (
    EXIT_NOT_CLEAN,
    RebuildBusyError,
    RedisLinkError,
    RunBusyError,
    WorldError,
)
from schemas.redis_keys import registry_id_key
from tests.scenes.rebuild_scene import RebuildScene, edited_town
from world.locks import output_lock


def test_a_run_in_the_same_folder_is_named(scene: RebuildScene) -> None:
    with (
        output_lock(scene.places.out, "a bulk run"),
        pytest.raises(RunBusyError, match=r"another run writes into .*: a bulk run, process \d+"),
    ):
        scene.rebuild()


def test_a_second_rebuild_says_who_runs(scene: RebuildScene) -> None:
    holding = (
        "import sys; from pathlib import Path\n"
        "from rebuild.record import RebuildRecords\n"
        "with RebuildRecords(Path(sys.argv[1])).exclusive():\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holding, str(scene.places.records)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RebuildBusyError, match=f"process {holder.pid} on "):
            scene.rebuild()
        holder.communicate("")
    scene.rebuild()
    scene.assert_in_force(1)


def test_a_failed_rebuild_leaves_the_old_one_in_force(
    scene: RebuildScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.rebuild()
    scene.write_source(edited_town())

    def broken(*_: object) -> None:
        raise WorldError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("rebuild.resolve.write_memberships", broken)
        with pytest.raises(WorldError, match="disk is full"):
            scene.rebuild()
    facts = current_generation(scene.client)
    assert facts is not None
    assert facts.version == 1
    record = scene.records()[-1]
    assert (record["outcome"], record["error"]) == ("failed", "the disk is full")
    scene.rebuild(if_changed=True)
    scene.assert_in_force(2)
    assert len(scene.records()) == 2


def test_members_stay_resolved_when_redis_fails_beside_the_writing_of_memberships(
    scene: RebuildScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.rebuild()
    scene.write_source(edited_town())

    def broken(*_: object) -> None:
        raise RedisLinkError("Redis is away")

    with monkeypatch.context() as patched:
        patched.setattr("redis_link.sets.set_writer.SetCopies.apply", broken)
        with pytest.raises(RedisLinkError, match="away"):
            scene.rebuild()
    assert list(scene.records()[-1]["steps"]) == ["import", "compare", "resolve"]
    scene.rebuild(if_changed=True)
    scene.assert_in_force(2)
    assert "goes on after: import, compare, resolve" in "".join(scene.said)


def test_everything_is_pushed_when_a_copy_is_not_what_it_should_be(
    scene: RebuildScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.rebuild()
    scene.write_source(edited_town())
    monkeypatch.setattr("redis_link.sets.set_writer.SetCopies.apply", lambda *_: None)
    scene.rebuild()
    scene.assert_in_force(2)
    assert scene.records()[-1]["steps"]["push"]["how"] == "all"


def test_what_could_not_be_cleaned_up_is_left_to_the_next(
    scene: RebuildScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise WorldError("no right to remove it")

    with monkeypatch.context() as patched:
        patched.setattr("rebuild.steps.clean_up", broken)
        report = rebuild(scene.request())
    assert report.exit_code == EXIT_NOT_CLEAN
    assert "no right to remove it" in report.summary
    scene.assert_in_force(1)
    generation = current_generation(scene.client)
    assert rebuild(scene.request(if_changed=True)).exit_code == 0
    assert current_generation(scene.client) == generation
    [record] = scene.records()
    assert record["outcome"] == "complete"


def test_numbers_of_another_registry_mean_nothing(scene: RebuildScene) -> None:
    scene.rebuild()
    scene.client.set(registry_id_key(), "another")
    scene.rebuild()
    steps = scene.records()[-1]["steps"]
    assert (steps["resolve"]["base"], steps["push"]["how"]) == (None, "all")
    scene.assert_in_force(1)
