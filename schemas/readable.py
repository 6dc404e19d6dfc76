"""Quotes a text for an error, so that it can be read and shows what it is made of."""

from __future__ import annotations


def quoted_text(text: str) -> str:
    """Return the text in quotes: letters as they are, what cannot be printed as an escape.

    Digits of other scripts are escaped too: they look like numbers and are none.
    """
    return "".join(
        ascii(one)[1:-1] if one.isdigit() and not one.isascii() else one for one in repr(text)
    )
