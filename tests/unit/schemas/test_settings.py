"""The order in which settings win, and that every mistake names its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.errors import SettingsError
from schemas.settings import load_settings


def config(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return path


def test_the_defaults_file_fills_every_setting() -> None:
    settings = load_settings(environment={})
    assert settings.world.dir == "lake/world"
    assert settings.demo.sources == (Path("data/monaco.osm.pbf"),)


def test_option_beats_environment_beats_file_beats_defaults(tmp_path: Path) -> None:
    file = config(tmp_path, '[world]\ndir = "from-file"\n')
    surroundings = {"SPAPS_WORLD_DIR": "from-environment"}
    option = {"world.dir": "from-option"}
    assert load_settings(file, environment={}).world.dir == "from-file"
    assert load_settings(file, environment=surroundings).world.dir == "from-environment"
    assert load_settings(file, option, surroundings).world.dir == "from-option"


def test_an_option_that_was_not_given_changes_nothing() -> None:
    settings = load_settings(options={"world.dir": None}, environment={})
    assert settings.world.dir == "lake/world"


def test_a_file_may_hold_only_what_differs(tmp_path: Path) -> None:
    settings = load_settings(config(tmp_path, '[demo]\nout = "elsewhere"\n'), environment={})
    assert settings.demo.out == Path("elsewhere")
    assert settings.demo.subscriptions == Path("data/sample_subscriptions.jsonl")


def test_lists_come_from_the_environment_with_commas() -> None:
    settings = load_settings(environment={"SPAPS_DEMO_SOURCES": "a.osm,b.geojson"})
    assert settings.demo.sources == (Path("a.osm"), Path("b.geojson"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[world]\ndirr = "x"\n', r"mine\.toml: unknown setting world\.dirr; known: world\.dir"),
        ("[wrld]\n", r"unknown setting wrld; known: .*world"),
        ("world = 3\n", r"world is a table of settings, not 3"),
        ("[world]\ndir = 3\n", r"world\.dir must be a text, not 3"),
        ('[demo]\nsources = "one"\n', r"demo\.sources must be a list, not 'one'"),
        ('[demo]\nsources = ["a", 1]\n', r"demo\.sources\[1\] must be a text, not 1"),
        ("[world\n", r"mine\.toml: .*line 1"),
    ],
)
def test_every_mistake_in_a_file_names_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        load_settings(config(tmp_path, text), environment={})
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_settings_errors(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(tmp_path / "absent.toml", environment={})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not UTF-8"):
        load_settings(tmp_path / "binary.toml", environment={})


@pytest.mark.parametrize(
    "name", ["SPAPS_BROKER_LISTN", "SPAPS_BROKER_LIMITS_SESSION", "SPAPS_WORLD_DIRR"]
)
def test_a_variable_that_fits_no_key_of_a_table_is_an_error(name: str) -> None:
    with pytest.raises(SettingsError, match=f"environment: {name} is no setting"):
        load_settings(environment={name: "x"})


def test_variables_that_are_no_settings_are_left_alone() -> None:
    others = {"SPAPS_DEBUG": "1", "SPAPS_MQTT_PASSWORD": "x", "SPAPS_REDIS_PASSWORD": "x"}
    assert load_settings(environment=others) == load_settings(environment={})
