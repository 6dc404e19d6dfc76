"""How a session finds its settings; no Spark is started."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyspark
import pytest

from jobs.pipeline import session
from schemas.errors import SettingsError


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed pyspark without settings."""
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return tmp_path


def test_without_a_set_up_the_settings_are_ours(spark_home: Path) -> None:
    assert session._conf_folder() == session.CONF_FOLDER
    (spark_home / "conf").mkdir()
    assert session._conf_folder() == session.CONF_FOLDER


def test_what_the_set_up_wrote_is_for_its_own_spark(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (spark_home / "conf").mkdir()
    (spark_home / "conf" / "spark-defaults.conf").touch()
    assert session._conf_folder() == spark_home / "conf"
    monkeypatch.setenv("SPARK_HOME", str(spark_home))
    assert session._conf_folder() == spark_home / "conf"
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert session._conf_folder() == session.CONF_FOLDER


@pytest.mark.parametrize(
    ("master", "one"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
    ],
)
def test_only_a_local_master_is_one_process(master: str, one: bool) -> None:
    assert session._is_one_process(master) == one


def test_a_begun_session_comes_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    free, stops = threading.Event(), []
    made = SimpleNamespace(stop=lambda: stops.append(1))

    def slowly_made(name: str) -> Any:
        assert name == "some job"
        assert free.wait(60)
        return made

    monkeypatch.setattr(session, "spark_session", slowly_made)
    begun = session.BegunSession("some job")  # would not come back if it waited
    free.set()
    assert begun.get() is cast("Any", made)
    begun.close()
    assert stops == [1]


def test_a_session_that_cannot_be_made_is_told_of_where_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: str) -> Any:
        raise SettingsError("no Spark here")

    monkeypatch.setattr(session, "spark_session", refuse)
    begun = session.BegunSession("some job")
    begun.close()
    with pytest.raises(SettingsError, match="no Spark here"):
        begun.get()
