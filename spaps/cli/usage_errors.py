"""What is wrong with an option's value, in the words of a user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

# By the option parser's names for what can be wrong.
_EXPECTED: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "int_parsing": lambda _: "a whole number",
    "int_from_float": lambda _: "a whole number",
    "int_parsing_size": lambda _: "a whole number of fewer digits",
    "float_parsing": lambda _: "a number",
    "greater_than_equal": lambda limits: f"at least {limits['ge']}",
    "less_than_equal": lambda limits: f"at most {limits['le']}",
}
LONGEST_VALUE: Final = 40


def usage_sentence(error: Any) -> str:
    """Return the sentence for wrong usage: which option, what it takes, what was given."""
    option = getattr(getattr(error, "param", None), "opts", None)
    details = getattr(error.__cause__, "errors", None)
    if option and callable(details):
        problem = details()[0]
        expected = _EXPECTED.get(problem["type"])
        if expected is not None:
            given = str(problem["input"])[:LONGEST_VALUE]
            # An argument has no name of its own on the command line, only the one that help shows.
            shown = getattr(error.param, "metavar", None)
            is_argument = getattr(error.param, "param_type_name", "") == "argument"
            name = shown.strip("[]") if is_argument and shown else max(option, key=len)
            return f"{name} must be {expected(problem.get('ctx', {}))}, not {given!r}"
    return str(error.format_message())
