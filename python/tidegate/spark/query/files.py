"""The Spark types of columns that are read from files."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

import tidegate

# Spark has no unsigned integers. These types hold all of their values, as in Spark's own reader.
_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}

# Types that Spark cannot receive, and types with the same values that it can.
_SAME = {
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def passed(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark receives values of a given type.

    Example:
        >>> passed(pa.timestamp("ms", "Europe/Oslo")), passed(pa.uint8())
        (TimestampType(timestamp[us, tz=UTC]), DataType(int16))
    """
    types = pa.types
    found = _SAME.get(kind) or _UNSIGNED.get(kind) or kind
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        found = passed(kind.value_type)
    elif types.is_timestamp(kind):
        found = pa.timestamp("us", kind.tz and "UTC")
    elif types.is_duration(kind):
        found = pa.duration("us")
    elif types.is_time(kind):
        found = pa.time64("ns")
    elif types.is_decimal(kind):
        found = pa.decimal128(kind.precision, kind.scale)
    elif types.is_fixed_size_binary(kind):
        found = pa.binary()
    elif types.is_nested(kind):
        found = _nested(kind)
    return found


def _nested(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([field.with_type(passed(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(passed(kind.key_type), passed(kind.item_type))
    return pa.list_(kind.value_field.with_type(passed(kind.value_type)))


def struct_of(schema: pa.Schema) -> tuple[StructType, pa.Schema]:
    """Return the Spark schema of columns from files, and the Arrow types that Spark receives.

    Raises:
        tidegate.SchemaError: Spark has no type for a column.
    """
    fields, kinds = [], []
    for field in schema:
        try:
            kind = passed(field.type)
            spark = from_arrow_type(kind, prefer_timestamp_ntz=True)
        except (PySparkException, ValueError) as error:
            message = f"column `{field.name}` is {field.type}, for which Spark has no type; "
            message += "leave it out with columns=, or cast it in the files"
            raise tidegate.SchemaError(message) from error
        fields.append(StructField(field.name, spark, field.nullable))
        kinds.append(pa.field(field.name, kind, field.nullable))
    return StructType(fields), pa.schema(kinds)
