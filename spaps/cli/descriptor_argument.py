"""A neighborhood as a person gives it to a command: JSON, notation, a file, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from schemas.errors import DescriptorError
from schemas.language.limits import MAX_DESCRIPTOR_BYTES
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood

HELP: Final = "JSON, notation, @FILE or the path of a file with either, or - for standard input."
DescriptorArgument: TypeAlias = Annotated[str, typer.Argument(metavar="DESCRIPTOR", help=HELP)]
# Generous, because JSON may be indented: the limit of the language is on its shortest form.
LARGEST_FILE: Final = 16 * MAX_DESCRIPTOR_BYTES


def read_descriptor(argument: str) -> Neighborhood:
    """The neighborhood that the argument gives or points to."""
    return read_neighborhood(_text(argument).strip())


def _text(argument: str) -> str:
    if argument == "-":
        return sys.stdin.read()
    if argument.startswith("@"):
        return _content(Path(argument[1:]))
    # Both ways to write a neighborhood begin with a bracket; a file that does can be given as @.
    if argument.lstrip()[:1] in ("{", "("):
        return argument
    path = Path(argument)
    if not _is_file(path):
        raise DescriptorError(
            f"{argument[:80]!r} is no neighborhood and no file; allowed: {HELP.rstrip('.')}"
        )
    return _content(path)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long for a file name
        return False


def _content(path: Path) -> str:
    with path.open("rb") as file:
        # Whatever was meant, a file of this size is no descriptor: do not read all of it.
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise DescriptorError(f"{path}: larger than any descriptor can be")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise DescriptorError(f"{path}: not UTF-8 text") from None
