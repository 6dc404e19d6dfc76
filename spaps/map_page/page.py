"""The map page: its template with style, script and a packed world, in one HTML file.

It has two uses: a whole world to look around in, and a neighborhood in its world.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from schemas.language.neighborhood import Neighborhood
from schemas.language.places import place_words
from spaps.map_page.packed_world import pack, with_places
from spatial_udfs.entity_table import EntityTable, Positions

if TYPE_CHECKING:  # the page of a whole world needs no resolver
    from spatial_udfs.exact.exact_resolver import Resolution

import shapely
from numpy.typing import NDArray

# One script in this order: later files use what earlier ones define.
SCRIPTS: Final = (
    "world.js",
    "colours.js",
    "grid.js",
    "tile_drawing.js",
    "tiles.js",
    "picking.js",
    "overlay.js",
    "search.js",
    "panel.js",
    "legend.js",
    "link.js",
    "controls.js",
)
REFERENCES_SHOWN: Final = 6
# The page of a city of this size has a few megabytes, and a browser moves it smoothly.
MOST_GREY: Final = 250_000
# How much of the result's own width is shown around it.
MARGIN: Final = 0.4
LEAST_MARGIN_METRES: Final = 250.0


@dataclass(frozen=True, slots=True)
class PageTexts:
    """The texts of the page."""

    title: str
    notation: str = ""
    stages: Sequence[str] = ()
    attribution: str = ""


def world_page(table: EntityTable, texts: PageTexts) -> str:
    """Return the page of a whole world as HTML."""
    about = {
        "facts": f"{len(table):,} entities · world version {table.version}",
        "note": "",
        "references": "",
        "stages": [],
    }
    return _page(
        table, np.arange(len(table), dtype=np.int32), [np.empty(0, np.int64)], texts, about
    )


def map_page(
    table: EntityTable, neighborhood: Neighborhood, resolution: Resolution, texts: PageTexts
) -> str:
    """Return the page of a neighborhood as HTML."""
    whole, places = with_places(table, neighborhood.places)
    references = np.concatenate([places, np.array(neighborhood.refs, np.int64)])
    stages = [references, *resolution.stages]
    drawn = whole.positions_of(np.concatenate(stages))[0]
    grey, note = grey_positions(whole, drawn)
    members = len(resolution.peids()) if any(resolution.visible) else 0
    colours = stage_colours(len(resolution.stages))
    about = {
        "facts": f"{members:,} of {len(table):,} entities · world version {table.version}",
        "note": note,
        "references": _reference_names(table, neighborhood),
        "stages": [
            {
                "number": number,
                "words": texts.stages[number - 1],
                "visible": resolution.visible[number - 1],
                "colour": colours[number - 1],
            }
            for number in range(1, len(resolution.stages) + 1)
        ],
    }
    return _page(whole, np.sort(np.concatenate([grey, drawn])), stages, texts, about)


def _page(
    table: EntityTable,
    positions: Positions,
    stages: Sequence[Any],
    texts: PageTexts,
    about: dict[str, Any],
) -> str:
    """Return the page. It needs no network, and its content policy allows none."""
    style = _resource("page.css")
    script = "(() => {\n" + "\n".join(_resource("script", name) for name in SCRIPTS) + "})();"
    policy = (
        f"default-src 'none'; script-src {_hash_source(script)}; style-src {_hash_source(style)}"
    )
    packed, facts = pack(table, positions, stages)
    world = {
        "title": texts.title,
        "notation": texts.notation,
        "attribution": texts.attribution,
        **about,
        **facts,
        "columns": packed.listed,
    }
    return Template(_resource("page.html")).substitute(
        policy=policy,
        title=html.escape(texts.title),
        style=style,
        script=script,
        world=_json_for_html(world),
        columns=packed.text(),
    )


def _reference_names(table: EntityTable, neighborhood: Neighborhood) -> str:
    """Return the names of the first few references."""
    positions, missing = table.positions_of(np.array(neighborhood.refs, np.int64))
    named = [table.names[position] or str(table.peids[position]) for position in positions]
    named += [place_words(place) for place in neighborhood.places]
    shown = [*named[:REFERENCES_SHOWN], *(["…"] if len(named) > REFERENCES_SHOWN else [])]
    lost = [f"{len(missing)} not in this world version"] if len(missing) else []
    return ", ".join(shown + lost)


def _json_for_html(value: Any) -> str:
    """Return JSON that cannot end its script element, because names may hold any text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash_source(text: str) -> str:
    """Return the source for the content policy that allows this text alone."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _resource(*path: str) -> str:
    return resources.files("spaps.map_page").joinpath(*path).read_text("utf-8")


# The colours of Okabe and Ito, which people with any colour vision can tell apart, without yellow
# (invisible on a light ground) and black (for references).
DISTINCT: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
# Many stages are mostly hops: a ramp from dark to light shows their order better than hues.
RAMP: Final = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (200, 190, 30))


def stage_colours(count: int) -> tuple[str, ...]:
    """Return one colour for each stage, in stage order."""
    if count <= len(DISTINCT):
        return DISTINCT[:count]
    return tuple(_on_ramp(number / (count - 1)) for number in range(count))


def _on_ramp(place: float) -> str:
    """Return the colour at ``place`` (0..1) between the steps of the ramp."""
    at = place * (len(RAMP) - 1)
    lower = min(int(at), len(RAMP) - 2)
    mixed = (
        round(low + (high - low) * (at - lower))
        for low, high in zip(RAMP[lower], RAMP[lower + 1], strict=True)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def grey_positions(
    table: EntityTable, drawn: Positions, most: int = MOST_GREY
) -> tuple[Positions, str]:
    """Return positions for the background, and a sentence about those left out ('' if none).

    A small world is drawn whole, of a large one what is around the result.
    """
    is_grey = np.ones(len(table), bool)
    is_grey[drawn] = False
    grey = np.flatnonzero(is_grey)
    if len(grey) <= most:
        return grey.astype(np.int32), ""
    boxes = shapely.bounds(table.geometries)
    near = grey[_overlap(boxes[grey], _around(boxes[drawn] if len(drawn) else boxes))]
    if len(near) <= most:
        said = f"Of {len(grey):,} other entities the page shows the {len(near):,} around the result"
        return near.astype(np.int32), f"{said}."
    # At this scale small entities are invisible: the largest ones make the picture.
    size = np.maximum(boxes[near, 2] - boxes[near, 0], boxes[near, 3] - boxes[near, 1])
    largest = near[np.sort(np.argsort(-size, kind="stable")[:most])]
    said = f"Of {len(grey):,} other entities the page shows the {most:,} largest around the result"
    return largest.astype(np.int32), f"{said}."


def _around(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    west, south = np.nanmin(boxes[:, :2], axis=0)
    east, north = np.nanmax(boxes[:, 2:], axis=0)
    margin = max(LEAST_MARGIN_METRES, MARGIN * max(east - west, north - south))
    return np.array([west - margin, south - margin, east + margin, north + margin])


def _overlap(boxes: NDArray[np.float64], window: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(
        (boxes[:, 0] <= window[2])
        & (boxes[:, 2] >= window[0])
        & (boxes[:, 1] <= window[3])
        & (boxes[:, 3] >= window[1])
    )
