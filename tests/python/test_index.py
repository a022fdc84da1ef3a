"""Joins with an index as their right side: the rows, order and bits are those of the table."""

import random
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg

SEEDS = range(campaign.tries(40))
HOWS = ["inner", "left", "right", "full", "semi", "anti"]
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
    where = chance.choice([None, "right.r > 20", "left.l > 2", "left.l < right.r"])
    how = chance.choice(["inner", "left", "right", "full", "semi", "anti"])
    yield tg.interval_join, {**ends, "how": how, "where": where}
    yield tg.interval_join_batches, {**ends, "how": how, "where": where}
    aggs = {
        "n": tg.agg.count(),
        "sum": tg.agg.sum("float"),
        "median": tg.agg.median("r"),
        "last": tg.agg.last("text"),
        "some": tg.agg.last("r", 2),
    }
    prevailing = low is not None and chance.random() < 0.5
    timed = {} if high is None else {"mean": tg.agg.time_weighted_mean("float")}
    of_each = {"aggs": {**aggs, **timed}, "prevailing": prevailing}
    yield tg.interval_join, {**ends, **of_each, "where": where}
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


def test_arrow_libraries_read_the_latest_rows_of_an_index():
    rows = pa.table({"ts": [1, 2, 2, 7], "k": ["a", "b", "a", "b"]})
    index = tg.Index(rows, on="ts", by="k")
    index.append(rows)
    index.expire(before=2)
    wanted = pa.concat_tables([rows.slice(1), rows.slice(1)])
    assert pa.table(index).equals(wanted)
    assert tg.digest(index) == tg.digest(wanted)
    narrow = pa.schema({"ts": pa.int32(), "k": pa.string()})
    assert pa.RecordBatchReader.from_stream(index, narrow).schema == narrow


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
        "there is no column `k`, but the index has one; add it": {"ts": rows["ts"]},
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


@pytest.mark.parametrize("seed", range(campaign.tries(20)))
def test_an_index_that_keeps_recent_rows_has_those_of_its_table(seed):
    chance = campaign.rng(f"keep {seed}")
    keep = chance.choice([0, 1, 10, 60])
    rows = table(chance, pa.timestamp("us"), chance.choice([0, 100]), "r")
    index = tg.Index(rows, on="ts", by="text", keep=f"{keep}us")
    for _ in range(6):
        more = table(chance, pa.timestamp("us"), chance.choice([1, 40]), "r")
        index.append(more)
        rows = pa.concat_tables([rows, more])
        latest = max(rows["ts"].cast(pa.int64()).to_pylist())
        rows = kept(rows, latest - keep, pa.timestamp("us"))
        assert index.rows == rows.num_rows
        span = pa.compute.min_max(rows["ts"])
        assert index.time_range == (span["min"], span["max"])
        arguments = {"on": "ts", "by": "text", "lower": "-5us", "upper": "5us"}
        found = tg.interval_join(more, index, **arguments)
        assert tg.digest(found) == tg.digest(tg.interval_join(more, rows, **arguments))


def test_an_index_is_the_live_end_of_a_merge():
    schema = pa.schema({"ts": pa.int64(), "k": pa.string(), "x": pa.int64()})
    merge = tg.Merge(schema, sources=2)
    index = merge.index(by="k", keep=5)
    with merge.running(index.append):
        for ts in range(0, 100, 2):
            for number, source in enumerate(merge.sources):
                source.push([{"ts": ts + number, "k": "ab"[number], "x": ts}])
    assert (index.on, index.by, index.rows) == ("ts", ["k"], 6)
    asked = pa.table({"ts": [100, 100], "k": ["a", "b"]})
    assert tg.asof_join(asked, index, on="ts", by="k")["x"].to_pylist() == [98, 98]
    with pytest.raises(tg.TidegateError, match="keep: expected a duration that is not negative"):
        merge.index(keep=-1)
    with pytest.raises(tg.TidegateError, match="keep"):
        tg.Index(pa.table({"ts": pa.array([1], pa.timestamp("s"))}), on="ts", keep="1ms")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize("change", ["append", "expire"])
def test_an_interrupted_change_leaves_the_index_as_it_was(change):
    rows = 2_000_000
    chance = np.random.default_rng(3)
    # In no order, so that both changes sort all rows again.
    some = pa.table({"ts": chance.integers(0, rows, rows), "k": chance.integers(0, 999, rows)})
    index = tg.Index(some, on="ts", by="k", threads=1)
    changed = (
        (lambda: index.append(some))
        if change == "append"
        else (lambda: index.expire(before=rows // 2))
    )
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            changed()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # The thread that builds the new rows may still be running.
    for _ in range(20):
        assert index.rows == rows
        time.sleep(0.05)
    changed()
    assert index.rows != rows


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


def intervals(chance: random.Random, kind: pa.DataType, rows: int, name: str) -> pa.Table:
    """Draw rows with a start and an end each, some of which are null or equal."""
    storage = pa.int32() if kind in (pa.date32(), pa.int32()) else pa.int64()
    starts = [chance.randrange(-400, 600) for _ in range(rows)]
    if chance.random() < 0.5:
        starts.sort()
    lengths = [chance.choice([0, 0, 1, 3, 9, 20, 300 * (chance.random() < 0.05)]) for _ in starts]
    ends = [start + length for start, length in zip(starts, lengths, strict=True)]
    if chance.random() < 0.3:
        ends.sort()
        starts = [min(pair) for pair in zip(starts, ends, strict=True)]
    if chance.random() < 0.7:
        starts = [None if chance.random() < 0.1 else start for start in starts]
        ends = [None if chance.random() < 0.1 else end for end in ends]
    columns = {
        "start": pa.array(starts, storage).cast(kind),
        "end": pa.array(ends, storage).cast(kind),
    }
    for key, key_type in KEYS.items():
        columns[key] = pa.array([chance.choice(VALUES[key]) for _ in starts]).cast(key_type)
    columns[name] = pa.array(range(rows), pa.int64())
    parts = pa.table(columns)
    cut = chance.randrange(rows + 1)
    return pa.concat_tables([parts.slice(0, cut), parts.slice(cut)])


def overlaps(chance: random.Random, kind: pa.DataType):
    """Draw the arguments of overlap joins."""
    unit = {pa.date32(): "d", pa.timestamp("us"): "us"}.get(kind, "ms")
    least = chance.choice([None, 0, 1, 2, 10])
    if least is not None and not pa.types.is_integer(kind):
        least = f"{least}{unit}"
    given = {
        "closed": chance.choice(["both", "left"]),
        "min_overlap": least,
        "where": chance.choice([None, "right.r > 20", "left.l > 2", "(left.l + right.r) % 3 > 0"]),
    }
    for how in HOWS:
        function = chance.choice([tg.overlap_join, tg.overlap_join_batches])
        columns = chance.choice([None, ["l"]])
        yield function, {**given, "how": how, "columns": columns}
    aggs = {
        "n": tg.agg.count(),
        "sum": tg.agg.sum("float"),
        "median": tg.agg.median("r"),
        "last": tg.agg.last("text"),
    }
    yield tg.overlap_join, {**given, "aggs": aggs, "how": chance.choice([None, "inner"])}
    yield tg.overlap_join, {**given, "aggs": {"n": tg.agg.count()}}


def expired(rows: pa.Table, before: int) -> pa.Table:
    """Return the rows that do not end before a time."""
    ends = rows["end"].combine_chunks()
    ends = ends.cast(pa.int32()).cast(pa.int64()) if ends.type == pa.date32() else ends
    kept = [end is None or end >= before for end in ends.cast(pa.int64()).to_pylist()]
    # The start of a row does not matter, but without an interval, a row never expires.
    missing = [start is None for start in rows["start"].to_pylist()]
    return rows.filter(pa.array([a or b for a, b in zip(kept, missing, strict=True)], pa.bool_()))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_overlap_join_with_an_index_returns_the_rows_of_the_table(seed, tmp_path):
    chance = campaign.rng(f"overlaps in an index {seed}")
    kind = chance.choice(TIMES)
    rows = intervals(chance, kind, chance.choice([0, 1, 30, 400, 2000]), "r")
    by = chance.choice([None, *KEYS, ["int", "text"], ["code", "small"]])
    on = ("start", "end")
    index = tg.Index(rows, on=on, by=by, threads=chance.choice([1, 3]))
    for _ in range(chance.choice([0, 0, 3])):
        more = intervals(chance, kind, chance.choice([0, 1, 40, 400]), "r")
        index.append(more)
        rows = pa.concat_tables([rows, more])
    if chance.random() < 0.5:
        before = chance.randrange(-500, 300)
        index.expire(before=before)
        rows = expired(rows, before)
    if chance.random() < 0.3:
        index.save(tmp_path / "rows.index")
        index = tg.open_index(tmp_path / "rows.index", verify=chance.random() < 0.5)
    assert (index.on, index.rows) == (on, rows.num_rows)
    for number in (0, 1, 7, 40, 300):
        left = intervals(chance, kind, number, "l")
        for function, arguments in overlaps(chance, kind):
            given = {"on": on, "by": by, "threads": chance.choice([1, 2]), **arguments}
            wanted, found = (function(left, one, **given) for one in (rows, index))
            if function is tg.overlap_join_batches:
                wanted, found = (pa.table(reader) for reader in (wanted, found))
            assert found.schema.equals(wanted.schema)
            assert tg.digest(found) == tg.digest(wanted)


def test_an_overlap_join_searches_an_index_for_a_few_left_rows():
    rows = range(0, 10_000, 10)
    long = {"start": [0], "end": [10_000], "k": [0]}
    parts = [pa.table({"start": rows, "end": rows, "k": [row % 3 for row in rows]}), pa.table(long)]
    index = tg.Index(pa.concat_tables(parts), on=("start", "end"), by="k")

    def method(left: pa.Table, **arguments) -> str:
        with tg.overlap_join_batches(left, index, by="k", **arguments) as reader:
            pa.table(reader)
            return reader.stats()["keys"]

    few = pa.table({"start": [5, 95], "end": [5, 195], "k": [0, 1]})
    for how in HOWS:
        assert method(few, on=("start", "end"), how=how) == "looked up in the index"
    wide = pa.table({"start": [-1] * 9, "end": [10_000] * 9, "k": [0, 1, 2] * 3})
    assert method(wide, on=("start", "end")) != "looked up in the index"
    many = pa.table({"start": range(40), "end": range(40), "k": [1] * 40})
    assert method(many, on=("start", "end")) != "looked up in the index"


@pytest.mark.parametrize("closed", ["both", "left"])
@pytest.mark.parametrize("least", [None, "1ms", "1500ms", "4s"])
def test_left_intervals_may_be_finer_than_those_of_the_index(closed, least):
    chance = campaign.rng(f"finer intervals {closed} {least}")
    starts = [chance.randrange(-50, 50) for _ in range(200)]
    ends = [start + chance.choice([0, 1, 2, 5]) for start in starts]
    # The start has a coarser unit than the end.
    right = pa.table(
        {
            "from": pa.array(starts, pa.timestamp("s")),
            "to": pa.array([1000 * end for end in ends], pa.timestamp("ms")),
            "r": range(200),
        }
    )
    coarse = right.set_column(1, "to", right["to"].cast(pa.timestamp("s")))
    times = [1000 * chance.randrange(-60, 60) + chance.choice([0, 1, 500, 999]) for _ in range(6)]
    ends = [time + chance.choice([0, 1, 700, 3000]) for time in times]
    micros = pa.timestamp("us")
    left = pa.table(
        {
            "a": pa.array(times, pa.timestamp("ms")),
            "b": pa.array(ends, pa.timestamp("ms")).cast(
                chance.choice([pa.timestamp("ms"), micros])
            ),
        }
    )
    arguments = {"closed": closed, "min_overlap": least}
    for rows in (right, coarse):
        wanted = tg.overlap_join(left, rows, on=(("a", "b"), ("from", "to")), **arguments)
        index = tg.Index(rows, on=("from", "to"))
        assert tg.overlap_join(left, index, on=("a", "b"), **arguments).equals(wanted)
        # The time has the unit of the end.
        index.expire(before=10)
        assert index.rows == sum(end >= 10 for end in rows["to"].cast(pa.int64()).to_pylist())


def test_left_times_beyond_the_unit_of_the_join_are_compared_by_order():
    far = pa.table(
        {
            "a": pa.array([-(10**17), 5], pa.timestamp("s")),
            "b": pa.array([10**17, 6], pa.timestamp("s")),
        }
    )
    right = pa.table(
        {
            "start": pa.array(range(100), pa.timestamp("ns")),
            "end": pa.array(range(100), pa.timestamp("ns")),
        }
    )
    index = tg.Index(right, on=("start", "end"))
    wanted = tg.overlap_join(far, right, on=(("a", "b"), ("start", "end")))
    assert wanted.num_rows == 100
    assert tg.overlap_join(far, index, on=("a", "b")).equals(wanted)


def test_an_index_of_intervals_refuses_other_joins_and_rows():
    jobs = pa.table({"start": [0, 12], "end": [99, 14], "k": [1, 2], "job": ["x", "y"]})
    index = tg.Index(jobs, on=("start", "end"), by="k")
    assert repr(index) == 'Index(rows=2, on=("start", "end"), by=["k"])'
    alarms = pa.table({"a": [10], "b": [15], "k": [1]})
    found = tg.overlap_join(alarms, index, on=("a", "b"), by="k", columns=["job"])
    assert found.to_pydict() == {"job": ["x"]}
    *told, last = tg.explain(tg.overlap_join, alarms, index, on=("a", "b"), by="k").splitlines()
    names = {"on": (("a", "b"), ("start", "end")), "by": "k"}
    assert told == tg.explain(tg.overlap_join, alarms, jobs, **names).splitlines()
    assert last.startswith("  index      2 rows: ")
    refused = "right: the index is on `start`, `end` by `k`, but the join is on `start` by `k`; "
    with pytest.raises(tg.SchemaError, match=refused):
        tg.interval_join(alarms, index, on="a", by="k", lower=0, upper=1)
    with pytest.raises(tg.SchemaError, match=refused):
        tg.asof_join(alarms, index, on="a", by="k")
    with pytest.raises(tg.SchemaError, match="but the join is on `end`, `end` by `k`"):
        tg.overlap_join(alarms, index, on=(("a", "b"), ("end", "end")), by="k")
    with pytest.raises(tg.SchemaError, match="but the join is on `start`, `end` by no keys"):
        tg.overlap_join(alarms, index, on=("a", "b"))
    at = tg.Index(jobs, on="start", by="k")
    with pytest.raises(tg.SchemaError, match="the index is on `start` by `k`, but the join is on"):
        tg.overlap_join(alarms, at, on=("a", "b"), by="k")
    back = pa.table({"start": [0, 9], "end": [3, 2], "k": [1, 2], "job": ["x", "y"]})
    with pytest.raises(tg.TidegateError, match="table: row 1: column `start` is 7 steps after"):
        tg.Index(back, on=("start", "end"), by="k")
    with pytest.raises(tg.TidegateError, match="table: row 1: column `start` is 7 steps after"):
        index.append(back)
    assert index.rows == 2
    with pytest.raises(TypeError, match="on: expected the name of the time column, or a tuple"):
        tg.Index(jobs, on=5)
    text = jobs.set_column(1, "end", [["a", "b"]])
    with pytest.raises(tg.SchemaError, match="column `end` is string, expected a time"):
        tg.Index(text, on=("start", "end"))


def test_rows_of_an_index_of_intervals_expire_by_their_end():
    starts, ends = [0, 1, 2, 3], [9, 2, 4, 8]
    index = tg.Index(pa.table({"start": starts, "end": ends, "r": range(4)}), on=("start", "end"))
    ask = pa.table({"a": [-9], "b": [99]})

    def left() -> list[int]:
        return tg.overlap_join(ask, index, on=("a", "b"))["r"].to_pylist()

    index.expire(before=4)
    assert (index.rows, left()) == (3, [0, 2, 3])
    index.expire(before=9)
    assert (index.rows, left()) == (1, [0])
    index.expire(before=10)
    assert (index.rows, left()) == (0, [])


def test_an_index_of_intervals_keeps_those_that_ended_shortly_before_the_latest_start():
    rows = {"start": [0, 1, None, 3, 8], "end": [2**62, 5, 0, None, 8], "r": range(5)}
    index = tg.Index(pa.table(rows), on=("start", "end"), keep=2)
    ask = pa.table({"a": [0], "b": [99]})

    def left() -> list[int]:
        return tg.overlap_join(ask, index, on=("a", "b"))["r"].to_pylist()

    assert (index.rows, left()) == (4, [0, 4])
    index.append(pa.table({"start": [11], "end": [12], "r": [5]}))
    assert (index.rows, left()) == (4, [0, 5])


def test_a_saved_index_keeps_the_numbers_of_keys_without_an_interval(tmp_path):
    names = ["b", "a", "c", None, "a", "d"]
    rows = {"start": [None, 1, 2, 3, 4, 5], "end": [1, 2, None, 4, 5, 6], "k": names, "r": range(6)}
    index = tg.Index(pa.table(rows), on=("start", "end"), by="k")
    index.save(tmp_path / "rows.index")
    ask = pa.table({"a": [0] * 4, "b": [9] * 4, "k": ["d", "a", "c", "b"]})
    for one in (index, tg.open_index(tmp_path / "rows.index", verify=True)):
        found = tg.overlap_join(ask, one, on=("a", "b"), by="k", columns=["k", "r"])
        assert found.to_pydict() == {"k": ["d", "a", "a"], "r": [5, 1, 4]}


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
    *plan, last = told.splitlines()
    arguments = {"on": ("ts", "time"), "by": [("sym", "symbol")]}
    assert plan == tg.explain(tg.asof_join, trades, quotes, **arguments).splitlines()
    wanted = "index 2 rows: up to 0 left rows are looked up one by one; with more, all rows are "
    assert " ".join(last.split()) == wanted + "visited in time order"
    told = tg.explain(tg.window_join, trades, index, on="ts", by="sym", window=tg.rows(3))
    assert "all 2 rows are read, since this join cannot search them" in told
    assert repr(index) == 'Index(rows=2, on="time", by=["symbol"])'
    for kind in TIMES:
        rows = table(campaign.rng("range"), kind, 20, "r")
        span = pa.compute.min_max(rows["ts"])
        assert tg.Index(rows, on="ts").time_range == (span["min"], span["max"])
    assert tg.Index(quotes.slice(2), on="time").time_range is None


def test_the_columns_of_a_band_join_are_not_those_of_the_index():
    quotes = pa.table({"time": [1, 2], "symbol": ["A", "B"], "price": [5, 6]})
    trades = pa.table({"ts": [2, 3], "sym": ["A", "B"], "price": [5, 7]})
    index = tg.Index(quotes, on="time", by="symbol")
    band = {"on": "price", "within": 1}
    found = tg.band_join(trades, index, **band, by="sym", time="ts", window=2)
    pairs = {"by": [("sym", "symbol")], "time": ("ts", "time"), "window": 2}
    assert found.num_rows == 2
    assert found.equals(tg.band_join(trades, quotes, **band, **pairs))


@pytest.mark.parametrize("of_left", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("of_right", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("by", ["k", ["k", "n"]])
def test_text_keys_match_in_any_layout(of_left, of_right, by):
    keys = ["a", "b", None, "a", "a longer key that views do not inline"]
    right = pa.table({"ts": range(5), "k": pa.array(keys, of_right), "n": [1] * 5, "r": range(5)})
    left = pa.table({"ts": [9] * 5, "k": pa.array(keys[::-1], of_left), "n": [1] * 5})
    index = tg.Index(right, on="ts", by=by)
    wanted = tg.asof_join(left, right, on="ts", by=by)
    assert wanted["r"].null_count == 1
    assert tg.asof_join(left, index, on="ts", by=by).equals(wanted)


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
    jobs = quotes.append_column("end", quotes["ts"])
    assert tg.Index(jobs, on=("ts", "end"), by="k").nbytes <= 20.6 * rows + 4 * 101
    assert tg.Index(jobs, on=("ts", "end")).nbytes <= 16.6 * rows + 8
