"""conf/spark-env.sh: the JVM's second compiler is left out for jobs on small worlds alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
JOB = "jobs/resolve_neighborhoods.py"


def options(repository: Path, folder: Path, *arguments: str, given: str = "") -> list[str]:
    """The options of the JVM that spark-submit starts with these arguments in a folder."""
    script = f'. "{repository}/conf/spark-env.sh"; echo "${{SPARK_SUBMIT_OPTS:-}}"'
    done = subprocess.run(
        ["bash", "-c", script, "spark-class", "org.apache.spark.deploy.SparkSubmit", *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "SPARK_HOME": str(folder), "SPARK_SUBMIT_OPTS": given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def world_of(folder: Path, megabytes: int) -> None:
    (folder / "entities").mkdir(parents=True)
    (folder / "entities" / "part.parquet").write_bytes(b"x" * 1_000_000 * megabytes)


@pytest.mark.parametrize("form", ["--world {}", "--world={}"])
@pytest.mark.parametrize(("megabytes", "found"), [(1, [FIRST_COMPILER]), (25, [])])
def test_the_size_of_the_world_decides(
    repository: Path, tmp_path: Path, form: str, megabytes: int, found: list[str]
) -> None:
    world_of(tmp_path / "world", megabytes)
    given = form.format("world").split()
    assert options(repository, tmp_path, JOB, *given, "--out", "out") == found


def test_the_sample_is_small(repository: Path, tmp_path: Path) -> None:
    assert options(repository, tmp_path, JOB) == [FIRST_COMPILER]
    world_of(tmp_path / "lake" / "world", 25)
    assert options(repository, tmp_path, JOB) == []


@pytest.mark.parametrize(
    "arguments",
    [
        (JOB, "--world", "s3a://bucket/world"),
        ("jobs/import_world.py", "a.osm.pbf", "--world", "new"),
        ("jobs/push_to_redis.py", "--memberships", "out"),
        ("pyspark-shell",),
    ],
)
def test_what_is_not_known_to_be_small_has_both_compilers(
    repository: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    assert options(repository, tmp_path, *arguments) == []


def test_options_of_the_user_stay(repository: Path, tmp_path: Path) -> None:
    assert options(repository, tmp_path, JOB, given="-Da=b") == [FIRST_COMPILER, "-Da=b"]
