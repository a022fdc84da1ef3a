"""A merge and its sources: refusals, memory, threads, signals and forks."""

import datetime as dt
import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate import (
    Aggregate,
    BandJoin,
    ClosedError,
    IntervalJoin,
    MemoryLimitError,
    Merge,
    Operator,
    OrderError,
    SchemaError,
    Source,
    StateError,
    StreamJoin,
    TidegateError,
    WindowJoin,
    explain,
    merge,
    merge_batches,
)

TABLE = pa.table({"ts": [1, 4, 9], "v": [1, 2, 3]})
OTHER = pa.table({"ts": [2, 4, 4], "v": [10, 20, 30]})
MERGED = {"ts": [1, 2, 4, 4, 4, 9], "v": [1, 10, 2, 20, 30, 3]}

# Far longer than any of these tests takes.
PATIENCE = 60


def clock(text: str) -> dt.datetime:
    """Return a naive datetime."""
    return dt.datetime.fromisoformat(text)


def taken(merging: Merge) -> list[int]:
    """Return the times of all rows that are ready."""
    return [ts for batch in iter(merging.poll, None) for ts in batch["ts"].to_pylist()]


# Arguments


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"streams": []}, TidegateError, "streams: expected at least one stream"),
        ({"streams": "ts"}, TidegateError, "streams: ts: cannot be read: No such file"),
        ({"streams": 5}, TypeError, "streams: expected a table, got int"),
        ({"streams": [TABLE, 5]}, TypeError, r"streams\[1\]: expected a table, got int"),
        ({"on": "at"}, SchemaError, "there is no column `at`, which `on` names; it has `ts`, `v`"),
        ({"streams": [TABLE.select(["v"])]}, SchemaError, "there is no column `ts`"),
        (
            {"streams": [TABLE, TABLE.select(["ts"])]},
            SchemaError,
            r"streams\[1\]: expected rows of \(ts: int64, v: int64\), got \(ts: int64\); select",
        ),
        (
            {"streams": [pa.table({"ts": [1.5]})]},
            SchemaError,
            "column `ts` is double, expected a time",
        ),
        ({"lateness": -1}, TidegateError, "lateness must not be negative, got -1"),
        ({"lateness": "1s"}, SchemaError, "lateness is a duration, but the time columns are int"),
        ({"lateness": 1.5}, TypeError, "lateness: expected a timedelta"),
        ({"threads": 0}, TidegateError, "threads must be from 1 to 512, got 0"),
        (
            {"streams": [TABLE] * 65_537},
            TidegateError,
            "streams: expected at most 65536 streams, got 65537",
        ),
    ],
)
def test_wrong_streams_are_refused(
    arguments: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        merge(**{"streams": [TABLE], **arguments})


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"sources": 0}, TidegateError, "sources must be from 1 to 65536, got 0"),
        ({"sources": 65_537}, TidegateError, "sources must be from 1 to 65536, got 65537"),
        ({"sources": 1.0}, TypeError, "sources: expected an integer"),
        ({"memory_limit": -1}, TidegateError, "memory_limit must be at least 0, got -1"),
        ({"schema": 5}, TypeError, "schema: expected a table"),
        ({"on": "at"}, SchemaError, "there is no column `at`"),
    ],
)
def test_wrong_merges_are_refused(
    arguments: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Merge(**{"schema": TABLE.schema, **arguments})


@pytest.mark.parametrize("limits", [{}, {"memory_limit": "1GB"}])
def test_a_stream_that_can_be_read_once_is_not_taken_twice(tmp_path, limits) -> None:
    reader = TABLE.to_reader()
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    text = r"streams\[0\] and streams\[2\] are the same stream, which can be read only once"
    for call, other in itertools.product((merge, merge_batches), (TABLE, tmp_path)):
        with pytest.raises(ClosedError, match=text):
            call([reader, other, reader], **limits)
    assert reader.read_all().num_rows == TABLE.num_rows
    # The same table can be used twice.
    assert merge([TABLE, TABLE]).num_rows == 6


def test_any_iterable_of_any_arrow_data() -> None:
    streams = (table for table in (TABLE.to_pandas(), OTHER.to_batches()[0]))
    assert merge(streams).to_pydict() == MERGED
    assert Merge(TABLE.to_pandas()).schema.names == ["ts", "v"]


def test_rows_out_of_order_are_told_by_their_number_in_the_stream() -> None:
    stream = pa.table({"ts": [1, 2, 5, 4], "v": [0] * 4}).to_reader(max_chunksize=3)
    text = (
        r"^streams\[1\]: row 3 of `ts` is 4, after a row that promised nothing below 5; sort the "
        "stream, raise lateness, or use tidegate.Merge, which sets such rows aside$"
    )
    with pytest.raises(OrderError, match=text):
        merge([TABLE, stream])


def test_times_out_of_order_are_written_as_times() -> None:
    times = pa.array([clock("2024-01-02"), clock("2024-01-01")], pa.timestamp("ms"))
    with pytest.raises(OrderError, match=r"row 1 of `ts` is 2024-01-01T00:00:00, .* 2024-01-02T"):
        merge([pa.table({"ts": times})])


def test_a_null_time_is_told_by_its_number_in_the_stream() -> None:
    table = pa.table({"ts": [1, 2, None], "v": [1, 1, 1]})
    with pytest.raises(TidegateError, match=r"streams\[1\]: column `ts`, row 2: the time is null"):
        merge([TABLE, table.to_reader(max_chunksize=1)])
    merging = Merge(TABLE.schema)
    merging.sources[0].push(TABLE)
    with pytest.raises(TidegateError, match="source 0: column `ts`, row 5: the time is null"):
        merging.sources[0].push(table)
    # No row of the push was accepted.
    assert merging.stats()["rows_in"] == 3


def test_a_time_that_does_not_fit_is_told() -> None:
    table = pa.table({"ts": pa.array([1, 2**63], pa.uint64())})
    with pytest.raises(
        TidegateError, match="row 1: 9223372036854775808 does not fit 64 bits in integer"
    ):
        merge([table])


def test_an_error_in_a_stream_has_its_text_and_ends_the_merge() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from TABLE.to_batches()
        message = "the disk is gone"
        raise OSError(message)

    def open_() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(TABLE.schema, failing())

    with pytest.raises(TidegateError, match=r"streams\[1\]: reading .* failed: .*the disk is gone"):
        merge([OTHER, open_()])
    with merge_batches([open_()]) as reader:
        with pytest.raises(TidegateError, match="the disk is gone"):
            list(reader)
        with pytest.raises(ClosedError, match="the merge is closed"):
            next(reader)


def test_batches_that_differ_from_their_stream_are_refused() -> None:
    class Lying:
        """Announces other columns than it returns."""

        def __arrow_c_stream__(self, _requested: object = None) -> object:
            reader = pa.RecordBatchReader.from_batches(
                TABLE.schema, OTHER.select(["ts"]).to_batches()
            )
            return reader.__arrow_c_stream__()

    text = r"streams\[1\]: malformed Arrow data: the schema has 2 columns, n_children is 1"
    with pytest.raises(SchemaError, match=text):
        merge([TABLE, Lying()])


# Promises


@pytest.mark.parametrize(
    ("type_", "given", "steps"),
    [
        (pa.int64(), 7, 7),
        (pa.int64(), np.int32(7), 7),
        (pa.uint32(), -7, -7),
        (pa.int64(), 2**63 - 1, 2**63 - 1),
        (pa.int64(), -(2**63) + 1, -(2**63) + 1),
        (pa.timestamp("us"), 7, 7),
        (pa.timestamp("us"), clock("1970-01-02"), 86_400_000_000),
        (pa.timestamp("s"), clock("0001-01-01"), -62_135_596_800),
        (pa.timestamp("ns"), np.datetime64(7, "ns"), 7),
        (pa.timestamp("ms"), np.datetime64(7, "s"), 7_000),
        (pa.timestamp("ns"), pd.Timestamp(1_234_567_891), 1_234_567_891),
        (pa.timestamp("ns", "Asia/Tokyo"), pd.Timestamp(1_234_567_891, tz="UTC"), 1_234_567_891),
        (pa.timestamp("s", "UTC"), dt.datetime(1970, 1, 1, 9, tzinfo=ZoneInfo("Asia/Tokyo")), 0),
        (pa.timestamp("ms", "Asia/Tokyo"), dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC), 3_600_000),
        (pa.timestamp("us"), pd.Timestamp(7, unit="s").as_unit("s"), 7_000_000),
        (pa.timestamp("s", "UTC"), pd.Timestamp(7, unit="s", tz="Asia/Tokyo"), 7),
        # pandas cannot store such a year in the fields of Python's datetime.
        (pa.timestamp("ms"), pd.Timestamp(np.datetime64("20000-01-01", "s")), 568_971_820_800_000),
        (pa.date32(), dt.date(1970, 1, 3), 2),
        (pa.date64(), dt.date(1970, 1, 3), 2 * 86_400_000),
        (pa.date32(), np.datetime64("1970-01-03"), 2),
    ],
)
def test_advance_takes_times_of_the_column(type_: pa.DataType, given: object, steps: int) -> None:
    merging = Merge(pa.schema([("ts", type_)]))
    merging.sources[0].advance(given)
    assert merging.stats()["sources"][0]["watermark"] == steps


ZONED = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("type_", "given", "error", "text"),
    [
        (pa.int64(), 1.5, TypeError, "got 1.5"),
        (pa.int64(), True, TypeError, "got True"),
        (pa.int64(), None, TypeError, "got None"),
        (pa.int64(), "2024-01-01", TypeError, "got '2024-01-01'"),
        (ZONED, dt.timedelta(1), TypeError, r"got datetime.timedelta\(days=1\)"),
        (pa.int64(), 2**63, TidegateError, "got 9223372036854775808, which does not fit 64 bits"),
        (pa.int64(), clock("2024-01-01"), TidegateError, "column `ts`, which is int64, or an"),
        (pa.int64(), dt.date(2024, 1, 1), TidegateError, "column `ts`, which is int64, or an"),
        (
            pa.date32(),
            clock("2024-01-01"),
            TidegateError,
            r"column `ts`, which is date32\[day\], or",
        ),
        (ZONED, dt.date(2024, 1, 1), TidegateError, "or an integer in its unit, got datetime.date"),
        (ZONED, clock("2024-01-01"), TidegateError, "0, 0\\), which has no zone"),
        (ZONED, np.datetime64(7, "us"), TidegateError, "which has no zone"),
        (pa.timestamp("us"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), TidegateError, "has a zone"),
        (pa.timestamp("s"), clock("2024-01-01T00:00:00.000005"), TidegateError, "would lose data"),
        (pa.timestamp("us"), pd.Timestamp(1), TidegateError, "would lose data"),
        (pa.timestamp("ns"), clock("0001-01-01"), TidegateError, "out of bounds"),
        (pa.timestamp("us"), np.datetime64("NaT", "us"), TidegateError, "NaT.*which is not a time"),
        (pa.timestamp("us"), pd.NaT, TidegateError, "got NaT, which is not a time"),
    ],
)
def test_advance_refuses_other_times(
    type_: pa.DataType, given: object, error: type[Exception], text: str
) -> None:
    merging = Merge(pa.schema([("ts", type_)]))
    with pytest.raises(error, match=text) as raised:
        merging.sources[0].advance(given)
    assert str(raised.value).startswith("ts: expected a time of column `ts`, which is ")
    assert merging.stats()["sources"][0]["watermark"] is None


def test_a_source_that_says_nothing_holds_all_back() -> None:
    merging = Merge(TABLE.schema, sources=3)
    first, second, silent = merging.sources
    first.push(TABLE)
    second.push(OTHER)
    assert merging.poll() is None
    assert merging.stats()["watermark"] is None
    silent.advance(2)
    assert taken(merging) == [1, 2]
    assert merging.stats()["watermark"] == 2
    silent.close()
    assert taken(merging) == [4, 4, 4]
    # An earlier promise has no effect.
    second.advance(-5)
    assert merging.stats()["sources"][1]["watermark"] == 4


def test_a_promise_makes_rows_late() -> None:
    merging = Merge(TABLE.schema)
    merging.sources[0].advance(4)
    merging.sources[0].push(TABLE)
    assert taken(merging) == [4, 9]
    assert merging.late().to_pydict() == {
        "late_source": [0],
        "late_position": [0],
        "late_watermark": [4],
        "ts": [1],
        "v": [1],
    }
    assert merging.late().num_rows == 0


# Lifetime


def test_a_handle_that_is_dropped_leaves_its_source_open() -> None:
    merging = Merge(TABLE.schema)
    source = merging.sources[0]
    source.push(TABLE)
    del source
    assert taken(merging) == [1, 4, 9]
    assert merging.stats()["sources"][0]["closed"] is False


def test_a_closed_source_takes_nothing() -> None:
    merging = Merge(TABLE.schema)
    with merging.sources[0] as source:
        source.push(TABLE)
    source.close()
    for call in (lambda: source.push(TABLE), lambda: source.advance(99)):
        with pytest.raises(ClosedError, match="source 0 is closed: rows cannot follow its end"):
            call()
    assert [batch["ts"].to_pylist() for batch in merging] == [[1, 4, 9]]
    assert merging.poll() is None
    with pytest.raises(StopIteration):
        next(merging)


def test_a_closed_merge_holds_nothing() -> None:
    with Merge(TABLE.schema, sources=2) as merging:
        sources = merging.sources
        sources[0].push(TABLE)
        sources[1].push(pa.table({"ts": [5, 1], "v": [0, 0]}))
        assert merging.stats()["memory"] > 0
    merging.close()
    assert merging.stats()["memory"] == 0
    assert merging.stats()["rows_in"] == 5
    assert merging.late().num_rows == 0
    for call in (merging.poll, lambda: next(merging)):
        with pytest.raises(ClosedError, match="the merge is closed"):
            call()
    with pytest.raises(ClosedError, match="source 1 is closed"):
        sources[1].push(TABLE)


def test_a_merge_goes_before_its_sources() -> None:
    merging = Merge(TABLE.schema)
    (source,) = merging.sources
    del merging
    source.push(TABLE)
    source.close()


def test_columns_must_agree() -> None:
    source = Merge(TABLE.schema).sources[0]
    for wrong, message in (
        (TABLE.rename_columns(["ts", "w"]), "the rows have no column `v`"),
        (TABLE.append_column("w", TABLE["v"]), "the rows have a column `w`, expected `ts`, `v`"),
        (TABLE.set_column(1, "v", TABLE["v"].cast(pa.string())), "column `v` is string, expected"),
    ):
        with pytest.raises(SchemaError, match=f"source 0: {message}"):
            source.push(wrong)
    # Metadata is not compared.
    source.push(TABLE.replace_schema_metadata({"a": "b"}))


def fill(source: Source, table: pa.Table, text: str) -> int:
    """Push the table until the limit is reached, and return the number of accepted rows."""
    for times in range(1_000):
        try:
            source.push(table)
        except MemoryLimitError as error:
            assert re.search(text, str(error))  # noqa: PT017 - any of the pushes may raise
            return times * table.num_rows
    pytest.fail("the limit was never reached")


def test_nothing_is_lost_at_the_memory_limit() -> None:
    merging = Merge(TABLE.schema, sources=2, memory_limit=1_000)
    first, second = merging.sources
    text = r"source 0: 3 rows need \d+ bytes, but \d+ of memory_limit = 1000 are held; poll, close"
    pushed = fill(first, pa.table({"ts": [7] * 3, "v": [0] * 3}), text)
    assert 0 < pushed < 300
    assert merging.stats()["rows_in"] == pushed
    assert merging.stats()["memory"] <= 1_000
    # The source resumes once there is room.
    assert taken(merging) == []
    second.advance(100)
    assert len(taken(merging)) == pushed
    first.push(pa.table({"ts": [100], "v": [0]}))
    assert taken(merging) == [100]
    assert merging.stats()["memory"] == 0


def test_late_rows_count_until_they_are_fetched() -> None:
    merging = Merge(TABLE.schema, memory_limit=10_000)
    (source,) = merging.sources
    source.advance(1_000)
    fill(source, TABLE, "fetch late rows")
    held = merging.stats()
    assert held["memory"] > 9_000
    assert merging.late().num_rows == held["rows_late"] == held["rows_in"]
    assert merging.stats()["memory"] == 0
    source.push(TABLE)


def test_rows_that_wait_for_order_count() -> None:
    merging = Merge(TABLE.schema, lateness=1_000)
    (source,) = merging.sources
    source.push(TABLE)
    held = merging.stats()["memory"]
    assert held >= 3 * 40
    source.push(OTHER)
    assert merging.stats()["memory"] == 2 * held
    source.advance(100)
    assert taken(merging) == [1, 2, 4, 4, 4, 9]
    assert merging.stats()["memory"] == 0


# Threads


def test_threads_feed_and_threads_take() -> None:
    count, sources = 20_000, 6
    merging = Merge(TABLE.schema, sources=sources, threads=3)

    def feed(number: int) -> None:
        with merging.sources[number] as source:
            for first in range(0, count, 700):
                ts = np.arange(first, min(first + 700, count))
                source.push(pa.table({"ts": ts, "v": ts * sources + number}))

    def take(_number: int) -> list[list[int]]:
        return [batch["v"].to_pylist() for batch in merging]

    with ThreadPoolExecutor(sources + 3) as pool:
        takers = [pool.submit(take, number) for number in range(3)]
        for feeding in [pool.submit(feed, number) for number in range(sources)]:
            feeding.result()
        parts = [taker.result() for taker in takers]
    # Across threads, each row was received once, and each thread received its batches in order.
    batches = sorted(batch for part in parts for batch in part)
    assert [v for batch in batches for v in batch] == list(range(count * sources))
    for part in parts:
        assert part == sorted(part)


def test_an_iterator_wakes_when_a_source_speaks() -> None:
    merging = Merge(TABLE.schema, sources=2)
    first, second = merging.sources
    first.push(TABLE)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, merging)
        assert not waiting.done()
        second.advance(4)
        assert waiting.result(PATIENCE)["ts"].to_pylist() == [1, 4]
        waiting = pool.submit(next, merging, None)
        first.close()
        second.close()
        assert waiting.result(PATIENCE)["ts"].to_pylist() == [9]


def test_closing_ends_the_wait_of_others() -> None:
    merging = Merge(TABLE.schema)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(next, merging) for _ in range(2)]
        threading.Event().wait(0.05)
        merging.close()
        for one in waiting:
            with pytest.raises(ClosedError, match="the merge is closed"):
                one.result(PATIENCE)


def test_streams_are_read_only_as_far_as_they_are_needed() -> None:
    read: list[int] = []

    def stream(number: int, step: int) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            for n in range(50):
                read.append(number)
                yield pa.record_batch({"ts": [n * step, n * step + 1]})

        return pa.RecordBatchReader.from_batches(pa.schema([("ts", pa.int64())]), batches())

    with merge_batches([stream(0, 2), stream(1, 20)]) as reader:
        assert next(reader)["ts"].to_pylist()[:2] == [0, 0]
        assert read.count(0) <= 2
        while next(reader)["ts"][-1].as_py() < 50:
            pass
        assert read.count(1) <= 5
        stats = reader.stats()
        assert stats["sources"][1]["name"] == "streams[1]"
        assert stats["rows_in"] == len(read) * 2
        assert stats["rows_out"] <= stats["rows_in"]


# Signals and forks


def in_child(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.skipif(os.name != "posix", reason="Windows cannot send SIGINT to a child process")
def test_ctrl_c_ends_the_wait_for_a_source() -> None:
    script = """
        import pyarrow as pa, tidegate
        merging = tidegate.Merge(pa.schema([("ts", pa.int64())]))
        print("ready", flush=True)
        try:
            next(merging)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        merging.sources[0].push(pa.table({"ts": [1]}))
        print(merging.poll().num_rows)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            threading.Event().wait(0.3)
            child.send_signal(signal.SIGINT)
            output, _ = child.communicate(timeout=PATIENCE)
        finally:
            child.kill()
    assert output == "interrupted\n1\n"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_handles_from_before_a_fork_raise() -> None:
    of_merge = ["merging.poll()", "next(merging)", "merging.late()", "merging.stats()"]
    of_merge += ["merging.sources", "merging.close()"]
    of_source = ["source.push(table)", "source.advance(5)", "source.close()"]
    script = f"""
        import os
        import pyarrow as pa, tidegate
        table = pa.table({{"ts": [1]}})
        merging = tidegate.Merge(table.schema)
        source = merging.sources[0]
        source.push(table)
        for action in {of_merge + of_source}:
            if os.fork() == 0:
                try:
                    assert source.number == 0 and merging.schema == table.schema
                    exec(action)
                except tidegate.ClosedError as error:
                    print(error, flush=True)
                del source, merging
                print(tidegate.merge([table, table]).num_rows, flush=True)
                os._exit(0)
            os.wait()
        print(merging.poll().num_rows)
    """
    told = "this {} was created before the process forked; create one in the child process\n2\n"
    wanted = told.format("merge") * len(of_merge) + told.format("source") * len(of_source) + "1\n"
    done = in_child(script)
    assert done.stdout == wanted, done.stderr


# Properties of every operator


OPERATORS = [Aggregate, BandJoin, IntervalJoin, Merge, WindowJoin]


def public(of: object) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_have_the_same_methods(operator):
    assert {"explain", "late", "poll", "restore", "snapshot", "stats"} <= public(Operator)
    assert issubclass(operator, Operator)
    sides = {"left_sources", "right_sources"} if issubclass(operator, StreamJoin) else set()
    own = {Merge: {"index", "on", "reader"}, Aggregate: {"open"}}.get(operator, set())
    assert public(operator) == public(Operator) | sides | own


def test_a_merge_says_what_it_does():
    merging = Merge(TABLE.schema, sources=2, lateness=3, threads=1, memory_limit=10_000)
    told = merging.explain()
    assert told == explain(
        Merge, TABLE.schema, sources=2, lateness=3, threads=1, memory_limit=10_000
    )
    assert told.splitlines() == [
        "merge",
        "  time       ts",
        "  lateness   3 (integer)",
        "  sources    2",
        "  algorithm  ScaleGate: blocks of ready rows, each merged by one thread",
        "  threads    1",
        "  memory     rows until they are ready, plus 40 bytes per row; at most 10000 bytes",
        "  output     2 columns, by time, then source, then position",
    ]


def test_a_merge_tells_how_long_rows_took():
    with Merge(TABLE.schema) as merging:
        assert merging.stats()["latency"] is None
        merging.sources[0].push(TABLE)
        assert taken(merging) == [1, 4, 9]
        median, _, most = merging.stats()["latency"]
        assert 0 < median <= most < PATIENCE


@pytest.mark.parametrize("cut", range(7))
@pytest.mark.parametrize("polls", [False, True])
def test_a_merge_goes_on_from_a_snapshot(cut, polls):
    rows = [(number, row) for row in range(3) for number in range(2)]

    def fed(merging: Merge, some: list[tuple[int, int]]) -> list[int]:
        for number, row in some:
            merging.sources[number].push([TABLE, OTHER][number].slice(row, 1))
        return taken(merging) if polls else []

    merging = Merge(TABLE.schema, sources=2)
    found = fed(merging, rows[:cut])
    snapshot = merging.snapshot()
    assert snapshot == merging.snapshot()
    again = Merge(TABLE.schema, sources=2, threads=1)
    again.restore(snapshot)
    assert again.snapshot() == snapshot
    for operator in (merging, again):
        more = fed(operator, rows[cut:])
        for source in operator.sources:
            source.close()
        assert found + more + taken(operator) == MERGED["ts"]


@pytest.mark.parametrize(
    "other", [{"lateness": 1}, {"sources": 3}, {"on": "v"}], ids=["lateness", "sources", "on"]
)
def test_a_merge_refuses_the_snapshot_of_another(other: dict[str, object]):
    snapshot = Merge(TABLE.schema, sources=2).snapshot()
    with pytest.raises(StateError, match="another query"):
        Merge(TABLE.schema, **({"sources": 2} | other)).restore(snapshot)
    used = Merge(TABLE.schema, sources=2)
    used.sources[0].push(TABLE)
    with pytest.raises(StateError, match="an unused merge"):
        used.restore(snapshot)


@pytest.mark.parametrize("function", [merge, merge_batches])
def test_merges_of_tables_are_explained(function, tmp_path):
    table = pa.table({"ts": [1, 2], "x": [1, 2]})
    told = explain(function, [table, table, table], on="ts", lateness=5, threads=2)
    lines = told.splitlines()
    assert lines[0] == "merge"
    assert "  sources    3" in lines
    assert "  lateness   5 (integer)" in lines
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(table, tmp_path / name)
    assert "  sources    2" in explain(function, tmp_path, on="ts").splitlines()
    assert "  sources    1" in explain(function, table, on="ts").splitlines()
    with pytest.raises(TidegateError, match="at least one stream"):
        explain(function, [], on="ts")
    with pytest.raises(SchemaError, match="no column `time`"):
        explain(function, [table], on="time")


def test_a_merge_may_have_as_many_sources_as_there_are_numbers():
    rows = pa.table({"ts": [1, 2, 3]})
    merge = Merge(rows.schema, sources=65_536)
    merge.sources[65_535].push(rows)
    for source in merge.sources:
        source.close()
    assert pa.Table.from_batches(merge).equals(rows)
