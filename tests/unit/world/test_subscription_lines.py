"""Lines of subscriptions as tasks read them: cut anywhere, they give what one reader gives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow.fs as pa_fs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import SourceError
from schemas.language.limits import MAX_DESCRIPTOR_BYTES
from schemas.membership import DESCRIPTOR, SUB_ID
from schemas.subscription import MAX_SUB_ID, parse_subscription
from spaps.cli.neighborhood_input import read_subscriptions
from spatial_udfs.batch.subscription_parts import SubscriptionPart, each_once, merged
from world.subscriptions import line_ranges
from world.subscriptions.jsonl_fast_path import LINES_IN_RANGE, parts_of_range
from world.subscriptions.line_ranges import LineRange, blocks_of, line_files

GOOD = '{"refs":[1],"stages":[{"cats":["road/#"],"cond":"C"}]}'
OTHER = '{"refs":[2],"stages":[{"cats":["würfel/#"],"cond":"T"}]}'


def part_of(content: bytes) -> SubscriptionPart:
    [part] = parts_of_range(0, [content])
    return each_once(part, by_text=False)


def texts_by_number(part: SubscriptionPart) -> dict[int, str]:
    texts = part.texts.to_pylist()
    numbers = part.sub_ids.tolist()
    assert len(set(numbers)) == len(numbers)
    return {number: texts[of] for number, of in zip(numbers, part.text_of.tolist(), strict=True)}


@pytest.mark.parametrize(
    "line",
    [
        f'{{"subId": 7, "descriptor": {GOOD}}}',
        f'{{"descriptor": {GOOD}, "subId": 7}}',
        f'{{"descriptor":{GOOD},"subId":7}}\r',
        f' \t{{ "subId" : 7 , "descriptor" : {GOOD} }} ',
        f'{{"sub\\u0049d": 7, "descriptor": {GOOD}}}',  # no usual form
        f'{{"subId": 7, "descriptor": {GOOD[:-1]}{" " * MAX_DESCRIPTOR_BYTES}}}}}',  # long
    ],
)
def test_a_line_has_its_meaning_in_whatever_way_it_is_written(line: str) -> None:
    part = part_of(f"{line}\n".encode())
    assert part.bad == []
    assert part.lines == 1
    [(number, text)] = texts_by_number(part).items()
    assert number == 7
    meant = parse_subscription(f'{{"subId": 7, "descriptor": {text}}}')
    assert meant == parse_subscription(f'{{"subId": 7, "descriptor": {GOOD}}}')


@pytest.mark.parametrize("number", [0, 1, 10**18, MAX_SUB_ID])
def test_every_number_of_a_subscription_is_read(number: int) -> None:
    part = part_of(f'{{"subId": {number}, "descriptor": {GOOD}}}'.encode())
    assert part.sub_ids.tolist() == [number]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{oh no", "not JSON"),
        (f'{{"subId": {MAX_SUB_ID + 1}, "descriptor": {GOOD}}}'.encode(), "0 .. 2^63-1"),
        (f'{{"subId": 07, "descriptor": {GOOD}}}'.encode(), "not JSON"),
        (f'{{"subId": -1, "descriptor": {GOOD}}}'.encode(), "0 .. 2^63-1"),
        (f'{{"subId": 1, "descriptor": {GOOD}}}'.encode("utf-16"), "not UTF-8"),
        (f'{{"subId": 1, "descriptor": {OTHER}}}'.encode("latin-1"), "not UTF-8"),
        (b'{"subId": 1, "descriptor": "\xff"}', "not UTF-8"),
    ],
)
def test_a_bad_line_says_what_is_wrong_and_spoils_no_other(line: bytes, reason: str) -> None:
    before, after = (f'{{"subId": {n}, "descriptor": {OTHER}}}'.encode() for n in (1, 2))
    part = part_of(b"\n".join([before, b"", b" \r", line, after]))
    assert texts_by_number(part) == {1: OTHER, 2: OTHER}
    assert part.places.tolist() == [0, 4]
    [bad] = part.bad
    assert (bad.place, bad.sub_id) == (3, None)
    assert reason in bad.reason
    assert part.lines == 5


LINES = st.lists(
    st.one_of(
        st.builds(
            lambda number, text: f'{{"subId": {number}, "descriptor": {text}}}',
            st.integers(0, 5),
            st.sampled_from([GOOD, OTHER]),
        ),
        st.sampled_from(["", " ", "{", "[]", f'{{"descriptor": {GOOD}, "subId": 3}}\r']),
    ),
    max_size=12,
)


@given(LINES, st.booleans(), st.integers(1, 400), st.integers(1, 300))
def test_ranges_and_blocks_of_any_size_give_what_one_reader_gives(
    lines: list[str], ends: bool, width: int, block: int
) -> None:
    content = ("\n".join(lines) + ("\n" if ends else "")).encode()
    # A file system of its own for each example: pytest's folders are for all of them.
    store = pa_fs._MockFileSystem()
    with store.open_output_stream("s.jsonl") as stream:
        stream.write(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_ranges, "BLOCK_BYTES", block)
        ranges = [
            LineRange(number, "s.jsonl", start, min(start + width, len(content)), is_packed=False)
            for number, start in enumerate(range(0, len(content), width))
        ]
        parts = [
            part for each in ranges for part in parts_of_range(each.number, blocks_of(store, each))
        ]
    found = each_once(merged(parts), by_text=False)
    counts = np.zeros(len(content) // width + 1, np.int64)
    for part in parts:
        counts[part.range_number] += part.lines
    before = np.cumsum(counts) - counts

    def line_of(place: int) -> int:
        return int(before[place // LINES_IN_RANGE]) + place % LINES_IN_RANGE + 1

    meant = {number: parse_subscription(f'{{"subId": {number}, "descriptor": {text}}}')
             for number, text in texts_by_number(found).items()}  # fmt: skip
    good, bad = expected(content)
    assert meant == good
    assert {line_of(row.place): row.reason for row in found.bad} == bad


def expected(content: bytes) -> tuple[dict[int, object], dict[int, str]]:
    """What the reader of small files says."""
    path = Path("s.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda _path, _encoding: content.decode())
        good, bad = read_subscriptions(path)
    return (
        {each.sub_id: each for each in good},
        {int(each.where.split()[1]): each.reason for each in bad},
    )


def test_packed_files_are_read_as_they_are(tmp_path: Path) -> None:
    line = json.dumps({SUB_ID: 1, DESCRIPTOR: json.loads(GOOD)}).encode()
    (tmp_path / "s.jsonl.gz").write_bytes(gzip.compress(line + b"\n") + gzip.compress(line))
    store = pa_fs.SubTreeFileSystem(str(tmp_path), pa_fs.LocalFileSystem())
    [[lines]] = line_ranges.line_ranges(line_files(store, ""), at_once=4)
    assert lines.is_packed
    assert b"".join(blocks_of(store, lines)) == line + b"\n" + line


def test_a_folder_gives_the_files_that_spark_would_read(tmp_path: Path) -> None:
    names = ("b.jsonl", "a.jsonl", "_SUCCESS", ".a.crc", "day=1/c.jsonl", "old/d.jsonl")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    store = pa_fs.SubTreeFileSystem(str(tmp_path), pa_fs.LocalFileSystem())
    files = line_files(store, "")
    assert [info.path for info in files] == ["a.jsonl", "b.jsonl", "day=1/c.jsonl"]
    assert [info.path for info in line_files(store, "", "b*")] == ["b.jsonl"]
    # Small files are no reason for many tasks.
    assert len(line_ranges.line_ranges(files, at_once=4)) == 1


def test_a_file_is_cut_for_all_tasks_and_none_of_them_gets_too_much(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        file.truncate(100_000_001)
    files = line_files(pa_fs.SubTreeFileSystem(str(tmp_path), pa_fs.LocalFileSystem()), "")
    for at_once in (1, 3, 16):
        ranges = [each for share in line_ranges.line_ranges(files, at_once) for each in share]
        assert ranges[0].start == 0
        assert ranges[-1].end == 100_000_001
        assert [each.end for each in ranges[:-1]] == [each.start for each in ranges[1:]]
        assert len(ranges) >= at_once
        assert max(each.end - each.start for each in ranges) <= line_ranges.MOST_BYTES


def test_what_only_hadoop_unpacks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl.snappy").write_bytes(b"x")
    files = line_files(pa_fs.SubTreeFileSystem(str(tmp_path), pa_fs.LocalFileSystem()), "")
    with pytest.raises(SourceError, match="snappy is packed"):
        line_ranges.line_ranges(files, at_once=1)
