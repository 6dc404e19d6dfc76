"""OSM extracts before Spark reads them: one task looks through the file, wherever it lies.

It makes the checksum, and refuses what Sedona 1.8.0 would read wrongly: of a block with several
groups its reader takes the first one several times, and dense nodes without a list of tags or
another compression than zlib end in an error of Java that nobody understands.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import osmium
import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake.fs import DeltaStorageHandler
from pyspark.sql import SparkSession

from jobs.pipeline.storage_credentials import STORE_KEYS
from jobs.pipeline.world.world_batches import Batches
from schemas.errors import SourceError
from schemas.world_places import stored_place

FACT_TYPES: Final = "sha256 string, bytes long, lastBlock long"
FACTS: Final = pa.schema(
    [("sha256", pa.string()), ("bytes", pa.int64()), ("lastBlock", pa.int64())]
)
# What a task reads of an extract at once, and how much of it becomes one partition in joins.
SPLIT_BYTES: Final = 16 * 1024 * 1024
SPLIT_STEP: Final = 4 * 1024
PARTITION_BYTES: Final = 8 * 1024 * 1024
# Relations and ways are long rows: a batch of as many stays far below what a worker may take.
ROWS_PER_BATCH: Final = 10_000
PARTITIONS: Final = "spark.sql.shuffle.partitions"
REWRITE: Final = "rewrite it with 'osmium cat', or import it with 'spaps import'"

# Numbers of fields in the messages of the format (fileformat.proto, osmformat.proto).
_TYPE, _DATA_SIZE = 1, 3
_RAW, _ZLIB = 1, 3
_GROUP, _DENSE, _KEYS_VALUES = 2, 2, 10
_PATTERN: Final = re.compile(r"[\\*?\[\]{}]")
_VARINT, _FIXED64, _BYTES = 0, 1, 2


@dataclass(frozen=True, slots=True)
class ExtractFile:
    """An extract by its content; ``last_block`` is where its last block of elements begins."""

    sha256: str
    bytes: int
    last_block: int


def inspect(spark: SparkSession, source: str) -> ExtractFile:
    """Return the facts of an extract, found by one task that reads it from end to end."""
    keys = {
        ours: value
        for theirs, ours in STORE_KEYS.items()
        if (value := spark.conf.get(f"spark.hadoop.fs.{theirs}", None)) is not None
    }

    # Executors run in folders of their own.
    place = source if "://" in source else stored_place(source)

    def look(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            with _opened(place, keys) as stream:
                found = look_through(stream, source)
            values = [[found.sha256], [found.bytes], [found.last_block]]
            yield pa.RecordBatch.from_arrays([pa.array(each) for each in values], schema=FACTS)

    [row] = spark.range(0, 1, 1, 1).mapInArrow(look, FACT_TYPES).collect()
    return ExtractFile(*row)


def spark_path(source: str) -> str:
    """Return the extract as Spark has to be told of it, which would take some names as patterns."""
    place = source if "://" in source else f"file://{stored_place(source)}"
    return _PATTERN.sub(r"\\\g<0>", place)


@contextmanager
def settings_for(spark: SparkSession, file: ExtractFile) -> Iterator[None]:
    """Set how large the parts of an extract are, for as long as it is imported."""
    split = str(split_bytes(file, SPLIT_BYTES))
    partitions = max(int(spark.conf.get(PARTITIONS) or 0), file.bytes // PARTITION_BYTES)
    settings = {
        "spark.sql.files.maxPartitionBytes": split,
        "spark.sql.files.openCostInBytes": split,
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_BATCH),
        PARTITIONS: str(partitions),
        # Spark takes the bytes of the packed file for the size of all nodes, and would have the
        # driver send them to every task.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)


def split_bytes(file: ExtractFile, wanted: int) -> int:
    """Return the size of splits: about the wanted one, so that a block begins in the last split.

    Sedona 1.8.0 looks for the first block of a split, and reads nonsense where none follows.
    """
    size = wanted
    while (file.bytes - 1) // size * size > file.last_block:
        size += SPLIT_STEP
    return size


def look_through(stream: IO[bytes], source: str) -> ExtractFile:
    """Return the facts of an open extract; a SourceError says what cannot be read by Sedona."""
    digest = hashlib.sha256()
    place, last_block = 0, -1

    def read(count: int) -> bytes:
        data = stream.read(count)
        digest.update(data)
        if len(data) < count:
            raise SourceError(f"{source}: PBF error: truncated data, or no OSM PBF at all")
        return data

    while prefix := stream.read(4):
        digest.update(prefix)
        head = read(int.from_bytes(prefix, "big") & 0xFFFF)
        fields = dict(_fields(head, source))
        block = read(fields.get(_DATA_SIZE, 0))
        if fields.get(_TYPE) == b"OSMHeader":
            _check_header(prefix + head + block, source)
        else:
            _check_block(block, source)
            last_block = place
        place += len(prefix) + len(head) + len(block)
    if last_block < 0:
        raise SourceError(f"{source}: there is no element in it")
    return ExtractFile(digest.hexdigest(), place, last_block)


def _check_header(header: bytes, source: str) -> None:
    try:
        found = osmium.FileProcessor(osmium.io.FileBuffer(header, "pbf")).header
    except RuntimeError as error:
        raise SourceError(f"{source}: {error}") from error
    if found.has_multiple_object_versions:
        raise SourceError(f"{source}: a history file; import an extract of one moment")


def _check_block(block: bytes, source: str) -> None:
    content = dict(_fields(block, source))
    if _RAW in content:
        elements = content[_RAW]
    elif _ZLIB in content:
        elements = zlib.decompress(content[_ZLIB])
    else:
        raise SourceError(f"{source}: not compressed by zlib: {REWRITE}")
    groups = [value for number, value in _fields(elements, source) if number == _GROUP]
    if len(groups) != 1:
        raise SourceError(f"{source}: a block has {len(groups)} groups of elements: {REWRITE}")
    number, first = next(_fields(groups[0], source), (0, b""))
    if number == _DENSE and _KEYS_VALUES not in dict(_fields(first, source)):
        raise SourceError(f"{source}: a block of nodes without list of tags: {REWRITE}")


def _fields(message: bytes, source: str) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field of a protocol buffer message."""
    place = 0
    try:
        while place < len(message):
            key, place = _varint(message, place)
            kind = key & 7
            if kind == _VARINT:
                value, place = _varint(message, place)
                yield key >> 3, value
                continue
            length, place = (
                _varint(message, place) if kind == _BYTES else (8 if kind == _FIXED64 else 4, place)
            )
            yield key >> 3, message[place : place + length]
            place += length
    except IndexError as error:
        raise SourceError(f"{source}: PBF error: a message is cut off") from error


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _opened(source: str, keys: Mapping[str, str]) -> Any:
    try:
        if "://" not in source:
            return Path(source).open("rb")
        parent, name = source.rsplit("/", 1)
        store = pa_fs.PyFileSystem(DeltaStorageHandler(parent, dict(keys)))
        return store.open_input_stream(name)
    except OSError as error:
        raise SourceError(f"{source}: {error.strerror or error}") from error
