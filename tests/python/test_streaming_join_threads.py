"""The streaming join with threads, signals and forks."""

import contextlib
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

from test_streaming_join_sources import LEFT, QUERY, new
from tidegate import ClosedError, MemoryLimitError, interval_join

# Far longer than any of these tests takes.
PATIENCE = 60


# Threads


def test_threads_feed_and_threads_take() -> None:
    count, sides = 8_000, 3
    join = new(sources=(sides, sides), lower=0, upper=0, threads=3)

    def feed(number: int) -> None:
        name, extra = ("l", {}) if number < sides else ("r", {"extra": None})
        with join.sources[number] as source:
            for first in range(0, count, 300):
                ts = np.arange(first, min(first + 300, count))
                columns = {"ts": ts, "k": ["a"] * len(ts), name: ts * sides + number % sides}
                columns |= {"extra": np.zeros(len(ts))} if extra else {}
                source.push(pa.table(columns))

    def take(_number: int) -> list[list[tuple[int, int]]]:
        return [list(zip(b["r"].to_pylist(), b["l"].to_pylist(), strict=True)) for b in join]

    with ThreadPoolExecutor(2 * sides + 3) as pool:
        takers = [pool.submit(take, number) for number in range(3)]
        for feeding in [pool.submit(feed, number) for number in range(2 * sides)]:
            feeding.result(PATIENCE)
        parts = [taker.result(PATIENCE) for taker in takers]
    # Across threads, each pair was received once, and each thread received its batches in order.
    batches = sorted(batch for part in parts for batch in part)
    wanted = [
        (ts * sides + b, ts * sides + a)
        for ts in range(count)
        for b in range(sides)
        for a in range(sides)
    ]
    assert [pair for batch in batches for pair in batch] == wanted


class Death(Exception):  # noqa: N818 - not an error
    """Ends a feeder in the middle of its rows."""


def test_sources_stall_die_and_flood() -> None:
    rows, piece, (dying, flooding, stalling) = 4_000, 100, (1, 2, 3)
    join = new(sources=(2, 2), how="full", threads=2, memory_limit=1_500_000)

    def rows_of(number: int, first: int, last: int) -> pa.Table:
        ts = np.arange(first, last)
        columns = {"ts": ts, "k": ["a"] * len(ts), "l" if number < 2 else "r": 4 * ts + number}
        return pa.table(columns | ({} if number < 2 else {"extra": np.zeros(len(ts))}))

    def feed(number: int) -> None:
        source = join.sources[number]
        try:
            for first in range(0, rows, piece):
                if first == rows // 2:
                    if number == dying:
                        raise Death
                    threading.Event().wait(0.2 if number == stalling else 0)
                table, taken = rows_of(number, first, first + piece), False
                while not taken:
                    try:
                        source.push(table)
                        taken = True
                    except MemoryLimitError:
                        # There is room for all rows except the late ones, which are being fetched.
                        threading.Event().wait(0.001)
                for _ in range(20 if number == flooding else 0):
                    # These rows of the piece, all except the last, are late now.
                    with contextlib.suppress(MemoryLimitError):
                        source.push(table[:-1])
        finally:
            # No more rows follow, also from the feeder that failed.
            source.close()

    late, batches = 0, []
    with ThreadPoolExecutor(4) as pool:
        feeding = [pool.submit(feed, number) for number in range(4)]
        while not all(feeder.done() for feeder in feeding):
            batches.extend(iter(join.poll, None))
            # Late rows count towards the limit until they are fetched.
            late += join.late().num_rows
        ends = [type(feeder.exception(PATIENCE)) for feeder in feeding]
    assert ends == [type(None), Death, type(None), type(None)]
    left = pa.concat_tables([rows_of(0, 0, rows), rows_of(dying, 0, rows // 2)])
    right = pa.concat_tables([rows_of(flooding, 0, rows), rows_of(stalling, 0, rows)])
    wanted = interval_join(left, right, **QUERY, how="full")
    by = [("l", "ascending"), ("r", "ascending")]
    batches.extend(join)
    assert pa.Table.from_batches(batches).sort_by(by).equals(wanted.sort_by(by))
    stats = join.stats()
    late += join.late().num_rows
    assert stats["rows_late"] == late > 0
    assert stats["rows_used"] == left.num_rows + right.num_rows
    assert stats["rows_in"] == stats["rows_used"] + late


def test_an_iterator_wakes_when_a_source_speaks() -> None:
    join = new(how="left")
    left, other = join.sources
    left.push(LEFT)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, join)
        assert not waiting.done()
        other.advance(4)
        assert waiting.result(PATIENCE)["l"].to_pylist() == [1]
        waiting = pool.submit(list, join)
        left.close()
        other.close()
        assert [row for batch in waiting.result(PATIENCE) for row in batch["l"].to_pylist()] == (
            [2, 3]
        )


def test_closing_ends_the_wait_of_others() -> None:
    join = new()
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(next, join) for _ in range(2)]
        threading.Event().wait(0.05)
        join.close()
        for one in waiting:
            with pytest.raises(ClosedError, match="the join is closed"):
                one.result(PATIENCE)


# Signals and forks


@pytest.mark.skipif(os.name != "posix", reason="Windows cannot send SIGINT to a child process")
def test_ctrl_c_ends_the_wait_for_a_source() -> None:
    script = """
        import pyarrow as pa, tidegate
        schema = pa.schema([("ts", pa.int64())])
        join = tidegate.IntervalJoin(schema, schema, on="ts", lower=0, upper=0)
        print("ready", flush=True)
        try:
            next(join)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        for source in join.sources:
            source.push(pa.table({"ts": [1]}))
            source.close()
        print(join.poll().num_rows)
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
    of_join = ["join.poll()", "next(join)", "join.late()", "join.stats()", "join.sources"]
    of_join += ["join.left_sources", "join.close()"]
    of_source = ["source.push(table)", "source.advance(5)", "source.close()"]
    script = f"""
        import os
        import pyarrow as pa, tidegate
        table = pa.table({{"ts": range(100_000)}})
        query = dict(on="ts", lower=0, upper=0, threads=3)
        join = tidegate.IntervalJoin(table.schema, table.schema, **query)
        source, other = join.sources
        source.push(table)
        other.push(table)
        first = join.poll().num_rows
        for action in {of_join + of_source}:
            if os.fork() == 0:
                try:
                    exec(action)
                except tidegate.ClosedError as error:
                    print(error, flush=True)
                del source, other, join
                print(tidegate.interval_join(table, table, **query).num_rows, flush=True)
                os._exit(0)
            os.wait()
        source.close()
        other.close()
        print(first + sum(batch.num_rows for batch in join))
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    told = (
        "this {} was created before the process forked; create one in the child process\n100000\n"
    )
    wanted = told.format("join") * len(of_join) + told.format("source") * len(of_source)
    assert done.stdout == wanted + "100000\n", done.stdout + done.stderr
