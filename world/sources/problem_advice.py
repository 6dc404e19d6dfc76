"""What a person can do about each kind of problem of an import."""

from __future__ import annotations

from typing import Final

from world.sources.candidates import ProblemKind

_REPAIR: Final = "repair the shape, for example with 'Fix geometries' in QGIS or ST_MakeValid"
_EXTRACT: Final = "cut the extract with complete ways and relations ('osmium extract -s smart')"
_GEOMETRY: Final = "give the row a geometry, or leave it out of the source"

ADVICE: Final = {
    ProblemKind.DUPLICATE_IDENTICAL: "nothing needs to be done; the entity is there once",
    ProblemKind.DUPLICATE_CONFLICTING: "make the ids different: --id-field names another field, "
    "--key-prefix tells sources apart",
    ProblemKind.DUPLICATE_KEY: "name a field that is different in each row with --id-field",
    ProblemKind.MISSING_KEY: "fill the field in, or name another one with --id-field",
    ProblemKind.MALFORMED_KEY: "use text of at most 1,024 printable characters, or a whole number",
    ProblemKind.MISSING_PEID: "fill the field peid in, or remove it from all rows and use keys",
    ProblemKind.MALFORMED_PEID: "use whole numbers, or rename the field: peids come from keys then",
    ProblemKind.PEID_OUT_OF_RANGE: "use 0 to 2^63-1; in OSM, upload the element first",
    ProblemKind.PEID_COLLISION: "nothing needs to be done; the entity has its next peid",
    ProblemKind.MISSING_CATEGORIES: "--category gives one to all rows, --rules map attributes",
    ProblemKind.MALFORMED_CATEGORY: "write levels as a/b/c, without + and # and empty levels",
    ProblemKind.MALFORMED_NAME: "write the file in UTF-8",
    ProblemKind.MISSING_GEOMETRY: _GEOMETRY,
    ProblemKind.EMPTY_GEOMETRY: _GEOMETRY,
    ProblemKind.BROKEN_GEOMETRY: _REPAIR,
    ProblemKind.GEOMETRY_COLLECTION: "split it into one row for each part, or one multi-geometry",
    ProblemKind.UNKNOWN_GEOMETRY_TYPE: "turn curves and surfaces into lines and polygons",
    ProblemKind.NON_FINITE_COORDINATES: "correct the coordinates that are NaN or infinite",
    ProblemKind.OUTSIDE_PROJECTION: "look whether longitude and latitude are swapped, or the CRS "
    "is wrong; --srid chooses another CRS for the world",
    ProblemKind.INCOMPLETE_WAY: _EXTRACT,
    ProblemKind.INCOMPLETE_RELATION: _EXTRACT,
    ProblemKind.OPEN_AREA: "close the way in OSM, or leave it: it is no area",
}
