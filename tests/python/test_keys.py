"""Equality of keys: types, layouts, nulls, floats, dictionaries."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

from cases import array
from tidegate import (
    IntervalJoin,
    TidegateError,
    agg,
    aggregate,
    band_join,
    interval_join,
    interval_join_batches,
    overlap_join,
    window_join,
)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


KEY_TYPES = [
    ([1, 2, None], [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()]),
    ([1.5, 2.5, None], [pa.float32(), pa.float64()]),
    ([True, False, None], [pa.bool_(), pa.dictionary(pa.int8(), pa.bool_())]),
    (
        ["x", "", None],
        [
            pa.string(),
            pa.large_string(),
            pa.string_view(),
            pa.dictionary(pa.int8(), pa.string()),
            pa.dictionary(pa.uint32(), pa.large_string()),
        ],
    ),
    (
        [b"\xff\x00", b"ab", None],
        [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)],
    ),
    ([dt.date(2024, 1, 1), dt.date(1969, 1, 1), None], [pa.date32(), pa.date64()]),
    (
        [decimal.Decimal("1.50"), decimal.Decimal("-2.25"), None],
        [pa.decimal128(5, 2), pa.decimal128(30, 10), pa.decimal256(50, 4), pa.decimal64(10, 3)],
    ),
    (
        [dt.datetime.fromisoformat("2024-01-01"), dt.datetime.fromisoformat("1969-01-01"), None],
        [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")],
    ),
]
KEY_PAIRS = [(values, a, b) for values, types in KEY_TYPES for a in types for b in types]


@pytest.mark.parametrize(("values", "left", "right"), KEY_PAIRS, ids=str)
@pytest.mark.parametrize("by", [["k"], ["k", "again"]], ids=["alone", "with another"])
def test_keys_of_one_kind_are_equal_whatever_their_layout(values, left, right, by):
    def side(type_: pa.DataType, name: str, values: list[object]) -> pa.Table:
        column = array(values, type_)
        return pa.table({"ts": [0] * 3, "k": column, "again": column, name: values})

    left_side, right_side = side(left, "l", values), side(right, "r", values[::-1])
    found = interval_join(left_side, right_side, on="ts", by=by, lower=0, upper=0, how="full")
    pairs = rows(found.select(["l", "r"]))
    assert pairs == [(values[0],) * 2, (values[1],) * 2, (None, None), (None, None)]
    assert found.column("k").to_pylist() == [*values, None]
    if left == right:
        assert found.column("k").type == left


def test_unsigned_keys_above_the_signed_range_have_no_signed_equal():
    left = pa.table({"ts": [0, 0], "k": pa.array([2**64 - 1, 7], pa.uint64())})
    right = pa.table({"ts": [0, 0], "k": pa.array([-1, 7], pa.int64())})
    found = interval_join(left, right, on="ts", by="k", lower=0, upper=0)
    assert found.column("k").to_pylist() == [7]
    assert interval_join(left, left, on="ts", by="k", lower=0, upper=0).num_rows == 2


BEYOND = 2**63 + 5
UNSIGNED = pa.table({"ts": [1, 2], "k": pa.array([7, BEYOND], pa.uint64()), "x": [1, 2]})
SIGNED = pa.table({"ts": [1, 2], "k": pa.array([7, -8], pa.int64()), "x": [1, 3]})


@pytest.mark.parametrize("how", ["right", "full"])
@pytest.mark.parametrize("swapped", [False, True], ids=["unsigned left", "signed left"])
@pytest.mark.parametrize("layout", ["plain", "dictionary", "narrow"])
def test_the_key_column_of_unmatched_rows_holds_unsigned_and_negative_keys(how, swapped, layout):
    unsigned, signed = UNSIGNED, SIGNED
    if layout == "dictionary":
        unsigned = unsigned.set_column(1, "k", unsigned.column("k").dictionary_encode())
    if layout == "narrow":
        signed = signed.set_column(1, "k", signed.column("k").cast(pa.int8()))
    left, right = (signed, unsigned) if swapped else (unsigned, signed)
    own, other = (-8, BEYOND) if swapped else (BEYOND, -8)
    expected = sorted([7, other] if how == "right" else [7, own, other])
    options = {"by": "k", "how": how}
    spans = (("ts", "ts"), ("ts", "ts"))
    operator = IntervalJoin(
        left.schema, right.schema, on="ts", lower=None, upper=None, by="k", how=how
    )
    for source, table in zip(operator.sources, (left, right), strict=True):
        source.push(table)
        source.close()
    for found in [
        interval_join(left, right, on="ts", lower=None, upper=None, **options),
        interval_join(left, right, on="ts", lower=-5, upper=5, memory_limit=300_000_000, **options),
        band_join(left, right, on="x", within=0, **options),
        overlap_join(left, right, on=spans, **options),
        window_join(left, right, on="ts", window=5, **options),
        pa.Table.from_batches(list(operator)),
    ]:
        assert found.schema.field("k").type == pa.decimal128(20, 0)
        assert sorted(map(int, found.column("k").to_pylist())) == expected


def test_streams_of_signed_and_unsigned_keys_have_groups_of_both():
    streams = [UNSIGNED.select(["ts", "k"]), SIGNED.select(["ts", "k"])]
    aggs = {"rows": agg.count(), "largest": agg.max("k")}
    found = aggregate(streams, on="ts", by="k", size=5, aggs=aggs)
    assert [int(key) for key in found.column("k").to_pylist()] == [-8, 7, BEYOND]
    assert found.column("rows").to_pylist() == [1, 2, 1]
    assert [int(key) for key in found.column("largest").to_pylist()] == [-8, 7, BEYOND]
    with pytest.raises(
        TidegateError, match=r"uint64 in streams\[0\]; with memory_limit, cast the col"
    ):
        aggregate(streams, on="ts", by="k", size=5, aggs=aggs, memory_limit=300_000_000)


def test_a_result_in_a_narrower_type_has_no_value_lost():
    table = pa.table({"ts": [1], "k": [300]})
    batches = interval_join_batches(table, table, on="ts", lower=0, upper=0, columns=["k"])
    reader = pa.RecordBatchReader.from_stream(batches, schema=pa.schema({"k": pa.int8()}))
    with pytest.raises(pa.ArrowInvalid, match="300"):
        reader.read_all()


def test_a_window_that_ends_beyond_the_days_of_a_date_is_an_error():
    days = pa.table({"ts": pa.array([2**31 - 2], pa.date32())})
    with pytest.raises(TidegateError, match=r"2147483650 .* date32.*; cast"):
        aggregate(days, on="ts", size="5d", aggs={"n": agg.count()})


def test_nan_is_equal_to_nan_and_zero_to_negative_zero():
    patterns = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    left = pa.table({"ts": [0] * 4, "k": [float(patterns[0]), 0.0, -0.0, float("inf")]})
    right = pa.table({"ts": [0] * 3, "k": np.array([patterns[1], -0.0, -np.inf])})
    right = right.append_column("r", [[0, 1, 2]])
    for by in (["k"], ["k", "ts"]):
        found = interval_join(left, right, on="ts", by=by, lower=0, upper=0)
        assert found.column("r").to_pylist() == [0, 1, 1]


def test_a_null_key_matches_nothing_in_any_of_several_columns():
    left = pa.table({"ts": [0, 0], "a": [1, None], "b": pa.array([None, "x"])})
    found = interval_join(left, left, on="ts", by=["a", "b"], lower=0, upper=0, how="full")
    assert rows(found.select(["a", "b", "ts", "ts_right"])) == [
        (1, None, 0, None),
        (None, "x", 0, None),
        (1, None, None, 0),
        (None, "x", None, 0),
    ]


def test_null_values_of_a_dictionary_are_null_keys():
    codes = pa.array([0, 1, None, 0], pa.int8())
    key = pa.DictionaryArray.from_arrays(codes, pa.array([None, "x"]))
    table = pa.table({"ts": [0] * 4, "k": key})
    for by in (["k"], ["k", "ts"]):
        assert interval_join(table, table, on="ts", by=by, lower=0, upper=0).num_rows == 1


def test_dictionaries_that_change_between_chunks():
    def chunk(values: list[str | None]) -> pa.Array:
        return pa.array(values).dictionary_encode()

    key = pa.chunked_array([chunk(["x", "y"]), chunk(["y", None, "x"]), chunk(["z"])])
    left = pa.table({"ts": [0] * 6, "k": key, "pay": key, "l": range(6)})
    right = pa.table({"ts": [0] * 3, "k": ["z", "x", None], "r": range(3)})
    found = interval_join(left, right, on="ts", by="k", lower=0, upper=0, how="left")
    assert rows(found.select(["l", "pay", "r"])) == [
        (0, "x", 1),
        (1, "y", None),
        (2, "y", None),
        (3, None, None),
        (4, "x", 1),
        (5, "z", 0),
    ]
