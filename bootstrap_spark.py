"""The part of `make setup` that makes Spark start quickly; run by the Python of .venv.

The jars are fetched once and put on the class path, instead of being resolved again by every
start. What the JVM loads and checks of them during one run of the bulk job is written into an
archive that later starts map into memory, and Spark's Python archives get what is compiled of
them. The settings are noted in the conf folder of the installed pyspark, where plain
spark-submit looks. docs/decisions/0044-spark-starts-from-an-archive.md.
"""

import importlib.util
import marshal
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark
from pyspark.java_gateway import launch_gateway

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
CONF = ROOT / "conf"
PYSPARK = Path(pyspark.__file__).parent
JARS = VENV / "spark-jars"
ARCHIVE = VENV / "spark-classes.jsa"
# A run of the bulk job on the sample goes through all that a job of ours goes through.
TRAINING_JOB = ROOT / "jobs" / "resolve_neighborhoods.py"
SAMPLE_WORLD = ROOT / "data" / "monaco.osm.pbf"
SAMPLE_SUBSCRIPTIONS = ROOT / "data" / "sample_subscriptions.jsonl"
TIMEOUT_SECONDS = 300
PACKAGES = "spark.jars.packages"
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
# An archive that does not fit (another Java, other jars, a heap beyond 32 GB) is left unused, and
# nobody needs to read about it.
QUIET_ARCHIVE = "-Xshare:auto -Xlog:cds*=off"
NO_TRACES = "-XX:-CreateCoredumpOnCrash -XX:ErrorFile=/dev/null"


def add_compiled(archive: Path) -> None:
    """Put what Python makes of the sources in an archive beside them.

    Spark's own Python comes as archives of sources alone, and nothing is ever written into them:
    every process would compile what it imports, half a second for a driver.
    """
    new = archive.with_suffix(".new")
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as made:
        kept = [entry for entry in old.infolist() if not entry.filename.endswith(".pyc")]
        for entry in kept:
            content = old.read(entry)
            made.writestr(entry, content)
            if entry.filename.endswith(".py"):
                made.writestr(f"{entry.filename}c", compiled(content, entry.filename))
    new.replace(archive)


def compiled(source: bytes, name: str) -> bytes:
    """Return the content of a .pyc that is used as it is: its source never changes beside it."""
    code = compile(source, name, "exec", dont_inherit=True)
    unchecked = (1).to_bytes(4, "little") + importlib.util.source_hash(source)
    return importlib.util.MAGIC_NUMBER + unchecked + marshal.dumps(code)


def fetched_jars() -> list[Path]:
    """Start Spark with the jars of conf/spark-defaults.conf; return them and what they need."""
    os.environ["SPARK_CONF_DIR"] = str(CONF)
    java = launch_gateway().jvm
    named = java.org.apache.spark.SparkConf().get("spark.jars", "")
    return [Path(name.removeprefix("file://")) for name in named.split(",") if name]


def own_jars(fetched: list[Path], sparks: Path) -> list[Path]:
    """Return those that Spark lacks; Ivy writes the organisation before the name."""
    return [jar for jar in fetched if not (sparks / jar.name.partition("_")[2]).is_file()]


def keep_jars(fetched: list[Path]) -> list[Path]:
    """Copy the jars into the environment: the cache of Ivy is not ours."""
    shutil.rmtree(JARS, ignore_errors=True)
    JARS.mkdir()
    return [Path(shutil.copy2(jar, JARS)) for jar in sorted(fetched)]


def quick_settings(settings: str, sparks: Path, jars: list[Path], archive: Path | None) -> str:
    """Return the settings for this machine: class path, and the archive if there is one.

    Spark's own jars come first. Sedona brings an old SLF4J that would hide theirs; and the folder
    of settings, which Spark puts before its jars, must not come before any jar: the JVM takes
    no archive whose class path has a folder before the last jar.
    """
    lines = []
    for line in settings.splitlines():
        name = line.split(maxsplit=1)[0] if line.strip() else ""
        if name == JAVA_OPTIONS and archive is not None:
            lines.append(f'{line} "-XX:SharedArchiveFile={archive}" {QUIET_ARCHIVE}')
        elif name != PACKAGES:
            lines.append(line)
    class_path = ":".join([f"{sparks}/*", *map(str, jars)])
    return "\n".join([*lines, "", f"spark.driver.extraClassPath {class_path}", ""])


def write_settings(jars: list[Path], archive: Path | None) -> None:
    """Write settings where spark-submit looks, in one step, for jobs that start at this moment."""
    settings = (CONF / "spark-defaults.conf").read_text("utf-8")
    written = PYSPARK / "conf" / "spark-defaults.conf.new"
    written.write_text(quick_settings(settings, PYSPARK / "jars", jars, archive), "utf-8")
    written.replace(written.with_suffix(""))


def submit(java_options: str, *arguments: str) -> int:
    """Return the exit code of a spark-submit with the settings of pyspark's folder alone."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_"))
    }
    programs = Path(sys.executable).parent
    environment["PATH"] = f"{programs}{os.pathsep}{environment.get('PATH', '')}"
    command = [str(programs / "spark-submit"), "--driver-java-options", java_options, *arguments]
    return subprocess.run(  # noqa: S603 - what was just installed
        command, cwd=VENV, env=environment, check=False, timeout=TIMEOUT_SECONDS
    ).returncode


def make_archive(target: Path) -> None:
    """Run the training job with the JVM writing down what it loads.

    A job that fails leaves a smaller archive, which is good as well.
    """
    # Loaded here: a world is needed for the training alone, and its failure ends nothing.
    from world.imports.world_import import import_world  # noqa: PLC0415

    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="spaps-training-") as folder:
        import_world([SAMPLE_WORLD], f"{folder}/world")
        submit(
            f'"-XX:ArchiveClassesAtExit={target}" {QUIET_ARCHIVE}',
            *("--master", "local[2]", str(TRAINING_JOB), "--world", f"{folder}/world"),
            *("--subscriptions", str(SAMPLE_SUBSCRIPTIONS), "--out", f"{folder}/out"),
        )


def holds(archive: Path) -> bool:
    """Whether a JVM that reads all of the archive survives it: one cut off by a full disk kills."""
    options = f'"-XX:SharedArchiveFile={archive}" -XX:+VerifySharedSpaces {QUIET_ARCHIVE}'
    return archive.is_file() and submit(f"{options} {NO_TRACES}", "--version") == 0


def archive_for(jars: list[Path]) -> Path | None:
    """Return the archive for these jars; None if it cannot be made: jobs then start slowly."""
    write_settings(jars, archive=None)
    new = ARCHIVE.with_suffix(".new")
    try:
        make_archive(new)
        if holds(new):
            return new.replace(ARCHIVE)
    except Exception as error:  # noqa: BLE001 - a full disk, a job that hangs, an old JVM
        print(f"no archive of classes: {error}")  # noqa: T201 - into the log of the set-up
    new.unlink(missing_ok=True)
    return None


def main() -> None:
    """Make settings, jars and archive."""
    folder = PYSPARK / "conf"
    folder.mkdir(exist_ok=True)
    for file in (CONF / "spark-env.sh", CONF / "log4j2.properties", VENV / "java-home"):
        shutil.copyfile(file, folder / file.name)
    for archive in sorted((PYSPARK / "python" / "lib").glob("*.zip")):
        add_compiled(archive)
    jars = keep_jars(own_jars(fetched_jars(), PYSPARK / "jars"))
    write_settings(jars, archive_for(jars))


if __name__ == "__main__":
    main()
