"""Reads the rows of a push from JSON text, such as messages from a broker."""

from __future__ import annotations

import json
from typing import Any

from tidegate._tidegate import TidegateError


def rows_of(given: bytes | bytearray | memoryview | str) -> list[dict[str, Any]]:
    """Return the objects in JSON text: one per line, or an array of objects.

    Raises:
        TidegateError: The text is not JSON; the message names the line.
        TypeError: The argument is not text, or a value is not an object.
    """
    if not isinstance(given, bytes | bytearray | memoryview | str):
        message = f"text: expected JSON as bytes or a string, got {type(given).__name__}; "
        message += "write push(rows) for rows as Python objects"
        raise TypeError(message)
    try:
        text = given if isinstance(given, str) else bytes(given).decode()
    except UnicodeDecodeError as error:
        message = f"text: expected JSON in UTF-8: {error}"
        raise TidegateError(message) from error
    if text.lstrip().startswith("["):
        found = _parsed(text, "text")
        return [_object(row, f"text, row {at}") for at, row in enumerate(found)]
    lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    return [_object(_parsed(line, f"text, line {at}"), f"text, line {at}") for at, line in lines]


def _parsed(text: str, place: str) -> Any:  # noqa: ANN401 - any value of JSON
    try:
        return json.loads(text)
    except ValueError as error:
        message = f"{place}: is not JSON: {error}; expected one object per line, or an array"
        raise TidegateError(message) from error


def _object(row: object, place: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        message = f"{place}: expected an object with a value for each column, "
        message += f"got {json.dumps(row):.60}"
        raise TypeError(message)
    return row
