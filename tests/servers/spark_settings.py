"""Settings that a Spark of a test starts with; none changes what it computes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

# What the set-up wrote for this machine.
WRITTEN: Final = Path(pyspark.__file__).parent / "conf" / "spark-defaults.conf"
# Executors that live for seconds: the second compiler and collectors in parallel take more time
# than they save.
SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
OF_THE_PROJECT: Final = "-Djts.relate=ng -DDO_NOT_TRACK=true"
NO_PAGES: Final = {"spark.ui.enabled": "false"}


def words_of(settings: Mapping[str, str]) -> list[str]:
    """Return settings as options of spark-submit."""
    return [word for item in settings.items() for word in ("--conf", "=".join(item))]


def events_in(folder: Path) -> dict[str, str]:
    """Return settings that have Spark write its events into a folder, as one file of JSON lines."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def quick_executors() -> dict[str, str]:
    """Return settings for executors on this machine, which get their classes as a driver does.

    The archive of the set-up wants the class path that it was made with, so they have the jars
    there that the driver would send. Without a set-up they start slowly.
    """
    written = WRITTEN.read_text("utf-8") if WRITTEN.is_file() else ""
    archive = re.search(r'"(-XX:SharedArchiveFile=[^"]+)"', written)
    jars = re.search(r"^spark\.driver\.extraClassPath\s+(\S+)$", written, re.MULTILINE)
    options = f"{OF_THE_PROJECT} {SHORT_LIVED}"
    if archive is None or jars is None:
        return {"spark.executor.extraJavaOptions": options}
    return {
        "spark.executor.extraJavaOptions": f'{options} "{archive[1]}" -Xshare:auto -Xlog:cds*=off',
        "spark.executor.extraClassPath": jars[1],
    }
