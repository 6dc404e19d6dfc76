"""The steps that the readers of notation and WKT share: they read a text from left to right."""

from __future__ import annotations

import re
from typing import Final

from schemas.errors import NotationError

_SPACE: Final = re.compile(r"\s*")


class TextReader:
    """A text and the position in it; each method that reads a part moves the position behind it."""

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.position = position

    @property
    def stage(self) -> int:
        """The stage that an error names."""
        return 1

    def skip_space(self) -> int:
        """Move to the next character that is no space, and return its position."""
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return self.position

    def next_is(self, *symbols: str) -> bool:
        """Return whether one of the symbols comes next, and move behind it."""
        start = self.skip_space()
        found = self.text.startswith(symbols, start)
        self.position += found
        return found

    def expect(self, symbol: str, expected: str = "") -> None:
        """Move behind the symbol; NotationError if it does not come next."""
        if not self.next_is(symbol):
            raise self.error(expected or f"'{symbol}'")

    def error(self, expected: str) -> NotationError:
        """Return the error for what is at the position."""
        return NotationError(self.text, self.position, expected, self.stage)
