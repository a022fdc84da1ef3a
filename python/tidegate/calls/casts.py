"""Finds the code that converts a column of numbers or strings to times in the user's library."""

import re
from collections.abc import Mapping
from typing import Any

# Matches errors from native code about columns that cannot contain times.
NO_TIME = re.compile(
    r"^(left|right|stream|streams\[(\d+)\]): column `([^`]+)` is (\w+), expected a time"
)
FLOATS = {"double", "float", "halffloat"}
TEXTS = {"string", "large_string", "string_view"}

# The code for floats that count seconds since 1970, and for strings, by library.
SECONDS = {
    "pandas": "{frame}.assign({name}=pandas.to_datetime(({frame}[{name!r}] * 1e6).round()"
    '.astype("int64"), unit="us", utc=True))',
    "polars": "{frame}.with_columns((polars.col({name!r}) * 1e6).round().cast(polars.Int64)"
    '.cast(polars.Datetime("us", "UTC")))',
    "pyarrow": "{frame}.set_column({place}, {name!r}, pyarrow.compute.round("
    'pyarrow.compute.multiply({frame}[{name!r}], 1e6)).cast("int64")'
    '.cast(pyarrow.timestamp("us", "UTC")))',
    "dict": "{{**{frame}, {name!r}: (numpy.array({frame}[{name!r}]) * 1e6).round()"
    '.astype("int64").astype("datetime64[us]")}}',
}
STRINGS = {
    "pandas": "{frame}.assign({name}=pandas.to_datetime({frame}[{name!r}], format='ISO8601'))",
    "polars": "{frame}.with_columns(polars.col({name!r}).str.to_datetime())",
    "pyarrow": "{frame}.set_column({place}, {name!r}, {frame}[{name!r}]"
    '.cast(pyarrow.timestamp("us")))',
    "dict": '{{**{frame}, {name!r}: numpy.array({frame}[{name!r}], "datetime64[us]")}}',
}
# The code for naive times that are in UTC.
ZONES = {
    "pandas": "{frame}.assign({name}={frame}[{name!r}].dt.tz_localize('UTC'))",
    "polars": "{frame}.with_columns(polars.col({name!r}).dt.replace_time_zone('UTC'))",
    "pyarrow": "{frame}.set_column({place}, {name!r}, pyarrow.compute.assume_timezone("
    "{frame}[{name!r}], 'UTC'))",
}
# Matches errors about times on both sides, of which only one has a time zone.
MIXED = re.compile(
    r"times with and without a time zone cannot be compared: "
    r"left `([^`]+)` is (timestamp\[[^\]]+\]), right `([^`]+)` is (timestamp\[[^\]]+\]); add .*"
)


def cast_of_zones(text: str, inputs: Mapping[str, Any]) -> str | None:
    """Return a message about time zones with the code to write, or None for other messages."""
    found = MIXED.search(text)
    if found is None:
        return None
    side, name = ("left", found[1]) if "tz=" not in found[2] else ("right", found[3])
    line = _line(ZONES, inputs.get(side), side, name)
    return f"{text}; if the times without one are in UTC, write {line}" if line else None


def cast_of(text: str, inputs: Mapping[str, Any]) -> str | None:
    """Return the error message with the code to write, or None if there is no such code.

    Args:
        text: The message from native code.
        inputs: The inputs of the call, by name.
    """
    found = NO_TIME.match(text)
    if found is None:
        return None
    side, number, name, kind = found.groups()
    given: Any = inputs.get(side if side in {"left", "right"} else "streams")
    frame = side if side in {"left", "right"} else "rows"
    if isinstance(given, list | tuple):
        given = given[int(number or 0)]
    lines = SECONDS if kind in FLOATS else STRINGS if kind in TEXTS else {}
    line = _line(lines, given, frame, name)
    if line is None:
        return None
    is_number = kind in FLOATS
    condition = 'if it counts seconds since 1970, give unit="s", or write' if is_number else "write"
    return f"{text}; {condition} {line}"


def cast_of_floats(given: Any, frame: str, name: str) -> str | None:  # noqa: ANN401 - any input
    """Return the code that rounds floats to microseconds since 1970, or None for other inputs."""
    return _line(SECONDS, given, frame, name)


def _line(lines: Mapping[str, str], given: Any, frame: str, name: str) -> str | None:  # noqa: ANN401 - any input
    """Return the line of code to show for the library that provides the input."""
    library = _library(given)
    if library not in lines or not name.isidentifier():
        return None
    place = given.schema.get_field_index(name) if library == "pyarrow" else None
    return lines[library].format(frame=frame, name=name, place=place)


def _library(given: object) -> str:
    """Return the library that an input belongs to, according to the name of its type."""
    if isinstance(given, Mapping):
        return "dict"
    kind = type(given)
    room = kind.__module__.partition(".")[0]
    known = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "Table"}
    return room if kind.__name__ == known.get(room) else ""
