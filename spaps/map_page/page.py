"""The map page: its template with style, script and the world as JSON, in one HTML file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Any, Final

import numpy as np
import shapely

from schemas.language.neighborhood import Neighborhood
from spaps.map_page.drawn_entities import UNITS_PER_METRE, dimensions, encode, grey_positions
from spatial_udfs.entity_table import EntityTable, Positions
from spatial_udfs.exact.exact_resolver import Resolution

SCRIPTS: Final = ("drawing.js", "picking.js", "controls.js")
REFERENCES_SHOWN: Final = 6
# The colours of Okabe and Ito, which people with any colour vision can tell apart, without yellow
# (invisible on a light ground) and black (for references).
DISTINCT: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
# Many stages are mostly hops: a ramp from dark to light shows their order better than hues.
RAMP: Final = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (200, 190, 30))


@dataclass(frozen=True, slots=True)
class PageTexts:
    """The texts of the page."""

    title: str
    notation: str
    stages: Sequence[str]
    attribution: str = ""


def map_page(
    table: EntityTable, neighborhood: Neighborhood, resolution: Resolution, texts: PageTexts
) -> str:
    """Return the page as HTML. It needs no network, and its content policy allows none."""
    style = _resource("page.css")
    script = "(() => {\n" + "\n".join(_resource(name) for name in SCRIPTS) + "})();"
    policy = (
        f"default-src 'none'; script-src {_hash_source(script)}; style-src {_hash_source(style)}"
    )
    return Template(_resource("page.html")).substitute(
        policy=policy,
        title=html.escape(texts.title),
        style=style,
        script=script,
        world=_json_for_html(_world(table, neighborhood, resolution, texts)),
    )


def _world(
    table: EntityTable, neighborhood: Neighborhood, resolution: Resolution, texts: PageTexts
) -> dict[str, Any]:
    stages_of = _stages_by_position(table, neighborhood, resolution)
    drawn = np.fromiter(sorted(stages_of), np.int32, len(stages_of))
    grey, note = grey_positions(table, drawn)
    positions = np.concatenate([grey, drawn])
    members = len(resolution.peids()) if any(resolution.visible) else 0
    colours = stage_colours(len(resolution.stages))
    return {
        "title": texts.title,
        "notation": texts.notation,
        "attribution": texts.attribution,
        "facts": f"{members:,} of {len(table):,} entities · world version {table.version}",
        "note": note,
        "references": _reference_names(table, neighborhood),
        "perMetre": UNITS_PER_METRE,
        "categories": table.category_names,
        "stages": [
            {
                "number": number,
                "words": texts.stages[number - 1],
                "visible": resolution.visible[number - 1],
                "count": len(members),
                "colour": colours[number - 1],
            }
            for number, members in enumerate(resolution.stages, start=1)
        ],
        "entities": _entities(table, positions, stages_of),
    }


def _reference_names(table: EntityTable, neighborhood: Neighborhood) -> str:
    """Return the names of the first few references."""
    positions, missing = table.positions_of(np.array(neighborhood.refs, np.int64))
    named = [table.names[position] or str(table.peids[position]) for position in positions]
    shown = [*named[:REFERENCES_SHOWN], *(["…"] if len(named) > REFERENCES_SHOWN else [])]
    lost = [f"{len(missing)} not in this world version"] if len(missing) else []
    return ", ".join(shown + lost)


def _stages_by_position(
    table: EntityTable, neighborhood: Neighborhood, resolution: Resolution
) -> dict[int, list[int]]:
    """Return the stage numbers of each entity that is drawn in colour; 0 is a reference."""
    stages_of: dict[int, list[int]] = {}
    references = np.array(neighborhood.refs, np.int64)
    for number, peids in enumerate((references, *resolution.stages)):
        for position in table.positions_of(peids)[0].tolist():
            stages_of.setdefault(position, []).append(number)
    return stages_of


def _entities(
    table: EntityTable, positions: Positions, stages_of: dict[int, list[int]]
) -> list[list[Any]]:
    geometries = table.geometries[positions]
    west, south, _, _ = shapely.total_bounds(geometries) if len(positions) else (0.0,) * 4
    shapes = encode(geometries, (float(west), float(south)))
    return [
        [
            # As text: JavaScript's numbers end at 2^53, peids at 2^63.
            str(table.peids[position]),
            table.names[position] or "",
            _category_codes(table, position),
            kind,
            shape,
            stages_of.get(position, []),
        ]
        for position, kind, shape in zip(
            positions.tolist(), dimensions(geometries), shapes, strict=True
        )
    ]


def _category_codes(table: EntityTable, position: int) -> list[int]:
    start, end = table.category_offsets[position : position + 2]
    return [int(code) for code in table.category_codes[start:end]]


def _json_for_html(value: Any) -> str:
    """Return JSON that cannot end its script element, because names may hold any text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash_source(text: str) -> str:
    """Return the source for the content policy that allows this text alone."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _resource(name: str) -> str:
    return resources.files("spaps.map_page").joinpath(name).read_text("utf-8")


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
