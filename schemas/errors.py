"""The errors that a user can cause, and the exit code of a command that fails with one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final


def quoted_text(text: str) -> str:
    """Return the text in quotes: letters as they are, what cannot be printed as an escape.

    Digits of other scripts are escaped too: they look like numbers and are none.
    """
    return "".join(
        ascii(one)[1:-1] if one.isdigit() and not one.isascii() else one for one in repr(text)
    )


# Ends the text of every error about data in Redis that a rebuild can restore.
REPAIR_ADVICE: Final = ": 'spaps rebuild --full' repairs it"


class SpapsError(Exception):
    """The base of all errors of this project; its text is one readable line."""


class DescriptorError(SpapsError):
    """A neighborhood that breaks a rule of the language; names the stage where there is one."""

    def __init__(self, message: str, stage: int | None = None) -> None:
        """Keep the number of the written-out stage, so that callers need not parse the text."""
        super().__init__(f"stage {stage}: {message}" if stage is not None else message)
        self.stage = stage


class NotationError(DescriptorError):
    """Text that does not parse; names the position and what was expected there."""

    def __init__(
        self, text: str, position: int, expected: str, stage: int | None = None, part: str = ""
    ) -> None:
        """Keep the position, counted from 0; the message counts from 1.

        ``part`` names ``text`` if it is only a part of what was typed.
        """
        found = quoted_text(text[position : position + 12]) if position < len(text) else "the end"
        where = f"at character {position + 1}" + (f" of {part}" if part else "")
        super().__init__(f"{where}: expected {expected}, found {found}", stage)
        self.text = text
        self.position = position
        self.expected = expected


class NamedNeighborhoodError(SpapsError):
    """A name that no neighborhood has, or one that cannot be given."""


class NameInUseError(NamedNeighborhoodError):
    """A name that is not removed because subscriptions use it."""


class WorldError(SpapsError):
    """A world, a version or a table that is missing, incomplete or broken."""


class SourceError(SpapsError):
    """A source file that cannot be read as what it claims to be."""


class SettingsError(SpapsError):
    """A configuration file or option with an unknown key or an impossible value.

    ``mistakes`` are all that were found, each one line; the text is the first of them.
    """

    def __init__(self, *mistakes: str) -> None:
        """Keep all mistakes; there is at least one."""
        first, *more = mistakes
        others = f" (and {len(more)} more: 'spaps config check' lists them)" if more else ""
        super().__init__(first + others)
        self.mistakes = mistakes


class Mistakes(list[str]):
    """Collects the mistakes of several steps, each of which may fail by itself."""

    @contextmanager
    def noted(self, where: str = "") -> Iterator[None]:
        """Collect what a step raises, so that the next step is made all the same.

        ``where`` is put before each mistake.
        """
        try:
            yield
        except SettingsError as error:
            self += [f"{where}{mistake}" for mistake in error.mistakes]

    def check(self) -> None:
        """Raise SettingsError when there are any."""
        if self:
            raise SettingsError(*self)


class SearchError(SpapsError):
    """A search for entities with a parameter that is impossible or selects nothing."""


class OutputError(SpapsError):
    """A file that a command could not write; names the file and the reason."""


class NoReferenceError(SpapsError):
    """None of the references of a neighborhood exists in the world version."""

    def __init__(self, refs: tuple[int | str, ...], version: int) -> None:
        """Name the references, only the first few if there are many; texts are for a person."""
        shown = ", ".join(str(ref) for ref in refs[:5]) + (" …" if len(refs) > 5 else "")
        # A name in another case, or without accents, is a usual cause.
        by_name = any(str(ref).startswith("name:") for ref in refs)
        hint = " (a name counts exactly as it is written; 'spaps find' searches)" if by_name else ""
        super().__init__(f"no reference exists in world version {version}: {shown}{hint}")
        self.refs = refs


class ResolutionLimitError(SpapsError):
    """A neighborhood that costs more than its caller allows; its partial result is dropped."""


class DeadlineError(ResolutionLimitError):
    """Resolving took longer than allowed."""


class ResolverBusyError(DeadlineError):
    """Others were resolved for all of the time allowed; a later attempt may succeed."""


class TooManyMembersError(ResolutionLimitError):
    """The stages have more members than allowed."""


class GenerationError(SpapsError):
    """A generation in Redis that cannot be built, verified or switched to."""


class DamagedRedisError(GenerationError):
    """Data of a generation that are lost or damaged in Redis; the text says how to repair them."""

    def __init__(self, what: str) -> None:
        """Append the advice for repair to ``what``."""
        super().__init__(f"{what.removesuffix(REPAIR_ADVICE)}{REPAIR_ADVICE}")


class OtherWorldError(GenerationError):
    """A generation that was built for another world than the broker serves."""


class QualityError(SpapsError):
    """A result that takes away more than the settings allow; nothing was switched."""


class PushBusyError(GenerationError):
    """Another push holds the lock; the text names it and its start."""


class RebuildBusyError(SpapsError):
    """Another rebuild or rollback runs; the text names it and its start."""


class RunBusyError(WorldError):
    """Another run writes into the same output folder; the text names it."""


class NothingResolvedError(SpapsError):
    """Subscriptions were given, and none of them could be resolved."""


class RedisLinkError(SpapsError):
    """Redis cannot be reached, refuses the connection, or returns an error; never with secrets."""


class RedisFullError(RedisLinkError):
    """Redis refuses writes because its memory limit is reached."""


class JournalError(SpapsError):
    """Durable state that is damaged, of a later release, or of another broker."""


class LaterFormatError(JournalError):
    """Durable state of a later release: it is not damaged and must not be overwritten."""

    def __init__(self, what: str, known: int) -> None:
        """Name ``what`` with its format; ``known`` is the format that this release reads."""
        super().__init__(f"{what}, this release reads {known}: start the release that wrote it")


EXIT_DONE: Final = 0
EXIT_FAILED: Final = 2
EXIT_BUSY: Final = 3
EXIT_NOT_CLEAN: Final = 4
EXIT_REFUSED: Final = 5


def exit_code_of(work: Callable[[], int]) -> int:
    """Return the exit code of ``work``; print an error, and return the exit code for it."""
    try:
        return work()
    except (RebuildBusyError, PushBusyError, RunBusyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BUSY
    except QualityError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except (SpapsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
