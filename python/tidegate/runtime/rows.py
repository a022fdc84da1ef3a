"""Converts Python dicts or tuples to a table with a given schema; measures Arrow rows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate._tidegate import SchemaError, TidegateError

DATE = re.compile(r"\d{4}-\d\d-\d\d")


def table(
    rows: Sequence[Any] | Mapping[str, Any],
    schema: pa.Schema,
    name: str,
    *,
    ignores_extra: bool,
    unit: str | None = None,
) -> pa.Table:
    """Convert rows, or a dict with a list for each column, to a table.

    Tuples list their values in schema order. Error messages begin with `name` and identify the
    offending row in the list. With `unit`, numbers in time columns count from 1970 in this unit.
    """
    # Each lookup in a schema rebuilds the list of its names.
    names = dict.fromkeys(schema.names)
    if isinstance(rows, Mapping):
        columns = _columns(rows, names, name, ignores_extra)
    else:
        values = [_values(row, at, names, name, ignores_extra) for at, row in enumerate(rows)]
        columns = list(zip(*values, strict=True)) or [()] * len(schema)
    # Metadata may describe the values, but nothing has verified it, so it is removed.
    fields = [field.with_type(_made(field.type)).remove_metadata() for field in schema]
    each = zip(columns, fields, strict=True)
    arrays = [_array(column, field, name, unit) for column, field in each]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


LOWEST, HIGHEST = -(2**63), 2**63 - 1
"""The smallest and the largest 64-bit integer."""


def _nanoseconds(unit: Any) -> int:  # noqa: ANN401 - the name of a unit
    return int(np.timedelta64(1, unit) / np.timedelta64(1, "ns"))


def _steps(
    value: Any,  # noqa: ANN401 - any value
    number: int,
    field: pa.Field,
    name: str,
    unit: str,
) -> int | None:
    """Convert a time since 1970, as a number in `unit`, to the unit of a column without loss.

    Returns None for other values.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    # A float is interpreted as the shortest decimal that represents it, so 0.1 is exactly one
    # tenth.
    exact = Fraction(repr(value)) if math.isfinite(value) else None
    steps = None if exact is None else exact * _nanoseconds(unit) / _nanoseconds(field.type.unit)
    if steps is None or steps.denominator != 1 or not LOWEST <= steps <= HIGHEST:
        why = f"it is not a whole number of {field.type.unit} since 1970"
        raise _unfit(name, field, number, value, why)
    return int(steps)


def _columns(
    given: Mapping[str, Any],
    names: Mapping[str, None],
    name: str,
    ignores_extra: bool,  # noqa: FBT001 - the caller's
) -> list[Sequence[Any]]:
    """Return the lists of a dict, in schema order."""
    for column, values in given.items():
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
            message = f"{name}: expected a dict with a list for each column, got a dict whose "
            message += f"value for `{column}` is {values!r:.80}; write push([row]) for one row"
            raise TypeError(message)
    missing = [column for column in names if column not in given]
    if missing:
        message = f"{name}: the dict has no list for column `{missing[0]}`; add one, with None "
        message += "for nulls"
        raise SchemaError(message)
    extra = [] if ignores_extra else [column for column in given if column not in names]
    if extra:
        message = f"{name}: the dict has a list for `{extra[0]}`, which is not a column; "
        message += 'omit it, or push with extra="ignore"'
        raise SchemaError(message)
    lengths = {column: len(given[column]) for column in names}
    if len(set(lengths.values())) > 1:
        (one, first), (other, second) = next(
            pair for pair in pairwise(lengths.items()) if pair[0][1] != pair[1][1]
        )
        message = f"{name}: the lists of a dict must have the same length, but `{one}` has "
        message += f"{first} values and `{other}` has {second}"
        raise SchemaError(message)
    return [list(given[column]) for column in names]


def size_of(rows: pa.RecordBatch | pa.Table) -> int:
    """Return the size of rows in bytes. Older pyarrow versions fail for slices of view arrays."""
    try:
        return int(rows.nbytes)
    except pa.ArrowTypeError:
        return int(rows.get_total_buffer_size())


def _values(
    row: object,
    number: int,
    names: Mapping[str, None],
    name: str,
    ignores_extra: bool,  # noqa: FBT001 - as above
) -> Sequence[Any]:
    """Return the values of a row in schema order."""
    place = f"{name}: row {number} of the list"
    if isinstance(row, Mapping):
        missing = [column for column in names if column not in row]
        if missing:
            message = f"{place} has no value for column `{missing[0]}`; give None for a null"
            raise SchemaError(message)
        extra = [] if ignores_extra else [key for key in row if key not in names]
        if extra:
            message = f"{place} has a value for `{extra[0]}`, which is not a column; "
            message += 'omit it, or push with extra="ignore"'
            raise SchemaError(message)
        return [row[column] for column in names]
    if isinstance(row, tuple):
        if len(row) != len(names):
            message = f"{place} has a length of {len(row)}, expected {len(names)}: "
            message += ", ".join(names)
            raise SchemaError(message)
        return row
    message = f"{name}: expected rows as dicts or tuples, a dict of lists, or Arrow data, "
    message += f"got a list whose row {number} is {type(row).__name__}"
    raise TypeError(message)


def _made(type_: pa.DataType) -> pa.DataType:
    """Return the type, or an equivalent type that pyarrow can build from Python objects."""
    if not pa.types.is_dictionary(type_):
        return type_
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    values = views.get(type_.value_type, type_.value_type)
    return pa.dictionary(type_.index_type, values, type_.ordered)


def _array(column: Sequence[Any], field: pa.Field, name: str, unit: str | None = None) -> pa.Array:
    """Convert a column's values without loss, except that floats are rounded to the type."""
    if unit is not None and pa.types.is_timestamp(field.type):
        steps = [_steps(value, at, field, name, unit) for at, value in enumerate(column)]
        pairs = zip(column, steps, strict=True)
        others = [value if step is None else None for value, step in pairs]
        times = pa.array(steps, pa.int64()).cast(field.type)
        return pc.coalesce(times, _array(others, field, name))
    if _is_time(field.type) and any(isinstance(value, str) for value in column):
        texts = _times([one if isinstance(one, str) else None for one in column], field, name)
        others = [None if isinstance(one, str) else one for one in column]
        return pc.coalesce(texts, _array(others, field, name))
    errors = (pa.ArrowException, TypeError, ValueError, OverflowError)
    column = [_plain(value, field.type) for value in column]
    try:
        array = _built(column, field.type)
        found = array.to_pylist()
    except errors as together:
        for number, value in enumerate(column):
            try:
                _built([value], field.type).to_pylist()
            except errors as error:
                raise _unfit(name, field, number, value, str(error)) from None
        # Each value fits the type, but there are too many values for the dictionary.
        message = f"{name}: column `{field.name}`: the values of the list do not fit {field.type}: "
        raise TidegateError(message + str(together)) from None
    for number, (value, kept) in enumerate(zip(column, found, strict=True)):
        if not _is_kept(value, kept, field.type):
            raise _unfit(name, field, number, value, _lost(value, kept, field.type))
    return array


# The likely units of numbers that count time since 1970, by the least number of digits.
LIKELY = [
    (18, "ns", "nanoseconds"),
    (15, "us", "microseconds"),
    (12, "ms", "milliseconds"),
    (0, "s", "seconds"),
]


def _lost(value: object, kept: object, type_: pa.DataType) -> str:
    """Return why a value would be changed, with advice."""
    if pa.types.is_timestamp(type_) and isinstance(value, int):
        # Between the years 1973 and 5138, the number of digits determines the unit.
        digits = len(str(abs(value)))
        unit, units = next(found for least, *found in LIKELY if digits >= least)
        advice = f'write push(rows, unit="{unit}") if it counts {units} since 1970'
        return f"a number needs a unit; {advice}"
    return f"it would become {kept!r:.80}"


def _is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def _times(texts: Sequence[str | None], field: pa.Field, name: str) -> pa.Array:
    """Convert ISO 8601 strings to times without loss."""
    try:
        return _of_texts(texts, field.type)
    except pa.ArrowInvalid:
        for number, text in enumerate(texts):
            try:
                _of_texts([text], field.type)
            except pa.ArrowInvalid as error:
                raise _unfit(name, field, number, text, _why(str(error), text)) from None
        raise


def _of_texts(texts: Sequence[str | None], type_: pa.DataType) -> pa.Array:
    found = pa.array(texts, pa.string())
    try:
        return found.cast(type_)
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(type_):
            raise
        # Arrow accepts more digits than the unit has only if the unit is finer.
        return found.cast(pa.timestamp("ns", type_.tz)).cast(type_)


def _why(fault: str, text: str | None) -> str:
    """Return why a string is not a time of this type, with advice."""
    if DATE.match(text or ""):
        if "expected a zone offset" in fault:
            return "it has no time zone, but the column has one; add its UTC offset, such as Z"
        if "expected no zone offset" in fault:
            return "it has a time zone, but the column has none; omit the UTC offset"
    return (
        "expected ISO 8601, such as 2026-03-02 for a date or 2026-03-02T10:00:00.5 for a "
        "timestamp, with no more digits than the type has"
    )


def _built(column: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Build an array; before version 24, pyarrow cannot build dictionaries of large strings."""
    if not pa.types.is_dictionary(type_):
        return pa.array(column, type_)
    array = pa.array(column, type_.value_type).dictionary_encode()
    indices = array.indices.cast(type_.index_type)
    return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=type_.ordered)


def _plain(value: Any, type_: pa.DataType) -> Any:  # noqa: ANN401 - any value
    """Convert a value for pyarrow: pandas NaT to None, and numpy times to the unit of the type."""
    if type(value).__name__ == "NaTType":
        return None
    if isinstance(value, timedelta):
        value = _whole(value)
    if isinstance(value, np.datetime64 | np.timedelta64) and pa.types.is_temporal(type_):
        unit = getattr(type_, "unit", "D")
        kind = "timedelta64" if isinstance(value, np.timedelta64) else "datetime64"
        try:
            found = value.astype(f"{kind}[{unit}]")
            is_same = bool(found == value)
        except TypeError:
            # A month has no fixed number of seconds; Arrow raises an error for it.
            return value
        return found if is_same else value
    return value


def _whole(value: timedelta) -> timedelta | np.timedelta64:
    """Copy a duration's attributes, because Arrow reads C fields that a subclass might not set."""
    if type(value) is timedelta:
        return value
    whole = timedelta(value.days, value.seconds, value.microseconds)
    rest = getattr(value, "nanoseconds", 0)
    return np.timedelta64(whole, "ns") + np.timedelta64(rest, "ns") if rest else whole


def _unfit(name: str, field: pa.Field, number: int, value: object, why: str) -> TidegateError:
    message = f"{name}: column `{field.name}`, row {number} of the list: "
    message += f"{value!r:.80} is not a value of {field.type}: {why}"
    return TidegateError(message)


def _is_kept(value: Any, kept: Any, type_: pa.DataType) -> bool:  # noqa: ANN401, PLR0911 - any value, a kind a return
    """Return whether Arrow preserved a value, rather than truncating or rounding it."""
    if value is kept or kept is None:
        # Python has several values for null, such as NaT.
        return True
    if pa.types.is_floating(type_):
        if math.isnan(kept):
            return bool(math.isnan(value))
        is_narrow = not pa.types.is_float64(type_) and isinstance(value, float)
        return math.isfinite(kept) if is_narrow and math.isfinite(value) else bool(kept == value)
    if pa.types.is_dictionary(type_):
        return _is_kept(value, kept, type_.value_type)
    if pa.types.is_map(type_):
        items = [*value.items()] if isinstance(value, Mapping) else [*value]
        each = zip(items, kept, strict=True)
        types = (type_.key_type, type_.item_type)
        return all(all(map(_is_kept, item, entry, types)) for item, entry in each)
    if pa.types.is_struct(type_):
        return (
            isinstance(value, Mapping)
            and value.keys() == kept.keys()
            and all(_is_kept(value[field.name], kept[field.name], field.type) for field in type_)
        )
    if isinstance(kept, list):
        items = list(value)
        inner = type_.value_type
        return len(items) == len(kept) and all(map(_is_kept, items, kept, [inner] * len(kept)))
    if isinstance(value, np.datetime64 | np.timedelta64):
        # The value has the unit of the column and no time zone.
        return getattr(type_, "tz", None) is None
    return bool(kept == value)
