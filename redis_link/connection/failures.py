"""Turns errors of redis-py and of sockets into errors of ours: one line, no secrets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from redis import exceptions

from schemas.errors import REPAIR_ADVICE, DamagedRedisError, RedisFullError, RedisLinkError

# The same command may succeed a moment later.
PASSING_ERRORS: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ClusterDownError,
    exceptions.AskError,
    exceptions.TryAgainError,
    exceptions.ReadOnlyError,
    exceptions.MasterDownError,
    exceptions.SlotNotCoveredError,
)
# Subclasses of ConnectionError in redis-py that no repetition changes.
LASTING_ERRORS: Final = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.MaxConnectionsError,
)


def is_passing(error: BaseException) -> bool:
    """Return whether the same command may succeed a moment later."""
    return isinstance(error, PASSING_ERRORS) and not isinstance(error, LASTING_ERRORS)


def in_words(error: BaseException) -> str:
    """Return what went wrong, for a person who runs Redis."""
    text = " ".join(str(error).split())
    if isinstance(error, exceptions.AuthenticationError) or "NOAUTH" in text:
        return f"it refuses the user or password ({text})"
    if isinstance(error, exceptions.NoPermissionError) or "can't run this command" in text:
        return f"the user may not do this ({text})"
    if _is_full(error):
        return f"its memory limit is reached ({text})"
    if is_wrong_type(error):
        return f"a key holds another kind of value than it should ({text}){REPAIR_ADVICE}"
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return f"no answer in time ({text})"
    return text or type(error).__name__


@contextmanager
def redis_errors_from(what: str) -> Iterator[None]:
    """Turn errors of redis-py into a RedisLinkError that names what was asked of Redis."""
    try:
        yield
    except (exceptions.RedisError, OSError) as error:
        raise link_error(f"Redis {what}", error) from error


def is_wrong_type(error: BaseException) -> bool:
    """Return whether a key holds another kind of value than it should."""
    # Inside a script the words come wrapped.
    return "WRONGTYPE" in str(error)


@contextmanager
def damage_in(what: str) -> Iterator[None]:
    """Turn a key of the wrong type, or a value that is no number, into a DamagedRedisError."""
    try:
        yield
    except exceptions.ResponseError as error:
        if not is_wrong_type(error) and "not an integer" not in str(error):
            raise
        raise DamagedRedisError(f"Redis: {what} is of the wrong kind") from error
    except ValueError as error:
        raise DamagedRedisError(f"Redis: {what} is damaged ({error})") from error


def link_error(who: str, error: BaseException) -> RedisLinkError:
    """Return our error for one of redis-py or of the socket."""
    kind = RedisFullError if _is_full(error) else RedisLinkError
    return kind(f"{who}: {in_words(error)}")


def _is_full(error: BaseException) -> bool:
    # Before Redis 7 an error inside a script comes wrapped into a general one.
    return isinstance(error, exceptions.OutOfMemoryError) or "-OOM command" in str(error)
