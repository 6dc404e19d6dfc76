"""MQTT.js from npm, in the versions of tests/servers/npm/package-lock.json."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.servers.programs import require_program

LISTED: Final = Path(__file__).parent / "npm"
# The lock has no addresses: npm asks the registry that this machine is set to.
FILES: Final = ("package.json", "package-lock.json", ".npmrc")
COMMAND: Final = ("ci", "--ignore-scripts", "--no-audit", "--no-fund")


def require_mqtt_js(environment: Path = Path(sys.prefix)) -> Path:
    """Return a folder ``node_modules`` with MQTT.js, or skip the test with the reason.

    It is installed once into the environment that runs the tests, and again when the lock changes.
    """
    npm = require_program("npm")
    require_program("node")
    content = b"".join((LISTED / name).read_bytes() for name in FILES)
    kept = environment / f"npm-{hashlib.sha256(content).hexdigest()[:12]}"
    with (environment / "npm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            _install(npm, kept)
    return kept / "node_modules"


def _install(npm: Path, folder: Path) -> None:
    """Install into a folder, which is there with everything or not at all."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for name in FILES:
        shutil.copy(LISTED / name, unfinished)
    done = subprocess.run(
        [npm, *COMMAND], cwd=unfinished, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"npm cannot install MQTT.js: {done.stderr.strip()[-300:]}")
    unfinished.rename(folder)
