"""A page that leads to the map pages of the demonstration."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template


@dataclass(frozen=True, slots=True)
class Entry:
    """One map page: what it shows, where it is, how many entities it has."""

    name: str
    file: str
    members: int


def index_page(entries: Sequence[Entry]) -> str:
    """One link for each map page."""
    links = "\n".join(
        f'<a href="{html.escape(entry.file)}"><span>{html.escape(entry.name)}</span>'
        f"<b>{entry.members:,}</b></a>"
        for entry in entries
    )
    page = resources.files("spaps.demo").joinpath("index_page.html").read_text("utf-8")
    return Template(page).substitute(links=links)
