"""Which keys are equal: types, layouts, nulls, floats, dictionaries."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

from tidegate import interval_join


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
        column = pa.array(values, type_)
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
