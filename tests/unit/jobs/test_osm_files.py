"""What the import on Spark finds out about an extract before Sedona reads it."""

from __future__ import annotations

import hashlib
import io
import zlib
from pathlib import Path

import osmium
import pytest

from jobs import import_world
from jobs.pipeline.world.osm_import import split_bytes
from schemas.errors import SourceError
from world.sources.osm.spark_extract import ExtractFile, look_through

MONACO = Path(__file__).resolve().parents[3] / "data" / "monaco.osm.pbf"


def field(number: int, value: bytes | int) -> bytes:
    """A field of a protocol buffer message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low]) if not rest else bytes([low | 0x80]) + varint(rest)


def block(content: bytes, compression: int = 3) -> bytes:
    packed = zlib.compress(content) if compression == 3 else content
    blob = field(2, len(content)) + field(compression, packed)
    head = field(1, b"OSMData") + field(3, len(blob))
    return len(head).to_bytes(4, "big") + head + blob


NODES = field(2, field(2, field(1, b"\x02") + field(10, b"\x00")))


def test_monaco() -> None:
    content = MONACO.read_bytes()
    found = look_through(io.BytesIO(content), "monaco")
    assert (found.sha256, found.bytes) == (hashlib.sha256(content).hexdigest(), len(content))
    # Behind the length of the head stands the head, which begins with the name of the block.
    assert content[found.last_block + 4 :].startswith(b"\x0a\x07OSMData")
    assert content.count(b"\x0a\x07OSMData", found.last_block + 5) == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no element"),
        (b"hello", "truncated"),
        (MONACO.read_bytes()[:300_000], "truncated"),
        (block(NODES + NODES), "2 groups of elements.*osmium cat"),
        (block(field(1, b"")), "0 groups of elements"),
        (block(field(2, field(2, field(1, b"\x02")))), "without list of tags"),
        (block(NODES, compression=7), "not compressed by zlib"),
    ],
)
def test_what_sedona_would_read_wrongly_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=f"^x.osm.pbf: .*{reason}"):
        look_through(io.BytesIO(content), "x.osm.pbf")


@pytest.mark.parametrize("compression", [1, 3])
def test_what_it_reads_well_is_accepted(compression: int) -> None:
    content = block(NODES, compression) * 3
    found = look_through(io.BytesIO(content), "x")
    assert found.last_block == len(content) // 3 * 2


@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 70_000, 1_234_567])
@pytest.mark.parametrize("last_size", [1, 500, 5_000])
def test_a_block_begins_in_the_last_split(size: int, last_size: int) -> None:
    file = ExtractFile("", size, max(0, size - last_size))
    split = split_bytes(file, wanted=1000)
    assert split >= 1000
    assert (size - 1) // split * split <= file.last_block


def test_a_history_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.osm.pbf"
    with osmium.SimpleWriter(osmium.io.File(str(path), "osh.pbf")) as writer:
        writer.add_node(osmium.osm.mutable.Node(id=1, location=(7, 43)))
    with path.open("rb") as stream, pytest.raises(SourceError, match="a history file"):
        look_through(stream, "history.osm.pbf")


def test_several_extracts_of_a_store_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert import_world.main(["s3a://b/1.osm.pbf", "s3a://b/2.osm.pbf", "--world", "w"]) == 2
    assert "s3a://b/1.osm.pbf: an object store is read for one" in capsys.readouterr().err
