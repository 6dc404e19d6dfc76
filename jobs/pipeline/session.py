"""The Spark session: the only place that configures Spark.

Jars and extensions stand in conf/spark-defaults.conf. Under ``spark-submit`` the JVM is up
before Python runs, so they must come from the file that spark-submit reads: the set-up writes
one into the conf folder of pyspark, with the jars on the class path. Started from plain Python,
pyspark launches its JVM through spark-submit too; where there was no set-up it is pointed at our
own file, which has Spark fetch the jars.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from schemas.errors import SettingsError

PROJECT_ROOT: Final = Path(__file__).resolve().parents[2]
CONF_FOLDER: Final = PROJECT_ROOT / "conf"
# What executors import: the language, the spatial meaning, the checks of an import, and the
# way to Redis.
SHIPPED_PACKAGES: Final = ("schemas", "spatial_udfs", "world", "redis_link", "rebuild", "jobs")
# Chosen by the number of cores, unless whoever starts the job has said it.
PARTITIONS_SETTING: Final = "spark.sql.shuffle.partitions"
READERS_SETTING: Final = "spark.sql.files.minPartitionNum"
# What Delta would write beside rows and commit, and nobody reads: statistics by file help only
# readers of ordered rows, and ours lie as they came; that rows have the version they replace
# is so by construction; the sum of a table's whole state, kept with each commit, takes Spark jobs
# of its own. Together they take as long as the writing.
PLAIN_COMMITS: Final = {
    "spark.databricks.delta.stats.collect": "false",
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
}
# All Python workers out of one process that has imported everything; Spark would start another
# one for SQL, only to shorten the stories of its errors.
ONE_KIND_OF_WORKERS: Final = {
    "spark.python.daemon.module": "jobs.pipeline.worker_daemon",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
# A session inside of a longer process is worth the second compiler, which the settings leave out
# for the drivers of single jobs.
LONG_LIVED: Final = "--driver-java-options -XX:TieredStopAtLevel=4 pyspark-shell"
CLASS_PATH: Final = "spark.driver.extraClassPath"
REQUIRED_EXTENSIONS: Final = ("DeltaSparkSessionExtension", "SedonaSqlExtensions")


def spark_session(
    app_name: str,
    *,
    master: str | None = None,
    shuffle_partitions: int | None = None,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session with Sedona and Delta, on whatever master is given or configured."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit: we choose the file
        os.environ.setdefault("SPARK_CONF_DIR", str(_conf_folder()))
        os.environ.setdefault("PYSPARK_SUBMIT_ARGS", LONG_LIVED)
    # The JVM must be up for SparkConf to see what spark-submit and the conf file say.
    SparkContext._ensure_initialized()  # noqa: SLF001 - pyspark has no public way to ask this
    chosen_master = master or SparkConf().get("spark.master", "local[*]") or "local[*]"
    settings: dict[str, Any] = {
        "spark.app.name": app_name,
        "spark.master": chosen_master,
        **_settings_for(chosen_master),
        **(extra or {}),
    }
    is_first = SparkContext._active_spark_context is None  # noqa: SLF001 - no public way to ask
    context = SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
    if is_first:
        context.setLogLevel("ERROR")
        _stop_at_once(context)
        if _is_one_process(chosen_master):
            _wake_workers(context)
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    _check_extensions(spark)
    given = context.getConf()
    at_least = 2 * context.defaultParallelism
    if shuffle_partitions is not None or not given.contains(PARTITIONS_SETTING):
        spark.conf.set(PARTITIONS_SETTING, str(shuffle_partitions or max(4, at_least)))
    if not given.contains(READERS_SETTING):
        spark.conf.set(READERS_SETTING, str(at_least))
    if not _is_one_process(chosen_master):
        _ship_packages(context)
    return spark


class BegunSession:
    """A session that Java makes while Python does something else; whoever begins it closes it."""

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


def _settings_for(master: str) -> dict[str, str]:
    """Settings that depend on where the job runs, and so cannot stand in a file."""
    settings = {
        **PLAIN_COMMITS,
        # A table of ours has one version in each write. Without this Spark would sort all rows by
        # it, to have one file open at a time.
        "spark.sql.maxConcurrentOutputFileWriters": "4",
        # What is kept is read again within seconds: packing it costs more than it saves.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        "spark.ui.showConsoleProgress": "false",
        # Python computes matrices for a batch at once: a geometry is read once for all its pairs.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        "spark.submit.pyFiles": _python_files_only(SparkConf().get("spark.submit.pyFiles", "")),
    }
    if not SparkConf().contains("spark.sql.adaptive.enabled"):
        # Plans here know how large their sides are. Adapting them makes every exchange a job
        # of its own, and joins small partitions until one core does the work of all.
        settings["spark.sql.adaptive.enabled"] = "false"
    if master.startswith("local"):
        settings["spark.ui.enabled"] = "false"
        # Delta reads a table's log in 50 tasks by default: on one machine the tasks take
        # longer than the log.
        settings["spark.databricks.delta.snapshotPartitions"] = "2"
        # Workers on this machine run in the environment of the driver, activated or not.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _is_one_process(master):
        settings |= ONE_KIND_OF_WORKERS
    else:
        settings["spark.jars"] = _jars_to_send(
            SparkConf().get("spark.jars", ""), SparkConf().get(CLASS_PATH, "")
        )
    return settings


def _is_one_process(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _jars_to_send(given: str | None, class_path: str | None) -> str:
    """What executors get from the driver: what was asked for, and what it has on its class path.

    Spark's own jars, which they have, stand there as a folder.
    """
    found = (part for part in (class_path or "").split(os.pathsep) if part.endswith(".jar"))
    return ",".join([*filter(None, (given or "").split(",")), *found])


def _python_files_only(files: str | None) -> str:
    """The files given to Python workers without the jars that spark-submit adds to them.

    A worker lists every archive on its path anew before each task, and Sedona's has 65,000
    entries: half a second of each task that runs Python.
    """
    return ",".join(name for name in (files or "").split(",") if not name.endswith(".jar"))


def _wake_workers(context: SparkContext) -> None:
    """Have Spark start the process that Python workers come from, while the session is made.

    It imports for most of a second, which the first task would wait for.
    """

    def wake() -> None:
        with suppress(Exception):  # whatever is wrong, the first task of a job will say it
            context.parallelize([0], 1).foreach(lambda _: None)

    waking = threading.Thread(target=wake, name="waking-workers", daemon=True)
    stop = context.stop

    def stop_when_awake() -> None:
        # A task that loses its Spark would be told of as an error of the job.
        waking.join()
        stop()

    context.stop = stop_when_awake  # type: ignore[method-assign]
    waking.start()


def _stop_at_once(context: SparkContext) -> None:
    """Let ``stop`` not wait for the thread that receives accumulators.

    That thread looks once a second whether it shall end: half a second of each job, for nothing.
    """
    server = context._accumulatorServer  # noqa: SLF001 - pyspark has no public way to it
    wait_for_end = server.shutdown

    def end() -> None:
        threading.Thread(target=wait_for_end, name="accumulators-end", daemon=True).start()

    server.shutdown = end  # type: ignore[method-assign]


def _check_extensions(spark: SparkSession) -> None:
    found = spark.conf.get("spark.sql.extensions", "") or ""
    missing = [name for name in REQUIRED_EXTENSIONS if name not in found]
    if missing:
        raise SettingsError(
            f"Spark runs without {' and '.join(missing)}: conf/spark-defaults.conf was not read; "
            "run `make setup`, or point SPARK_CONF_DIR at the conf folder"
        )


def _ship_packages(context: SparkContext) -> None:
    """Send our packages to executors on other machines; theirs have only third-party ones."""
    # Executors fetch the archive from the driver when they first need it: it must outlive us.
    folder = tempfile.mkdtemp(prefix="spaps-packages-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = Path(folder) / "spaps_packages.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for package in SHIPPED_PACKAGES:
            for source in sorted((PROJECT_ROOT / package).rglob("*.py")):
                zipped.write(source, source.relative_to(PROJECT_ROOT))
    context.addPyFile(str(archive))
