"""The jobs use Spark's public DataFrame API alone: the syntax trees say so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

# What only the classic session has, or nobody promised to keep.
ATTRIBUTES = {
    "rdd", "sparkContext", "mapPartitions", "mapPartitionsWithIndex", "parallelize", "toRDD",
    "emptyRDD", "accumulator", "runJob", "setCheckpointDir", "localCheckpoint", "statusTracker",
    "invalidate_caches", "meta_path", "path_hooks",
}  # fmt: skip
PRIVATE = {"_jvm", "_jsc", "_jdf", "_jconf", "_jsparkSession", "_sc", "_gateway"}
NAMES = {"RDD", "SparkContext", "Broadcast", "Accumulator", "AccumulatorParam", "MetaPathFinder"}
MODULES = {
    "zipimport", "gc", "importlib.abc", "importlib.machinery", "importlib.util", "traceback",
    "pyspark.accumulators", "pyspark.broadcast", "pyspark.context", "pyspark.core",
    "pyspark.daemon", "pyspark.java_gateway", "pyspark.rdd", "pyspark.sql.classic",
    "pyspark.sql.connect", "pyspark.worker", "py4j.java_gateway", "world.arrow_without_pandas",
}  # fmt: skip


# As in getattr(spark, "_jvm"), and the setting of a daemon of our own.
TEXTS = PRIVATE | ATTRIBUTES | {"spark.python.daemon.module", "spark.python.worker.module"}


def is_closed(module: str) -> bool:
    """Whether a module is one of those, or lies in one."""
    return any(module == each or module.startswith(f"{each}.") for each in MODULES)


def sources(repository: Path) -> Iterator[Path]:
    for folder in ("jobs", "spatial_udfs", "world/lake", "world/subscriptions"):
        yield from sorted((repository / folder).rglob("*.py"))


def breaches(source: str) -> list[str]:
    """What a source uses that is not public Spark."""
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr in ATTRIBUTES | PRIVATE:
                found.append(node.attr)
        elif isinstance(node, ast.Name) and node.id in NAMES:
            found.append(node.id)
        elif isinstance(node, ast.ImportFrom):
            found += [name.name for name in node.names if name.name in NAMES | PRIVATE]
            paths = [node.module or "", *(f"{node.module}.{name.name}" for name in node.names)]
            found += [path for path in paths if is_closed(path)]
        elif isinstance(node, ast.Import):
            found += [name.name for name in node.names if is_closed(name.name)]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += ["stop ="] * any(
                isinstance(each, ast.Attribute) and each.attr in ("stop", "shutdown")
                for each in targets
            )
        elif isinstance(node, ast.Constant) and node.value in TEXTS:
            found.append(str(node.value))
    return found


def test_public_api_alone(repository: Path) -> None:
    found = {
        str(path.relative_to(repository)): breaches(path.read_text("utf-8"))
        for path in sources(repository)
    }
    wrong = {path: uses for path, uses in found.items() if uses}
    assert wrong == {}


def test_nothing_searches_stack_traces(repository: Path) -> None:
    errors = (repository / "jobs" / "pipeline" / "spark_messages.py").read_text("utf-8")
    imported = {
        name.name
        for node in ast.walk(ast.parse(errors))
        if isinstance(node, ast.Import)
        for name in node.names
    }
    assert "re" not in imported


@pytest.mark.parametrize(
    "source",
    [
        "frame.rdd.map(str)",
        "spark.sparkContext",
        "from pyspark import RDD",
        "import pyspark\nx: pyspark.Broadcast = spark._jvm",
        "frame._jdf.queryExecution()",
        "context.stop = other",
        "server.shutdown = other",
        "import gc",
        "import zipimport",
        "from importlib.abc import MetaPathFinder",
        "from world.arrow_without_pandas import hide_pandas_from_arrow",
        "settings = {'spark.python.daemon.module': 'ours'}",
        "pairs.mapPartitions(work)",
        "getattr(spark, '_jvm')",
        "from pyspark import rdd",
        "import pyspark.rdd",
        "from pyspark.sql.connect.session import SparkSession",
        "from pyspark.core.rdd import PipelinedRDD",
        "import sys\nsys.meta_path.insert(0, finder)",
        "import importlib.machinery",
        "import traceback",
    ],
)
def test_a_breach_is_seen(source: str) -> None:
    assert breaches(source)
