"""Reads GeoJSON (RFC 7946): longitude and latitude on WGS 84, attributes in properties."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyproj import CRS
from pyproj.exceptions import CRSError
from shapely.errors import ShapelyError
from shapely.geometry import shape

from schemas.errors import SourceError
from spatial_udfs.entity_table import Geometries
from world.imports.projection import WGS84
from world.sources.candidates import Candidates, Problem, ProblemKind
from world.sources.raw_rows import RawRows
from world.sources.source_fields import FeatureFields
from world.sources.source_options import SourceOptions

# Names that files from before RFC 7946 use for longitude and latitude on WGS 84.
LONGITUDE_LATITUDE_NAMES: Final = (
    "urn:ogc:def:crs:OGC:1.3:CRS84",
    "urn:ogc:def:crs:OGC::CRS84",
    "urn:ogc:def:crs:EPSG::4326",
    "EPSG:4326",
)
RECORD_SEPARATOR: Final = b"\x1e"
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
    path: Path, options: SourceOptions, *, by_lines: bool = False
) -> tuple[Candidates, CRS, list[Problem]]:
    """Return the usable features of a file as rows, their CRS, and the problems of the others.

    ``by_lines``: each line is a feature (RFC 8142 or newline-delimited).
    """
    features, crs = (_features_of_lines(path), WGS84) if by_lines else _features(path)
    properties = FeatureFields(str(path), features, options)
    geometries, faults = _geometries(features)
    rows, problems = RawRows(
        source=str(path),
        locator=_locator,
        ordinals=np.arange(len(features)),
        peids=properties.peids,
        keys=properties.keys,
        categories=properties.categories,
        names=properties.names,
        geometries=geometries,
        tags=properties.tags,
        options=options,
    ).candidates()
    readable, unreadable = rows.without(faults)
    return readable, crs, problems + unreadable


def _features_of_lines(path: Path) -> list[dict[str, Any]]:
    features: list[dict[str, Any]] = []
    for number, line in enumerate(_content(path).split(b"\n"), start=1):
        text = line.strip(RECORD_SEPARATOR + b" \t\r")
        if not text:
            continue
        feature = _parsed(text, f"{path}, line {number}")
        if not isinstance(feature, dict) or feature.get("type") != "Feature":
            raise SourceError(f"{path}, line {number}: not a GeoJSON feature")
        features.append(feature)
    return features


def _features(path: Path) -> tuple[list[dict[str, Any]], CRS]:
    content = _content(path)
    document = _parsed(content, str(path))
    if not isinstance(document, dict) or document.get("type") not in (
        "FeatureCollection",
        "Feature",
    ):
        raise SourceError(
            f"{path}: not GeoJSON with features: its type must be FeatureCollection or Feature"
        )
    crs = _crs(path, document.get("crs"))
    if document["type"] == "Feature":
        return [document], crs
    features = document.get("features")
    if not isinstance(features, list) or not all(isinstance(item, dict) for item in features):
        raise SourceError(f"{path}: its features must be a list of objects")
    return features, crs


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error


def _parsed(content: bytes, where: str) -> Any:
    try:
        return _document(content)
    except UnicodeDecodeError as error:
        raise SourceError(f"{where}: not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        what = "an empty file" if not content.strip() else str(error)
        raise SourceError(f"{where}: not JSON: {' '.join(what.split())}") from error
    except RecursionError as error:
        raise SourceError(f"{where}: its JSON is nested too deep to be read") from error


def _document(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        # A number has thousands of digits. Read as text, it is a problem of its feature alone.
        return json.loads(content, parse_int=_number)


def _number(digits: str) -> int | str:
    return int(digits) if len(digits) <= MOST_DIGITS else digits


def _crs(path: Path, crs: Any) -> CRS:
    """Return the CRS that files from before RFC 7946 can name; else WGS 84."""
    if crs is None:
        return WGS84
    properties = crs.get("properties") if isinstance(crs, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    if name in LONGITUDE_LATITUDE_NAMES:
        return WGS84
    try:
        return CRS.from_user_input(name)
    except CRSError as error:
        raise SourceError(
            f"{path}: GeoJSON has longitude and latitude, and the CRS that this file names is not "
            f"known: {crs!r:.80}"
        ) from error


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
    text = " ".join(str(error).split())
    # Words of numpy about arrays, and Python's names of what is missing, do not help a user.
    if not text or "operand" in text or isinstance(error, LookupError | AttributeError):
        return "its coordinates are not as its type needs them"
    return text
