"""Arrow types in messages have the names that pyarrow gives them."""

import re

import pyarrow as pa
import pytest

import tidegate as tg

PLAIN = [
    pa.null(),
    pa.bool_(),
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.binary(4),
    pa.large_binary(),
    pa.binary_view(),
    pa.date32(),
    pa.date64(),
    *map(pa.time32, ("s", "ms")),
    *map(pa.time64, ("us", "ns")),
    *map(pa.duration, ("s", "ms", "us", "ns")),
    *map(pa.timestamp, ("s", "ms", "us", "ns")),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "Europe/Berlin"),
    pa.month_day_nano_interval(),
    pa.decimal32(5, 2),
    pa.decimal64(12, -2),
    pa.decimal128(38, 0),
    pa.decimal256(40, 3),
]
STRICT = pa.field("item", pa.int8(), nullable=False)
NESTED = [
    pa.list_(pa.int64()),
    pa.list_(STRICT),
    pa.list_(pa.field("element", pa.string())),
    pa.list_(pa.int8(), 3),
    pa.large_list(pa.timestamp("us")),
    pa.list_view(pa.int8()),
    pa.large_list_view(STRICT),
    pa.struct([]),
    pa.struct([("a", pa.int8()), pa.field("b c", pa.list_(pa.string()), nullable=False)]),
    pa.map_(pa.string(), pa.int64()),
    pa.map_(pa.string(), pa.list_(pa.int8()), keys_sorted=True),
    pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int8())),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.uint8(), pa.list_(pa.int8())),
    pa.run_end_encoded(pa.int32(), pa.string()),
    pa.dense_union([pa.field("a", pa.int8()), pa.field("b", pa.string(), nullable=False)]),
    pa.sparse_union([pa.field("a", pa.int8())], [5]),
]


@pytest.mark.parametrize("kind", [*PLAIN, *NESTED], ids=str)
def test_a_message_names_a_type_as_pyarrow_does(kind):
    """The type is refused as a time, or, if it is a time, as a key compared with a string."""
    with pytest.raises(tg.SchemaError) as caught:
        _refused(kind)
    found = re.search("`x` is (.*?)(, expected a time|, right `x` is string)", str(caught.value))
    assert found, caught.value
    assert found[1] == str(kind)


def _refused(kind: pa.DataType) -> None:
    schema = pa.schema({"ts": pa.int64(), "x": kind})
    other = pa.schema({"ts": pa.int64(), "x": pa.string()})
    if _is_time(kind):
        tg.IntervalJoin(schema, other, on="ts", by="x", lower=0, upper=1)
    else:
        tg.Aggregate(schema, on="x", size=5, aggs={"n": tg.agg.count()})


def _is_time(kind: pa.DataType) -> bool:
    whole = {pa.int32(), pa.int64(), pa.uint32(), pa.uint64()}
    return kind in whole or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
