"""Pushes of ordinary data: frames, other types and column orders, dicts and tuples."""

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidegate as tg

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "sym": pa.string(),
        "size": pa.int32(),
        "price": pa.float64(),
        "tags": pa.list_(pa.string()),
    }
)
T0 = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - naive
ROWS = [
    {"ts": T0, "sym": "A", "size": 3, "price": 1.5, "tags": ["x"]},
    {"ts": T0 + dt.timedelta(seconds=1), "sym": None, "size": None, "price": None, "tags": None},
    {"ts": T0 + dt.timedelta(seconds=2), "sym": "B", "size": 7, "price": 2.0, "tags": []},
]
TABLE = pa.Table.from_pylist(ROWS, SCHEMA)


def merged(data: Any, schema: pa.Schema = SCHEMA, **options: Any) -> pa.Table:
    """Return the rows that a merge of one source emits."""
    merge = tg.Merge(schema)
    merge.sources[0].push(data, **options)
    merge.sources[0].close()
    return pa.Table.from_batches(list(iter(merge.poll, None)), merge.schema)


def typed(**types: pa.DataType) -> pa.Table:
    """Convert some columns of the table to other types."""
    found = TABLE
    for name, type_ in types.items():
        column = TABLE.schema.get_field_index(name)
        # Some pyarrow releases crash when they export views created by a cast.
        values = pa.array(TABLE[name].to_pylist(), type_)
        found = found.set_column(column, name, values)
    return found


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        [tuple(row.values()) for row in ROWS],
        pl.DataFrame(TABLE),
        TABLE.to_pandas(types_mapper={pa.int32(): pd.Int32Dtype()}.get),
        TABLE.select(["tags", "price", "size", "ts", "sym"]),
        typed(sym=pa.large_string(), size=pa.int64()),
        typed(sym=pa.string_view(), size=pa.uint8(), tags=pa.large_list(pa.large_string())),
        typed(ts=pa.timestamp("ns"), sym=pa.dictionary(pa.int8(), pa.string())),
        typed(ts=pa.timestamp("s"), size=pa.int8(), price=pa.float32()),
        TABLE.to_batches()[0],
    ],
    ids=lambda data: type(data).__name__,
)
def test_the_same_rows_in_any_form(data):
    assert merged(data).equals(TABLE)


def test_integers_are_floats_and_decimals_that_hold_them():
    schema = pa.schema({"ts": pa.int64(), "x": pa.float64(), "d": pa.decimal128(10, 2)})
    rows = pa.table({"ts": pa.array([1, 2], pa.int16()), "x": [2**53, -1], "d": [5, None]})
    found = merged(rows, schema).to_pydict()
    assert found == {"ts": [1, 2], "x": [2.0**53, -1.0], "d": [Decimal("5.00"), None]}
    nulls = pa.table({"ts": [1], "x": pa.nulls(1), "d": pa.nulls(1)})
    assert merged(nulls, schema).to_pylist() == [{"ts": 1, "x": None, "d": None}]


def test_an_operator_takes_strings_that_are_views_for_dictionaries():
    schema = pa.schema({"ts": pa.int64(), "k": pa.dictionary(pa.int32(), pa.string())})
    frame = pl.DataFrame({"ts": [1, 2, 3], "k": ["a", None, "a"]})
    assert merged(frame, schema)["k"].to_pylist() == ["a", None, "a"]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (
            typed(size=pa.int64()).set_column(2, "size", pa.array([1, 2**40, 3])),
            tg.TidegateError,
            "source 0: column `size`, row 1: 1099511627776 of int64 is not a value of int32",
        ),
        (
            TABLE.set_column(3, "price", pa.array([2**53 + 1, 0, 0])),
            tg.TidegateError,
            "column `price`, row 0: 9007199254740993 of int64 is not a value of double",
        ),
        (
            TABLE.set_column(0, "ts", pa.array([1, 2, 3], pa.timestamp("ns"))),
            tg.TidegateError,
            r"column `ts`, row 0: .* of timestamp\[ns\] is not a value of timestamp\[us\]",
        ),
        (
            TABLE.set_column(2, "size", pa.array([1.0, 2.0, 3.0])),
            tg.SchemaError,
            "source 0: column `size` is double, expected int32; cast it first",
        ),
        (
            TABLE.set_column(0, "ts", TABLE["ts"].cast(pa.timestamp("us", "UTC"))),
            tg.SchemaError,
            r"source 0: column `ts` is timestamp\[us, tz=UTC\], expected timestamp\[us\]",
        ),
        (
            TABLE.drop_columns(["sym"]),
            tg.SchemaError,
            "source 0: the rows have no column `sym`, which is string; they have `ts`, `size`,",
        ),
        (
            TABLE.append_column("venue", [["X"] * 3]),
            tg.SchemaError,
            (
                "source 0: the rows have a column `venue`, expected `ts`, .*; leave it out, or "
                'push with extra="ignore"'
            ),
        ),
        (
            pa.table([*TABLE.columns, TABLE["sym"]], [*SCHEMA.names, "sym"]),
            tg.SchemaError,
            "source 0: the rows have more than one column `sym`",
        ),
        (
            [{**ROWS[0], "venue": "X"}],
            tg.SchemaError,
            "source 0: row 0 of the list has a value for `venue`, which is not a column",
        ),
        (
            [ROWS[0], {"ts": T0}],
            tg.SchemaError,
            "source 0: row 1 of the list has no value for column `sym`; give None for a null",
        ),
        (
            [tuple(ROWS[0].values()), (T0, "A")],
            tg.SchemaError,
            "source 0: row 1 of the list has a length of 2, expected 5: ts, sym, size, price, tags",
        ),
        (
            [ROWS[0], {**ROWS[0], "size": "many"}],
            tg.TidegateError,
            "source 0: column `size`, row 1 of the list: 'many' is not a value of int32",
        ),
        (
            [ROWS[0], {**ROWS[0], "size": 2**40}],
            tg.TidegateError,
            "row 1 of the list: 1099511627776 is no",
        ),
        (
            [[1, 2]],
            TypeError,
            "source 0: expected rows as dicts or tuples, a dict of lists, or Arrow data, got",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_whole(data, error, message):
    merge = tg.Merge(SCHEMA)
    with pytest.raises(error, match=message):
        merge.sources[0].push(data)
    assert merge.stats()["rows_in"] == 0
    merge.sources[0].push(TABLE)


def test_extra_columns_are_ignored_where_that_is_said():
    more = TABLE.add_column(1, "venue", [["X"] * 3])
    assert merged(more, extra="ignore").equals(TABLE)
    assert merged([{**row, "venue": "X"} for row in ROWS], extra="ignore").equals(TABLE)
    with pytest.raises(tg.TidegateError, match="extra must be one of error, ignore, got `drop`"):
        merged(more, extra="drop")


class Counted(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_each_name_of_a_row_is_looked_up_and_not_searched_for():
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(200)])
    op = tg.Merge(schema, on="c0")
    Counted.comparisons = 0
    op.sources[0].push([{Counted(name): 1 for name in schema.names}] * 5)
    assert Counted.comparisons <= 5 * 4 * len(schema)


def test_a_row_is_named_by_its_place_among_all_of_the_source():
    merge = tg.Merge(pa.schema({"ts": pa.int64(), "x": pa.int8()}))
    (source,) = merge.sources
    source.push(pa.table({"ts": [1, 2, 3], "x": [1, 2, 3]}))
    with pytest.raises(tg.TidegateError, match="column `x`, row 4: 300 of int64"):
        source.push(pa.table({"ts": [4, 5], "x": [1, 300]}))


def test_data_of_the_schema_is_not_copied():
    schema = pa.schema({"ts": pa.int64(), "x": pa.int64()})
    values = np.arange(1_000_000)
    merge = tg.Merge(schema)
    merge.sources[0].push(pa.table({"x": values, "ts": values}))
    merge.sources[0].close()
    found = merge.poll()["x"].buffers()[1].address
    assert values.ctypes.data <= found < values.ctypes.data + values.nbytes


BERLIN = dt.timezone(dt.timedelta(hours=1))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int64(), Decimal("1.5")),
        (pa.list_(pa.int64()), [1.5]),
        (pa.timestamp("us"), T0.replace(tzinfo=BERLIN)),
        (pa.timestamp("us", "Europe/Berlin"), T0),
        (pa.timestamp("us"), pd.Timestamp("2024-01-01 00:00:00.000000001")),
        (pa.timestamp("s"), T0.replace(microsecond=5)),
        (pa.timestamp("s"), np.datetime64("2024-01-01T00:00:00.5")),
        (pa.date32(), T0.replace(hour=12)),
        (pa.duration("s"), dt.timedelta(milliseconds=1)),
        (pa.float32(), 1e300),
        (pa.string(), b"a"),
        (pa.binary(), "a"),
        (pa.struct({"a": pa.int64()}), {"a": 1, "b": 2}),
        (pa.struct({"a": pa.int64(), "b": pa.int64()}), {"a": 1}),
        (pa.struct({"a": pa.float32()}), {"a": 1e300}),
        (pa.struct({"a": pa.duration("s")}), {"a": dt.timedelta(milliseconds=1)}),
        (pa.list_(pa.struct({"a": pa.int64()})), [{"a": 1.5}]),
        (pa.map_(pa.string(), pa.int64()), {"a": 1.5}),
        (pa.duration("s"), np.timedelta64(1, "M")),
    ],
    ids=str,
)
def test_a_python_value_that_arrow_would_change_is_refused(type_, value):
    merge = tg.Merge(pa.schema({"ts": pa.int64(), "x": type_}))
    with pytest.raises(tg.TidegateError, match=r"column `x`, row 1 of the list: .* is not a value"):
        merge.sources[0].push([{"ts": 0, "x": None}, {"ts": 1, "x": value}])


@pytest.mark.parametrize(
    ("type_", "value", "kept"),
    [
        (pa.float32(), 0.1, np.float32(0.1)),
        (pa.float64(), 2, 2.0),
        (pa.int64(), np.int8(3), 3),
        (pa.timestamp("us"), np.datetime64("2024-01-01"), T0),
        (pa.timestamp("us"), pd.Timestamp(T0), T0),
        (pa.timestamp("us"), pd.NaT, None),
        (pa.list_(pa.int64()), (1, 2), [1, 2]),
        (pa.list_(pa.float64()), np.array([0.5]), [0.5]),
        (pa.decimal128(5, 2), Decimal("1.5"), Decimal("1.50")),
        (pa.map_(pa.string(), pa.int64()), [("a", 1)], [("a", 1)]),
        (pa.map_(pa.string(), pa.int64()), {"a": 1}, [("a", 1)]),
        (pa.map_(pa.string(), pa.float32()), {"a": 0.1}, [("a", np.float32(0.1))]),
        (pa.struct({"a": pa.float32()}), {"a": 0.1}, {"a": np.float32(0.1)}),
        (pa.struct({"a": pa.list_(pa.int8())}), {"a": np.array([1, 2])}, {"a": [1, 2]}),
        (pa.dictionary(pa.int8(), pa.string()), "a", "a"),
        (pa.bool_(), True, True),
    ],
    ids=str,
)
def test_a_python_value_stays_as_it_is(type_, value, kept):
    found = merged([{"ts": 1, "x": value}], pa.schema({"ts": pa.int64(), "x": type_}))
    assert found["x"].to_pylist() == [kept]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.struct({"a": pa.float64()}), {"a": math.nan}),
        (pa.list_(pa.struct({"a": pa.float64()})), [{"a": math.nan}]),
        (pa.map_(pa.string(), pa.float64()), [("a", math.nan)]),
        (pa.dictionary(pa.int8(), pa.float64()), math.nan),
    ],
    ids=str,
)
def test_a_nan_stays_one_at_any_depth(type_, value):
    found = merged([{"ts": 1, "x": value}], pa.schema({"ts": pa.int64(), "x": type_}))
    assert str(found["x"].to_pylist()) == str([value])


def test_more_values_than_a_dictionary_may_have():
    type_ = pa.dictionary(pa.int8(), pa.string())
    with pytest.raises(tg.TidegateError, match=r"column `x`: the values of the list do not fit"):
        merged(
            [{"ts": ts, "x": str(ts)} for ts in range(129)],
            pa.schema({"ts": pa.int64(), "x": type_}),
        )


def test_values_inside_lists_are_converted_only_to_other_layouts():
    schema = pa.schema({"ts": pa.int64(), "x": pa.list_(pa.int8())})
    wide = pa.table({"ts": [0], "x": pa.array([[300, 1]], pa.list_(pa.int64()))})
    with pytest.raises(
        tg.SchemaError, match=r"column `x` is list<item: int64>, expected list<item: int8>"
    ):
        merged(wide, schema)


def test_the_index_of_a_pandas_frame_is_no_column():
    frame = pd.DataFrame({"ts": [1, 2, 3], "x": [1, 2, 3]}).loc[lambda frame: frame.x != 2]
    found = merged(frame, pa.schema({"ts": pa.int64(), "x": pa.int64()}))
    assert found.to_pydict() == {"ts": [1, 3], "x": [1, 3]}


def test_nulls_where_none_may_be_are_named():
    schema = pa.schema([pa.field("ts", pa.int64()), pa.field("x", pa.int64(), nullable=False)])
    with pytest.raises(tg.TidegateError, match="source 0: column `x`, row 1: the value is null"):
        merged(pa.table({"ts": [1, 2], "x": [1, None]}), schema)


@pytest.mark.parametrize("rows", [{"ts": 1}, (1, 2)])
def test_one_row_is_a_list_of_one(rows):
    with pytest.raises(
        TypeError, match=r"source 0: expected a dict .*push\(\[row\]\)|got a tuple; write push"
    ):
        merged(rows)


# A failing feeder


def joined() -> tg.IntervalJoin:
    schema = pa.schema({"ts": pa.int64(), "x": pa.int64()})
    return tg.IntervalJoin(schema, schema, on="ts", lower=-2, upper=0, how="left")


def times(*values: int) -> pa.Table:
    return pa.table({"ts": values, "x": values})


def fail_after(source: tg.Source, rows: pa.Table) -> None:
    with source:
        source.push(rows)
        raise ConnectionError("lost")  # noqa: EM101 - the message is tested


def test_no_row_is_final_because_a_feeder_failed():
    join = joined()
    left, right = join.sources
    left.push(times(10, 20, 30))
    with pytest.raises(ConnectionError):
        fail_after(right, times(9, 21))
    left.close()
    # 20 is final because 21 has arrived. 30 is not final, because its partner was lost.
    found = [join.poll(), join.poll()]
    assert pa.Table.from_batches(found)["ts_right"].to_pylist() == [9, None]
    message = r"right source 0 was abandoned before its end \(ConnectionError: lost\): rows are"
    for _ in range(2):
        with pytest.raises(tg.TidegateError, match=message):
            join.poll()
    with pytest.raises(tg.TidegateError, match=message):
        next(join)
    right.close()
    with pytest.raises(tg.TidegateError, match=message):
        list(join)
    with pytest.raises(tg.ClosedError, match=r"right source 0 was abandoned \(ConnectionError"):
        right.push(times(29))
    with pytest.raises(tg.ClosedError, match="right source 0 was abandoned"):
        right.advance(40)
    assert [source["abandoned"] for source in join.stats()["sources"]] == [
        None,
        "ConnectionError: lost",
    ]


def test_a_snapshot_goes_on_where_the_feeder_failed():
    join = joined()
    join.left_sources[0].push(times(10, 20, 30))
    join.left_sources[0].close()
    with pytest.raises(ConnectionError):
        fail_after(join.right_sources[0], times(9, 21))
    found = [join.poll(), join.poll()]
    restored = joined()
    restored.restore(join.snapshot())
    position = restored.stats()["sources"][1]["rows_in"]
    with restored.right_sources[0] as right:
        right.push(times(9, 21, 29)[position:])
    found.extend(iter(restored.poll, None))
    assert pa.Table.from_batches(found)["ts_right"].to_pylist() == [9, None, 29]


def test_the_first_reason_is_told_and_a_closed_source_has_none():
    merge = tg.Merge(pa.schema({"ts": pa.int64()}), sources=3)
    merge.sources[0].close()
    merge.sources[0].abandon("too late")
    assert merge.poll() is None
    merge.sources[2].abandon("first")
    merge.sources[2].abandon("again")
    merge.sources[1].abandon("second")
    with pytest.raises(tg.TidegateError, match=r"source 2 was abandoned before its end \(first\)"):
        merge.poll()
    reasons = [source["abandoned"] for source in merge.stats()["sources"]]
    assert reasons == [None, "second", "first"]
