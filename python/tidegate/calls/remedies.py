"""Adds advice to errors from native code, which does not know how Python converts data."""

import re
from collections.abc import Mapping
from typing import Any

from tidegate._tidegate import SchemaError, TidegateError
from tidegate.calls.casts import cast_of, cast_of_zones
from tidegate.other_names import INSTEAD

MIXED = re.compile(
    r"an integer and a time cannot be compared: "
    r"(left `.*` is (\w+), right `.*` is \w+.*?); cast one of them"
)
NO_TS = re.compile(
    r"there is no column `ts`, which `on` names; (it has `([^`]+)`.*?)(?:; did you mean `(.+)`\?)?$"
)
OF_INTEGERS = re.compile(r"(\w+) is a duration, but the time columns are integers; give .*")
OF_LEFT = re.compile(r"right: there is no column `([^`]+)`, which `aggs` names")
OF_TYPE = re.compile(r"'(\w+)' object is not an instance of '(str|bool)'")
NO_FUNCTION = re.compile(r"aggs: `(.*)`: expected a function such as [^;]*", re.DOTALL)
POLARS = re.compile(r"""col\(["'](.+?)["']\)\.(\w+)\(""")
SYNTAX = re.compile(r"(where|lower|upper)\b.*?`(.*)`: Expected: (.*) at Line", re.DOTALL)
# Functions that are also common in other libraries and take only a column.
FUNCTIONS = ("sum", "mean", "min", "max", "first", "last", "count", "var", "std", "median")
# Words after which a condition cannot end.
OPEN_ENDED = ("and", "or", "not", "=", "<", ">", "<=", ">=", "+", "-", "*", "/", "(", "between")


def with_remedy(error: Exception, function: str, inputs: Mapping[str, Any]) -> Exception | None:
    """Return a function's error with a hint added, or None if its message is already complete."""
    text = str(error)
    if isinstance(error, SchemaError):
        message = cast_of(text, inputs) or cast_of_zones(text, inputs)
        if ", which `session` names" in text:
            message = f"{text}; a duration consists of a number and a unit, as in '30m'"
        if message is not None:
            return SchemaError(message)
    if (message := _of_columns(text, function, inputs)) is not None:
        return SchemaError(message)
    if (found := NO_FUNCTION.fullmatch(text)) and isinstance(inputs.get("aggs"), Mapping):
        line = _function(inputs["aggs"].get(found[1]))
        return TypeError(f'{text}; write "{found[1]}": tidegate.agg.{line}') if line else None
    if isinstance(error, TypeError) and (found := OF_TYPE.fullmatch(text)):
        return _of_type(found[1], found[2], function, inputs)
    if type(error) is TidegateError and (found := SYNTAX.search(text)):
        return TidegateError(f"{text}; {_syntax(found[2], found[3])}")
    return None


def _of_columns(text: str, function: str, inputs: Mapping[str, Any]) -> str | None:
    """Return a message about the columns of the inputs with a hint added."""
    if found := OF_LEFT.search(text):
        message = f"{text}; functions in `aggs` read columns of the matching right rows"
        return (
            f"{message}, and columns of the left side such as `{found[1]}` are in the result anyway"
        )
    if (found := NO_TS.search(text)) and "on" not in inputs:
        message = f"{text[: found.start()]}there is no column `ts`, the default of `on`; {found[1]}"
        return f"{message}; give the name of the time column, as in on={found[3] or found[2]!r}"
    if OF_INTEGERS.fullmatch(text) and _has_unit(function):
        return f"{text}, or pass unit='ms' if the integers count milliseconds since 1970"
    if found := MIXED.search(text):
        side = "left" if "int" in found[2] else "right"
        message = f"an integer and a time cannot be compared: {found[1]}; if the integers count "
        message += "milliseconds since 1970, "
        if _has_unit(function):
            return f"{message}pass unit='ms'"
        message += f"write pandas.to_datetime({side}[...], unit='ms', utc=True), or cast them "
        return f"{message}in pyarrow or polars"
    return _repeated(inputs) if "Duplicate column names" in text else None


def _has_unit(function: str) -> bool:
    """Return whether a function has the argument `unit`."""
    # Imported late, because only errors need the descriptions of all options.
    from tidegate.options import options_of  # noqa: PLC0415

    return any(one.name == "unit" for one in options_of(function.removesuffix("_batches")))


def _repeated(inputs: Mapping[str, Any]) -> str | None:
    """Return a message with a repeated column of a pandas frame, or None if there is none."""
    several = inputs.get("streams")
    each = dict(inputs)
    if isinstance(several, list | tuple):
        each |= {f"streams[{at}]": one for at, one in enumerate(several)}
    for name, given in each.items():
        if type(given).__module__.startswith("pandas") and hasattr(given, "columns"):
            twice = given.columns[given.columns.duplicated()]
            if len(twice):
                return f"{name}: there is more than one column `{twice[0]}`; rename all but one"
    return None


def _of_type(
    given: str, expected: str, function: str, inputs: Mapping[str, Any]
) -> TypeError | None:
    """Return an error with the name of the argument, which native code does not know."""
    # Imported late, because only errors need the descriptions of all options.
    from tidegate import types  # noqa: PLC0415
    from tidegate.options import options_of  # noqa: PLC0415

    for option in options_of(function.removesuffix("_batches")):
        value, kind = inputs.get(option.name), option.type.removesuffix(" | None")
        if type(value).__name__ != given:
            continue
        words = getattr(getattr(types, kind, None), "__args__", ())
        wanted = ""
        if expected == kind == "bool":
            wanted = "True or False"
        elif expected == "str" and words and all(isinstance(word, str) for word in words):
            wanted = f"one of {', '.join(map(repr, words))}"
        elif expected == kind == "str":
            wanted = "a string"
        if given == "Expr" and expected == "str":
            message = (
                f"{option.name}: only calls on tables accept an expression such as `{value}`; "
            )
            return TypeError(
                f"{message}add a column with these values to the rows, and pass its name"
            )
        if wanted:
            return TypeError(f"{option.name}: expected {wanted}, got {value!r:.80}")
    return None


def _function(given: Any) -> str:  # noqa: ANN401 - any value
    """Return the tidegate call for an aggregate in another library's notation, or ''.

    Example:
        >>> _function(("bid", "avg"))
        "mean('bid')"
    """
    column, function = getattr(given, "column", None), getattr(given, "aggfunc", given)
    if isinstance(given, tuple) and len(given) == 2:  # noqa: PLR2004 - a pair
        column, function = given
    if type(given).__module__.startswith("polars") and (found := POLARS.match(str(given))):
        column, function = found[1], found[2]
    # pandas also accepts functions such as `sum` and `numpy.mean`.
    name = function if isinstance(function, str) else getattr(function, "__name__", "")
    known = f"{name}(column)" if name in FUNCTIONS else INSTEAD.get(name, "")
    return known if column is None else known.replace("column", repr(column), 1)


def _syntax(condition: str, expected: str) -> str:
    """Return how to correct a condition."""
    last = condition.rsplit(maxsplit=1)[-1] if condition.split() else ""
    if "end of the text" in expected and last.lower() in OPEN_ENDED:
        return f"write a condition after {last!r}, or remove this word"
    if condition.count("(") > condition.count(")"):
        return "close each parenthesis"
    if "==" in condition:
        return "write = to compare, as in left.price = right.price"
    if "&&" in condition or "||" in condition:
        return "write AND and OR"
    return "write SQL, as in left.price > right.bid AND left.venue = 'X'"
