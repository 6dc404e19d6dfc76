"""A test that cannot run is skipped on a person's machine and fails in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_needs_a_program(program):
    program("no-such-program")

@pytest.mark.shared_data
def test_needs_data():
    pytest.skip("no data")

def test_fine():
    pass
"""


@pytest.mark.parametrize(
    ("ci", "code", "summary"),
    [("", 0, "1 passed, 2 skipped"), ("true", 1, "1 failed, 1 passed, 1 skipped")],
)
def test_a_skip_is_a_failure_under_ci(
    repository: Path, tmp_path: Path, ci: str, code: int, summary: str
) -> None:
    shutil.copy(repository / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = shared_data: x\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rfs"],
        cwd=tmp_path,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert summary in done.stdout
    assert "no-such-program is not installed" in done.stdout
