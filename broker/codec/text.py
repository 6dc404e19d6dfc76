"""Strings and binary data inside packets."""

from __future__ import annotations

from broker.codec.errors import malformed


def field_end(data: bytes, position: int, end: int) -> int:
    """Where the field with a two-byte length at ``position`` ends; it must lie within ``end``."""
    content = position + 2
    if content > end:
        raise malformed("a length is cut off")
    stop = content + (data[position] << 8 | data[position + 1])
    if stop > end:
        raise malformed("a field is longer than what is left of its packet")
    return stop


def check_text(field: bytes) -> str:
    """The text of a UTF-8 field: no surrogates, no U+0000, no overlong forms."""
    try:
        text = field.decode()
    except UnicodeDecodeError as error:
        raise malformed(f"a string is not UTF-8 (byte {error.start})") from None
    if "\0" in text:
        raise malformed("a string holds U+0000")
    return text


def string_end(data: bytes, position: int, end: int) -> int:
    """Where the UTF-8 string at ``position`` ends, after its content was checked."""
    stop = field_end(data, position, end)
    check_text(data[position + 2 : stop])
    return stop
