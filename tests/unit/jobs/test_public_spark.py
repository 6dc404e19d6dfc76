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
    "invalidate_caches",
}  # fmt: skip
PRIVATE = {"_jvm", "_jsc", "_jdf", "_jconf", "_jsparkSession", "_sc", "_gateway"}
NAMES = {"RDD", "SparkContext", "Broadcast", "Accumulator", "AccumulatorParam", "MetaPathFinder"}
MODULES = {
    "zipimport", "gc", "importlib.abc", "pyspark.daemon", "pyspark.worker",
    "world.arrow_without_pandas",
}  # fmt: skip


def sources(repository: Path) -> Iterator[Path]:
    for folder in ("jobs", "spatial_udfs/bulk"):
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
            found += [name.name for name in node.names if name.name in NAMES]
            found += [node.module] if node.module in MODULES else []
        elif isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name in MODULES]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += ["stop ="] * any(
                isinstance(each, ast.Attribute) and each.attr in ("stop", "shutdown")
                for each in targets
            )
        elif isinstance(node, ast.Constant) and node.value == "spark.python.daemon.module":
            found.append("a daemon of our own")
    return found


def test_public_api_alone(repository: Path) -> None:
    found = {
        str(path.relative_to(repository)): breaches(path.read_text("utf-8"))
        for path in sources(repository)
    }
    wrong = {path: uses for path, uses in found.items() if uses}
    assert wrong == {}


def test_nothing_searches_stack_traces(repository: Path) -> None:
    errors = (repository / "jobs" / "pipeline" / "spark_errors.py").read_text("utf-8")
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
    ],
)
def test_a_breach_is_seen(source: str) -> None:
    assert breaches(source)
