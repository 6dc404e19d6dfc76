"""The units for systemd: systemd accepts every line, and their commands and options exist."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spaps.cli.command_line import run

UNITS = (
    "conf/services/spaps-broker.service",
    "conf/schedules/spaps-rebuild.service",
    "conf/schedules/spaps-rebuild-cron.service",
    "conf/schedules/spaps-rebuild.timer",
)
# Of 10, by `systemd-analyze security`; without the lines that confine the broker it is 9.2.
MOST_EXPOSED = 20
PLACE = "/opt/spaps/.venv/bin/"


@pytest.fixture
def analyze(program: Callable[[str], Path], repository: Path, tmp_path: Path) -> Callable[..., str]:
    """Run systemd-analyze on copies of the units whose program is the one of this environment."""
    path = program("systemd-analyze")
    for unit in UNITS:
        text = (repository / unit).read_text("utf-8")
        here = f"{Path(sys.executable).parent}/"
        (tmp_path / Path(unit).name).write_text(text.replace(PLACE, here))

    def analyze(*arguments: str) -> str:
        done = subprocess.run(
            [path, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return f"{done.returncode}\n{done.stdout}{done.stderr}"

    return analyze


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_the_unit(unit: str, analyze: Callable[..., str]) -> None:
    assert analyze("verify", "--man=no", f"./{Path(unit).name}") == "0\n"


def test_a_wrong_line_is_found(analyze: Callable[..., str], tmp_path: Path) -> None:
    unit = tmp_path / "spaps-broker.service"
    unit.write_text(unit.read_text().replace("ProtectSystem=strict", "ProtectSystems=strict"))
    assert "ProtectSystems" in analyze("verify", "--man=no", f"./{unit.name}")


def test_the_broker_is_confined(analyze: Callable[..., str], tmp_path: Path) -> None:
    security = ("security", "--offline=true", f"--threshold={MOST_EXPOSED}")
    unit = tmp_path / "spaps-broker.service"
    assert analyze(*security, unit.name).startswith("0\n")
    unit.write_text(
        re.sub(r"(?m)^(Protect|Restrict|Private|System|Capab).*$", "", unit.read_text())
    )
    assert not analyze(*security, unit.name).startswith("0\n"), "the measure can fail"


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit.endswith(".service")])
def test_commands_of_units_have_options_that_exist(
    unit: str, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (repository / unit).read_text("utf-8")
    commands = re.findall(rf"^ExecStart={re.escape(PLACE)}spaps (.*)$", text, re.MULTILINE)
    assert len(commands) == 1
    name, *words = commands[0].split()
    assert run([name, "--help"]) == 0
    known = capsys.readouterr().out
    options = [word for word in words if word.startswith("--")]
    assert options
    assert all(option in known for option in options)
