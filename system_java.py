"""Find a Java that Spark can use: the user's choice, the PATH, then the usual folders."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

# Spark 4.0 is made for Java 17 and 21; Java 24 took away what its Hadoop part stands on.
OLDEST_JAVA, NEWEST_JAVA = 17, 23
JAVA_FOLDERS = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)


def java_homes() -> Iterator[Path]:
    """Yield the folders where a Java may be, the user's own choice first."""
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent
    for pattern in JAVA_FOLDERS:
        yield from sorted(Path("/").glob(pattern[1:]))


def java_version(home: Path) -> int:
    """Return the feature version (17 for 17.0.15) of the Java there, 0 when there is none."""
    java = home / "bin" / "java"
    if not java.is_file():
        return 0
    try:
        told = subprocess.run([str(java), "-version"], capture_output=True, check=False)
    except OSError:
        return 0
    number = re.search(rb'version "(\d+)', told.stderr)
    return int(number.group(1)) if number and told.returncode == 0 else 0


def find_java() -> Path | None:
    """Return the home of a Java that Spark can use, or None."""
    usable = range(OLDEST_JAVA, NEWEST_JAVA + 1)
    return next((home for home in java_homes() if java_version(home) in usable), None)
