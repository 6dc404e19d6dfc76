"""The process that Spark forks its Python workers from, with what they need already imported.

Spark would start each worker with nothing, and from an archive of sources that every process
compiles anew: a second of each core before the first task. On one machine the installed
packages are the same for all (``spark.python.daemon.module`` in jobs/pipeline/session.py).
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

_ARCHIVES: Final = ("pyspark.zip", "-src.zip")


def _prefer_installed_packages() -> None:
    """Look past Spark's archives, where the packages in them are installed too."""
    before = list(sys.path)
    sys.path[:] = [path for path in before if not path.endswith(_ARCHIVES)]
    if find_spec("pyspark") is None or find_spec("py4j") is None:
        sys.path[:] = before


if __name__ == "__main__":
    _prefer_installed_packages()
    from world.arrow_alone import keep_pandas_out

    # Before what follows: a module that makes an Arrow array as it loads would bring pandas.
    keep_pandas_out()
    from pyspark import daemon

    import jobs.pipeline.memberships.membership_rows
    import jobs.pipeline.pairs.related_build
    import jobs.pipeline.pairs.world_survey
    import jobs.pipeline.stages.level_loop  # noqa: F401 - for those who are forked

    daemon.manager()  # type: ignore[no-untyped-call]
