"""Columns of every pandas, polars, DuckDB and pyarrow type keep their values through all calls.

A cell combines a library, a column type and a call. Either the call rejects the column by name, or
each value in the result equals the value that the library reads from the same row without the call.
So conversions that a library itself makes when it imports Arrow data are not counted as
differences. For example, DuckDB reads a UUID as a string, and pandas reads integers with nulls as
floats unless their type is nullable.
"""

import datetime as dt
import decimal
import math
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import campaign
import tidegate as tg
from tidegate import agg

ROWS = 5
DAY = dt.datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - naive
Rows = Sequence[int | None]


@dataclass(frozen=True)
class Library:
    """How a library builds a frame and reads a result."""

    columns: Callable[[], dict[str, Callable[[], Any]]]
    """Build columns of `ROWS` values: the first equals the last, and the third is null."""
    frame: Callable[[Any], Any]
    """A frame with the columns ts, id and x."""
    arrow: Callable[[Any], pa.Table]
    """The frame as the library exports it to Arrow."""
    read: Callable[[pa.Table, str], list[Any]]
    """The values of a table column, as the library reads them."""


def plain(value: Any) -> Any:
    """Make a value comparable in Python: all nulls become None, and NaN becomes a string."""
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, float | np.floating) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(one) for one in value]
    return value


# pandas


def pandas_columns() -> dict[str, Callable[[], Any]]:
    numbers = [1, 2, None, 2**60 + 1, 1]
    small = [1, 2, None, 100, 1]
    words = ["a", "b", None, "", "a"]
    times = [DAY, DAY + dt.timedelta(seconds=1), None, DAY.replace(year=2030), DAY]
    spans = [dt.timedelta(seconds=at) if at else None for at in (5, 6, 0, 7, 5)]
    series = pd.Series
    made: dict[str, Callable[[], Any]] = {
        "float64": lambda: series([0.5, -0.5, None, math.inf, 0.5]),
        "bool": lambda: series([True, False, False, True, True]),
        "boolean": lambda: series([True, False, None, True, True], dtype="boolean"),
        "Int64": lambda: series(numbers, dtype="Int64"),
        "UInt64": lambda: series([1, 2, None, 2**63 + 5, 1], dtype="UInt64"),
        "uint64": lambda: series([1, 2, 3, 2**63 + 5, 1], dtype="uint64"),
        "Float64": lambda: series([0.5, 1.5, None, 2.5, 0.5], dtype="Float64"),
        "object of text": lambda: series(words, dtype=object),
        "object of bytes": lambda: series([b"a", b"\0", None, b"", b"a"], dtype=object),
        "object of dates": lambda: series(
            [one.date() if one else None for one in times], dtype=object
        ),
        "object of decimals": lambda: series(
            [decimal.Decimal(one) if one else None for one in ("1.5", "2.25", "", "-3", "1.5")]
        ),
        "object of lists": lambda: series([[1], [1, None], None, [], [1]]),
        "object of dicts": lambda: series([{"a": 1}, {"a": None}, None, {"a": 2}, {"a": 1}]),
        "object of mixed values": lambda: series([1, "a", None, 2.5, 1], dtype=object),
        "string": lambda: series(words, dtype="string"),
        "string[python]": lambda: series(words, dtype="string[python]"),
        "string[pyarrow]": lambda: series(words, dtype="string[pyarrow]"),
        "category of text": lambda: series(words, dtype="category"),
        "category of numbers": lambda: series([1, 2, None, 3, 1], dtype="category"),
        "ordered category": lambda: series(
            pd.Categorical(words, categories=["b", "a", ""], ordered=True)
        ),
        "category of times": lambda: series(pd.Categorical(series(times, dtype="datetime64[s]"))),
        "period": lambda: series(
            pd.PeriodIndex(["2026-01", "2026-02", None, "2027-01", "2026-01"], freq="M")
        ),
        "interval": lambda: series(
            pd.arrays.IntervalArray.from_tuples([(0, 1), (1, 2), None, (3, 4), (0, 1)])
        ),
        "sparse": lambda: series(pd.arrays.SparseArray([1.0, 2.0, math.nan, 3.0, 1.0])),
        "complex": lambda: series([1j, 2j, 3j, 4j, 1j]),
        "time of day": lambda: series([one.time() if one else None for one in times], dtype=object),
        "arrow list": lambda: series(
            [[1], [2, None], None, [], [1]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))
        ),
        "arrow decimal": lambda: series(
            [decimal.Decimal(1), None, None, decimal.Decimal(3), decimal.Decimal(1)],
            dtype=pd.ArrowDtype(pa.decimal128(10, 2)),
        ),
        "arrow text": lambda: series(words, dtype=pd.ArrowDtype(pa.string())),
        "arrow time": lambda: series(times, dtype=pd.ArrowDtype(pa.timestamp("us", "UTC"))),
    }
    for width in (8, 16, 32):
        made[f"Int{width}"] = lambda width=width: series(small, dtype=f"Int{width}")
        made[f"UInt{width}"] = lambda width=width: series(small, dtype=f"UInt{width}")
        made[f"int{width}"] = lambda width=width: series([1, 2, 3, 100, 1], dtype=f"int{width}")
    for width in (16, 32):
        made[f"float{width}"] = lambda width=width: series(
            [0.5, 2, None, 3, 0.5], dtype=f"f{width // 8}"
        )
    for unit in ("s", "ms", "us", "ns"):
        made[f"datetime64[{unit}]"] = lambda unit=unit: series(times, dtype=f"datetime64[{unit}]")
        made[f"datetime64[{unit}, Berlin]"] = lambda unit=unit: series(
            times, dtype=f"datetime64[{unit}]"
        ).dt.tz_localize("Europe/Berlin")
        made[f"timedelta64[{unit}]"] = lambda unit=unit: series(spans, dtype=f"timedelta64[{unit}]")
    return made


def pandas_values(table: pa.Table, name: str) -> list[Any]:
    return table.to_pandas()[name].tolist()


PANDAS = Library(
    pandas_columns,
    lambda x: pd.DataFrame({"ts": range(ROWS), "id": range(ROWS), "x": x}),
    lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    pandas_values,
)

# polars


def polars_columns() -> dict[str, Callable[[], Any]]:
    def of(values: list[Any], dtype: Any) -> Callable[[], Any]:
        return lambda: pl.Series("x", values, dtype=dtype)

    times = [DAY, DAY + dt.timedelta(seconds=1), None, DAY.replace(year=2030), DAY]
    words = ["a", "b", None, "", "a"]
    made = {
        "Boolean": of([True, False, None, True, True], pl.Boolean),
        "Float32": of([0.5, math.nan, None, math.inf, 0.5], pl.Float32),
        "Float64": of([0.5, math.nan, None, -0.0, 0.5], pl.Float64),
        "Decimal": of(
            [decimal.Decimal(one) if one else None for one in ("1.5", "2.25", "", "-3", "1.5")],
            pl.Decimal(20, 2),
        ),
        "String": of(words, pl.String),
        "Categorical": of(words, pl.Categorical),
        "Enum": of(words, pl.Enum(["b", "a", ""])),
        "Binary": of([b"a", b"\0", None, b"", b"a"], pl.Binary),
        "Date": of([one.date() if one else None for one in times], pl.Date),
        "Time": of([one.time() if one else None for one in times], pl.Time),
        "List": of([[1], [1, None], None, [], [1]], pl.List(pl.Int64)),
        "List of Enum": of([["a"], [None], None, [], ["a"]], pl.List(pl.Enum(["b", "a"]))),
        "List of Categorical": of([["a"], ["b", None], None, [], ["a"]], pl.List(pl.Categorical)),
        "Array": of([[1, 2], [1, None], None, [3, 4], [1, 2]], pl.Array(pl.Int16, 2)),
        "Struct": of(
            [
                {"a": 1, "b": "u"},
                {"a": None, "b": "v"},
                None,
                {"a": 2, "b": None},
                {"a": 1, "b": "u"},
            ],
            pl.Struct({"a": pl.Int64, "b": pl.Categorical}),
        ),
        "Null": of([None] * ROWS, pl.Null),
        "Object": lambda: pl.Series("x", [object()] * ROWS, dtype=pl.Object),
    }
    for width in (8, 16, 32, 64):
        made[f"Int{width}"] = of([1, 2, None, 100, 1], getattr(pl, f"Int{width}"))
        made[f"UInt{width}"] = of([1, 2, None, 2**width - 1, 1], getattr(pl, f"UInt{width}"))
    if hasattr(pl, "Int128"):
        made["Int128"] = of([1, 2, None, 2**100, 1], pl.Int128)
    for unit in ("ms", "us", "ns"):
        made[f"Datetime[{unit}]"] = of(times, pl.Datetime(unit))
        made[f"Datetime[{unit}, Berlin]"] = lambda unit=unit: pl.Series(
            "x", times, dtype=pl.Datetime(unit)
        ).dt.replace_time_zone("Europe/Berlin")
        made[f"Duration[{unit}]"] = of(
            [dt.timedelta(seconds=at) if at else None for at in (5, 6, 0, 7, 5)], pl.Duration(unit)
        )
    return made


def polars_values(table: pa.Table, name: str) -> list[Any]:
    return pl.DataFrame(table.to_reader())[name].to_list()


def polars_frame(x: Any) -> Any:
    ids = pl.Series(range(ROWS), dtype=pl.Int64)
    return pl.DataFrame({"ts": ids, "id": ids, "x": x})


POLARS = Library(polars_columns, polars_frame, pa.table, polars_values)

# DuckDB


def duckdb_columns() -> dict[str, Callable[[], Any]]:
    made = {
        "BOOLEAN": ("true", "false", "true"),
        "HUGEINT": ("1", "2", "170141183460469231731687303715884105727"),
        "UHUGEINT": ("1", "2", "340282366920938463463374607431768211455"),
        "FLOAT": ("0.5", "'nan'", "'inf'"),
        "DOUBLE": ("0.5", "'nan'", "'-inf'"),
        "DECIMAL(4, 1)": ("1.5", "2.5", "-3"),
        "DECIMAL(38, 10)": ("1.5", "2.5", "-3"),
        "VARCHAR": ("'a'", "'b'", "''"),
        "ENUM('b', 'a', '')": ("'a'", "'b'", "''"),
        "BLOB": ("'a'", "'\\x00'", "''"),
        "BIT": ("'101'", "'0'", "'11'"),
        "UUID": tuple(f"'{uuid.UUID(int=at)}'" for at in (1, 2, 2**128 - 1)),
        "JSON": ("'{\"a\": 1}'", "'2'", "'[]'"),
        "DATE": ("'2026-01-02'", "'2026-01-03'", "'2030-01-02'"),
        "TIME": ("'03:04:05'", "'03:04:06'", "'23:59:59.999999'"),
        "TIMETZ": ("'03:04:05+01'", "'03:04:06+00'", "'23:59:59-02'"),
        "TIMESTAMP": ("'2026-01-02 03:04:05'", "'2026-01-02'", "'2030-01-02'"),
        "TIMESTAMP_S": ("'2026-01-02 03:04:05'", "'2026-01-02'", "'2030-01-02'"),
        "TIMESTAMP_MS": ("'2026-01-02 03:04:05.001'", "'2026-01-02'", "'2030-01-02'"),
        "TIMESTAMP_NS": ("'2026-01-02 03:04:05.000000001'", "'2026-01-02'", "'2030-01-02'"),
        "TIMESTAMPTZ": ("'2026-01-02 03:04:05+00'", "'2026-01-02 00:00:00+01'", "'2030-01-02'"),
        "INTERVAL": ("'5 seconds'", "'1 month 2 days'", "'1 year'"),
        "INTEGER[]": ("[1]", "[1, NULL]", "[]"),
        "INTEGER[2]": ("[1, 2]", "[1, NULL]", "[3, 4]"),
        "STRUCT(a INTEGER, b VARCHAR)": (
            "{'a': 1, 'b': 'u'}",
            "{'a': NULL, 'b': 'v'}",
            "{'a': 2, 'b': NULL}",
        ),
        "MAP(VARCHAR, INTEGER)": ("MAP {'a': 1}", "MAP {'b': NULL}", "MAP {}"),
        "UNION(n INTEGER, s VARCHAR)": ("1", "'b'", "2"),
    }
    for kind in (
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
        "UBIGINT",
    ):
        made[kind] = ("1", "2", "100")

    def column(kind: str, values: tuple[str, ...]) -> Callable[[], tuple[str, list[str]]]:
        one, two, three = values
        return lambda: (kind, [one, two, "NULL", three, one])

    return {kind: column(kind, values) for kind, values in made.items()}


def duckdb_frame(x: tuple[str, list[str]]) -> Any:
    kind, values = x
    rows = ", ".join(f"({at}, {at}, ({value})::{kind})" for at, value in enumerate(values))
    listed = f"(VALUES {rows}) t(ts, id, x)"
    return duckdb.sql(f"SELECT ts::BIGINT AS ts, id::BIGINT AS id, x FROM {listed} ORDER BY ts")  # noqa: S608 - our names


def duckdb_values(table: pa.Table, name: str) -> list[Any]:
    return [row[0] for row in duckdb.from_arrow(table).select(f'"{name}"').fetchall()]


DUCKDB = Library(duckdb_columns, duckdb_frame, lambda frame: frame.to_arrow_table(), duckdb_values)

# pyarrow


def arrow_columns() -> dict[str, Callable[[], Any]]:
    words = ["a", "b", None, "", "a"]
    types: dict[str, tuple[pa.DataType, list[Any]]] = {
        "null": (pa.null(), [None] * ROWS),
        "bool": (pa.bool_(), [True, False, None, True, True]),
        "halffloat": (
            pa.float16(),
            [np.float16(0.5), np.float16(1), None, np.float16(2), np.float16(0.5)],
        ),
        "string": (pa.string(), words),
        "large_string": (pa.large_string(), words),
        "string_view": (pa.string_view(), words),
        "binary": (pa.binary(), [b"a", b"b", None, b"", b"a"]),
        "binary_view": (pa.binary_view(), [b"a", b"b", None, b"", b"a"]),
        "fixed_size_binary": (pa.binary(2), [b"aa", b"bb", None, b"cc", b"aa"]),
        "dictionary": (pa.dictionary(pa.int8(), pa.string()), words),
        "decimal256": (
            pa.decimal256(60, 2),
            [decimal.Decimal(one) if one else None for one in (1, 2, 0, 3, 1)],
        ),
        "date64": (
            pa.date64(),
            [DAY.date(), dt.date(2026, 1, 3), None, dt.date(2030, 1, 1), DAY.date()],
        ),
        "month_day_nano": (
            pa.month_day_nano_interval(),
            [(1, 2, 3), (0, 0, 1), None, (0, 1, 0), (1, 2, 3)],
        ),
        "list_view": (pa.list_view(pa.int8()), [[1], [1, None], None, [], [1]]),
        "struct": (pa.struct({"a": pa.int8()}), [{"a": 1}, {"a": None}, None, {"a": 2}, {"a": 1}]),
        "map": (pa.map_(pa.string(), pa.int8()), [[("a", 1)], [], None, [("b", None)], [("a", 1)]]),
    }

    def column(type_: pa.DataType, values: list[Any]) -> Callable[[], Any]:
        return lambda: pa.array(values, type_)

    made: dict[str, Callable[[], Any]] = {name: column(*one) for name, one in types.items()}
    made["run_end_encoded"] = lambda: pa.RunEndEncodedArray.from_arrays(
        [2, 3, 4, 5], [7, None, 8, 7]
    )
    made["dense_union"] = lambda: pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1, 0], pa.int8()),
        pa.array([0, 0, 1, 1, 2], pa.int32()),
        [pa.array([1, None, 1]), pa.array(["b", "c"])],
    )
    return made


def arrow_frame(x: Any) -> pa.Table:
    ids = pa.array(range(ROWS), pa.int64())
    return pa.table({"ts": ids, "id": ids, "x": x})


ARROW = Library(
    arrow_columns, arrow_frame, lambda frame: frame, lambda table, name: table[name].to_pylist()
)

LIBRARIES = {"pandas": PANDAS, "polars": POLARS, "duckdb": DUCKDB, "arrow": ARROW}

# Calls: the result, and for each result column of the tested type, the input row of each value.

Found = tuple[pa.Table, dict[str, Rows]]
BOTH = pa.table({"ts": [4, 1, 1, -9], "y": range(4)})
EACH = {"lower": 0, "upper": 0}


def pushed(frame: Any) -> Found:
    merge = tg.Merge(frame if hasattr(frame, "__arrow_c_stream__") else frame.to_arrow_table())
    merge.sources[0].push(frame)
    merge.sources[0].close()
    return pa.Table.from_batches(list(merge), merge.schema), {"x": range(ROWS)}


def of_join(table: pa.Table) -> Found:
    """The rows of a join, whose ids identify the input rows."""
    rows = {"x": table["id"].to_pylist()}
    if "x_right" in table.schema.names:
        rows["x_right"] = table["id_right"].to_pylist()
    return table, rows


def of_key(table: pa.Table) -> Found:
    """Take key values from the left row, or from the right row if there is no left row."""
    pairs = zip(table["id"].to_pylist(), table["id_right"].to_pylist(), strict=True)
    return table, {"x": [right if left is None else left for left, right in pairs]}


def of_groups(table: pa.Table) -> Found:
    assert sum(table["n"].to_pylist()) == ROWS
    return table, {"x": table["one"].to_pylist()}


def of_list(frame: Any) -> Found:
    """The values of the single list, as a column of the frame."""
    table = tg.aggregate(frame, on="ts", size=99, aggs={"all": agg.collect("x")})
    lists = table["all"].combine_chunks()
    schema = pa.schema([lists.type.value_field.with_name("x")], pa.table(frame).schema.metadata)
    return pa.Table.from_arrays([lists.flatten()], schema=schema), {"x": range(ROWS)}


ENDS = {"first": agg.first("x"), "last": agg.last("x")}
OF_ENDS: dict[str, Rows] = {"first": [0], "last": [ROWS - 1]}
CALLS: dict[str, Callable[[Callable[[], Any]], Found]] = {
    "payload left": lambda make: of_join(tg.asof_join(make(), BOTH, on="ts")),
    "payload right": lambda make: of_join(tg.asof_join(BOTH, make(), on="ts")),
    "full join": lambda make: of_join(
        tg.interval_join(make(), make(), on="ts", lower=3, upper=3, how="full")
    ),
    "in batches": lambda make: of_join(
        pa.Table.from_batches(list(tg.interval_join_batches(make(), make(), on="ts", **EACH)))
    ),
    "merge": lambda make: of_join(tg.merge([make(), make()], on="ts")),
    "push": lambda make: pushed(make()),
    "functions": lambda make: (tg.aggregate(make(), on="ts", size=99, aggs=ENDS), OF_ENDS),
    "functions of partners": lambda make: (
        tg.interval_join(
            pa.table({"ts": [0, 99]}), make(), on="ts", lower=0, upper=9, aggs=ENDS, columns=[]
        ),
        {name: [*rows, None] for name, rows in OF_ENDS.items()},
    ),
    "collect": lambda make: of_list(make()),
    "where": lambda make: of_join(
        tg.interval_join(make(), make(), on="ts", where="left.x IS NOT NULL", **EACH)
    ),
    "where equal": lambda make: of_join(
        tg.interval_join(make(), make(), on="ts", where="left.x = right.x", **EACH)
    ),
    "key": lambda make: of_key(
        tg.interval_join(make(), make(), on="ts", by="x", lower=None, upper=None)
    ),
    "key of a full join": lambda make: of_key(
        tg.interval_join(make(), make(), on="ts", by="x", lower=1, upper=1, how="full")
    ),
    "group": lambda make: of_groups(
        tg.aggregate(
            make(), on="ts", by="x", size=99, aggs={"n": agg.count(), "one": agg.first("id")}
        )
    ),
    "max": lambda make: (
        tg.aggregate(make(), on="ts", size=99, aggs={"most": agg.max("x")}),
        {},
    ),
    "time": lambda make: of_join(tg.asof_join(make(), make(), on="x")),
}

LIBRARIES = {"pandas": PANDAS, "polars": POLARS, "duckdb": DUCKDB, "arrow": ARROW}
COLUMNS = [(name, column) for name, library in LIBRARIES.items() for column in library.columns()]
REFUSED = [
    # Arrow has no equivalent type.
    ("pandas", "object of mixed values"),
    ("pandas", "complex"),
    ("pandas", "sparse"),
    ("polars", "Int128"),
    ("polars", "Object"),
]


def is_compared(type_: pa.DataType) -> bool:
    types = pa.types
    is_encoded = types.is_run_end_encoded(type_)
    return is_encoded or not (types.is_nested(type_) or types.is_interval(type_))


def is_ordered(type_: pa.DataType) -> bool:
    return is_compared(type_) and not pa.types.is_run_end_encoded(type_)


def is_key(type_: pa.DataType) -> bool:
    return is_ordered(type_) and not (pa.types.is_time(type_) or pa.types.is_duration(type_))


def is_time(type_: pa.DataType) -> bool:
    types = pa.types
    # One of the 64-bit unsigned integers is outside the range of times.
    is_wide = types.is_int32(type_) or types.is_int64(type_) or types.is_uint32(type_)
    return is_wide or types.is_date(type_) or types.is_timestamp(type_)


TAKES: dict[str, Callable[[pa.DataType], bool]] = {
    "where equal": is_compared,
    "key": is_key,
    "key of a full join": is_key,
    "group": is_key,
    "max": is_ordered,
    "time": is_time,
}
"""The types accepted by calls that inspect the values. Other calls accept all types."""


def is_taken(table: pa.Table, call: str) -> bool:
    """Whether a call accepts the column; times must not be null."""
    x = table["x"]
    type_ = x.type.storage_type if isinstance(x.type, pa.BaseExtensionType) else x.type
    is_null = call == "time" and x.null_count > 0
    return TAKES.get(call, lambda _: True)(type_) and not is_null


def rows_of(table: pa.Table, rows: Rows) -> pa.Table:
    """The given rows of column x; a row number of None yields a null."""
    column = table.select(["x"])
    try:
        return column.take(pa.array(rows, pa.int64()))
    except pa.ArrowNotImplementedError:
        values = column["x"].to_pylist()
        given = [None if row is None else values[row] for row in rows]
        if None not in rows:
            return pa.concat_tables([column.slice(row, 1) for row in rows])
        return pa.Table.from_arrays([pa.array(given, column["x"].type)], schema=column.schema)


def reader(library: Library, table: pa.Table) -> Callable[[pa.Table, str], list[Any]]:
    """The library's reader, or pyarrow's if the library cannot read its own output.

    pandas does not recognize the type names that it assigns to Arrow lists.
    """
    try:
        library.read(table, "x")
    except TypeError:
        return ARROW.read
    return library.read


def difference(library: Library, table: pa.Table, result: pa.Table, of: dict[str, Rows]) -> str:
    """Describe the first column of a result that differs, if any."""
    read = reader(library, table)
    for name, rows in of.items():
        wanted = plain(read(rows_of(table, rows), "x"))
        found = plain(read(result, name))
        if found != wanted:
            return f"column {name} is {found}, expected {wanted}"
    return ""


def outcome(library: Library, make: Callable[[], Any], table: pa.Table | None, call: str) -> str:
    """Describe what is wrong with a cell, if anything; a missing table means a rejected column."""
    is_refused = table is None or not is_taken(table, call)
    try:
        result, of = CALLS[call](make)
    except (tg.TidegateError, TypeError) as error:
        names_it = re.search(r"column `?x\b|`x`|left\.x", str(error))
        return "" if is_refused and names_it else f"refused: {error}"
    return "taken" if table is None or is_refused else difference(library, table, result, of)


def calls_of(column: str) -> list[str]:
    """All calls in a campaign, and a sample of them otherwise."""
    every = list(CALLS)
    return every if campaign.ALL else campaign.rng(f"calls of {column}").sample(every, 2)


@pytest.mark.parametrize(("name", "column"), COLUMNS)
def test_values_come_back_as_they_went_in(name, column):
    library = LIBRARIES[name]
    x = library.columns()[column]
    is_refused = (name, column) in REFUSED
    table = None if is_refused else library.arrow(library.frame(x()))
    for call in calls_of(f"{name} {column}"):
        wrong = outcome(library, lambda: library.frame(x()), table, call)
        assert wrong == "", f"{call}: {wrong}"
