"""Dictionaries with 8-bit indices: each chunk has its own dictionary with different values.

`arrow-select` runs out of indices if three chunks have the same hundred strings as values, and
panics if the values are string views. Results of tables get 32-bit indices if the values of all
chunks need them. A streamed result is split instead, since its schema is known before its rows.
"""

import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
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
    """Return equal values at another memory address."""
    return pa.concat_arrays([values.slice(0, 1), values.slice(1)])


def table(kind: str) -> pa.Table:
    """Create three chunks of the same values."""
    chunks = [coded(copied(VALUES[kind])) for _ in range(3)]
    return pa.table({"ts": pa.array(range(300)), "d": pa.chunked_array(chunks)})


def different() -> pa.Table:
    """Create three chunks whose values do not fit in one dictionary."""
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


def test_a_streamed_result_is_cut_where_indices_run_out():
    rows = different()
    values = rows["d"].to_pylist()
    join = tg.IntervalJoin(EVEN.schema, rows.schema, **AT)
    join.left_sources[0].push(EVEN)
    found = []
    for start in range(0, 300, 10):
        join.right_sources[0].push(rows[start : start + 10])
        found += [row["d"] for batch in iter(join.poll, None) for row in batch.to_pylist()]
    assert found + [row["d"] for row in drained(join)] == values[::2]


def written(found: pa.Table) -> pa.Table:
    """Read a result back from a Parquet file, and check that all readers agree."""
    with io.BytesIO() as file:
        pq.write_table(found, file)
        read = pq.read_table(file)
    assert read.to_pylist() == found.to_pylist()
    found.validate(full=True)
    assert found.combine_chunks().to_pylist() == found.to_pylist()
    assert found.to_pandas()["d"].tolist() == found["d"].to_pylist()
    return read


INDICES_32 = pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize("limit", [None, "300MB"])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_chunks_with_many_values_have_room_in_results(how, limit):
    rows = different()
    values = rows["d"].to_pylist()
    more = {"how": how, "memory_limit": limit, **AT}
    for found in (
        tg.interval_join(rows, rows, by="d", **more),
        tg.interval_join(rows, EVEN, **more) if how in {"left", "full"} else None,
        tg.overlap_join(rows, rows, on=("ts", "ts"), how=how, memory_limit=limit),
        tg.asof_join(rows, rows, on="ts", memory_limit=limit),
    ):
        if found is not None:
            assert found["d"].type == INDICES_32
            assert written(found)["d"].to_pylist() == values


@pytest.mark.parametrize("limit", [None, "300MB"])
@pytest.mark.parametrize("how", ["right", "full"])
def test_keys_of_two_sides_have_room_in_results(how, limit):
    left, right = different()[:100], different()[100:200]
    found = tg.interval_join(left, right, by="d", how=how, memory_limit=limit, **AT)
    assert found["d"].type == INDICES_32
    keys = (left["d"].to_pylist() if how == "full" else []) + right["d"].to_pylist()
    assert sorted(written(found)["d"].to_pylist()) == sorted(keys)


def test_indices_stay_as_they_are_where_all_values_have_room():
    for kind in ("text", "view"):
        rows = table(kind)
        for found in (
            tg.interval_join(rows, rows, by="d", how="full", **AT),
            tg.merge([rows, rows]),
            tg.aggregate(rows, on="ts", size=10, by="d", aggs={"n": agg.count()}),
        ):
            assert found["d"].type == rows["d"].type


def test_streams_with_many_values_together_have_room():
    rows = different()
    parts = [part.set_column(0, "ts", [range(100)]) for part in (rows[:100], rows[100:200])]
    keys = rows["d"].to_pylist()[:200]
    merged = tg.merge(parts)
    assert merged["d"].type == INDICES_32
    assert sorted(written(merged)["d"].to_pylist()) == sorted(keys)
    for given in (parts, pa.concat_tables(parts)):
        counted = tg.aggregate(given, on="ts", size=1000, by="d", aggs={"n": agg.count()})
        assert counted["d"].type == INDICES_32
        assert sorted(written(counted)["d"].to_pylist()) == sorted(keys)
    lasts = tg.aggregate(parts, on="ts", size=1000, aggs={"d": agg.last("d")})
    assert written(lasts).num_rows == 1


def test_dictionaries_in_structs_have_room_in_results():
    parts = [pa.StructArray.from_arrays([chunk], ["s"]) for chunk in different()["d"].chunks]
    rows = pa.table({"ts": pa.array(range(300)), "d": pa.chunked_array(parts)})
    for limit in (None, "300MB"):
        found = tg.interval_join(EVEN, rows, memory_limit=limit, **AT)
        assert found["d"].type == pa.struct([("s", INDICES_32)])
        assert found["d"].to_pylist() == rows["d"].to_pylist()[::2]


INDICES = [pa.int8(), pa.int16(), pa.int32()]


@pytest.mark.parametrize("how", ["left", "right", "full"])
@pytest.mark.parametrize("other", [pa.string(), *INDICES], ids=str)
def test_categories_beside_other_types_keep_theirs_or_become_one_that_holds_all(how, other):
    names = ["a", "b"]
    small = pa.dictionary(pa.int8(), pa.string())
    left = pa.table({"ts": [0, 1], "k": pa.array(names).cast(small)})
    keys = [f"k{n}" for n in range(3 if other == pa.int8() else 200)]
    kind = other if other == pa.string() else pa.dictionary(other, pa.string())
    right = pa.table({"ts": range(len(keys)), "k": pa.array(keys).cast(kind)})
    found = tg.interval_join(left, right, on="ts", by="k", lower=None, upper=None, how=how)
    if how == "left":
        assert found["k"].type == small
    wanted = {"left": names, "right": keys, "full": names + keys}
    assert found["k"].combine_chunks().to_pylist() == wanted[how]
