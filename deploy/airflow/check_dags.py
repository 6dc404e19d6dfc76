"""Loads the DAGs with a real Airflow: ``python deploy/airflow/check_dags.py``.

Airflow does not share an environment with spaPS. Make one for it, anywhere:
``python3 -m venv /tmp/airflow && /tmp/airflow/bin/pip install apache-airflow-core``
(tried with 3.3.2), and start this file with its Python.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

EXPECTED = {
    "spaps_rebuild": {"rebuild": set()},
    "spaps_bulk": {"import_world": {"resolve_and_push"}, "resolve_and_push": set()},
}


def main() -> int:
    """Return 0 when Airflow finds both DAGs with their tasks and no error."""
    with tempfile.TemporaryDirectory(prefix="spaps-airflow-") as home:
        os.environ |= {"AIRFLOW_HOME": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
        from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 - it reads the variables

        bag = DagBag(str(Path(__file__).with_name("spaps_dags.py")))
        found = {
            name: {task.task_id: task.downstream_task_ids for task in dag.tasks}
            for name, dag in bag.dags.items()
        }
    if bag.import_errors or found != EXPECTED:
        print(f"error: {bag.import_errors or found}", file=sys.stderr)
        return 1
    print(f"Airflow loads {', '.join(sorted(found))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
