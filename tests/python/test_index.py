"""Joins with an index as their right side: the rows, order and bits are those of the table."""

import random
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg

SEEDS = range(campaign.tries(40))
TIMES = [pa.int64(), pa.int32(), pa.date32(), pa.timestamp("us"), pa.timestamp("ms", "UTC")]
KEYS = {
    "int": pa.int64(),
    "small": pa.int8(),
    "text": pa.string(),
    "code": pa.dictionary(pa.int8(), pa.string()),
    "float": pa.float64(),
}
VALUES = {
    "int": [None, 1, 2, 3, 10**15],
    "small": [None, 1, 2, 3],
    "text": [None, "", "a", "b"],
    "code": [None, "a", "b", "c"],
    "float": [None, float("nan"), -0.0, 0.0, 1.5],
}


def table(chance: random.Random, kind: pa.DataType, rows: int, name: str) -> pa.Table:
    times = [chance.randrange(-40, 60) for _ in range(rows)]
    if chance.random() < 0.6:
        times.sort()
    storage = pa.int32() if kind in (pa.date32(), pa.int32()) else pa.int64()
    columns = {"ts": pa.array(times, storage).cast(kind)}
    for key, key_type in KEYS.items():
        columns[key] = pa.array([chance.choice(VALUES[key]) for _ in times]).cast(key_type)
    columns[name] = pa.array(range(rows), pa.int64())
    parts = pa.table(columns)
    cut = chance.randrange(rows + 1)
    return pa.concat_tables([parts.slice(0, cut), parts.slice(cut)])


def calls(chance: random.Random, kind: pa.DataType):
    """Draw the arguments of each join."""
    unit = "" if pa.types.is_integer(kind) else "d" if kind == pa.date32() else "us"
    length = lambda number: number if unit == "" else f"{number}{unit}"  # noqa: E731 - shorter
    low = chance.choice([None, -30, -2, 0, 3])
    high = chance.choice([None, (low or 0) + chance.choice([0, 2, 20])])
    ends = {"lower": None if low is None else length(low), "upper": high and length(high)}
    ends["closed"] = chance.choice(["both", "left", "right", "neither"])
    where = chance.choice([None, "right.r > 20", "left.l < right.r"])
    how = chance.choice(["inner", "left", "right", "full", "semi", "anti"])
    yield tg.interval_join, {**ends, "how": how, "where": where}
    yield tg.interval_join_batches, {**ends, "how": how, "where": where}
    aggs = {
        "n": tg.agg.count(),
        "sum": tg.agg.sum("float"),
        "median": tg.agg.median("r"),
        "last": tg.agg.last("text"),
    }
    prevailing = low is not None and chance.random() < 0.5
    yield tg.interval_join, {**ends, "aggs": aggs, "prevailing": prevailing, "where": where}
    yield tg.window_join, {"window": (length(3), length(5)), "aggs": aggs, "where": where}
    yield tg.window_join, {"window": (length(3), length(5)), "where": where, "how": how}
    yield (
        tg.asof_join,
        {
            "strategy": chance.choice(["backward", "forward", "nearest"]),
            "tolerance": chance.choice([None, length(4)]),
            "allow_exact_matches": chance.random() < 0.5,
            "how": chance.choice(["left", "inner", "semi", "anti"]),
            "where": where,
        },
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_join_with_an_index_returns_the_rows_of_the_table(seed):
    chance = campaign.rng(f"index {seed}")
    kind = chance.choice(TIMES)
    right = table(chance, kind, chance.choice([0, 1, 30, 400]), "r")
    by = chance.choice([None, *KEYS, ["int", "text"], ["code", "small"]])
    index = tg.Index(right, on="ts", by=by, threads=chance.choice([1, 3]))
    assert index.rows == right.num_rows
    for rows in (0, 1, 7, 300):
        left = table(chance, kind, rows, "l")
        for function, arguments in calls(chance, kind):
            given = {"on": "ts", "by": by, "threads": chance.choice([1, 2]), **arguments}
            wanted, found = (function(left, one, **given) for one in (right, index))
            if function is tg.interval_join_batches:
                wanted, found = (pa.table(reader) for reader in (wanted, found))
            assert found.schema.equals(wanted.schema)
            assert tg.digest(found) == tg.digest(wanted)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_index_can_also_be_the_left_side(seed):
    chance = campaign.rng(f"left index {seed}")
    kind = chance.choice(TIMES)
    by = chance.choice([None, *KEYS, ["int", "text"]])
    left, right = (table(chance, kind, chance.choice([0, 1, 40]), name) for name in "lr")
    indexes = [tg.Index(rows, on="ts", by=by) for rows in (left, right)]
    if chance.random() < 0.3:
        # The rows of the left index are in several parts, and some have been removed.
        more = table(chance, kind, 9, "l")
        indexes[0].append(more)
        indexes[0].expire(before=0)
        left = kept(pa.concat_tables([left, more]), 0, kind)
    for function, arguments in calls(chance, kind):
        given = {"on": "ts", "by": by, "threads": chance.choice([1, 2]), **arguments}
        wanted = function(left, right, **given)
        if function is tg.interval_join_batches:
            wanted = pa.table(wanted)
        for other in (right, indexes[1]):
            found = pa.table(function(indexes[0], other, **given))
            assert found.schema.equals(wanted.schema)
            assert tg.digest(found) == tg.digest(wanted)


def test_an_index_can_be_a_stream():
    rows = pa.table({"ts": [1, 2, 2, 7], "k": ["a", "b", "a", "b"]})
    index = tg.Index(rows, on="ts", by="k")
    windows = {"on": "ts", "size": 5, "by": "k", "aggs": {"n": tg.agg.count()}}
    assert tg.aggregate(index, **windows).equals(tg.aggregate(rows, **windows))
    both = tg.aggregate([index, rows], **windows)
    assert both.equals(tg.aggregate([rows, rows], **windows))
    assert tg.merge([rows, index], on="ts").equals(tg.merge([rows, rows], on="ts"))


def test_the_other_side_of_a_join_with_an_index_can_be_files(tmp_path):
    chance = campaign.rng("index and files")
    rows = [table(chance, pa.int64(), 50, name) for name in "lr"]
    given = {"on": "ts", "by": "text", "lower": -5, "upper": 5}
    wanted = tg.interval_join(*rows, **given)
    for at, name in enumerate("lr"):
        pq.write_table(rows[at], tmp_path / f"{name}.parquet", row_group_size=9)
    for at in (0, 1):
        sides = [tmp_path / "l.parquet", tmp_path / "r.parquet"]
        sides[at] = tg.Index(rows[at], on="ts", by="text")
        for found in (tg.interval_join(*sides, **given), tg.interval_join_batches(*sides, **given)):
            assert tg.digest(found) == tg.digest(wanted)
        with pytest.raises(tg.TidegateError, match="memory_limit: an index's rows are already"):
            tg.interval_join(*sides, **given, memory_limit="1GB")


def kept(rows: pa.Table, before: int, kind: pa.DataType) -> pa.Table:
    """Return the rows that an expired index still has."""
    storage = pa.int32() if kind in (pa.date32(), pa.int32()) else pa.int64()
    times = rows["ts"].cast(storage).to_pylist()
    return rows.filter(pa.array([ts >= before for ts in times], pa.bool_()))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_index_that_grows_and_expires_returns_the_rows_of_its_table(seed):
    chance = campaign.rng(f"growing index {seed}")
    kind = chance.choice(TIMES)
    by = chance.choice([None, *KEYS, ["int", "text"], ["code", "small"]])
    rows = table(chance, kind, chance.choice([0, 3, 200]), "r")
    index = tg.Index(rows, on="ts", by=by, threads=chance.choice([1, 3]))
    least = -40
    for _ in range(chance.choice([1, 4, 12])):
        if chance.random() < 0.7:
            more = table(chance, kind, chance.choice([0, 1, 7, 60]), "r")
            if chance.random() < 0.5:
                # Rows in time order follow each other.
                more = more.sort_by("ts")
            columns = chance.sample(more.column_names, len(more.column_names))
            index.append(more.select(columns))
            rows = pa.concat_tables([rows, more])
        else:
            least += chance.randrange(30)
            index.expire(before=least)
            rows = kept(rows, least, kind)
        assert index.rows == rows.num_rows
        left = table(chance, kind, chance.choice([0, 1, 3, 100]), "l")
        for function, arguments in calls(chance, kind):
            given = {"on": "ts", "by": by, "threads": chance.choice([1, 2]), **arguments}
            wanted, found = (function(left, one, **given) for one in (rows, index))
            if function is tg.interval_join_batches:
                wanted, found = (pa.table(reader) for reader in (wanted, found))
            assert found.schema.equals(wanted.schema)
            assert tg.digest(found) == tg.digest(wanted)


def test_rows_that_do_not_fit_an_index_leave_it_unchanged():
    rows = {"ts": pa.array([1, 2], pa.timestamp("ms")), "k": ["a", "b"]}
    index = tg.Index(pa.table(rows), on="ts", by="k")
    wrong = {
        "column `k` is int64, but string in the index": {**rows, "k": [1, 2]},
        "there is no column `k`, which `the index` names": {"ts": rows["ts"]},
        "the index has no column `x`; omit it": {**rows, "x": [1, 2]},
        "is null": {**rows, "ts": pa.array([None, 2], pa.timestamp("ms"))},
    }
    for message, columns in wrong.items():
        with pytest.raises(tg.TidegateError, match=message):
            index.append(pa.table(columns))
        assert index.rows == 2
    with pytest.raises(TypeError, match="before: expected a time of column `ts`"):
        index.expire(before="noon")
    found = tg.asof_join(pa.table(rows), index, on="ts", by="k")
    assert found.equals(tg.asof_join(pa.table(rows), pa.table(rows), on="ts", by="k"))


def test_readers_see_each_append_as_a_whole():
    """Each append adds one row per key, so every consistent version has as many rows of each."""
    keys = list(range(20))
    index = tg.Index(pa.table({"ts": [0] * 20, "k": keys}), on="ts", by="k")
    asked = pa.table({"ts": [10**6] * 20, "k": keys})
    failures, versions = [], set()
    stop = threading.Event()

    def read():
        while not stop.is_set():
            found = tg.interval_join(
                asked, index, on="ts", by="k", lower=None, upper=0, aggs={"n": tg.agg.count()}
            )
            counts = set(found["n"].to_pylist())
            versions.add(max(counts))
            if len(counts) != 1:
                failures.append(counts)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()

    def append(first):
        for number in range(first, 200, 2):
            index.append(pa.table({"ts": [number] * 20, "k": keys}))

    writers = [threading.Thread(target=append, args=[first]) for first in (0, 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures
    assert len(versions) > 1
    assert index.rows == 20 * 201


@pytest.mark.parametrize("strategy", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("exact", [True, False])
def test_left_times_may_be_finer_than_those_of_the_index(strategy, exact):
    chance = campaign.rng(f"finer {strategy} {exact}")
    times = sorted(chance.randrange(-5, 6) for _ in range(60))
    right = pa.table({"ts": pa.array(times, pa.timestamp("s")), "r": range(60)})
    left = pa.table(
        {
            "t": pa.array(
                [chance.choice([0, 1, 500, 999]) + 1000 * chance.randrange(-6, 6) for _ in times],
                pa.timestamp("ms"),
            )
        }
    )
    index = tg.Index(right, on="ts")
    for tolerance in (None, "1500ms"):
        arguments = {"strategy": strategy, "allow_exact_matches": exact, "tolerance": tolerance}
        wanted = tg.asof_join(left, right, on=("t", "ts"), **arguments)
        assert tg.asof_join(left, index, on="t", **arguments).equals(wanted)
    for closed in ("both", "left", "right", "neither"):
        arguments = {"lower": "-1500ms", "upper": "1s", "closed": closed}
        wanted = tg.interval_join(left, right, on=("t", "ts"), **arguments)
        assert tg.interval_join(left, index, on="t", **arguments).equals(wanted)


def test_an_index_names_the_columns_of_the_right_side():
    quotes = pa.table({"time": [1, 2], "symbol": ["A", "B"], "bid": [5, 6]})
    trades = pa.table({"ts": [2, 3], "sym": ["A", "B"]})
    index = tg.Index(quotes, on="time", by="symbol")
    found = tg.asof_join(trades, index, on="ts", by="sym")
    assert found["bid"].to_pylist() == [5, 6]
    assert found.equals(tg.asof_join(trades, quotes, on=("ts", "time"), by=[("sym", "symbol")]))
    told = tg.explain(tg.asof_join, trades, index, on="ts", by="sym")
    assert told == tg.explain(
        tg.asof_join, trades, quotes, on=("ts", "time"), by=[("sym", "symbol")]
    )
    assert repr(index) == 'Index(rows=2, on="time", by=["symbol"])'


def test_the_columns_of_a_band_join_are_not_those_of_the_index():
    quotes = pa.table({"time": [1, 2], "symbol": ["A", "B"], "price": [5, 6]})
    trades = pa.table({"ts": [2, 3], "sym": ["A", "B"], "price": [5, 7]})
    index = tg.Index(quotes, on="time", by="symbol")
    band = {"on": "price", "within": 1}
    found = tg.band_join(trades, index, **band, by="sym", time="ts", window=2)
    pairs = {"by": [("sym", "symbol")], "time": ("ts", "time"), "window": 2}
    assert found.num_rows == 2
    assert found.equals(tg.band_join(trades, quotes, **band, **pairs))


def test_a_join_that_does_not_fit_the_index_is_refused():
    quotes = pa.table({"ts": [1, 2], "sent": [1, 2], "sym": ["A", "B"], "n": [1, 2]})
    index = tg.Index(quotes, on="ts", by="sym")
    trades = pa.table({"ts": [2], "sym": ["A"], "n": [1]})
    message = "right: the index is on `ts` by `sym`, but the join is on `sent` by `sym`; "
    with pytest.raises(tg.SchemaError, match=message):
        tg.asof_join(trades, index, on=("ts", "sent"), by="sym")
    with pytest.raises(tg.SchemaError, match="but the join is on `ts` by no keys"):
        tg.interval_join(trades, index, on="ts", lower=0, upper=1)
    coarse = tg.Index(
        quotes.set_column(3, "n", quotes["n"].cast(pa.timestamp("s"))), on="ts", by="n"
    )
    fine = trades.set_column(2, "n", pa.array([1], pa.timestamp("ms")))
    with pytest.raises(tg.SchemaError, match="the index compares `n` in their own types"):
        tg.interval_join(fine, coarse, on="ts", by="n", lower=0, upper=1)
    with pytest.raises(tg.TidegateError, match="memory_limit: an index's rows are already"):
        tg.asof_join(trades, index, on="ts", by="sym", memory_limit="1GB")
    with pytest.raises(tg.SchemaError, match="table: there is no column `x`, which `by` names"):
        tg.Index(quotes, on="ts", by="x")


def test_an_index_takes_at_most_twelve_bytes_per_row_and_a_few_per_key():
    rows = 10_000
    chance = np.random.default_rng(1)
    quotes = pa.table({"ts": np.arange(rows), "k": chance.integers(0, 100, rows)})
    index = tg.Index(quotes, on="ts", by="k")
    assert index.nbytes <= 12 * rows + 4 * 101
    assert tg.Index(quotes, on="ts").nbytes <= 8 * rows + 8
