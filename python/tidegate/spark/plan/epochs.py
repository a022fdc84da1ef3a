"""Converts numeric time columns of DataFrames to timestamps in Spark, if `unit` is given.

As in calls on tables, each number must be converted exactly. Spark's timestamps count microseconds,
so numbers of nanoseconds must be multiples of 1,000. A task fails if it reads any other number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DoubleType, FloatType, IntegralType, TimestampNTZType

from tidegate import SchemaError, TidegateError
from tidegate._tidegate import Index
from tidegate.calls.epochs import NO_NUMBERS, OF_INDEX, UNITS, Epoch
from tidegate.spark.plan.files import are_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import StructType

NUMBERS = (IntegralType, FloatType, DoubleType)
# The functions that convert integers.
FUNCTIONS = {"s": "timestamp_seconds", "ms": "timestamp_millis", "us": "timestamp_micros"}
# Larger floats are whole numbers of coarser units only.
EXACT = 2**53


def with_times(
    inputs: Mapping[str, Any], columns: Mapping[str, Sequence[str]], given: object
) -> list[Any]:
    """Return the inputs of a call with timestamps in their time columns.

    Args:
        inputs: The inputs of the call, by the names that messages use.
        columns: For each input, the names of its time columns.
        given: The argument `unit`; None leaves the inputs as they are.

    Raises:
        TidegateError: The inputs are files, or all of them are streams.
        SchemaError: No time column contains numbers, or an input is an index.
    """
    if given is None:
        return [*inputs.values()]
    epoch = Epoch.of(given)
    _check(inputs)
    if not all(isinstance(one, DataFrame) for one in inputs.values()):
        # The call itself rejects other inputs.
        return [*inputs.values()]
    kinds = {
        (side, name): _type(one.schema, name)
        for side, one in inputs.items()
        for name in columns[side]
    }
    if not any(isinstance(kind, NUMBERS) for kind in kinds.values()):
        raise SchemaError(NO_NUMBERS)
    of_zone = epoch.start.type.tz is not None
    of_zone &= not any(isinstance(kind, TimestampNTZType) for kind in kinds.values())
    try:
        start = epoch.start.cast(pa.timestamp("us", epoch.start.type.tz)).cast(pa.int64()).as_py()
    except pa.ArrowInvalid as error:
        message = f"unit: Spark's timestamps count microseconds, and the start does not: {error}"
        raise TidegateError(message) from error
    found = dict(inputs)
    for (side, name), kind in kinds.items():
        if isinstance(kind, NUMBERS):
            is_float = not isinstance(kind, IntegralType)
            time = _time(name, epoch.unit, start, is_float=is_float, of_zone=of_zone)
            found[side] = found[side].withColumn(name, F.expr(time))
    return [*found.values()]


def _check(inputs: Mapping[str, Any]) -> None:
    """Reject inputs whose times cannot be converted."""
    for name, one in inputs.items():
        if isinstance(one, Index):
            message = f"{name}: {OF_INDEX}"
            raise SchemaError(message)
    if are_files(inputs):
        message = "unit: tasks that read files need timestamps in them; "
        message += "write timestamps to the files, or read them with spark.read.parquet"
        raise TidegateError(message)
    if all(getattr(one, "isStreaming", False) for one in inputs.values()):
        message = (
            "unit: the time column of a stream needs a watermark, which a number cannot have; "
        )
        message += "convert the numbers before withWatermark, with a function such as "
        message += "pyspark.sql.functions.timestamp_millis, and leave unit out"
        raise TidegateError(message)


def _type(schema: StructType, name: str) -> object:
    """Return the type of a column, or None if there is no such column, or more than one."""
    found = [field.dataType for field in schema if field.name == name]
    return found[0] if len(found) == 1 else None


def _time(name: str, unit: str, start: int, *, is_float: bool, of_zone: bool) -> str:
    """Return SQL for the times that numbers in a column count from a start in microseconds."""
    column = "`" + name.replace("`", "``") + "`"
    number, is_exact = column, "true"
    if is_float:
        # Floats of seconds and milliseconds are whole numbers of microseconds.
        factor = 1 if unit == "ns" else 1000 ** (2 - UNITS.index(unit))
        steps = f"rint({column} * {factor}D)"
        is_exact = f"{steps} / {factor}D = {column} AND abs({steps}) < {EXACT}"
        # Outside this condition, the cast is not evaluated.
        number, of = f"cast({steps} as bigint)", "ns" if unit == "ns" else "us"
    else:
        of = unit
    if of == "ns":
        is_exact += f" AND {number} % 1000 = 0"
        number, of = f"({number} div 1000)", "us"
    micros = f"unix_micros({FUNCTIONS[of]}({number}))"
    # The limit is far beyond all times, and prevents an overflow.
    is_exact += f" AND abs({micros}) < {2**62}" if start else ""
    micros += f" + ({start}L)" if start else ""
    time = f"timestamp_micros({micros})"
    if not of_zone:
        seconds = f"cast(({micros}) * 0.000001BD as decimal(18, 6))"
        time = f"(timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {seconds}))"
    text = name.replace("\\", "\\\\").replace("'", "\\'")
    message = (
        f"concat('unit: column `{text}`: ', cast({column} as string), ' {unit} is not a whole "
    )
    message += "number of microseconds; round the times first')"
    return (
        f"CASE WHEN {column} IS NULL THEN NULL WHEN {is_exact} THEN {time} "
        f"ELSE raise_error({message}) END"
    )
