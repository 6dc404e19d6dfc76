"""What the set-up does for a quick start of Spark: class path, archive, executors elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

import bootstrap_spark
from tests.servers.submitted_job import SHORT_LIVED_JVM

pytestmark = pytest.mark.spark

WRITTEN = Path(pyspark.__file__).parent / "conf" / "spark-defaults.conf"
# Spark asks for a module that the JVM warns about; nothing else may be said.
SAID_BY_EVERY_START = "WARNING: Using incubator modules: jdk.incubator.vector"
# A Sedona function and Delta on executors, and Python there too.
WORK_ELSEWHERE = """
from jobs.pipeline.session import spark_session
spark = spark_session("elsewhere")
points = spark.range(0, 40, 1, 4).selectExpr("id", "ST_AsBinary(ST_Point(id, 7D)) AS wkb")
points.write.format("delta").save(FOLDER)
def plain(batches):
    yield from batches
read = spark.read.format("delta").load(FOLDER).mapInArrow(plain, "id long, wkb binary")
print(read.selectExpr("sum(ST_X(ST_GeomFromWKB(wkb)))").collect()[0][0])
print(spark.sparkContext.parallelize([1, 2], 2).map(lambda n: n + 1).sum())
spark.stop()
"""

Submit = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def submit(program: Callable[[str], Path], repository: Path) -> Submit:
    program("java")
    if not WRITTEN.is_file():
        pytest.skip("no quick start in this environment: run `make setup`")
    folder = Path(sys.executable).parent

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        return subprocess.run(
            [str(folder / "spark-submit"), *map(str, arguments)],
            cwd=repository,
            env={**plain, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    return run


def hello(folder: Path) -> Path:
    script = folder / "hello.py"
    script.write_text("print('hello')\n")
    return script


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return [
        line for line in (done.stdout + done.stderr).splitlines() if line != SAID_BY_EVERY_START
    ]


def from_archive(log: Path) -> bool:
    """Whether the class that every spark-submit begins with came out of our archive."""
    loaded = log.read_text("utf-8").splitlines()
    [line] = [line for line in loaded if "org.apache.spark.deploy.SparkSubmit source:" in line]
    return line.endswith("shared objects file (top)")


def test_a_start_uses_the_archive(submit: Submit, tmp_path: Path) -> None:
    log = tmp_path / "loaded"
    options = f"-Xlog:class+load:file={log}:none"
    assert said(submit("--driver-java-options", options, hello(tmp_path))) == ["hello"]
    assert from_archive(log)


def test_an_archive_of_another_class_path_is_left_unused_silently(
    submit: Submit, tmp_path: Path
) -> None:
    log = tmp_path / "loaded"
    more = ["--driver-class-path", tmp_path, "--driver-java-options"]
    done = submit(*more, f"-Xlog:class+load:file={log}:none", hello(tmp_path))
    assert said(done) == ["hello"]
    assert not from_archive(log)


@pytest.mark.parametrize("content", [None, b"", b"no archive at all"])
def test_what_is_no_archive_is_left_unused_silently(
    submit: Submit, tmp_path: Path, content: bytes | None
) -> None:
    archive = tmp_path / "folder with spaces" / "classes.jsa"
    archive.parent.mkdir()
    if content is not None:
        archive.write_bytes(content)
    settings = tmp_path / "spark-defaults.conf"
    written = WRITTEN.read_text("utf-8")
    assert str(bootstrap_spark.ARCHIVE) in written
    settings.write_text(written.replace(str(bootstrap_spark.ARCHIVE), str(archive)))
    assert said(submit("--properties-file", settings, hello(tmp_path))) == ["hello"]


@pytest.mark.usefixtures("submit")
def test_the_set_up_takes_no_archive_that_is_cut_off(tmp_path: Path) -> None:
    whole = bootstrap_spark.ARCHIVE
    assert bootstrap_spark.holds(whole)
    assert not bootstrap_spark.holds(tmp_path / "none.jsa")
    cut = Path(shutil.copyfile(whole, tmp_path / "cut.jsa"))
    for missing_bytes in (4_096, 100_000_000):
        os.truncate(cut, whole.stat().st_size - missing_bytes)
        assert not bootstrap_spark.holds(cut), missing_bytes


def test_executors_in_processes_of_their_own_get_the_jars(
    submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", SHORT_LIVED_JVM)
    script = tmp_path / "elsewhere.py"
    script.write_text(WORK_ELSEWHERE.replace("FOLDER", repr(str(tmp_path / "table"))))
    done = submit("--master", "local-cluster[2,1,1024]", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["780.0", "5"]
