"""Refused inputs: each message names the place, the given value and what to do instead."""

import pickle

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tidegate import (
    ClosedError,
    IntervalJoin,
    MemoryLimitError,
    Merge,
    SchemaError,
    StateError,
    TidegateError,
    agg,
    aggregate,
    interval_join,
    interval_join_batches,
    merge,
)

TABLE = pa.table({"ts": [1, 2, 3], "k": ["x", "y", "x"], "v": [1.5, 2.5, 3.5]})


def join(left: object = TABLE, right: object = TABLE, **arguments: object) -> pa.Table:
    return interval_join(left, right, **{"on": "ts", "lower": 0, "upper": 0} | arguments)


def refuses(error: type[Exception], text: str, *sides: object, **arguments: object) -> None:
    """Check the error's class, and that its message or a note contains `text`."""
    with pytest.raises(error) as caught:
        join(*sides, **arguments)
    assert type(caught.value) is error
    assert text in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


# Columns


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"on": "time"},
            "left: there is no column `time`, which `on` names; it has `ts`, `k`, `v`",
        ),
        ({"on": ("ts", "at")}, "right: there is no column `at`, which `on` names"),
        ({"by": "key"}, "left: there is no column `key`, which `by` names"),
        ({"by": {"k": "key"}}, "right: there is no column `key`, which `by` names"),
        ({"columns": ["ts", "w"]}, "columns: the result has no column `w`; it has `ts`, `k`"),
        ({"where": "left.w > 1"}, "where: the left table has no column `w`; it has `ts`"),
    ],
)
def test_missing_columns(arguments, text):
    refuses(SchemaError, text, **arguments)


def test_doubled_columns():
    doubled = TABLE.append_column("k", TABLE.column("k"))
    refuses(SchemaError, "left: there is more than one column `k`", doubled, by="k")
    refuses(SchemaError, "right: there is more than one column `k`", TABLE, doubled, by="k")
    refuses(SchemaError, "the result would have two columns `k`", doubled)


def test_doubled_columns_of_the_result():
    refuses(SchemaError, "two columns `ts`; choose a suffix other than ``", suffix="")
    refuses(TidegateError, "columns names `ts` twice", columns=["ts", "ts"])


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (pa.string(), "left: column `ts` is string, expected a time: int32, int64"),
        (
            pa.large_string(),
            "timestamp; parse the text first, for instance with pandas.to_datetime",
        ),
        (pa.float32(), "timestamp; cast it to int64 or to a timestamp first"),
        (pa.uint8(), "timestamp; cast it to int64 first"),
        (pa.float64(), "left: column `ts` is double, expected a time"),
        (pa.int16(), "left: column `ts` is int16, expected a time"),
        (pa.duration("s"), "left: column `ts` is duration[s], expected a time"),
        (pa.timestamp("s"), "an integer and a time cannot be compared: left `ts` is timestamp[s]"),
        (pa.date32(), "an integer and a time cannot be compared: left `ts` is date32[day]"),
    ],
)
def test_wrong_types_of_time(type_, text):
    refuses(SchemaError, text, pa.table({"ts": pa.nulls(0, type_)}))


def test_times_with_and_without_zone():
    zoned = pa.table({"ts": pa.array([0], pa.timestamp("s", "UTC"))})
    naive = pa.table({"ts": pa.array([0], pa.timestamp("s"))})
    for sides in ((zoned, naive), (naive, zoned)):
        refuses(SchemaError, "add a time zone to both, or to neither", *sides)
    day = pa.table({"ts": pa.array([0], pa.date32())})
    refuses(SchemaError, "with and without a time zone", zoned, day)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.int64(), pa.string()),
        (pa.int64(), pa.float64()),
        (pa.bool_(), pa.int8()),
        (pa.string(), pa.binary()),
        (pa.dictionary(pa.int8(), pa.string()), pa.int8()),
        (pa.timestamp("s"), pa.timestamp("s", "UTC")),
        (pa.timestamp("s"), pa.int64()),
        (pa.date32(), pa.timestamp("s")),
        (pa.decimal128(5, 2), pa.float64()),
        (pa.list_(pa.int8()), pa.list_(pa.int8())),
        (pa.struct({"a": pa.int8()}), pa.struct({"a": pa.int8()})),
        (pa.duration("s"), pa.duration("s")),
        (pa.decimal256(76, 0), pa.decimal256(76, 76)),
    ],
    ids=str,
)
def test_keys_that_cannot_be_compared(one, other):
    sides = [pa.table({"ts": pa.array([], pa.int64()), "k": pa.nulls(0, t)}) for t in (one, other)]
    for left, right in (sides, sides[::-1]):
        refuses(
            SchemaError, "keys of these types cannot be compared: left `k`", left, right, by="k"
        )


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (pa.list_(pa.int8()), "keys can be integers, floats, booleans, strings, bytes, decimals"),
        (pa.duration("s"), "cast the left one to string"),
        (pa.time64("ns"), "cast the left one to string"),
        (pa.decimal256(76, 0), "cast one of them"),
    ],
    ids=str,
)
def test_keys_that_cannot_be_compared_say_what_can(type_, text):
    one = pa.table({"ts": pa.array([], pa.int64()), "k": pa.nulls(0, type_)})
    other = pa.table({"ts": pa.array([], pa.int64()), "k": pa.nulls(0, pa.string())})
    refuses(SchemaError, text, one, other, by="k")


@pytest.mark.parametrize("type_", [pa.time32("s"), pa.time64("ns"), pa.duration("us")], ids=str)
def test_times_of_day_and_durations_are_cast_before_they_are_keys(type_):
    table = pa.table({"ts": pa.array([], pa.int64()), "k": pa.nulls(0, type_)})
    refuses(SchemaError, "; cast both to integers or to strings", table, table, by="k")
    number = table.set_column(1, "k", pa.nulls(0, pa.int32()))
    refuses(SchemaError, "; cast the left one to int32", table, number, by="k")
    refuses(SchemaError, "; cast the right one to int32", number, table, by="k")
    real = table.set_column(1, "k", pa.nulls(0, pa.float64()))
    refuses(SchemaError, "; keys can be integers", table, real, by="k")
    with pytest.raises(SchemaError, match="cannot be a key; cast it to integers or to strings"):
        aggregate(table, on="ts", by="k", size=1, aggs={"n": agg.count()})


OBJECTS = pl.DataFrame({"ts": [1, 2], "o": pl.Series([object(), object()], dtype=pl.Object)})


@pytest.mark.parametrize(
    "call",
    [
        lambda: interval_join(OBJECTS, OBJECTS.select("ts"), on="ts", lower=0, upper=0),
        lambda: interval_join(OBJECTS.select("ts"), OBJECTS, on="ts", lower=0, upper=0),
        lambda: interval_join(OBJECTS.lazy(), OBJECTS.lazy(), on="ts", lower=0, upper=0),
        lambda: interval_join(
            OBJECTS.to_dict(), OBJECTS.select("ts"), on="ts", lower=0, upper=0, columns=["ts"]
        ),
        lambda: aggregate(OBJECTS, on="ts", size=1, aggs={"o": agg.first("o")}),
        lambda: merge([OBJECTS, OBJECTS], on="ts"),
        lambda: Merge(OBJECTS),
        lambda: Merge(OBJECTS.schema),
        lambda: Merge(pa.table(OBJECTS).schema).sources[0].push(OBJECTS),
    ],
)
def test_python_objects_of_polars_are_refused(call):
    with pytest.raises(SchemaError, match=r": column `o` contains Python objects .*; convert it"):
        call()


def test_streams_that_are_no_list():
    rows = pa.table({"ts": [1]})
    with pytest.raises(TypeError, match=r"one list; write merge\(\[first, second"):
        merge(rows, rows)
    with pytest.raises(TypeError, match=r"write aggregate\(\[first, second, \.\.\.\]\)"):
        aggregate(rows, rows, on="ts", size=1, aggs={})


def test_an_operator_cannot_be_pickled():
    with pytest.raises(TypeError, match=r"cannot pickle a Merge, .*; call snapshot\(\), and"):
        pickle.dumps(Merge(pa.schema({"ts": pa.int64()})))


# Times


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_null_time_names_its_row(side):
    times = pa.chunked_array([[5, 6], [7, None, None]], pa.int64())
    sides = {"left": TABLE, "right": TABLE} | {side: pa.table({"ts": times})}
    text = f"{side}: column `ts`, row 3: the time is null, but every row must have a time"
    with pytest.raises(TidegateError) as caught:
        join(**sides)
    assert text in str(caught.value)


def test_times_that_do_not_fit_the_common_unit():
    seconds = pa.table({"ts": pa.array([0, 2**62], pa.timestamp("s"))})
    latest = pa.table({"ts": pa.array([2**63 - 1], pa.timestamp("ns"))})
    text = (
        "row 1: 4611686018427387904 does not fit 64 bits in ns; cast the other time column to "
        "timestamp[s]"
    )
    refuses(TidegateError, f"left: column `ts`, {text}", seconds, latest)
    refuses(TidegateError, f"right: column `ts`, {text}", latest, seconds)
    unsigned = pa.table({"ts": pa.array([0, 2**63], pa.uint64())})
    refuses(
        TidegateError,
        "left: column `ts`, row 1: 9223372036854775808 does not fit 64 bits",
        unsigned,
    )


@pytest.mark.parametrize("end", [-(2**63), 2**63 - 1])
@pytest.mark.parametrize("bound", [-(2**63), -1, 1, 2**63 - 1])
def test_sums_at_both_ends_of_int64_do_not_wrap(end, bound):
    left = pa.table({"ts": pa.array([end], pa.int64())})
    right = pa.table({"ts": pa.array([-(2**63), -1, 0, 1, 2**63 - 1], pa.int64())})
    found = (
        join(left, right, lower=min(bound, 0), upper=max(bound, 0)).column("ts_right").to_pylist()
    )
    low, high = end + min(bound, 0), end + max(bound, 0)
    assert found == [time for time in right.column("ts").to_pylist() if low <= time <= high]


# Other arguments


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"lower": 2, "upper": 1},
            "lower must not be greater than upper, but lower is 2 and upper",
        ),
        ({"lower": 2**63}, "lower"),
        ({"upper": -(2**200)}, "upper"),
        ({"lower": "5"}, "lower: `5` is not a duration: a number has no unit"),
        ({"lower": "1mo"}, "lower: `1mo` is not a duration: months and years have no fixed length"),
        ({"lower": ""}, "lower: `` is not a duration: it is empty"),
        ({"lower": "." * 10**6}, f"lower: `{'.' * 80}…` is not a duration"),
        ({"lower": np.timedelta64("NaT")}, "lower: NaT is not a duration"),
        ({"upper": np.timedelta64(1, "M")}, "upper: timedelta64[M] has no fixed length"),
        ({"how": "cross"}, "how must be one of inner, left, right, full, semi, anti, got `cross`"),
        ({"closed": "open"}, "closed must be one of both, left, right, neither, got `open`"),
        ({"threads": 0}, "threads must be from 1 to 512, got 0"),
        ({"threads": -1}, "threads must be from 1 to 512, got -1"),
        ({"threads": 10_000}, "threads must be from 1 to 512, got 10000"),
        ({"threads": 2**70}, "threads"),
        ({"max_rows": -1}, "max_rows must be at least 0, got -1"),
        ({"max_rows": 2**63}, f"max_rows must be less than 2^63, got {2**63}"),
        ({"memory_limit": 2**70}, f"memory_limit must be less than 2^63, got {2**70}"),
        ({"where": "left.v >"}, "where"),
    ],
)
def test_values_without_meaning(arguments, text):
    refuses(TidegateError, text, **arguments)


def test_a_duration_for_integer_times():
    refuses(SchemaError, "lower is a duration, but the time columns are integers", lower="0s")


def test_where_that_is_no_condition():
    refuses(SchemaError, "where: expected a condition that is true or false", where="left.v")
    refuses(SchemaError, "where", where="left.v > right.k")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"on": 3}, "on: expected a column name or a pair"),
        ({"on": ("a", "b", "c")}, "on: expected a column name or a pair"),
        ({"by": 3}, "by: expected a column name, a list of names or of pairs"),
        ({"by": [3]}, "by: expected a column name or a pair"),
        ({"by": {"k": 3}}, "by"),
        (
            {"by": ("k", "v")},
            "by: ('k', 'v') can mean two columns or one pair; write by=['k', 'v'] for columns of",
        ),
        (
            {"by": ("k", "v")},
            "or by=[('k', 'v')] for the left column 'k' with the right column 'v'",
        ),
        ({"lower": True}, "lower: expected a timedelta, a string"),
        ({"upper": 1.5}, "upper: expected a timedelta, a string"),
        ({"where": 3}, "where: expected an expression"),
        ({"how": 3}, "how"),
        ({"closed": None}, "closed"),
        ({"suffix": 3}, "suffix"),
        ({"columns": "ts"}, "columns"),
        ({"columns": [3]}, "columns"),
        ({"threads": 1.5}, "threads"),
        ({"threads": "2"}, "threads"),
        ({"max_rows": "2"}, "max_rows"),
    ],
)
def test_wrong_types_of_arguments_are_named(arguments, text):
    refuses(TypeError, text, **arguments)


def test_batch_rows():
    with pytest.raises(TidegateError, match="batch_rows must be at least 1, got 0"):
        interval_join_batches(TABLE, TABLE, on="ts", lower=0, upper=0, batch_rows=0)


def test_a_result_beyond_max_rows():
    assert join(max_rows=3).num_rows == 3
    refuses(MemoryLimitError, "more than max_rows = 2", max_rows=2)
    refuses(MemoryLimitError, "more than max_rows = 0", how="left", max_rows=0)
    refuses(MemoryLimitError, "more than max_rows = 1", where="left.v > 2", max_rows=1)


def test_max_rows_holds_before_memory_is_taken():
    # 10^10 pairs would be 160 GB.
    hot = pa.table({"ts": np.zeros(100_000, np.int64)})
    refuses(MemoryLimitError, "more than max_rows = 1000000", hot, hot, max_rows=1_000_000)
    with pytest.raises(MemoryLimitError, match="more than max_rows"):
        list(interval_join_batches(hot, hot, on="ts", lower=0, upper=0, max_rows=1_000_000))


# Inputs


@pytest.mark.parametrize("source", [None, 5, [1, 2], object()])
def test_what_is_no_table(source):
    refuses(TypeError, "left: expected a table", source)
    refuses(TypeError, "right: expected a table", TABLE, source)


@pytest.mark.parametrize("source", [pa.array([1, 2]), pl.Series([1, 2])], ids=["pyarrow", "polars"])
def test_a_column_is_no_table(source):
    with pytest.raises((TypeError, SchemaError), match="left: expected") as caught:
        join(source)
    assert "consumed" not in str(caught.value)


def test_a_table_without_columns():
    empty = pa.table({})
    refuses(
        SchemaError, "left: there is no column `ts`, which `on` names; it has no columns", empty
    )


class Stream:
    """Exports the same capsule on each request, which producers must not do."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.capsule


class Array:
    """Exports the same pair of capsules on each request."""

    def __init__(self, capsules: object) -> None:
        self.capsules = capsules

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.capsules


@pytest.mark.parametrize(
    "source",
    [Stream(TABLE.__arrow_c_stream__()), Array(TABLE.to_batches()[0].__arrow_c_array__())],
    ids=["stream", "array"],
)
def test_a_capsule_used_twice(source):
    assert join(source).num_rows == 3
    refuses(
        ClosedError,
        "left: the Arrow data has already been consumed; pass a table, or a new",
        source,
    )


@pytest.mark.parametrize("source", [Stream(5), Array((5, 5)), Array(5)])
def test_what_hands_out_no_capsule(source):
    with pytest.raises((TypeError, TidegateError), match=r"left|PyCapsule"):
        join(source)


class Failing:
    """A producer that fails when data is requested."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("disk on fire"), KeyboardInterrupt("enough")])
def test_a_producer_that_fails_at_once_raises_its_own_error(error):
    with pytest.raises(type(error)) as caught:
        join(Failing(error))
    assert caught.value is error


def test_a_producer_that_fails_midway_is_quoted():
    def batches():
        yield from TABLE.to_batches()
        message = "disk on fire"
        raise RuntimeError(message)

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    refuses(TidegateError, "left: reading the Arrow stream failed", reader)
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    refuses(TidegateError, "disk on fire", TABLE, reader)


def test_a_stream_whose_schema_changes_midway():
    class Changing:
        """Streams that a C producer might export, but that pyarrow's readers refuse."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            other = pa.table({"ts": ["a"], "k": [1], "v": [None]})
            reader = pa.RecordBatchReader.from_batches(
                TABLE.schema, [*TABLE.to_batches(), *other.to_batches()]
            )
            return reader.__arrow_c_stream__()

    text = "left: column `ts` holds malformed Arrow data: int64 has 2 buffers, n_buffers is 3"
    refuses(SchemaError, text, Changing())


# Size


def test_ten_thousand_columns():
    names = [f"c{at}" for at in range(10_000)]
    wide = pa.table([[1, 2]] * 10_000 + [[1, 2]], [*names, "ts"])
    found = join(wide, wide, by=["c0", "c9999"])
    assert (found.num_columns, found.num_rows) == (10_001 + 10_001 - 2, 2)
    assert join(wide, wide, columns=["c7", "c7_right"]).to_pydict() == {
        "c7": [1, 2],
        "c7_right": [1, 2],
    }
    refuses(
        SchemaError, "left: there is no column `no`, which `on` names; it has `c0`", wide, on="no"
    )


def test_many_key_columns():
    names = [f"c{at}" for at in range(500)]
    wide = pa.table([[1, 2]] * 500 + [[1, 2]], [*names, "ts"])
    assert join(wide, wide, by=names).num_rows == 2


@pytest.mark.parametrize("type_", [pa.large_string(), pa.binary(), pa.string_view()], ids=str)
def test_very_large_keys(type_):
    big = "x" * (40 << 20)
    values = [big, big[:-1] + "y", "small"]
    key = pa.array([v.encode() for v in values] if type_ == pa.binary() else values, type_)
    table = pa.table({"ts": [0, 0, 0], "k": key, "n": [0, 1, 2]})
    found = join(table, table, by="k", columns=["n", "n_right"])
    assert found.to_pydict() == {"n": [0, 1, 2], "n_right": [0, 1, 2]}


def test_strings_beyond_the_offsets_of_a_batch_come_in_several():
    # A string array holds at most 2 GiB, and these pairs repeat 300 MiB ten times.
    table = pa.table({"ts": [0] * 10, "s": ["x" * (30 << 20)] * 10})
    once = pa.table({"at": [0] * 10})
    reader = interval_join_batches(table, once, on=("ts", "at"), lower=0, upper=0)
    rows = longest = 0
    for batch in reader:
        rows += batch.num_rows
        longest = max(longest, batch.nbytes)
    assert rows == 100
    assert longest < 2 << 30


def test_keys_that_are_no_text():
    key = pa.array([b"\xff\xfe", b"\x00", b"", None], pa.binary())
    table = pa.table({"ts": [0] * 4, "k": key})
    assert join(table, table, by="k").column("k").to_pylist() == [b"\xff\xfe", b"\x00", b""]


@pytest.mark.slow
def test_a_large_string_among_small_ones_is_repeated():
    # The mean row is small, so one batch would receive more than the 2 GiB that it can hold.
    strings = ["x" * (80 << 20)] + ["y"] * 9_999
    left = pa.table({"ts": np.arange(10_000), "s": strings})
    right = pa.table({"at": [0] * 30})
    reader = interval_join_batches(left, right, on=("ts", "at"), lower=0, upper=0)
    assert sum(batch.num_rows for batch in reader) == 30


def test_odd_names():
    odd = pa.table({"": [1], "a\nb": [2], "é" * 1000: [3]})
    found = join(odd, odd, on="", by="a\nb")
    assert found.column_names == ["", "a\nb", "é" * 1000, "_right", "é" * 1000 + "_right"]


def test_the_column_that_was_meant_is_named_first_among_many() -> None:
    many = pa.table({f"c{at}": [1] for at in range(60)} | {"ts": [1], "price": [1.0]})
    message = r"it has `c0`, .* and 42 more; did you mean `ts`\?"
    with pytest.raises(SchemaError, match=message):
        interval_join(many, many, on="tss", lower=0, upper=1)
    with pytest.raises(SchemaError, match=r"did you mean `price`\?"):
        interval_join(many, many, on="ts", lower=0, upper=1, where="left.pric > 1")
    with pytest.raises(SchemaError, match=r"did you mean `price`\?"):
        interval_join(many, many, on="ts", lower=0, upper=1, columns=["Price"])


@pytest.mark.parametrize(
    ("given", "word"), [("outer", "full"), ("OUTER", "full"), ("Left", "left")]
)
def test_a_word_of_other_libraries_is_answered_with_ours(given: str, word: str) -> None:
    table = pa.table({"ts": [1]})
    with pytest.raises(TidegateError, match=f"got `{given}`; write `{word}`"):
        interval_join(table, table, on="ts", lower=0, upper=1, how=given)


def test_a_function_of_an_aggregate_that_is_named_only_is_told_as_a_call():
    table = pa.table({"ts": [1, 2], "x": [1, 2]})
    with pytest.raises(TypeError, match=r"write aggs=\{'count': tidegate\.agg\.count\(\)\}"):
        aggregate(table, on="ts", size=2, aggs="count")
    with pytest.raises(TypeError, match=r'write "n": tidegate\.agg\.sum\("<the column>"\)'):
        aggregate(table, on="ts", size=2, aggs={"n": "sum"})


def test_periods_of_pandas_are_no_times():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"ts": pandas.period_range("2026-01-01", periods=2, freq="h")})
    with pytest.raises(SchemaError, match=r'left\.assign\(ts=left\["ts"\]\.dt\.to_time'):
        interval_join(frame, frame, on="ts", lower="-5s", upper="0s")


def test_a_snapshot_of_other_lengths_tells_them_as_they_are_written():
    schema = pa.schema([("ts", pa.timestamp("us"))])
    five, ninety = (
        IntervalJoin(schema, schema, on="ts", lower=lower, upper="0s") for lower in ("-5s", "-90s")
    )
    with pytest.raises(StateError, match=r"it has lower: -5s, .* has lower: -90s;"):
        ninety.restore(five.snapshot())
