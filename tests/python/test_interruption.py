"""Ctrl-C, fork, and several threads with one reader. Waits are bounded, so no run can hang."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import campaign
import oracle
from cases import more
from tidegate import ClosedError, interval_join, interval_join_batches

needs_signals = pytest.mark.skipif(
    os.name != "posix", reason="Windows cannot send SIGINT to a child process"
)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

# Far more than an interrupted call takes, far less than an uninterrupted join would take.
PATIENCE = 30

# Two tables whose pairs would keep two processors busy for minutes, and a message to the test.
LONG_JOIN = """
    import sys
    import numpy as np, pyarrow as pa, tidegate
    hot = pa.table({"ts": np.zeros(400_000, np.int64), "x": np.zeros(400_000)})
    arguments = dict(on="ts", lower=0, upper=0)
    print("ready", flush=True)
"""
WAYS = {
    "batches": """
        for batch in tidegate.interval_join_batches(hot, hot, **arguments):
            pass
    """,
    "where": """
        tidegate.interval_join(hot, hot, where="left.x * right.x > 1", **arguments)
    """,
    "partners one by one": """
        aggs = {"n": tidegate.agg.count(), "sum": tidegate.agg.sum("x")}
        tidegate.band_join(hot, hot, on="ts", within=0, aggs=aggs)
    """,
    "asof": """
        tidegate.asof_join(hot, hot, on="ts", where="left.x * right.x > 1")
    """,
    "a table of batches": """
        arguments["where"] = "left.x * right.x > 1"
        try:
            pa.table(tidegate.interval_join_batches(hot, hot, **arguments))
        except pa.ArrowInvalid as error:
            # C code reports its own errors.
            assert "the read was interrupted" in str(error), error
            raise KeyboardInterrupt
        finally:
            del arguments["where"]
    """,
    "scan": """
        long = pa.table({"ts": np.zeros(4_000_000, np.int64), "x": np.tile([-1, 1], 2_000_000)})
        zero = pa.table({"ts": long["ts"], "x": np.zeros(4_000_000, np.int64)})
        tidegate.interval_join(zero, long, where="left.x = right.x", **arguments)
    """,
}
DEFAULT = ("batches", "a table of batches", "scan")


@needs_signals
# `test_interrupted_calls.py` interrupts each kind of call with a custom handler.
@pytest.mark.parametrize("way", [*DEFAULT, *more(*sorted({*WAYS} - {*DEFAULT}))])
def test_ctrl_c_ends_a_long_join(way):
    script = textwrap.dedent(LONG_JOIN) + "try:\n"
    script += textwrap.indent(textwrap.dedent(WAYS[way]), "    ")
    script += "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    script += "print(tidegate.interval_join(hot[:3], hot[:1], **arguments).num_rows)\n"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            threading.Event().wait(0.5)
            child.send_signal(signal.SIGINT)
            output, _ = child.communicate(timeout=PATIENCE)
        finally:
            child.kill()
    # The interpreter continues, and tidegate still works.
    assert output == "interrupted\n3\n"
    assert child.returncode == 0


def in_child(script: str) -> str:
    """Run a script that forks in a separate process, and return its output."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


FORKING = """
    import os, sys
    import pyarrow as pa, tidegate
    table = pa.table({"ts": range(50_000), "k": [1] * 50_000})
    arguments = dict(on="ts", by="k", lower=-1, upper=1, threads=4)
    assert tidegate.interval_join(table, table, **arguments).num_rows == 149_998
    reader = tidegate.interval_join_batches(table, table, batch_rows=100, **arguments)
    next(reader)
    for action in {actions}:
        child = os.fork()
        if child == 0:
            try:
                exec(action)
            except BaseException as error:
                print(type(error).__name__, error, flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    print(sum(batch.num_rows for batch in reader))
"""


def in_forks(*actions: str) -> list[str]:
    """Return the output of forked children that run these actions, and the parent's row count."""
    return in_child(FORKING.replace("{actions}", repr(actions))).splitlines()


@needs_fork
def test_a_forked_child_can_join_and_lets_go_of_a_reader_from_before_the_fork():
    join = "print(tidegate.interval_join(table, table, **arguments).num_rows, flush=True)"
    # The parent's reader is unchanged.
    assert in_forks(join, "del reader; print('gone', flush=True)") == ["149998", "gone", "149898"]


@needs_fork
def test_a_reader_from_before_the_fork_raises():
    uses = ["next(reader)", "reader.stats()", "reader.close()", "pa.table(reader)"]
    *told, rows = in_forks(*uses)
    assert len(told) == len(uses)
    for text in told:
        assert text.startswith("ClosedError this reader was created before the process forked")
    assert rows == "149898"


def test_a_process_ends_while_a_reader_works():
    script = """
        import numpy as np, pyarrow as pa, tidegate
        hot = pa.table({"ts": np.zeros(100_000, np.int64)})
        reader = tidegate.interval_join_batches(hot, hot, on="ts", lower=0, upper=0)
        print(next(reader).num_rows > 0)
    """
    assert in_child(script) == "True\n"


DAEMONS = """
    import sys, threading, time
    import numpy as np, pyarrow as pa, tidegate as tg
    def rows(begin):
        return pa.table({"ts": np.arange(begin, begin + 200), "k": np.arange(200) % 50})
    ready = [rows(begin) for begin in range(0, 100_000, 200)]
    def operator():
        return tg.IntervalJoin(ready[0].schema, ready[0].schema, on="ts", lower=-9, upper=9)
    def feed(operator, does_poll=False):
        for one in ready * 1000:
            operator.sources[0].push(one)
            operator.sources[1].push(one)
            if does_poll:
                operator.poll()
    def join():
        while True:
            tg.interval_join(ready[0], ready[0], on="ts", lower=-9, upper=9)
    def slow(values):
        time.sleep(0.001)
        return [len(one) for one in values]
    def call():
        own = {"n": tg.agg.udf(slow, "k", pa.int64())}
        while True:
            tg.aggregate(ready[0], on="ts", size=50, aggs=own)
    operators = [operator() for _ in range(3)]
    for one in operators:
        {start}
    time.sleep(0.2)
    print("leaving")
"""
STARTS = {
    "push": "threading.Thread(target=feed, args=(one,), daemon=True).start()",
    "poll": "threading.Thread(target=feed, args=(one, True), daemon=True).start()",
    "join": "threading.Thread(target=join, daemon=True).start()",
    "own function": "threading.Thread(target=call, daemon=True).start()",
    "running": "one.running(lambda _: None).__enter__(); "
    "threading.Thread(target=feed, args=(one,), daemon=True).start()",
}


@pytest.mark.parametrize("start", STARTS)
def test_a_process_ends_while_daemon_threads_call(start):
    # Without precautions, one exit in three ends with SIGABRT.
    for _ in range(campaign.tries(4)):
        assert in_child(DAEMONS.replace("{start}", STARTS[start])) == "leaving\n"


@needs_signals
def test_a_process_waits_at_its_end_for_an_input_that_is_computed():
    # The input is generated in Python, for longer than a thread may be blocked at exit. If tidegate
    # did not wait for the thread, the process would end with SIGABRT.
    script = """
        import os, signal, threading, time
        import pyarrow as pa, tidegate
        begun = threading.Event()
        def made():
            begun.set()
            until = time.monotonic() + 4
            while time.monotonic() < until:
                pass
            yield pa.record_batch({"ts": [1]})
        def interrupt():
            begun.wait()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        stream = pa.RecordBatchReader.from_batches(pa.schema({"ts": pa.int64()}), made())
        try:
            tidegate.merge([stream], on="ts")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    assert in_child(script) == "interrupted\n"


# One reader, several threads


def table(count: int) -> pa.Table:
    return pa.table({"ts": np.arange(count), "row": np.arange(count)})


def test_threads_share_a_reader():
    left = table(20_000)
    reader = interval_join_batches(left, left, on="ts", lower=-3, upper=3, batch_rows=64)
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: list(reader), range(8)))
    together = pa.Table.from_batches([batch for part in parts for batch in part])
    whole = interval_join(left, left, on="ts", lower=-3, upper=3)
    order = [("row", "ascending"), ("row_right", "ascending")]
    oracle.assert_same(together.sort_by(order), whole.combine_chunks())
    # Each thread receives batches in the result's order.
    for part in parts:
        if part:
            assert pa.Table.from_batches(part).column("row").to_pylist() == sorted(
                pa.Table.from_batches(part).column("row").to_pylist()
            )


def test_a_reader_is_closed_while_others_read():
    left = pa.table({"ts": np.zeros(20_000, np.int64)})
    reader = interval_join_batches(left, left, on="ts", lower=0, upper=0, batch_rows=1_000)

    def read(_number: int) -> str:
        try:
            for batch in reader:
                assert batch.num_rows
        except ClosedError as error:
            return str(error)
        return "all"

    with ThreadPoolExecutor(4) as pool:
        outcomes = pool.map(read, range(4))
        next(reader)
        reader.close()
        assert set(outcomes) == {"the reader is closed"}
    reader.close()
    with pytest.raises(ClosedError, match="the reader is closed"):
        next(reader)


def test_closing_ends_the_block():
    with interval_join_batches(table(9), table(9), on="ts", lower=0, upper=0) as reader:
        pass
    with pytest.raises(ClosedError, match="the reader is closed"):
        next(reader)
    assert reader.schema.names == ["ts", "row", "ts_right", "row_right"]


def test_joins_at_once():
    left = table(50_000)
    arguments = {"on": "ts", "lower": -1, "upper": 1}
    whole = interval_join(left, left, **arguments)
    with ThreadPoolExecutor(6) as pool:
        results = pool.map(lambda n: interval_join(left, left, threads=n, **arguments), range(1, 7))
        assert all(found.equals(whole) for found in results)
