"""Reads GeoJSON (RFC 7946): longitude and latitude on WGS 84, attributes in properties."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from shapely.errors import ShapelyError
from shapely.geometry import shape

from schemas import entity
from schemas.errors import SourceError
from spatial_udfs.entity_table import Geometries
from world.sources.candidates import Candidates, Problem, ProblemKind
from world.sources.raw_rows import RawRows

# Names that files from before RFC 7946 use for longitude and latitude on WGS 84.
LONGITUDE_LATITUDE_NAMES: Final = (
    "urn:ogc:def:crs:OGC:1.3:CRS84",
    "urn:ogc:def:crs:OGC::CRS84",
    "urn:ogc:def:crs:EPSG::4326",
    "EPSG:4326",
)
# The identifier of a feature.
ID: Final = "id"
# More digits than any peid or coordinate has.
MOST_DIGITS: Final = 400
# Errors that shapely raises for coordinates of a wrong shape, type or size.
UNREADABLE: Final = (
    ShapelyError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
)
GEOMETRY_TYPES: Final = (
    "Point",
    "LineString",
    "Polygon",
    "MultiPoint",
    "MultiLineString",
    "MultiPolygon",
    "GeometryCollection",
)


def read_geojson(
    path: Path, *, id_field: str | None, category: str | None
) -> tuple[Candidates, list[Problem]]:
    """Return the usable features of a file as rows, and the problems of the others."""
    features = _features(path)
    peids = _column(features, entity.PEID)
    keys = _keys(path, features, id_field, has_peids=peids is not None)
    categories = [_properties(feature).get(entity.CATEGORIES) for feature in features]
    if features and category is None and all(value is None for value in categories):
        raise SourceError(
            f"{path}: no feature has the property {entity.CATEGORIES!r}; give one to all of "
            "them with --category"
        )
    geometries, faults = _geometries(features)
    rows, problems = RawRows(
        source=str(path),
        locator=_locator,
        ordinals=np.arange(len(features)),
        peids=peids,
        keys=keys,
        categories=categories,
        names=[_properties(feature).get(entity.NAME) for feature in features],
        geometries=geometries,
        default_category=category,
    ).candidates()
    readable, unreadable = rows.without(faults)
    return readable, problems + unreadable


def _features(path: Path) -> list[dict[str, Any]]:
    document = _document(path)
    if not isinstance(document, dict) or document.get("type") not in (
        "FeatureCollection",
        "Feature",
    ):
        raise SourceError(f"{path}: not GeoJSON with features")
    _refuse_other_crs(path, document.get("crs"))
    if document["type"] == "Feature":
        return [document]
    features = document.get("features")
    if not isinstance(features, list) or not all(isinstance(item, dict) for item in features):
        raise SourceError(f"{path}: its features must be a list of objects")
    return features


def _document(path: Path) -> Any:
    try:
        content = path.read_bytes()
        return _parsed(content)
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        where = "an empty file" if not content.strip() else str(error)
        raise SourceError(f"{path}: not JSON: {' '.join(where.split())}") from error
    except RecursionError as error:
        raise SourceError(f"{path}: its JSON is nested too deep to be read") from error
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        # A number has thousands of digits. Read as text, it is a problem of its feature alone.
        return json.loads(content, parse_int=_number)


def _number(digits: str) -> int | str:
    return int(digits) if len(digits) <= MOST_DIGITS else digits


def _refuse_other_crs(path: Path, crs: Any) -> None:
    """Raise SourceError if an older file names another CRS than the one of RFC 7946."""
    if crs is None:
        return
    properties = crs.get("properties") if isinstance(crs, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    if name not in LONGITUDE_LATITUDE_NAMES:
        raise SourceError(
            f"{path}: GeoJSON has longitude and latitude, this file names {crs!r:.80}"
        )


def _properties(feature: dict[str, Any]) -> dict[str, Any]:
    properties = feature.get("properties")
    return properties if isinstance(properties, dict) else {}


def _column(features: list[dict[str, Any]], field: str) -> list[Any] | None:
    """Return a property of all features; None if no feature has it."""
    values = [_properties(feature).get(field) for feature in features]
    return None if all(value is None for value in values) else values


def _keys(
    path: Path, features: list[dict[str, Any]], id_field: str | None, *, has_peids: bool
) -> list[Any] | None:
    """Return the keys: a property that is named, else the ``id`` of the features (RFC 7946)."""
    if id_field not in (None, ID, entity.PEID):
        keys = _column(features, id_field)
        if keys is None and features:
            raise SourceError(
                f"{path}: no feature has the property {id_field!r} that --id-field names"
            )
        return keys
    members = [feature.get(ID) for feature in features]
    if any(member is not None for member in members):
        return members
    keys = _column(features, ID)
    if keys is None and not has_peids and features:
        raise SourceError(
            f"{path}: no feature has an id or the property {entity.PEID!r}; name a property that "
            "is different in each feature with --id-field"
        )
    return keys


def _locator(ordinal: int) -> str:
    return f"feature {ordinal + 1}"


def _geometries(
    features: list[dict[str, Any]],
) -> tuple[Geometries, dict[int, tuple[ProblemKind, str]]]:
    """Return the geometries (None if missing), and by ordinal why one cannot be read."""
    geometries = np.empty(len(features), object)
    faults: dict[int, tuple[ProblemKind, str]] = {}
    for ordinal, feature in enumerate(features):
        written = feature.get("geometry")
        if written is None:
            continue
        kind = written.get("type") if isinstance(written, dict) else None
        if kind not in GEOMETRY_TYPES:
            reason = f"geometry type {kind!r:.40} is not known"
            faults[ordinal] = ProblemKind.UNKNOWN_GEOMETRY_TYPE, reason
            continue
        try:
            with np.errstate(invalid="ignore"):  # coordinates that are NaN are found later
                geometries[ordinal] = shape(written)
        except RecursionError:
            reason = "geometry cannot be read: its coordinates are nested too deep"
            faults[ordinal] = ProblemKind.BROKEN_GEOMETRY, reason
        except UNREADABLE as error:
            reason = _reason(error)
            faults[ordinal] = ProblemKind.BROKEN_GEOMETRY, f"geometry cannot be read: {reason}"
    return geometries, faults


def _reason(error: Exception) -> str:
    """Return why coordinates cannot be read, without the names of Python types."""
    if "to float" in str(error):
        return "a coordinate is not a number"
    return " ".join(str(error).split()) or type(error).__name__
