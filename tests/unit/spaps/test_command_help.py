"""What --help shows, for every command."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from spaps import __version__
from spaps.cli.application import app
from spaps.cli.command_line import run

COMMANDS = [
    (),
    *((command.name,) for command in app.registered_commands),
    *(
        (group.name, *rest)
        for group in app.registered_groups
        for rest in [(), *((one.name,) for one in group.typer_instance.registered_commands)]
    ),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: " ".join(one) or "spaps")
def test_flags_stand_alone(command: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "120"}).output
    assert "Usage:" in shown
    (line,) = [line for line in shown.splitlines() if "--help" in line and "Show this" in line]
    assert "bool" not in shown.lower(), line


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: " ".join(one) or "spaps")
def test_no_type_of_python_is_shown(command: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "120"}).output
    assert not re.search(r"<(str|path|int|float|list)", shown)
    assert "…]" not in shown


def test_options_with_a_value_show_one() -> None:
    shown = CliRunner().invoke(app, ["broker", "--help"], env={"COLUMNS": "120"}).output
    (line,) = [line for line in shown.splitlines() if "--listen" in line]
    assert "HOST:PORT" in line


@pytest.mark.parametrize("arguments", [[], ["sessions"]])
def test_without_a_command_it_is_help_and_no_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 0
    said = capsys.readouterr()
    assert "Usage: spaps" in said.out
    assert said.err == ""


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"spaps {__version__}\n"


def test_wrong_usage_names_the_help_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions", "end"]) == 2
    assert capsys.readouterr().err.endswith("(spaps sessions end --help)\n")
