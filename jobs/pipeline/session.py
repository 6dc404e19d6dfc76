"""The Spark session: the only place that configures Spark, by public settings alone.

Jars, extensions and the JVM's options stand in conf/spark-defaults.conf. Under ``spark-submit``
the JVM is up before Python runs, so they must come from the file that spark-submit reads: the
set-up writes one into the conf folder of pyspark, with the jars on the class path. Started from
plain Python, pyspark launches its JVM through spark-submit too. Where there was no set-up it is
pointed at our own file, which has Spark fetch the jars. On Spark Connect the server has them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from schemas.errors import SettingsError

PROJECT_ROOT: Final = Path(__file__).resolve().parents[2]
CONF_FOLDER: Final = PROJECT_ROOT / "conf"
# What executors import: the language, the spatial meaning, the checks of an import, and the
# way to Redis.
SHIPPED_PACKAGES: Final = ("schemas", "spatial_udfs", "world", "redis_link", "rebuild", "jobs")
PARTITIONS_SETTING: Final = "spark.sql.shuffle.partitions"
# Spark's default. Where nobody has chosen another number, ours follows the cores: a task of Python
# costs some tenths of a second before it begins.
SPARKS_PARTITIONS: Final = "200"
# What sessions have beside the file: settings that may change while Spark runs.
RUNTIME_SETTINGS: Final = {
    # What Delta would write beside rows and commit, and nobody reads: statistics by file help only
    # readers of ordered rows; that rows have the version they replace is so by construction; the
    # sum of a table's whole state, kept with each commit, takes Spark jobs of its own.
    "spark.databricks.delta.stats.collect": "false",
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    # A table of ours has one version in each write. Without this Spark would sort all rows by
    # it, to have one file open at a time.
    "spark.sql.maxConcurrentOutputFileWriters": "4",
    # Rows of geometries are large, and blocks larger.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
LOCAL_SETTINGS: Final = {
    # Delta reads a table's log in 50 tasks by default, which take longer than the log.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Spark looks at more than 32 files in a job of its own; on one machine that takes longer.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}
CLASS_PATH: Final = "spark.driver.extraClassPath"
REQUIRED_EXTENSIONS: Final = ("DeltaSparkSessionExtension", "SedonaSqlExtensions")


def spark_session(
    app_name: str,
    *,
    master: str | None = None,
    shuffle_partitions: int | None = None,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session with Sedona and Delta, on whatever master or server is configured."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit: we choose the file
        os.environ.setdefault("SPARK_CONF_DIR", str(_conf_folder()))
    # Workers on this machine run in the environment of the driver, activated or not.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in (extra or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    _check_extensions(spark)
    is_local = _is_one_process(spark.conf.get("spark.master", "") or "")
    for name, value in (RUNTIME_SETTINGS | (LOCAL_SETTINGS if is_local else {})).items():
        if name not in (extra or {}):
            spark.conf.set(name, value)
    if shuffle_partitions is None and spark.conf.get(PARTITIONS_SETTING) == SPARKS_PARTITIONS:
        shuffle_partitions = max(4, 2 * parallelism_of(spark))
    if shuffle_partitions is not None:
        spark.conf.set(PARTITIONS_SETTING, str(shuffle_partitions))
    if not is_local or is_connect(spark):
        _ship_packages(spark)
    if not is_local and not is_connect(spark):
        _send_jars(spark)
    return spark


def parallelism_of(spark: SparkSession) -> int:
    """Return how many tasks run at once, as far as Spark knows: its default number of parts."""
    plan = str(spark.sql("EXPLAIN SELECT * FROM range(8)").collect()[0][0])
    parts = plan.partition("splits=")[2].partition(")")[0]
    return int(parts) if parts.isdecimal() else 2


def is_connect(spark: SparkSession) -> bool:
    """Whether the session talks to a server of Spark Connect."""
    return not isinstance(spark, SparkSession)


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings that may change while Spark runs; at the end they are as before."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)


class BegunSession:
    """A session that starts while Python does something else; the code that begins it closes it."""

    def __init__(self, app_name: str) -> None:
        """Begin with it."""
        making = ThreadPoolExecutor(1, "session")
        self._made = making.submit(spark_session, app_name)
        making.shutdown(wait=False)

    def get(self) -> SparkSession:
        """The session, as soon as it is there."""
        return self._made.result()

    def close(self) -> None:
        """End it, if it ever came to be; closing it twice does no harm."""
        if self._made.exception() is None:
            self._made.result().stop()


def _conf_folder() -> Path:
    """The settings that the set-up wrote for this machine, or ours for any machine."""
    spark_home = Path(pyspark.__file__).parent
    written = spark_home / "conf"
    is_ours = os.environ.get("SPARK_HOME", str(spark_home)) == str(spark_home)
    return written if is_ours and (written / "spark-defaults.conf").is_file() else CONF_FOLDER


def _is_one_process(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _check_extensions(spark: SparkSession) -> None:
    found = spark.conf.get("spark.sql.extensions", "") or ""
    missing = [name for name in REQUIRED_EXTENSIONS if name not in found]
    if missing:
        raise SettingsError(
            f"Spark runs without {' and '.join(missing)}: conf/spark-defaults.conf was not read; "
            "run `make setup`, or point SPARK_CONF_DIR at the conf folder"
        )


def _send_jars(spark: SparkSession) -> None:
    """Send executors what the driver has on its class path beside Spark's own jars.

    Spark's own, which they have, stand there as a folder.
    """
    for part in (spark.conf.get(CLASS_PATH, "") or "").split(os.pathsep):
        if part.endswith(".jar"):
            spark.sql(f"ADD JAR '{part}'")


def _ship_packages(spark: SparkSession) -> None:
    """Send our packages to executors on other machines; theirs have only third-party ones."""
    # Executors fetch the archive from the driver when they first need it: it must outlive us.
    folder = tempfile.mkdtemp(prefix="spaps-packages-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = Path(folder) / "spaps_packages.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for package in SHIPPED_PACKAGES:
            for source in sorted((PROJECT_ROOT / package).rglob("*.py")):
                zipped.write(source, source.relative_to(PROJECT_ROOT))
    spark.addArtifacts(str(archive), pyfile=True)
