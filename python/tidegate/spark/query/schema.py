"""The columns that are sent and returned, and their Spark types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import tidegate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.agg import Aggregate
    from tidegate.types import How

Side = Literal["left", "right"]

# The setting that makes Spark use 64-bit offsets for strings and binary values.
_LARGE = "spark.sql.execution.arrow.useLargeVarTypes"

_PLAIN: dict[type[DataType], pa.DataType] = {
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", "UTC"),
    TimestampNTZType: pa.timestamp("us"),
}


@dataclass(frozen=True)
class Origin:
    """The input column from which a result column is taken."""

    side: Side
    name: str


def spark_schema(
    columns: Mapping[str, Origin],
    left: StructType,
    right: StructType,
    by: Sequence[tuple[str, str]],
    how: How,
) -> StructType:
    """Return the Spark schema of the result, with types and metadata from the inputs.

    A column is also nullable if a result row may lack a row from the column's side. A shared key
    column has a value in every row, so it is nullable only if it is nullable in an input.
    """
    lacking = {"left": how in ("right", "full"), "right": how in ("left", "full")}
    shared = {name for name, other in by if name == other}
    fields = []
    for name, origin in columns.items():
        field = (left if origin.side == "left" else right)[origin.name]
        nullable = field.nullable or lacking[origin.side]
        if origin.side == "left" and origin.name in shared and lacking["left"]:
            nullable = field.nullable or right[origin.name].nullable
        fields.append(StructField(name, field.dataType, nullable, field.metadata))
    return StructType(fields)


def told_apart(
    session: SparkSession, result: StructType, origins: Mapping[str, Origin], suffix: str
) -> StructType:
    """Append a suffix to each right column name that differs from a left one only in case.

    Spark treats such names as equal unless `spark.sql.caseSensitive` is true.
    """
    if session.conf.get("spark.sql.caseSensitive", "false") == "true":
        return result
    lefts = {name.lower() for name, origin in origins.items() if origin.side == "left"}
    fields = []
    for field, origin in zip(result, origins.values(), strict=True):
        is_taken = origin.side == "right" and field.name.lower() in lefts
        name = f"{field.name}{suffix}" if is_taken else field.name
        fields.append(StructField(name, field.dataType, field.nullable, field.metadata))
    return StructType(fields)


def aggregate_fields(
    aggs: Mapping[str, Aggregate], given: StructType, read: pa.Schema, native: pa.Schema
) -> list[StructField]:
    """Return the Spark fields of aggregates.

    `given` and `read` are the input schemas in Spark and Arrow, respectively.
    """
    fields = []
    for name, one in aggs.items():
        result = native.field(name)
        if one.udf is not None:
            kind = from_arrow_type(one.udf.returns)
        elif one.column is None or one.column in read.names:
            of = None if one.column is None else given[one.column].dataType
            column = None if one.column is None else read.field(one.column).type
            kind = _type(result.type, column, of)
        else:
            # An expression is not a column of the DataFrame, so Spark declares no type for it.
            kind = from_arrow_type(result.type)
        fields.append(StructField(name, kind, result.nullable))
    return fields


def _type(native: pa.DataType, given: pa.DataType | None, of: DataType | None) -> DataType:
    """Return the Spark type of an aggregate, which may be the type of the input column."""
    if of is not None and native == given:
        return of
    if pa.types.is_integer(native):
        return LongType()
    if pa.types.is_decimal(native):
        return DecimalType(native.precision, native.scale)
    if pa.types.is_floating(native):
        return DoubleType()
    if of is not None and pa.types.is_list(native) and native.value_type == given:
        return ArrayType(of)
    message = f"aggs: Spark has no type for a result of type {native}; cast the column first"
    raise tidegate.SchemaError(message)


def struct(session: SparkSession, schema: StructType | str) -> StructType:
    """Return a Spark schema, which may be passed as a string."""
    if isinstance(schema, StructType):
        return schema
    return session.createDataFrame([], schema).schema


def collected(frame: DataFrame) -> pa.Table:
    """Return all rows of a DataFrame."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    # Before version 4.0, PySpark collects Arrow data only to convert it to pandas.
    older: Any = frame
    batches = older._collect_as_arrow()  # noqa: SLF001 - no other way
    schema = to_arrow_schema(frame.schema)
    if not batches:
        return schema.empty_table()
    return pa.Table.from_batches(batches).rename_columns(schema.names).cast(schema)


def arrow(session: SparkSession, schema: StructType) -> pa.Schema:
    """Return the Arrow types that Spark uses for `schema`. Simple types are known without a job.

    Spark reports other types only in the result of a job. Even without rows, such a job takes a
    tenth of a second.
    """
    kinds = [_plain(field.dataType) for field in schema]
    if None in kinds or session.conf.get(_LARGE, "false") == "true":
        return _asked(session, schema)
    fields = zip(schema, kinds, strict=True)
    return pa.schema([pa.field(field.name, kind, field.nullable) for field, kind in fields])


def _asked(session: SparkSession, schema: StructType) -> pa.Schema:
    """Return the Arrow types that Spark itself reports."""
    try:
        return collected(session.createDataFrame([], schema)).schema
    except PySparkException as error:
        if len(schema) == 1:
            message = f"column {schema[0].name!r} is {schema[0].dataType.simpleString()}, which "
            message += f"Spark cannot pass to Python; drop it, or cast it ({error})"
            raise tidegate.SchemaError(message) from error
        for field in schema:
            _asked(session, StructType([field]))
        raise


def _plain(kind: DataType) -> pa.DataType | None:
    """Return the Arrow type for a simple Spark type, or None for any other type."""
    if type(kind) is DecimalType:
        return pa.decimal128(kind.precision, kind.scale)
    return _PLAIN.get(type(kind))
