"""Operators that a thread runs: sinks, backpressure, ends and errors."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate import (
    Aggregate,
    ClosedError,
    IntervalJoin,
    MemoryLimitError,
    Merge,
    TidegateError,
    agg,
    interval_join,
)

SCHEMA = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
RIGHT = pa.schema([("ts", pa.int64()), ("y", pa.int64())])

pytestmark = pytest.mark.timeout(60)


def rows(first: int, count: int, schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.table([range(first, first + count)] * 2, schema=schema)


def total(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def test_results_come_while_the_block_runs():
    came = threading.Event()
    found: list[pa.RecordBatch] = []

    def take(batch: pa.RecordBatch) -> None:
        found.append(batch)
        came.set()

    merge = Merge(SCHEMA)
    with merge.running(take) as running:
        merge.sources[0].push(rows(0, 10))
        merge.sources[0].advance(100)
        assert came.wait(30)
        assert not running.wait(timeout=0)
    assert running.wait()
    assert total(found) == 10
    # All sources have ended, and the operator is in the same state as after polls.
    assert merge.stats()["sources"][0]["closed"]
    assert merge.poll() is None


def test_threads_feed_and_rows_are_those_of_tables():
    count, cut = 20_000, 500
    tables = [rows(0, count), rows(0, count, RIGHT)]
    query = {"on": "ts", "lower": -1, "upper": 1}
    join = IntervalJoin(*(one.schema for one in tables), **query, memory_limit=400_000, threads=2)
    found: list[pa.RecordBatch] = []

    def feed(at: int) -> None:
        with join.sources[at] as source:
            for first in range(0, count, cut):
                source.push(tables[at].slice(first, cut), block=True)

    threads = [threading.Thread(target=feed, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    # At the memory limit, the sources hold each other back and wait.
    join.run(found.append)
    for thread in threads:
        thread.join()
    order = [(name, "ascending") for name in join.schema.names]
    pairs = pa.Table.from_batches(found, join.schema).sort_by(order)
    assert pairs.equals(interval_join(*tables, **query).sort_by(order))


def test_a_push_waits_while_a_slow_sink_has_no_room():
    """Without a running operator, a push does not wait unless `block` is set."""
    merge = Merge(SCHEMA, memory_limit=3 * 100 * 60)
    goes_on = threading.Event()
    found: list[pa.RecordBatch] = []

    def take(batch: pa.RecordBatch) -> None:
        goes_on.wait(30)
        found.append(batch)

    source, pushed = merge.sources[0], 0

    def push_until_full(**block: bool) -> int:
        batches = 0
        while True:
            try:
                source.push(rows(100 * (pushed + batches), 100), **block)
            except MemoryLimitError:
                return batches
            batches += 1

    pushed += push_until_full()
    with merge.running(take):
        # One batch is in the sink, and others fill the available memory.
        pushed += push_until_full(block=False)
        timer = threading.Timer(0.2, goes_on.set)
        timer.start()
        for _ in range(20):
            source.push(rows(100 * pushed, 100))
            pushed += 1
        assert goes_on.is_set()
    assert pa.Table.from_batches(found).equals(rows(0, 100 * pushed))


def test_late_rows_that_nobody_fetches_are_waited_for_by_nobody():
    merge = Merge(SCHEMA, memory_limit=3 * 100 * 60)
    with (  # noqa: PT012 - in a loop
        pytest.raises(MemoryLimitError, match="fetch late rows"),
        merge.running(lambda _: None),
    ):
        for _ in range(100):
            merge.sources[0].push(rows(0, 100))


def test_late_rows_are_given_to_a_function():
    merge = Merge(SCHEMA, memory_limit=3 * 100 * 60)
    late: list[pa.Table] = []
    found: list[pa.RecordBatch] = []
    with merge.running(found.append, late=late.append):
        for _ in range(50):
            merge.sources[0].push(rows(0, 100))
    assert total(found) + sum(table.num_rows for table in late) + merge.late().num_rows == 50 * 100
    with pytest.raises(TypeError, match="late: expected a function that accepts a table, got int"):
        merge.running(print, late=7)


def test_rows_that_never_fit_are_refused_at_once():
    merge = Merge(SCHEMA, memory_limit=1_000)
    with (
        pytest.raises(MemoryLimitError, match="push fewer rows at a time"),
        merge.running(lambda _: None),
    ):
        merge.sources[0].push(rows(0, 10_000))


def test_a_queue_holds_back_and_gets_an_end():
    batches: queue.Queue[pa.RecordBatch | None] = queue.Queue(maxsize=1)
    merge = Merge(SCHEMA)
    taken: list[pa.RecordBatch] = []
    consumer = threading.Thread(target=lambda: taken.extend(iter(batches.get, None)))
    consumer.start()
    with merge.running(batches):
        for first in range(0, 1000, 100):
            merge.sources[0].push(rows(first, 100))
    consumer.join(30)
    assert not consumer.is_alive()
    assert pa.Table.from_batches(taken).equals(rows(0, 1000))


@pytest.mark.parametrize("kind", ["parquet", "ipc"])
def test_a_writer(kind: str, tmp_path: Path):
    path = tmp_path / "rows"
    merge = Merge(SCHEMA)
    writer = pq.ParquetWriter if kind == "parquet" else pa.ipc.new_file
    with writer(path, SCHEMA) as file, merge.running(file):
        merge.sources[0].push(rows(0, 10))
    read = pq.read_table(path) if kind == "parquet" else pa.ipc.open_file(path).read_all()
    assert read.equals(rows(0, 10))


def test_an_operator_feeds_another_one():
    merge = Merge(SCHEMA, sources=2)
    count = Aggregate(SCHEMA, on="ts", size=10, aggs={"n": agg.count()}, memory_limit=2_000_000)
    found: list[pa.RecordBatch] = []
    with count.running(found.append) as last, merge.running(count.sources[0]):
        for first in range(0, 5_000, 100):
            for source in merge.sources:
                source.push(rows(first, 100))
        for source in merge.sources:
            source.close()
        last.wait()
    assert pa.Table.from_batches(found)["n"].to_pylist() == [20] * 500


class Full(Exception):  # noqa: N818 - for tests
    pass


def test_an_error_of_the_sink_ends_it_and_loses_nothing():
    merge = Merge(SCHEMA)

    def refuse(batch: pa.RecordBatch) -> None:
        raise Full(batch.num_rows)

    with pytest.raises(Full, match="10"), merge.running(refuse) as running:  # noqa: PT012 - several calls may raise
        merge.sources[0].push(rows(0, 10))
        merge.sources[0].advance(10)
        while running.error is None:
            time.sleep(0.001)
        with pytest.raises(Full):
            running.wait()
    found: list[pa.RecordBatch] = []
    merge.run(found.append)
    assert pa.Table.from_batches(found).equals(rows(0, 10))


def test_a_feeder_that_waits_learns_of_the_error():
    merge = Merge(SCHEMA, memory_limit=3 * 100 * 60)

    with pytest.raises(Full) as caught, merge.running(refuse):  # noqa: PT012 - in a loop
        for first in range(0, 100_000, 100):
            merge.sources[0].push(rows(first, 100))
    assert isinstance(caught.value.__cause__, MemoryLimitError)


def refuse(_: pa.RecordBatch) -> None:
    raise Full


def test_an_operator_learns_of_the_error_of_the_one_that_it_feeds():
    before = Merge(SCHEMA, memory_limit=3 * 100 * 60)
    # There is room for each batch of the first operator.
    behind = Merge(SCHEMA, memory_limit=6 * 100 * 60)
    with (  # noqa: PT012 - in a loop
        pytest.raises(Full) as caught,
        behind.running(refuse),
        before.running(behind.sources[0]),
    ):
        for first in range(0, 10_000, 100):
            before.sources[0].push(rows(first, 100))
    assert "has ended with an error" in str(caught.value.__cause__)


@pytest.mark.parametrize("ends", ["the sink", "the block"])
def test_a_feeder_that_asked_to_wait_learns_of_the_end(ends: str):
    merge = Merge(SCHEMA, memory_limit=3 * 100 * 60)
    waits = threading.Event()
    errors: list[MemoryLimitError] = []
    taken: list[pa.RecordBatch] = []

    def feed() -> None:
        try:
            for first in range(0, 100_000, 100):
                merge.sources[0].push(rows(first, 100), block=True)
        except MemoryLimitError as error:
            errors.append(error)

    def take(batch: pa.RecordBatch) -> None:
        while not merge.sources[0]._is_full():
            time.sleep(0.001)
        waits.set()
        if ends == "the sink":
            raise Full
        taken.append(batch)

    feeder = threading.Thread(target=feed)
    with pytest.raises(Full), merge.running(take):  # noqa: PT012 - several calls may raise
        feeder.start()
        assert waits.wait(30)
        if ends == "the block":
            raise Full
        feeder.join()
    feeder.join()
    assert "the thread that ran the operator has ended with an error" in str(errors[0])
    with merge.running(taken.append):
        pass
    assert pa.Table.from_batches(taken).equals(rows(0, merge.stats()["rows_in"]))


def test_late_rows_that_a_function_fetches_are_waited_for():
    merge = Merge(SCHEMA, memory_limit=3 * 100 * 60)
    late: list[pa.Table] = []
    with merge.running(lambda _: None, late=late.append):
        merge.sources[0].push(rows(10_000, 1))
        for first in range(0, 2_000, 100):
            merge.sources[0].push(rows(first, 100))
    assert sum(table.num_rows for table in late) + merge.late().num_rows == 2_000


def test_a_sink_does_not_wait_for_itself():
    merge = Merge(SCHEMA, sources=2, memory_limit=3 * 100 * 60)
    pushed = 0

    def take(_: pa.RecordBatch) -> None:
        nonlocal pushed
        while True:
            merge.sources[1].push(rows(10_000 + pushed, 1), block=True)
            pushed += 1

    with pytest.raises(MemoryLimitError), merge.running(take) as running:  # noqa: PT012 - several calls may raise
        merge.sources[0].push(rows(0, 1))
        merge.sources[1].push(rows(5, 1))
        merge.sources[0].advance(10)
        assert running.wait(30)
    assert pushed > 0


def test_a_block_runs_once():
    merge = Merge(SCHEMA, memory_limit=3 * 100 * 60)
    found: list[pa.RecordBatch] = []
    running = merge.running(found.append)
    with pytest.raises(Full), running:
        raise Full
    with pytest.raises(TidegateError, match="this block has already run; create another"), running:
        pass
    with merge.running(found.append):
        for first in range(0, 1_000, 100):
            merge.sources[0].push(rows(first, 100))
    assert total(found) == 1_000


def test_a_refused_thread_drives_nothing(monkeypatch: pytest.MonkeyPatch):
    merge = Merge(SCHEMA)
    with monkeypatch.context() as patched:

        def start(_: threading.Thread) -> None:
            message = "can't start new thread"
            raise RuntimeError(message)

        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start"), merge.running(print):
            pass
    merge.sources[0].close()
    merge.run(print)


def test_a_block_that_raises_closes_no_source():
    merge = Merge(SCHEMA)
    found: list[pa.RecordBatch] = []
    with pytest.raises(Full), merge.running(found.append):  # noqa: PT012 - the block raises
        merge.sources[0].push(rows(0, 10))
        raise Full
    assert not merge.stats()["sources"][0]["closed"]
    merge.sources[0].close()
    merge.run(found.append)
    assert total(found) == 10


def test_a_signal_handler_may_stop_whatever_it_interrupts():
    """A trace function, like a signal handler, can run between any two steps of a thread."""
    running = Merge(pa.schema({"ts": pa.int64()})).running(print)
    stops = []

    def interrupt(*_):
        sys.settrace(None)
        stops.append(running.stop())
        sys.settrace(interrupt)
        return interrupt

    def stop():
        sys.settrace(interrupt)
        running.stop()

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert len(stops) > 3


def test_stop_ends_a_thread_whose_queue_is_full():
    batches: queue.Queue[pa.RecordBatch | None] = queue.Queue(maxsize=1)
    merge = Merge(SCHEMA)
    with merge.running(batches) as running:
        for first in range(0, 300, 100):
            merge.sources[0].push(rows(first, 100))
            merge.sources[0].advance(first + 100)
            time.sleep(0.05)
        running.stop()
        assert running.wait()
    found = [batches.get(), *iter(merge.poll, None)]
    assert pa.Table.from_batches(found).equals(rows(0, 300))


def test_an_operator_runs_once_at_a_time():
    merge = Merge(SCHEMA)
    with merge.running(lambda _: None):
        with pytest.raises(TidegateError, match="already running"):
            merge.run(lambda _: None)
        with pytest.raises(TidegateError, match="already running"), merge.running(print):
            pass


def test_an_abandoned_source_ends_it():
    merge = Merge(SCHEMA)
    told = "was abandoned before its end"
    with pytest.raises(TidegateError, match=told), merge.running(lambda _: None):
        merge.sources[0].abandon("the line is down")


@pytest.mark.parametrize("sink", [None, 7, "out.parquet", [1]])
def test_other_sinks_are_refused(sink: object):
    merge = Merge(SCHEMA)
    for call in (merge.run, merge.running):
        with pytest.raises(
            TypeError, match="sink: expected a function that accepts a record batch"
        ):
            call(sink)
    merge.sources[0].close()
    merge.run(print)


PROGRAM = """
import threading, time, pyarrow as pa, tidegate as tg
merge = tg.Merge(pa.schema([("ts", pa.int64())]))
"""
AT_EXIT = """
merge.running(print).__enter__()
print("end", flush=True)
"""
INTERRUPTED = """
print("runs", flush=True)
try:
    merge.run(print)
except KeyboardInterrupt:
    print("ended", merge.stats()["rows_in"], flush=True)
"""


def test_python_ends_while_one_runs():
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM + AT_EXIT],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")


def test_ctrl_c_ends_run():
    program = [sys.executable, "-c", PROGRAM + INTERRUPTED]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "ended 0\n"
        assert process.wait(30) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_of_a_process_in_which_one_runs_does_not_hang():
    merge = Merge(SCHEMA)
    with merge.running(lambda _: None) as running:
        child = os.fork()
        if child == 0:
            try:
                running.wait()
            except ClosedError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
