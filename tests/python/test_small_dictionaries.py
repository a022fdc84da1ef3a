"""Dictionaries whose indices are of 8 bits: chunks have one each, with values of their own.

`arrow-select` runs out of indices where the values of three chunks are the same hundred texts, and
panics if they are text views. A result of a join is cut where it needs more indices than there are.
"""

from decimal import Decimal

import pyarrow as pa
import pytest

import tidegate as tg
from tidegate import agg

VALUES = {
    "text": pa.array([f"v{at}" for at in range(100)]),
    "view": pa.array([f"v{at}" for at in range(100)], pa.string_view()),
    "decimal": pa.array([Decimal(at) for at in range(100)], pa.decimal128(5)),
    "float": pa.array([float(at) for at in range(100)]),
    "struct": pa.array([{"a": at} for at in range(100)]),
}


def coded(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int8()), values)


def copied(values: pa.Array) -> pa.Array:
    """Equal values elsewhere in memory."""
    return pa.concat_arrays([values.slice(0, 1), values.slice(1)])


def table(kind: str) -> pa.Table:
    """Three chunks of the same values."""
    chunks = [coded(copied(VALUES[kind])) for _ in range(3)]
    return pa.table({"ts": pa.array(range(300)), "d": pa.chunked_array(chunks)})


def different() -> pa.Table:
    """Three chunks whose values have no room in one dictionary."""
    texts = [pa.array([f"v{at}" for at in range(start, start + 100)]) for start in (0, 100, 200)]
    chunks = pa.chunked_array([coded(values) for values in texts])
    return pa.table({"ts": pa.array(range(300)), "d": chunks})


EVEN = pa.table({"ts": pa.array(range(0, 300, 2))})
AT = {"on": "ts", "lower": 0, "upper": 0}


def drained(operator: tg.Operator) -> list[dict]:
    for source in operator.sources:
        source.close()
    return [row for batch in operator for row in batch.to_pylist()]


@pytest.mark.parametrize("kind", VALUES)
def test_values_that_chunks_repeat_have_room(kind):
    rows = table(kind)
    values = rows["d"].to_pylist()
    assert tg.interval_join(EVEN, rows, **AT)["d"].to_pylist() == values[::2]
    assert tg.interval_join(rows, EVEN, how="semi", **AT)["d"].to_pylist() == values[::2]
    assert tg.asof_join(EVEN, rows, on="ts")["d"].to_pylist() == values[::2]
    parts = [rows[0:100], rows[100:200], rows[200:300]]
    woven = tg.merge([part.set_column(0, "ts", [range(100)]) for part in parts])
    assert woven["d"].to_pylist() == [value for value in values[:100] for _ in range(3)]
    aggs = {"first": agg.first("d"), "all": agg.collect("d")}
    found = tg.aggregate(rows, on="ts", size=150, aggs=aggs)
    assert found["first"].to_pylist() == [values[0], values[150]]
    assert found["all"].to_pylist() == [values[:150], values[150:]]


@pytest.mark.parametrize("kind", VALUES)
def test_values_that_pushes_repeat_have_room(kind):
    rows = table(kind)

    def fed(merge: tg.Merge) -> tg.Merge:
        for start in range(0, 300, 30):
            merge.sources[start // 30 % 2].push(rows[start : start + 30])
        return merge

    values = rows["d"].to_pylist()
    merge = fed(tg.Merge(rows.schema, sources=2, lateness=300))
    restored = tg.Merge(rows.schema, sources=2, lateness=300)
    restored.restore(merge.snapshot())
    assert [row["d"] for row in drained(merge)] == values
    assert [row["d"] for row in drained(restored)] == values


@pytest.mark.parametrize("kind", VALUES)
def test_dictionaries_in_lists_have_room(kind):
    lists = [pa.ListArray.from_arrays(range(101), chunk) for chunk in table(kind)["d"].chunks]
    rows = pa.table({"ts": pa.array(range(300)), "d": pa.chunked_array(lists)})
    assert tg.interval_join(EVEN, rows, **AT)["d"].to_pylist() == rows["d"].to_pylist()[::2]


def test_a_result_is_cut_where_indices_run_out():
    rows = different()
    values = rows["d"].to_pylist()
    found = tg.interval_join(EVEN, rows, **AT)
    assert found["d"].to_pylist() == values[::2]
    assert found["d"].num_chunks > 1
    assert tg.interval_join(rows, rows, by="d", how="full", **AT)["d"].to_pylist() == values
    join = tg.IntervalJoin(EVEN.schema, rows.schema, **AT)
    join.left_sources[0].push(EVEN)
    found = []
    for start in range(0, 300, 10):
        join.right_sources[0].push(rows[start : start + 10])
        found += [row["d"] for batch in iter(join.poll, None) for row in batch.to_pylist()]
    assert found + [row["d"] for row in drained(join)] == values[::2]


def test_rows_of_one_batch_that_need_more_indices_are_an_error():
    rows = different()
    parts = [part.set_column(0, "ts", [range(100)]) for part in (rows[:100], rows[100:200])]
    words = "column `d`: the rows of one batch have more values of a dictionary than its indices"
    with pytest.raises(tg.SchemaError, match=words):
        tg.merge(parts)
    wider = [part.cast(pa.schema({"ts": pa.int64(), "d": pa.string()})) for part in parts]
    assert tg.merge(wider).num_rows == 200
