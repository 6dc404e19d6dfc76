"""Text of other people made safe to print: names, topics and messages hold any character.

A control character in a name could move the cursor, hide a line or give the terminal commands.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from typing import Any, Final

# Controls, invisible formatting (also of the writing direction), surrogates, line separators.
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Scripts such as Persian and Hindi are written with these two.
_JOINERS: Final = frozenset("\u200c\u200d")
_PRINTABLE_ASCII: Final = re.compile(r"[ -~]*")
_LAST_BMP: Final = 0xFFFF


def printable(text: str, keep: str = "") -> str:
    r"""Return the text with each control character written out, as ``\x1b`` for escape.

    Characters in ``keep`` stay as they are: "\n\t" for a text of several lines.
    """
    if _PRINTABLE_ASCII.fullmatch(text):
        return text
    return "".join(one if _is_safe(one) or one in keep else repr(one)[1:-1] for one in text)


def printable_json(value: Any, indent: int | None = None) -> str:
    """Return the value as JSON that is safe to print; readers of the JSON get the same value."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(one if one == "\n" or _is_safe(one) else _json_escape(one) for one in text)


def printable_bytes(content: bytes) -> bytes:
    """Return a text of several lines that is safe to print; bytes that are no text are escaped."""
    return printable(content.decode("utf-8", "backslashreplace"), keep="\n\t").encode()


def goes_to_terminal() -> bool:
    """Return whether a terminal interprets what is written to stdout."""
    return sys.stdout.isatty()


def _is_safe(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character) not in _UNPRINTABLE


def _json_escape(character: str) -> str:
    number = ord(character)
    if number <= _LAST_BMP:
        return f"\\u{number:04x}"
    high, low = divmod(number - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
