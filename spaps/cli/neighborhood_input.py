"""Neighborhoods that a user gives to a command: one as an argument, or many in a file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from schemas.errors import DescriptorError, SourceError, SpapsError
from schemas.language.limits import MAX_DESCRIPTOR_BYTES
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood
from schemas.named_neighborhood import NAME_SIGN, is_name
from schemas.subscription import Subscription, parse_subscription

_FORMS: Final = "JSON or notation, a file with either (FILE or @FILE), or - for standard input"
HELP: Final = f"{_FORMS}."
HELP_WITH_NAME: Final = f"{_FORMS}; or @NAME for a named neighborhood."
DescriptorArgument: TypeAlias = Annotated[str, typer.Argument(metavar="DESCRIPTOR", help=HELP)]
# JSON may be indented; the limit of the language is on its shortest form.
LARGEST_FILE: Final = 16 * MAX_DESCRIPTOR_BYTES


def read_descriptor(argument: str) -> Neighborhood:
    """Return the neighborhood that the argument is, or that the file or stdin holds."""
    return read_neighborhood(_text(argument).strip())


def read_descriptor_or_name(argument: str) -> Neighborhood | str:
    """Return the neighborhood, or ``@NAME`` as it is; a file of this name comes first."""
    name = argument.removeprefix(NAME_SIGN)
    if name != argument and is_name(name) and not _is_file(Path(name)):
        return argument
    return read_descriptor(argument)


def _text(argument: str) -> str:
    if argument == "-":
        return sys.stdin.read()
    if argument.startswith(NAME_SIGN) and argument != NAME_SIGN:
        return _content_of_name(argument.removeprefix(NAME_SIGN))
    # JSON and notation begin with a bracket. A file whose name does so can be given with @.
    if argument.lstrip()[:1] in ("{", "("):
        return argument
    path = Path(argument)
    if not _is_file(path):
        raise DescriptorError(f"{argument[:80]!r} is no neighborhood and no file; give {_FORMS}")
    return _content(path)


def _content_of_name(name: str) -> str:
    """Return the content of a file that is given as ``@FILE``."""
    path = Path(name)
    if is_name(name) and not path.exists():
        raise DescriptorError(
            f"{name}: no such file; 'spaps neighborhood show {name}' prints a named neighborhood, "
            "and 'spaps sub' takes one as @NAME"
        )
    return _content(path)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long for a file name
        return False


def _content(path: Path) -> str:
    with path.open("rb") as file:
        # A larger file is no descriptor: do not read all of it.
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise DescriptorError(f"{path}: larger than any descriptor can be")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise DescriptorError(f"{path}: not UTF-8 text") from None


@dataclass(frozen=True, slots=True)
class UnresolvedSubscription:
    """A subscription that could not be resolved; ``where`` is its line or its subId."""

    where: str
    reason: str


def read_subscriptions(path: Path) -> tuple[list[Subscription], list[UnresolvedSubscription]]:
    """Return the subscriptions of a file (JSON lines) in order, and its wrong lines.

    Of several lines with one subId the first counts.
    """
    good: dict[int, Subscription] = {}
    bad: list[UnresolvedSubscription] = []
    try:
        # Not splitlines(): JSON strings may hold other characters that it takes for line ends.
        lines = path.read_text("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: not UTF-8 text (byte {error.start})") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            subscription = parse_subscription(line)
        except SpapsError as error:
            bad.append(UnresolvedSubscription(f"line {number}", str(error)))
            continue
        if subscription.sub_id in good:
            bad.append(
                UnresolvedSubscription(f"line {number}", f"subId {subscription.sub_id} came before")
            )
        else:
            good[subscription.sub_id] = subscription
    return list(good.values()), bad
