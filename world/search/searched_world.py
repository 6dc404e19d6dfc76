"""The columns of a world version that a search needs, read as late as possible and folded.

A folded text is its words, joined by one space each, without regard to case, accents and
punctuation. "Monte-Carlo" and "monte carlo" are the same text then. The map page folds in the same
way (spaps/map_page/script/search.js).
"""

from __future__ import annotations

import unicodedata
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from schemas import entity
from world.search.categories import CodedCategories, one_array
from world.versions.store import WorldStore
from world.versions.version_tables import VersionFacts

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


TEXT_COLUMNS: Final = (entity.PEID, entity.KEY, entity.NAME, entity.CATEGORIES)


class SearchedWorld:
    """One world version, opened for searching."""

    def __init__(self, store: WorldStore, facts: VersionFacts) -> None:
        """Keep where the columns are; each is read when it is first used."""
        self.facts: Final = facts
        self._store = store

    @classmethod
    def open(cls, world: str, version: int | None = None) -> SearchedWorld:
        """Open one version of a world; the newest if none is given."""
        store = WorldStore(world)
        return cls(store, store.facts_of(version))

    def __len__(self) -> int:
        """Return the number of entities."""
        return len(self.peids)

    @cached_property
    def rows(self) -> pa.Table:
        """Peids, keys, names and categories."""
        return self._store.entities(self.facts.version, TEXT_COLUMNS)

    @cached_property
    def peids(self) -> NDArray[np.int64]:
        """The peid of each row."""
        peids: NDArray[np.int64] = self.rows.column(entity.PEID).to_numpy()
        return peids

    @cached_property
    def categories(self) -> CodedCategories:
        """The categories of each row."""
        return CodedCategories.of(self.rows.column(entity.CATEGORIES))

    @cached_property
    def has_keys(self) -> bool:
        """Whether any entity has a key that is more than its decimal peid."""
        own = pc.not_equal(self.rows.column(entity.KEY), pa.array(self.peids).cast(pa.string()))
        return bool(pc.any(own, skip_nulls=True).as_py())

    @cached_property
    def folded_names(self) -> pa.StringArray:
        """The name of each row, folded; "" where there is none."""
        return folded_column(self.rows.column(entity.NAME))

    @cached_property
    def folded_keys(self) -> pa.StringArray:
        """The key of each row, folded; "" where there is none."""
        return folded_column(self.rows.column(entity.KEY))

    def prepare(self) -> None:
        """Read and fold everything now, so that the first search need not."""
        _ = self.rows, self.categories, self.folded_names, self.has_keys and self.folded_keys

    def geometries(self) -> pa.ChunkedArray:
        """Return the WKB of each row. It is not kept: it is larger than everything else."""
        return self._store.entities(self.facts.version, [entity.GEOMETRY]).column(0)
