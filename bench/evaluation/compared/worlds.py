"""The worlds of the evaluation, each made when it is first needed."""

from __future__ import annotations

import subprocess
import sys
from functools import cached_property
from pathlib import Path
from typing import Final

from bench.evaluation.nearby import Nearby
from world.imports.world_import import import_world

SAMPLE: Final = Path(__file__).resolve().parents[3] / "data" / "monaco.osm.pbf"


class Worlds:
    """A city from a file, and a synthetic one."""

    def __init__(self, folder: Path, data: Path, entities: int) -> None:
        berlin = data / "berlin" / "world.parquet"
        self._folder = folder
        self._entities = entities
        # The sample world stands in where Berlin is absent.
        self._source, self.city_name = (
            (berlin, "Berlin") if berlin.is_file() else (SAMPLE, "Monaco")
        )

    @cached_property
    def city_folder(self) -> str:
        """The folder of the city."""
        folder = str(self._folder / "city")
        import_world([self._source], folder)
        return folder

    @cached_property
    def synthetic_folder(self) -> str:
        """The folder of the synthetic city."""
        folder = str(self._folder / "synthetic")
        # A process of its own: nothing of it stays in the generator's memory.
        drawing = [sys.executable, "-m", "bench.live.world", folder, str(self._entities)]
        subprocess.run(drawing, check=True)
        return folder

    @cached_property
    def nearby(self) -> Nearby:
        """Neighborhoods in the synthetic city."""
        return Nearby(self.synthetic_folder)
