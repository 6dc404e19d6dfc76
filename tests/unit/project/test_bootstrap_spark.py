"""The set-up of Spark: what it writes, in which order, and that it goes on without an archive."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import bootstrap_spark

SETTINGS = """\
# Comments stay.
spark.jars.packages a:b:1,c:d:2

spark.sql.extensions                x.Extension
spark.driver.defaultJavaOptions     -Da=b
spark.executor.extraJavaOptions     -Da=b
"""
SPARKS = Path("/spark/jars")
TWO_JARS = [Path("/own/one.jar"), Path("/own/two.jar")]


def values(settings: str) -> dict[str, str]:
    lines = (line for line in settings.splitlines() if line.strip() and not line.startswith("#"))
    return {name: value.strip() for name, _, value in (line.partition(" ") for line in lines)}


def test_jars_are_on_the_class_path_behind_those_of_spark() -> None:
    quick = values(bootstrap_spark.quick_settings(SETTINGS, SPARKS, TWO_JARS, None))
    assert quick == {
        "spark.sql.extensions": "x.Extension",
        "spark.driver.defaultJavaOptions": "-Da=b",
        "spark.executor.extraJavaOptions": "-Da=b",
        "spark.driver.extraClassPath": "/spark/jars/*:/own/one.jar:/own/two.jar",
    }


def test_the_archive_is_for_the_driver_alone() -> None:
    archive = Path("/own folder/classes.jsa")
    quick = values(bootstrap_spark.quick_settings(SETTINGS, SPARKS, TWO_JARS, archive))
    options = quick["spark.driver.defaultJavaOptions"]
    assert options.startswith('-Da=b "-XX:SharedArchiveFile=/own folder/classes.jsa" ')
    assert quick["spark.executor.extraJavaOptions"] == "-Da=b"


def test_the_settings_of_the_project_have_what_the_set_up_changes(repository: Path) -> None:
    given = values((repository / "conf" / "spark-defaults.conf").read_text("utf-8"))
    assert bootstrap_spark.PACKAGES in given
    assert bootstrap_spark.JAVA_OPTIONS in given


def test_a_jar_that_spark_brings_is_not_kept_twice(tmp_path: Path) -> None:
    (tmp_path / "antlr4-runtime-4.13.1.jar").touch()
    fetched = [
        Path("/ivy/org.antlr_antlr4-runtime-4.13.1.jar"),
        Path("/ivy/io.delta_delta-spark_2.13-4.0.1.jar"),
    ]
    assert bootstrap_spark.own_jars(fetched, tmp_path) == fetched[1:]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with a pyspark, and two jars that were fetched."""
    for folder in ("venv", "conf", "pyspark/jars", "ivy"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "venv" / "java-home").write_text("/java")
    (tmp_path / "conf" / "spark-defaults.conf").write_text(SETTINGS)
    for name in ("spark-env.sh", "log4j2.properties"):
        (tmp_path / "conf" / name).write_text(name)
    fetched = [tmp_path / "ivy" / name for name in ("o_two.jar", "o_one.jar")]
    for jar in fetched:
        jar.write_text(jar.name)
    monkeypatch.setattr(bootstrap_spark, "VENV", tmp_path / "venv")
    monkeypatch.setattr(bootstrap_spark, "CONF", tmp_path / "conf")
    monkeypatch.setattr(bootstrap_spark, "PYSPARK", tmp_path / "pyspark")
    monkeypatch.setattr(bootstrap_spark, "JARS", tmp_path / "venv" / "jars")
    monkeypatch.setattr(bootstrap_spark, "ARCHIVE", tmp_path / "venv" / "classes.jsa")
    monkeypatch.setattr(bootstrap_spark, "fetched_jars", lambda: fetched)
    return tmp_path


def set_up(
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_archive: Callable[[Path], object],
    *,
    holds: bool,
) -> dict[str, str]:
    monkeypatch.setattr(bootstrap_spark, "make_archive", make_archive)
    monkeypatch.setattr(bootstrap_spark, "holds", lambda archive: holds and archive.is_file())
    bootstrap_spark.main()
    written = machine / "pyspark" / "conf"
    assert sorted(file.name for file in written.iterdir()) == [
        "java-home",
        "log4j2.properties",
        "spark-defaults.conf",
        "spark-env.sh",
    ]
    return values((written / "spark-defaults.conf").read_text("utf-8"))


def test_the_set_up_writes_settings_jars_and_archive(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "venv" / "jars").mkdir()
    (machine / "venv" / "jars" / "older.jar").touch()
    written = set_up(machine, monkeypatch, lambda target: target.write_text("it"), holds=True)
    kept = [machine / "venv" / "jars" / name for name in ("o_one.jar", "o_two.jar")]
    class_path = [f"{machine}/pyspark/jars/*", *map(str, kept)]
    assert written["spark.driver.extraClassPath"].split(":") == class_path
    assert sorted((machine / "venv" / "jars").iterdir()) == kept
    assert f"{machine}/venv/classes.jsa" in written["spark.driver.defaultJavaOptions"]
    assert (machine / "venv" / "classes.jsa").read_text() == "it"


def fail(_target: Path) -> None:
    raise OSError("no space left on device")


@pytest.mark.parametrize(
    "make_archive", [fail, lambda _: None, lambda target: target.write_text("half")]
)
def test_the_set_up_goes_on_without_an_archive(
    machine: Path, monkeypatch: pytest.MonkeyPatch, make_archive: Callable[[Path], object]
) -> None:
    written = set_up(machine, monkeypatch, make_archive, holds=False)
    assert written["spark.driver.defaultJavaOptions"] == "-Da=b"
    assert "o_two.jar" in written["spark.driver.extraClassPath"]
    assert not list((machine / "venv").glob("classes.*"))


def test_an_archive_of_sources_is_compiled_once(tmp_path: Path) -> None:
    archive = tmp_path / "spark.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("trained/__init__.py", "import trained.inner\n")
        made.writestr("trained/inner.py", "NAME = 'inner'\n")
        made.writestr("trained/data.txt", "kept")
    bootstrap_spark.add_compiled(archive)
    bootstrap_spark.add_compiled(archive)
    with zipfile.ZipFile(archive) as made:
        names = sorted(made.namelist())
        assert made.read("trained/inner.py") == b"NAME = 'inner'\n"
    assert names == [
        "trained/__init__.py", "trained/__init__.pyc", "trained/data.txt",
        "trained/inner.py", "trained/inner.pyc",
    ]  # fmt: skip
    # Python takes what is compiled, and says where an error stands in the source.
    told = "import trained.inner as i; print(i.NAME, i.__cached__ or i.__spec__.origin)"
    done = subprocess.run(
        [sys.executable, "-c", told], env={"PYTHONPATH": str(archive)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split()[0] == "inner"
    assert done.stdout.split()[1].endswith("inner.pyc")
