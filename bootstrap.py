"""`make setup`: from a fresh clone to an environment in .venv that every command runs in.

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
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "setup-stamp.json"
LOG = VENV / "setup.log"
OLDEST_PYTHON = (3, 11)
# Spark 4.0 is made for Java 17 and 21; Java 24 took away what its Hadoop part stands on.
OLDEST_JAVA, NEWEST_JAVA = 17, 23
# Debian has one or the other, depending on its age.
JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")
JAVA_FOLDERS = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
# What a tool says -> what a person can do about it; without a match its last line is shown.
HINTS = {
    "PKIX path building failed": "Java does not trust the certificate of this network; add it to "
    "the trust store of that Java (Debian: update-ca-certificates)",
    "No space left on device": "the disk is full",
}
SPARK_FILES = ("spark-defaults.conf", "spark-env.sh", "log4j2.properties")


class SetupError(Exception):
    """A step that cannot be done; the text is one line that says what to do about it."""


def use_a_new_enough_python() -> None:
    """Go on in a newer Python of this machine when the one at hand is too old."""
    if sys.version_info >= OLDEST_PYTHON:
        return
    for minor in range(19, OLDEST_PYTHON[1] - 1, -1):
        newer = shutil.which(f"python3.{minor}")
        if newer is not None:
            os.execv(newer, [newer, __file__])
    at_hand = ".".join(str(part) for part in sys.version_info[:3])
    sys.exit(f"setup: spaPS needs Python 3.11 or newer, this is {at_hand}: install one and retry")


# Before anything below is defined: the annotations there mean nothing to an old Python.
use_a_new_enough_python()


def fingerprint(*parts: Path | str | None) -> str:
    """A checksum over files (Path) and texts: what a step was made from."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else str(part).encode()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def remembered() -> dict[str, str]:
    """What each finished step was made from."""
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


def apt_install(packages: tuple[str, ...], wanted_for: str) -> None:
    """Install the first package that exists, when this user may; else say what to install."""
    advice = f"{wanted_for}: install it (Debian, Ubuntu: sudo apt install {packages[0]}) and retry"
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if shutil.which("apt-get") is None or (prefix and shutil.which("sudo") is None):
        raise SetupError(advice)
    print(f"setup: {wanted_for}; installing {packages[0]} with apt …")
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y"]
    subprocess.run([*apt, "update"], capture_output=True, check=False)
    for package in packages:
        command = [*apt, "install", "--no-install-recommends", package]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
    raise SetupError(advice)


def make_environment() -> None:
    """A new .venv; an older one is cleared away."""
    if find_spec("ensurepip") is None or find_spec("venv") is None:
        version = "{}.{}".format(*sys.version_info)
        apt_install((f"python{version}-venv",), f"Python {version} here cannot make environments")
    # By its own process: a Python whose venv module has just been installed does not see it.
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        told = (made.stdout + made.stderr).strip().splitlines() or ["no reason given"]
        raise SetupError(f"python -m venv failed: {told[-1]}")


def install_packages() -> None:
    """The locked packages, each checked against its hash, and the project itself."""
    pip = [str(VENV_PYTHON), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    locked = [*pip, "--require-hashes", "-r", "requirements.lock"]
    run(locked, "the Python packages could not be installed")
    # The build tool came with the lock, so nothing unpinned is fetched to build ourselves.
    ourselves = [*pip, "--no-deps", "--no-build-isolation", "--editable", "."]
    run(ourselves, "spaPS itself could not be installed")


def java_homes() -> Iterator[Path]:
    """Where a Java may be, the user's own choice first."""
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent
    for pattern in JAVA_FOLDERS:
        yield from sorted(Path("/").glob(pattern[1:]))


def java_version(home: Path) -> int:
    """The feature version (17 for 17.0.15) of the Java there, 0 when there is none."""
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
    """The home of a Java that Spark can use, or None."""
    usable = range(OLDEST_JAVA, NEWEST_JAVA + 1)
    return next((home for home in java_homes() if java_version(home) in usable), None)


def note_java() -> None:
    """Find or install a Java, and note it for spark-env.sh."""
    home = find_java()
    if home is None:
        apt_install(JAVA_PACKAGES, f"the Spark jobs need Java {OLDEST_JAVA} to {NEWEST_JAVA}")
        home = find_java()
    if home is None:
        raise SetupError(f"no Java {OLDEST_JAVA} to {NEWEST_JAVA} found: set JAVA_HOME to one")
    (VENV / "java-home").write_text(f"{home}\n")


def java_is() -> str:
    """What the choice of a Java follows from, and whether the one noted is still there."""
    note = VENV / "java-home"
    home = note.read_text().strip() if note.is_file() else ""
    there = str((Path(home) / "bin" / "java").is_file())
    return fingerprint(os.environ.get("JAVA_HOME"), shutil.which("java"), home, there)


def prepare_spark() -> None:
    """Jars, settings where spark-submit looks, and what makes it start quickly."""
    failure = "Spark did not start or could not fetch its jars"
    run([str(VENV_PYTHON), "bootstrap_spark.py"], failure)


def python_is() -> str:
    """The Python and the place: an environment works for these alone."""
    return fingerprint(sys.version, str(ROOT))


def packages_are() -> str:
    """What the installed packages follow from."""
    return fingerprint(python_is(), ROOT / "requirements.lock", ROOT / "pyproject.toml")


def spark_is() -> str:
    """What Spark's settings, jars and archive of classes follow from."""
    files = [ROOT / "requirements.lock", ROOT / "bootstrap_spark.py"]
    files += [ROOT / "conf" / name for name in SPARK_FILES]
    home = Path((VENV / "java-home").read_text().strip())
    # An update of Java leaves it in its place, and makes the archive worthless.
    modules = home / "lib" / "modules"
    build = str(modules.stat().st_mtime_ns) if modules.is_file() else ""
    return fingerprint(python_is(), java_is(), build, *files)


def main() -> None:
    """All steps, in order."""
    if not VENV_PYTHON.exists():  # also a link to a Python that has been removed since
        STAMP.unlink(missing_ok=True)
    once("environment", python_is, "Python environment in .venv", make_environment)
    once("packages", packages_are, "Python packages (some minutes, once)", install_packages)
    try:
        once("java", java_is, "Java", note_java)
        once("spark", spark_is, "Spark, its jars (110 MB) and a first run", prepare_spark)
    except SetupError as error:
        # Everything but the Spark jobs works without Java, so the rest must not wait for it.
        print(f"setup: {error}\nsetup: ready without Spark: its jobs will not run until then")
        return
    print("setup: ready (.venv)")


if __name__ == "__main__":
    try:
        main()
    except SetupError as error:
        sys.exit(f"setup: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
