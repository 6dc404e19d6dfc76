"""Folds names and keys for comparison: without regard to case, accents and punctuation.

A folded text is its words, joined by one space each. "Monte-Carlo" and "monte carlo" are the same
text then. The map page folds in the same way (spaps/map_page/script/search.js).
"""

from __future__ import annotations

import unicodedata
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Accents and other marks that are no characters of their own.
_MARKS: Final = frozenset({"Mn"})
# Letters that Unicode does not take apart into a plain letter and an accent.
_PLAIN_LETTERS: Final = {
    "ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "\u0131": "i",
    "æ": "ae", "œ": "oe", "þ": "th",
}  # fmt: skip
# Punctuation, separators, and controls (also line ends) are between words.
_BETWEEN_WORDS: Final = frozenset({"P", "Z", "C"})


class _FoldedCharacters(dict[int, str]):
    """What becomes of each character, by its code; filled as characters are seen."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if category in _MARKS:
            folded = ""
        elif category[0] in _BETWEEN_WORDS:
            folded = " "
        else:
            folded = _PLAIN_LETTERS.get(character, character)
        self[code] = folded
        return folded


_FOLDED: Final = _FoldedCharacters()
# The same for all characters of ASCII in one table of bytes; other bytes stay as they are.
_ASCII_TABLE: Final = bytes(
    ord(_FOLDED[ord(chr(code).lower())]) if code < 128 else code for code in range(256)
)


def fold(text: str) -> str:
    """Return the text in small letters, without accents, its words joined by one space each."""
    # Decomposed twice, because the small form of a letter may be composed of several.
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return " ".join(plain.translate(_FOLDED).split())


def folded_column(texts: pa.ChunkedArray | pa.Array) -> pa.StringArray:
    """Return ``fold`` of each text; "" for null."""
    coded = one_array(texts.cast(pa.string())).dictionary_encode()
    folded = _folded(coded.dictionary)
    return pc.fill_null(folded.take(coded.indices), "")


def _folded(texts: pa.StringArray) -> pa.StringArray:
    """Return ``fold`` of each text: ASCII all at once, the others one by one."""
    if not len(texts):
        return pa.array([], pa.string())
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    data = texts.buffers()[2]
    content = (b"" if data is None else data.to_pybytes())[offsets[0] : offsets[-1]]
    lowered = pa.StringArray.from_buffers(
        len(texts),
        pa.py_buffer((offsets - offsets[0]).astype(np.int32)),
        pa.py_buffer(content.translate(_ASCII_TABLE)),
    )
    one_by_one = pc.or_(
        pc.invert(pc.string_is_ascii(texts)),
        pc.match_substring_regex(lowered, "^ |  | $"),
    )
    others = [fold(text) for text in texts.filter(one_by_one).to_pylist()]
    return pc.replace_with_mask(lowered, one_by_one, pa.array(others, pa.string()))


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array without a copy where it has one chunk."""
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column
