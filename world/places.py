"""Paths and URIs as users give them: which are local, and how they are stored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_LOCAL: Final = "file://"


def local_folder(place: str) -> Path | None:
    """Return the local path that a place is, or None when it lies in an object store."""
    if place.startswith(_LOCAL):
        return Path(place.removeprefix(_LOCAL))
    return None if "://" in place else Path(place)


def stored_place(place: str) -> str:
    """Return the place as it is found from any folder: an absolute path, or the URI as it is."""
    folder = local_folder(place)
    return place if folder is None else os.path.abspath(folder)  # noqa: PTH100 - keeps links
