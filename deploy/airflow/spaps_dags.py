"""Two DAGs for Airflow 3: a nightly rebuild, and the same as separate Spark jobs.

Copy this file into the folder of DAGs. The workers need the environment of spaPS (``make setup``,
or the wheels of a release) and Java for the Spark jobs. Variables of the workers' environment:

- ``SPAPS_HOME``: the folder with ``.venv`` and ``jobs`` (/opt/spaps)
- ``SPAPS_CONFIG``: the settings file of the rebuild (/etc/spaps/spaps.toml)
- ``SPAPS_MASTER``: the master for spark-submit (local[*])
- ``SPAPS_SOURCES``: the sources of the world for ``spaps_bulk``, separated by blanks
- ``SPAPS_WORLD_DIR``, ``SPAPS_REDIS_URL``: settings that the Spark jobs read too

Exit code 3 (another rebuild, run or push is at work) skips the task. Exit code 5 (the quality gate
refused the switch) fails it: look at the log, then start the command of the task by hand with
``--switch-anyway`` if the change is meant.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

HOME = os.environ.get("SPAPS_HOME", "/opt/spaps")
CONFIG = os.environ.get("SPAPS_CONFIG", "/etc/spaps/spaps.toml")
MASTER = os.environ.get("SPAPS_MASTER", "local[*]")
SOURCES = os.environ.get("SPAPS_SOURCES", "data/monaco.osm.pbf")
WORLD = os.environ.get("SPAPS_WORLD_DIR", "lake/world")

PROGRAMS = f"{HOME}/.venv/bin"
SUBMIT = f"{PROGRAMS}/spark-submit --master '{MASTER}'"
BUSY = 3

COMMANDS = {
    "rebuild": f"{PROGRAMS}/spaps rebuild --if-changed --config {CONFIG}",
    "import_world": f"{SUBMIT} jobs/import_world.py {SOURCES} --world {WORLD}",
    "resolve_and_push": (
        f"{SUBMIT} jobs/resolve_neighborhoods.py --world {WORLD} --subscriptions redis "
        "--out lake --redis --changes"
    ),
}


def task(name: str) -> BashOperator:
    """Return the task that runs a command in the folder of spaPS, in the DAG of the ``with``."""
    return BashOperator(
        task_id=name,
        bash_command=COMMANDS[name],
        cwd=HOME,
        append_env=True,
        skip_on_exit_code=BUSY,
        execution_timeout=timedelta(hours=6),
    )


NIGHTLY = "0 3 * * *"
# One run at a time; nights that were missed are not made up for. A task may be killed at any
# moment: a second start goes on from what is complete.
USUAL = {
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "catchup": False,
    "max_active_runs": 1,
    "default_args": {"owner": "spaps", "retries": 1, "retry_delay": timedelta(minutes=10)},
    "tags": ["spaps"],
}

with DAG(
    "spaps_rebuild", schedule=NIGHTLY, description="Rebuild in one process or on Spark", **USUAL
):
    task("rebuild")

with DAG(
    "spaps_bulk", schedule=None, description="The same as Spark jobs, for large worlds", **USUAL
):
    task("import_world") >> task("resolve_and_push")
