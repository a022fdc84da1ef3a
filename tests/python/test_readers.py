"""Streams that need the GIL while they are being read, sleep, fail, or use their own reader.

`reader_cases.py` contains the functions and the readers. Calls that could hang run in a child
process, because no timeout in Python can end a thread that waits with the GIL held.
"""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidegate import (
    BatchReader,
    ClosedError,
    IntervalJoin,
    Merge,
    OrderError,
    TidegateError,
    agg,
    aggregate,
    merge_batches,
)

CASES = Path(__file__).with_name("reader_cases.py")
# Far longer than all cases take.
PATIENCE = 120

needs_signals = pytest.mark.skipif(
    os.name != "posix", reason="Windows cannot send SIGINT to a child process"
)


def outcomes(kind: str) -> dict[str, str]:
    """Run all cases of a kind, and return how each ended."""
    found: dict[str, str] = {}
    while True:
        command = [sys.executable, CASES, kind, str(len(found))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            try:
                output, _ = child.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()
                output, _ = child.communicate()
        lines = [line.split("\t") for line in output.splitlines()]
        found |= {line[0]: line[1] or "ended the process, or hung" for line in lines}
        if child.returncode == 0:
            return found
        if not lines or lines[-1][1]:
            found["the end"] = f"exit code {child.returncode}"
            return found


@pytest.mark.timeout(10 * PATIENCE)
def test_every_function_with_every_reader():
    found = outcomes("read")
    assert len(found) > 200
    bad = {case: end for case, end in found.items() if end != "100" and "failing" not in case}
    assert bad == {}
    for case, end in found.items():
        if "failing" in case and not case.startswith("explain"):
            assert "reading the Arrow stream failed" in end, case
            assert "LookupError: boom" in end, case


@pytest.mark.timeout(10 * PATIENCE)
def test_every_function_with_every_input_that_is_no_arrow_data():
    found = outcomes("given")
    assert len(found) > 250
    assert {case: end for case, end in found.items() if end != "100"} == {}


@needs_signals
@pytest.mark.timeout(10 * PATIENCE)
def test_ctrl_c_while_a_stream_sleeps():
    found = outcomes("sleep")
    assert len(found) >= 15
    assert {end.strip() for end in found.values()} == {"KeyboardInterrupt"}


def in_child(script: str) -> str:
    """Run a script in a separate process, and return its output."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


HOLDING = """
    import ctypes, sys
    import pandas as pd, pyarrow as pa, tidegate
    # No other thread gets the GIL between two calls of the consumer.
    sys.setswitchinterval(1_000)
    sys.path.insert(0, {folder!r})
    from c_data import Array, P, Stream

    def read_with_the_gil(reader):
        "Read like a consumer in C that holds the GIL while it waits."
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = P, [ctypes.py_object, ctypes.c_char_p]
        capsule = reader.__arrow_c_stream__()
        stream = get(capsule, b"arrow_array_stream")
        get_next = ctypes.PYFUNCTYPE(ctypes.c_int, P, P)(Stream.from_address(stream).get_next)
        count = 0
        while True:
            out = Array()
            assert get_next(stream, ctypes.addressof(out)) == 0
            if not out.release:
                return count
            count += out.length
            ctypes.PYFUNCTYPE(None, P)(out.release)(ctypes.addressof(out))

    def frame():
        return pd.DataFrame({{"ts": range(100_000), "v": range(100_000)}})

    def generated():
        table = pa.table(frame())
        return pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(1_000)))

    for reader in {readers}:
        print(read_with_the_gil(eval(reader)), flush=True)
"""

READERS = {
    "tidegate.interval_join_batches(frame(), frame(), on='ts', lower=0, upper=0)": 100_000,
    "tidegate.window_join_batches(frame(), frame(), on='ts', window=0)": 100_000,
    "tidegate.band_join_batches(frame(), frame(), on='v', within=0)": 100_000,
    "tidegate.merge_batches([frame(), frame(), frame()])": 300_000,
    "tidegate.merge_batches([generated(), frame(), generated()])": 300_000,
}


def test_a_consumer_that_holds_the_gil():
    script = HOLDING.format(folder=str(CASES.parent), readers=[*READERS])
    assert [*map(int, in_child(script).split())] == [*READERS.values()]


@needs_signals
def test_the_process_ends_soon_after_a_stream_was_left():
    script = """
        import os, signal, threading, time
        import pyarrow as pa, tidegate
        def sleeping():
            time.sleep(600)
            yield
        reader = pa.RecordBatchReader.from_batches(pa.schema({"ts": pa.int64()}), sleeping())
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            tidegate.merge([reader])
        except KeyboardInterrupt:
            print("interrupted")
    """
    begin = time.monotonic()
    assert in_child(script) == "interrupted\n"
    assert time.monotonic() - begin < PATIENCE / 2


# Streams that use their own readers

SCHEMA = pa.schema({"ts": pa.int64(), "v": pa.int64()})


def generated(between: Callable[[], object]) -> pa.RecordBatchReader:
    """Yield five batches, and call a function before each."""

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(5):
            between()
            yield pa.record_batch({"ts": [2 * at, 2 * at + 1], "v": [at, at]}, schema=SCHEMA)

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def in_thread(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def in_pool(call: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def in_thread_of_pool(call: Callable[[], object]) -> None:
    in_thread(lambda: in_pool(call))


def directly(call: Callable[[], object]) -> object:
    return call()


TALLY = {"on": "ts", "size": 1, "aggs": {"n": agg.count()}}
FROM_WITHIN = [directly, in_thread, in_pool, in_thread_of_pool]


def merged(between: Callable[[BatchReader], object]) -> BatchReader:
    """Merge two streams, one of which calls a function with the merge before each batch."""
    reader = merge_batches([generated(lambda: between(reader)), generated(lambda: None)])
    return reader


@pytest.mark.timeout(60)
@pytest.mark.parametrize("way", FROM_WITHIN)
def test_stats_from_within_a_stream(way):
    seen = []
    reader = merged(lambda reader: way(lambda: seen.append(reader.stats()["rows_in"])))
    assert sum(batch.num_rows for batch in reader) == 20
    assert seen == sorted(seen)
    assert len(seen) == 5


@pytest.mark.timeout(60)
@pytest.mark.parametrize("way", FROM_WITHIN)
def test_close_from_within_a_stream(way):
    reader = merged(lambda reader: way(reader.close))
    with pytest.raises(ClosedError, match="the merge is closed"):
        list(reader)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("way", FROM_WITHIN)
@pytest.mark.parametrize(
    "use", [next, pa.table, lambda reader: aggregate(reader, **TALLY)], ids=["next", "table", "agg"]
)
def test_a_stream_that_reads_what_reads_it(use, way):
    refused = []

    def between(reader: BatchReader) -> None:
        try:
            use(reader)
        except (TidegateError, pa.ArrowInvalid) as error:
            refused.append(str(error))

    reader = merged(lambda reader: way(lambda: between(reader)))
    # The refused calls do not affect the merge.
    assert sum(batch.num_rows for batch in reader) == 20
    assert len(refused) == 5
    for text in refused:
        assert "is called by a function or stream" in text or "waits for this read" in text


@pytest.mark.timeout(60)
def test_a_stream_that_reads_itself_and_does_not_care():
    text = r"streams\[0\]: reading the Arrow stream failed: .*outside the stream"
    with pytest.raises(TidegateError, match=text):
        list(merged(next))


@pytest.mark.timeout(60)
def test_threads_share_a_merge_of_generators():
    streams = [generated(lambda: time.sleep(0.01)) for _ in range(3)]
    reader = merge_batches(streams)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda _: list(reader), range(4)))
    rows = [row for part in parts for batch in part for row in batch["ts"].to_pylist()]
    assert sorted(rows) == sorted(3 * list(range(10)))


@needs_signals
@pytest.mark.timeout(60)
def test_a_merge_goes_on_after_ctrl_c():
    go = threading.Event()
    reader = merge_batches([generated(go.wait)])
    main = threading.get_ident()
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        next(reader)
    timer.join()
    assert reader.stats()["rows_in"] == 0
    go.set()
    assert pa.table(reader)["ts"].to_pylist() == list(range(10))


@pytest.mark.timeout(60)
def test_a_push_to_the_source_that_is_pushed_to():
    merging = Merge(SCHEMA)
    (source,) = merging.sources
    row = pa.table({"ts": [0], "v": [-1]}, schema=SCHEMA)
    polled = []

    def between() -> None:
        source.push(row)
        polled.append(merging.poll())
        merging.stats()

    source.push(generated(between))
    assert merging.stats()["rows_in"] == 15
    assert [batch.num_rows for batch in polled if batch] == [1] * 5
    with pytest.raises(ClosedError, match="source 0 is closed"):
        source.push(generated(source.close))


@pytest.mark.timeout(60)
def test_an_operator_that_is_closed_by_what_is_pushed():
    joining = IntervalJoin(SCHEMA, SCHEMA, on="ts", lower=0, upper=0)
    with pytest.raises(ClosedError):
        joining.sources[0].push(generated(joining.close))


@pytest.mark.timeout(60)
def test_a_consumer_may_ask_for_other_types():
    rows = pa.table({"ts": [1, 2]})

    def stream(schema: pa.Schema) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_stream(merge_batches([rows]), schema=schema)

    smaller = pa.schema({"ts": pa.int32()})
    assert stream(smaller).schema == smaller
    assert stream(smaller).read_all() == rows.cast(smaller)
    # A cast that is impossible is not applied.
    assert stream(pa.schema({"ts": pa.struct({"of": pa.int64()})})).read_all() == rows
    with pytest.raises(TypeError, match=r"^requested_schema: expected a capsule that is"):
        merge_batches([rows]).__arrow_c_stream__(rows.__arrow_c_stream__())


def test_errors_of_our_readers_keep_their_type():
    falling = pa.table({"ts": [2, 1], "v": [0, 0]}, schema=SCHEMA)
    for read in (lambda reader: aggregate(reader, **TALLY), Merge(SCHEMA).sources[0].push):
        with pytest.raises(OrderError, match=r"streams\[0\]: row 1 of `ts` is 1, after a row"):
            read(merge_batches([falling]))
        closed = merge_batches([falling])
        closed.close()
        with pytest.raises(ClosedError, match="the merge is closed"):
            read(closed)


@pytest.mark.timeout(60)
def test_no_stream_is_read_further_than_it_must():
    asked = np.zeros(2, int)

    def counting(number: int) -> pa.RecordBatchReader:
        def count() -> None:
            asked[number] += 1

        return generated(count)

    reader = merge_batches([counting(0), counting(1)])
    assert asked.tolist() == [0, 0]
    next(reader)
    assert asked.max() <= 2
