"""The meaning of an interval join: pairs, kinds, times, names and order, with small tables."""

import datetime as dt
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import oracle
import tidegate
from tidegate import SchemaError, TidegateError, interval_join, interval_join_batches

KINDS = ["inner", "left", "right", "full", "semi", "anti"]

# Neither side is in time order. B has no row on the other side, and null keys never match.
TRADES = pa.table({"ts": [30, 10, 20, 15, 12], "sym": ["A", "A", "B", "A", None], "n": range(5)})
QUOTES = pa.table({"ts": [31, 12, 10, 9, 12, 99], "sym": ["A", "A", "A", "A", None, "C"]})
QUOTES = QUOTES.append_column("bid", [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])


def joined(**arguments: object) -> list[tuple[object, ...]]:
    defaults = {"on": "ts", "by": "sym", "lower": -2, "upper": 2}
    return rows(interval_join(TRADES, QUOTES, **defaults | arguments))


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


# Pairs and kinds


def test_pairs_are_those_of_one_key_within_the_interval():
    assert joined() == [
        (30, "A", 0, 31, 1.0),
        (10, "A", 1, 12, 2.0),
        (10, "A", 1, 10, 3.0),
        (10, "A", 1, 9, 4.0),
    ]


@pytest.mark.parametrize(
    ("closed", "times"),
    [("both", [8, 9, 12]), ("left", [8, 9]), ("right", [9, 12]), ("neither", [9])],
)
def test_closed_says_which_ends_match(closed, times):
    left, right = pa.table({"ts": [10]}), pa.table({"ts": [7, 8, 9, 12, 13]})
    found = interval_join(left, right, on="ts", lower=-2, upper=2, closed=closed)
    assert found.column("ts_right").to_pylist() == times


def test_left_keeps_left_rows_in_their_places():
    assert joined(how="left") == [
        (30, "A", 0, 31, 1.0),
        (10, "A", 1, 12, 2.0),
        (10, "A", 1, 10, 3.0),
        (10, "A", 1, 9, 4.0),
        (20, "B", 2, None, None),
        (15, "A", 3, None, None),
        (12, None, 4, None, None),
    ]


def test_right_keeps_right_rows_at_the_end_with_their_key():
    assert joined(how="right")[4:] == [
        (None, None, None, 12, 5.0),
        (None, "C", None, 99, 6.0),
    ]


def test_full_keeps_both():
    assert joined(how="full") == joined(how="left") + joined(how="right")[4:]


def test_semi_and_anti_split_the_left_rows():
    assert joined(how="semi") == [(30, "A", 0), (10, "A", 1)]
    assert joined(how="anti") == [(20, "B", 2), (15, "A", 3), (12, None, 4)]


def test_without_keys_all_rows_may_pair():
    assert [row[2:4] for row in joined(by=None)] == [
        (0, 31), (1, 12), (1, 10), (1, 9), (1, 12), (4, 12), (4, 10), (4, 12)
    ]  # fmt: skip


def test_where_is_asked_of_matched_pairs():
    condition = "left.n = 1 AND right.bid >= 3"
    assert joined(where=condition) == [(10, "A", 1, 10, 3.0), (10, "A", 1, 9, 4.0)]
    built = (tidegate.left.n == 1) & (tidegate.right.bid >= 3)
    assert joined(where=built) == joined(where=condition)


def test_where_decides_what_counts_as_unmatched():
    found = joined(how="full", where="right.bid = 2")
    assert [row[2] for row in found] == [0, 1, 2, 3, 4, None, None, None, None, None]
    assert joined(how="semi", where="right.bid = 2") == [(10, "A", 1)]


@pytest.mark.parametrize(
    ("lower", "upper", "times"),
    [
        (0, 0, [10]),
        (-3, -1, [7, 8]),
        (1, 3, [12, 13]),
        (None, -2, [7, 8]),
        (2, None, [12, 13]),
        (None, None, [7, 8, 10, 12, 13]),
    ],
)
def test_bounds_of_any_sign(lower, upper, times):
    left, right = pa.table({"ts": [10]}), pa.table({"ts": [7, 8, 10, 12, 13]})
    found = interval_join(left, right, on="ts", lower=lower, upper=upper)
    assert found.column("ts_right").to_pylist() == times


@pytest.mark.parametrize("closed", ["left", "right", "neither"])
def test_a_point_without_both_ends_is_empty(closed):
    found = interval_join(TRADES, TRADES, on="ts", lower=0, upper=0, closed=closed)
    assert found.num_rows == 0


def test_ties_pair_with_each_other_in_row_order():
    left = pa.table({"ts": [5, 5, 5], "l": [0, 1, 2]})
    right = pa.table({"ts": [5, 5], "r": [0, 1]})
    found = interval_join(left, right, on="ts", lower=0, upper=0, columns=["l", "r"])
    assert rows(found) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


# Bounds and times


def stamps(*seconds: float, unit: str = "us", zone: str | None = None) -> pa.Array:
    scale = 10**9 // oracle.NANOSECONDS[unit]
    return pa.array([round(second * scale) for second in seconds], pa.timestamp(unit, zone))


@pytest.mark.parametrize(
    "bound",
    [
        dt.timedelta(seconds=90),
        np.timedelta64(90, "s"),
        np.timedelta64(90_000_000_000, "ns"),
        pd.Timedelta(seconds=90),
        "90s",
        "1m30s",
        "1.5min",
        "90 seconds",
        "1 minute 30 sec",
        "PT1M30S",
        pd.offsets.Second(90),
    ],
)
def test_spellings_of_a_duration(bound):
    table = pa.table({"ts": stamps(0, 89, 90, 91)})
    found = interval_join(
        table, table, on="ts", lower=bound, upper=bound, columns=["ts", "ts_right"]
    )
    assert found.to_pydict() == {
        "ts": stamps(0).to_pylist(),
        "ts_right": stamps(90).to_pylist(),
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 seconds", 5),
        ("5sec", 5),
        ("PT5S", 5),
        ("1 day", 86_400),
        ("P1DT2H", 93_600),
        ("1h30m", 5_400),
        ("1.5 hours", 5_400),
        ("1 hour 30 minutes", 5_400),
        ("2 weeks", 1_209_600),
        ("2000ms", 2),
    ],
)
def test_one_parser_reads_bounds_windows_and_conditions(text, seconds):
    table = pa.table({"ts": stamps(0, seconds - 1, seconds, seconds + 1)})
    found = interval_join(table.slice(0, 1), table, on="ts", lower=text, upper=text)
    assert found["ts_right"].to_pylist() == stamps(seconds).to_pylist()
    condition = f"right.ts - left.ts = INTERVAL '{text}'"
    everything = {"on": "ts", "lower": "0s", "upper": "30d"}
    assert interval_join(table.slice(0, 1), table, **everything, where=condition) == found
    counts = tidegate.aggregate(table, on="ts", size=text, aggs={"n": tidegate.agg.count()})
    assert counts["n"].to_pylist() == [2, 2]


@pytest.mark.parametrize(
    ("unit", "other"), [("s", "ms"), ("ms", "ns"), ("us", "s"), ("ns", "us"), ("ms", "ms")]
)
def test_units_are_compared_in_the_finer_one(unit, other):
    left = pa.table({"ts": stamps(1, 2, unit=unit)})
    right = pa.table({"at": stamps(1, 2, 3, unit=other)})
    found = interval_join(left, right, on=("ts", "at"), lower="0s", upper="1s")
    assert found.schema == pa.schema([left.field("ts"), right.field("at")])
    assert [[t.second for t in row] for row in rows(found)] == [[1, 1], [1, 2], [2, 2], [2, 3]]


@pytest.mark.parametrize("upper", [500, np.int64(500)])
def test_an_integer_has_no_unit_that_timestamps_could_take(upper):
    left, right = pa.table({"ts": stamps(1, unit="s")}), pa.table({"at": stamps(1.5, unit="ms")})
    arguments = {"on": ("ts", "at"), "lower": 0}
    text = 'upper is the integer 500, .* as in "500s" or, in the unit of the columns, "500ms"'
    with pytest.raises(SchemaError, match=text):
        interval_join(left, right, upper=upper, **arguments)
    assert interval_join(left, right, upper="500ms", **arguments).num_rows == 1
    assert interval_join(left, right, upper="499ms", **arguments).num_rows == 0
    with pytest.raises(TidegateError, match="MonthEnd> has no fixed length; write a"):
        interval_join(left, right, upper=pd.offsets.MonthEnd(), **arguments)


def test_a_duration_between_two_steps_keeps_its_meaning():
    table = pa.table({"ts": stamps(0, 1, 2, unit="s")})
    arguments = {"on": "ts", "columns": ["ts", "ts_right"]}
    for closed in ("both", "left", "right", "neither"):
        found = interval_join(
            table, table, lower="-1500ms", upper="500ms", closed=closed, **arguments
        )
        assert [[t.second for t in row] for row in rows(found)] == [
            [0, 0], [1, 0], [1, 1], [2, 1], [2, 2]
        ]  # fmt: skip


def test_dates_are_times():
    days = [dt.date(2024, 2, 28), dt.date(2024, 3, 1)]
    left = pa.table({"day": pa.array(days, pa.date32())})
    noon = dt.datetime.fromisoformat("2024-02-29T12:00")
    right = pa.table({"ts": pa.array([noon], pa.timestamp("ms"))})
    found = interval_join(left, right, on=("day", "ts"), lower="0s", upper="2d")
    assert rows(found) == [(days[0], noon)]
    as_64 = left.set_column(0, "day", left.column(0).cast(pa.date64()))
    found = interval_join(as_64, left, on="day", lower="2d", upper="2d")
    assert rows(found) == [(days[0], days[1])]


INTEGERS = [pa.int32(), pa.int64(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("left_type", INTEGERS, ids=str)
@pytest.mark.parametrize("right_type", INTEGERS, ids=str)
def test_integer_times_of_all_widths(left_type, right_type):
    left = pa.table({"ts": pa.array([1, 5], left_type)})
    right = pa.table({"at": pa.array([0, 4, 6], right_type)})
    found = interval_join(left, right, on=("ts", "at"), lower=-1, upper=1)
    assert rows(found) == [(1, 0), (5, 4), (5, 6)]
    assert found.schema.types == [left_type, right_type]


def test_zones_are_compared_as_instants():
    # 02:30 occurs twice in Paris on this night, and the two instants are an hour apart.
    paris = ZoneInfo("Europe/Paris")
    night = dt.datetime(2024, 10, 27, 2, 30, tzinfo=paris)
    left = pa.table({"ts": pa.array([night, night.replace(fold=1)], pa.timestamp("s", str(paris)))})
    utc = [dt.datetime(2024, 10, 27, hour, 30, tzinfo=dt.UTC) for hour in (0, 1)]
    right = pa.table({"at": pa.array(utc, pa.timestamp("ms", "UTC"))})
    found = interval_join(left, right, on=("ts", "at"), lower="0s", upper="0s")
    assert found.column("at").to_pylist() == utc
    assert found.schema.field("ts").type == pa.timestamp("s", "Europe/Paris")


# Names


def test_names_differ_between_the_sides():
    right = QUOTES.rename_columns({"sym": "symbol", "ts": "at"})
    for by in ({"sym": "symbol"}, [("sym", "symbol")]):
        found = interval_join(TRADES, right, on=("ts", "at"), by=by, lower=-2, upper=2)
        assert found.column_names == ["ts", "sym", "n", "at", "symbol", "bid"]
        assert found.column("symbol").to_pylist() == ["A"] * 4


def test_keys_of_two_names_keep_their_own_values():
    right = QUOTES.rename_columns({"sym": "symbol"})
    found = interval_join(
        TRADES, right, on="ts", by={"sym": "symbol"}, lower=0, upper=0, how="full"
    )
    assert rows(found.select(["sym", "symbol"]))[-1] == (None, "C")


def test_a_clash_gets_the_suffix():
    assert interval_join(TRADES, TRADES, on="ts", by="sym", lower=0, upper=0).column_names == [
        "ts", "sym", "n", "ts_right", "n_right"
    ]  # fmt: skip
    found = interval_join(TRADES, TRADES, on="ts", lower=0, upper=0, suffix="2")
    assert found.column_names == ["ts", "sym", "n", "ts2", "sym2", "n2"]


def test_columns_are_picked_and_ordered():
    assert joined(columns=["bid", "n"])[:2] == [(1.0, 0), (2.0, 1)]
    found = interval_join(TRADES, QUOTES, on="ts", by="sym", lower=-2, upper=2, columns=[])
    assert (found.num_columns, found.num_rows) == (0, 4)


def test_columns_settle_a_clash_that_they_leave_out():
    table = pa.table([[1], [2], [3]], ["ts", "x", "x_right"])
    found = interval_join(table, table, on="ts", lower=0, upper=0, columns=["ts", "x"])
    assert rows(found) == [(1, 2)]


def test_two_key_columns():
    left = pa.table({"ts": [0, 0, 0], "a": [1, 1, 2], "b": ["x", "y", "x"]})
    right = pa.table({"ts": [0, 0], "a": pa.array([1, 2], pa.int8()), "b": ["y", "x"]})
    found = interval_join(left, right, on="ts", by=["a", "b"], lower=0, upper=0)
    assert rows(found) == [(0, 1, "y", 0), (0, 2, "x", 0)]
    right = right.rename_columns(["ts", "c", "b"])
    found = interval_join(left, right, on="ts", by={"a": "c", "b": "b"}, lower=0, upper=0)
    assert found.column_names == ["ts", "a", "b", "ts_right", "c"]


def test_fields_become_nullable_only_where_a_row_may_lack():
    def side(name: str) -> pa.Table:
        schema = pa.schema(
            [
                pa.field("ts", pa.int64(), nullable=False),
                pa.field("k", pa.int64(), nullable=False),
                pa.field(name, pa.int64(), nullable=False, metadata={"unit": "m"}),
            ]
        )
        return pa.table([[1], [1], [1]], schema=schema)

    nullable = {}
    for how in KINDS:
        found = interval_join(side("l"), side("r"), on="ts", by="k", lower=0, upper=0, how=how)
        assert found.schema.field("l").metadata == {b"unit": b"m"}
        nullable[how] = [field.name for field in found.schema if field.nullable]
    right_side, left_side = ["ts_right", "r"], ["ts", "l"]
    assert nullable == {
        "inner": [],
        "left": right_side,
        "right": left_side,
        "full": left_side + right_side,
        "semi": [],
        "anti": [],
    }


# Inputs


def test_every_kind_of_input():
    sources = [
        lambda table: table,
        lambda table: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(2)),
        lambda table: table.to_batches()[0],
        pl.from_arrow,
        lambda table: table.to_pandas(),
        duckdb.from_arrow,
    ]
    left = TRADES.drop_columns("n").append_column("n", [[0.5, 1.5, 2.5, 3.5, 4.5]])
    wanted = rows(interval_join(left, QUOTES, on="ts", by="sym", lower=-2, upper=2))
    assert len(wanted) == 4
    for source in sources:
        found = interval_join(source(left), source(QUOTES), on="ts", by="sym", lower=-2, upper=2)
        assert rows(found) == wanted


def test_chunks_whose_borders_differ_between_columns():
    left = pa.table(
        {
            "ts": pa.chunked_array([[30], [], [10, 20, 15, 12]], pa.int64()),
            "sym": pa.chunked_array([["A", "A"], ["B", "A", None]]),
            "n": pa.chunked_array([[0, 1, 2, 3, 4], []], pa.int64()),
        }
    )
    assert rows(interval_join(left, QUOTES, on="ts", by="sym", lower=-2, upper=2)) == joined()


def test_slices_that_begin_within_a_byte():
    flags = [True, False, None] * 7
    table = pa.table({"ts": range(21), "k": [f % 3 == 0 for f in range(21)], "flag": flags})
    part = table.slice(5, 11)
    whole = pa.Table.from_pylist(part.to_pylist(), part.schema)
    arguments = {"on": "ts", "by": ["k", "flag"], "lower": -7, "upper": 7, "how": "full"}
    found = interval_join(part, part, **arguments)
    assert found.num_rows > part.num_rows
    oracle.assert_same(found, interval_join(whole, whole, **arguments))


@pytest.mark.parametrize("how", KINDS)
def test_empty_tables_give_the_schema(how):
    for left, right in ((TRADES, QUOTES[:0]), (TRADES[:0], QUOTES), (TRADES[:0], QUOTES[:0])):
        join = oracle.Join(on=("ts", "ts"), by=[("sym", "sym")], lower=0, upper=0, how=how)
        found = interval_join(left, right, on="ts", by="sym", lower=0, upper=0, how=how)
        oracle.assert_same(found, oracle.expected(left, right, join))
        no_chunks = pa.Table.from_batches([], right.schema) if right.num_rows == 0 else right
        again = interval_join(left, no_chunks, on="ts", by="sym", lower=0, upper=0, how=how)
        oracle.assert_same(again, found)


def test_pandas_index_comes_along():
    frame = pd.DataFrame({"ts": [1, 2]}, index=pd.Index(["a", "b"], name="row"))
    found = interval_join(frame, pa.table({"at": [2, 3]}), on=("ts", "at"), lower=0, upper=1)
    assert found.to_pandas().index.to_list() == ["a", "b", "b"]


# Batches


def test_batches_are_the_table_in_parts():
    arguments = {"on": "ts", "by": "sym", "lower": -2, "upper": 2, "how": "full"}
    whole = interval_join(TRADES, QUOTES, **arguments)
    with interval_join_batches(TRADES, QUOTES, batch_rows=3, **arguments) as reader:
        assert reader.schema == whole.schema
        batches = list(reader)
        assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
        assert max(batch.num_rows for batch in batches) == 3
        assert list(reader) == []
    oracle.assert_same(pa.Table.from_batches(batches, whole.schema), whole)


def test_batches_are_an_arrow_stream():
    arguments = {"on": "ts", "by": "sym", "lower": -2, "upper": 2}
    whole = interval_join(TRADES, QUOTES, **arguments)
    reader = interval_join_batches(TRADES, QUOTES, **arguments)
    oracle.assert_same(pa.table(reader), whole)
    assert pa.table(reader).num_rows == 0
    frame = pl.DataFrame(interval_join_batches(TRADES, QUOTES, **arguments))
    assert frame.rows() == rows(whole)


def test_a_join_takes_the_batches_of_another():
    first = interval_join_batches(TRADES, QUOTES, on="ts", by="sym", lower=-2, upper=2)
    found = interval_join(first, pa.table({"at": [29]}), on=("ts", "at"), lower=-1, upper=0)
    assert rows(found) == [(30, "A", 0, 31, 1.0, 29)]


def test_stats_count_what_was_handed_out():
    reader = interval_join_batches(
        TRADES, QUOTES, on="ts", by="sym", lower=-2, upper=2, batch_rows=3, threads=1
    )
    # Batches are computed in advance, so the initial number of finished left rows varies.
    assert reader.stats() | {"left_rows_done": 0} == {
        "left_rows": 5,
        "right_rows": 6,
        "rows": 0,
        "left_rows_done": 0,
        "threads": 1,
        "keys": "hashed byte strings",
        "where": "none",
    }
    assert next(reader).num_rows == reader.stats()["rows"] == 3
    assert sum(batch.num_rows for batch in reader) == 1
    assert (reader.stats()["rows"], reader.stats()["left_rows_done"]) == (4, 5)


# Plans


def test_explain_says_what_would_be_done():
    plan = tidegate.explain(
        interval_join, TRADES, QUOTES, on="ts", by="sym", lower=-2, upper=5, closed="left",
        where="right.bid > 1", threads=3,
    )  # fmt: skip
    assert "right.ts - left.ts in [-2, 5) integer" in plan
    assert "key        sym" in plan
    assert "where      right.bid > 1" in plan
    assert "threads    3" in plan
    assert "5 columns" in plan


def test_explain_reads_the_schema_only():
    reader = pa.RecordBatchReader.from_batches(TRADES.schema, TRADES.to_batches())
    tidegate.explain(interval_join_batches, reader, QUOTES, on="ts", lower=0, upper=0)
    assert reader.read_all().num_rows == TRADES.num_rows


def test_explain_refuses_what_the_join_would_refuse():
    with pytest.raises(tidegate.SchemaError, match="no column `nope`"):
        tidegate.explain(interval_join, TRADES, QUOTES, on="nope", lower=0, upper=0)
    with pytest.raises(TypeError, match=r"expected one of .*interval_join"):
        tidegate.explain(print, TRADES, QUOTES, on="ts", lower=0, upper=0)
