"""Whatever goes wrong on the command line: one line on stderr, exit code 2, no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from schemas.errors import WorldError
from spaps.cli import command_line
from spaps.cli.command_line import run, run_safely

ONE = "({1},{#},C)"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["check"], "Missing argument 'DESCRIPTOR'"),
        (["check", "--colour", ONE], "No such option: --colour"),
        (["check", "({1},{#},C"], r"at character 11"),
        (["check", '{"refs": [1]}'], "stages is missing"),
        (["check", "no-such-file.json"], "is no neighborhood and no file"),
        (["check", "x" * 5000], "is no neighborhood and no file"),
        (["check", "@no-such-file.json"], "no-such-file.json: no such file"),
        (["check", "@/"], "/: Is a directory"),
        (["resolve"], "give one DESCRIPTOR, or --subscriptions"),
        (["resolve", ONE, "--subscriptions", "f.jsonl"], "give one DESCRIPTOR, or --subscriptions"),
        (["resolve", "--subscriptions", "f.jsonl"], "--out"),
        (
            ["resolve", "--subscriptions", "f", "--out", "g", "--json"],
            "work with one DESCRIPTOR, not with --subscriptions",
        ),
        (["resolve", "--world", "no-such-world", ONE], "no world at no-such-world"),
        (
            ["resolve", "--world", "x", "--version", "new", ONE],
            "--version must be a whole number, not 'new'",
        ),
        (["resolve", "--config", "no.toml", ONE], "no.toml: No such file"),
        (["resolve", "--world", "x", "--limit", "-1", ONE], "--limit must be at least 0, not '-1'"),
        (["import", "--world", "x", "no-such-file.osm.pbf"], "no-such-file.osm.pbf: no such file"),
        (
            ["pub", "-t", "a", "-m", "x", "--peid", "abc"],
            "--peid must be a whole number, not 'abc'",
        ),
        (["pub", "-t", "a", "-m", "x", "-q", "3"], "--qos must be at most 2, not '3'"),
        (["sub", "-t", "a", "-W", "soon"], "-W must be a number, not 'soon'"),
        (["import"], "Missing argument 'SOURCE'"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str],
    expected: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("spaps: ")
    assert captured.err.count("\n") == 1
    assert expected in captured.err
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "x"])


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (WorldError("two\nlines"), 2, "spaps: two lines\n"),
        (OSError(28, "No space left on device", "out.parquet"), 2, "out.parquet: No space left"),
        (ZeroDivisionError("division by zero"), 2, "unexpected error, ZeroDivisionError"),
        (ModuleNotFoundError("gone", name="pyspark.sql"), 2, "pip install 'spaps-server[batch]'"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_whatever_is_raised_ends_the_same_way(
    error: BaseException, code: int, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    assert run_safely(fail) == code
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.err.count("\n") == (1 if expected else 0)


def test_the_traceback_is_there_for_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(command_line.DEBUG_VARIABLE, "1")
    with pytest.raises(ZeroDivisionError):
        run_safely(lambda: 1 / 0)


def in_a_process(code: str, *, pipe_to: str = "cat") -> subprocess.CompletedProcess[str]:
    """Run Python code that calls ``main`` with its output in a pipe."""
    script = f"'{sys.executable}' -c \"{code}\" | {pipe_to}; exit ${{PIPESTATUS[0]}}"
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=120
    )


def call(arguments: list[str], before: str = "") -> str:
    return (
        f"import sys; {before}; sys.argv = {['spaps', *arguments]!r}; "
        "from spaps.cli.command_line import main; main()"
    )


@pytest.mark.parametrize(
    ("package", "wheel", "arguments"),
    [
        ("typer", "spaps-server", ["--help"]),
        ("shapely", "'spaps-server[world]'", ["resolve", "--world", "x", ONE]),
        ("deltalake", "'spaps-server[world]'", ["import", "--world", "x", "y.osm"]),
    ],
)
def test_a_missing_package_names_the_wheel_to_install(
    package: str, wheel: str, arguments: list[str]
) -> None:
    done = in_a_process(call(arguments, before=f"sys.modules['{package}'] = None"))
    assert done.returncode == 2
    assert done.stderr == (
        f"spaps: this command needs the package {package}: pip install {wheel}\n"
    )


def test_help_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'shapely', 'pyarrow', 'deltalake', 'osmium', 'pyproj', 'pyspark'}"
    report = f"import atexit; atexit.register(lambda: print('loaded', {heavy} & set(sys.modules)))"
    done = in_a_process(call(["resolve", "--help"], before=report))
    assert done.returncode == 0
    assert "--geojson" in done.stdout
    assert "loaded set()" in done.stdout


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    much = "import typer; from spaps.cli import application; application.app.command('much')"
    print_much = "(lambda: [print('x' * 1000) for _ in range(10000)])"
    done = in_a_process(call(["much"], before=f"{much}{print_much}"), pipe_to="head -c 10")
    assert done.returncode == 1
    assert done.stderr == ""
