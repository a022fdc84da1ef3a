"""Window joins whose threads continue between polls: ScaleJoin between gates, handshake joins."""

import gc
import itertools
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import campaign
from tidegate import ClosedError, MemoryLimitError, TidegateError, WindowJoin, rows

pytestmark = pytest.mark.timeout(120)

PATIENCE = 60
LEFT = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.int32()), ("l", pa.int64())])
RIGHT = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.int32()), ("r", pa.string())])
NEAR = "abs(left.x - right.x) <= 2"
FREE = ["scalejoin-gates", "low-latency-handshake", "handshake"]
# The number of rows per source. The smaller number also fills windows of several hundred rows.
ROWS = 3_000 if campaign.ALL else 1_000
# The handshake join holds back pairs until later rows arrive.
PROMPT = FREE[:2]


def side(schema: pa.Schema, rng: np.random.Generator, count: int, spread: int) -> pa.Table:
    """Create rows in time order, some with nulls."""
    nulls = rng.random(count) < 0.02
    last = schema.field(3)
    own = pa.array(np.arange(count)).cast(last.type)
    return pa.Table.from_arrays(
        [
            pa.array(np.sort(rng.integers(0, count // 2, count))),
            pa.array(rng.integers(0, 5, count), mask=nulls),
            pa.array(rng.integers(0, spread, count).astype(np.int32), mask=nulls),
            own,
        ],
        schema=schema,
    )


def new(algorithm: str, **more: object) -> WindowJoin:
    query = {"on": "ts", "window": 100, "where": NEAR, "pin": False}
    return WindowJoin(LEFT, RIGHT, algorithm=algorithm, **query | more)


def table(batches: list[pa.RecordBatch], join: WindowJoin) -> pa.Table:
    return pa.Table.from_batches(batches, join.schema)


def own_threads() -> int:
    """Return the threads of this process that a join of this kind has started."""
    names = Path("/proc/self/task").glob("*/comm")
    return sum(name.read_text().startswith("tidegate-own") for name in names)


def wait_for_threads(count: int) -> None:
    """Wait until there are this many threads. A thread gets its name soon after it starts."""
    until = time.monotonic() + PATIENCE
    while own_threads() != count:
        assert time.monotonic() < until, f"{own_threads()} threads instead of {count}"
        time.sleep(0.001)


def compared(join: WindowJoin) -> int:
    return sum(join.stats()["comparisons"])


def wait_for(join: WindowJoin, count: int) -> None:
    """Wait, without polling, until this number of pairs has been compared."""
    until = time.monotonic() + PATIENCE
    while compared(join) < count:
        assert time.monotonic() < until, f"{compared(join)} of {count} pairs are compared"
        time.sleep(0.001)


# A condition without an index lookup, because the first comparison is true for all rows.
FIRST = "left.x <= right.x and left.k + right.k <= 0"


def fed(join: WindowJoin, count: int) -> int:
    """Push rows of which only the first two match, and return the number of pairs to compare."""
    numbers = np.arange(count)
    for source, schema, others in zip(join.sources, (LEFT, RIGHT), (1000, 5000), strict=True):
        x = np.where(numbers == 0, 1, others).astype(np.int32)
        own = pa.array(numbers).cast(schema.field(3).type)
        source.push(pa.Table.from_arrays([numbers, numbers, pa.array(x), own], schema=schema))
        source.close()
    return count * count


@pytest.mark.parametrize("algorithm", PROMPT)
def test_rows_are_compared_between_polls(algorithm):
    with new(algorithm, window=10**9, threads=2, where=FIRST) as join:
        pairs = fed(join, 5_000)
        batch = join.poll()
        assert batch is not None
        assert batch.num_rows == 1
        # There are no more polls.
        wait_for(join, pairs)
        assert join.poll() is None
        assert compared(join) == pairs


@pytest.mark.parametrize("algorithm", PROMPT)
def test_rows_are_compared_while_the_sink_has_a_batch(algorithm):
    with new(algorithm, window=10**9, threads=2, where=FIRST) as join:
        pairs = fed(join, 5_000)
        taken = []

        def take(batch: pa.RecordBatch) -> None:
            wait_for(join, pairs)
            taken.append(batch)

        join.run(take)
        assert table(taken, join).num_rows == 1


@pytest.mark.parametrize("algorithm", FREE)
@pytest.mark.parametrize("seed", range(campaign.tries(4)))
def test_rows_and_their_order_are_those_of_auto(seed, algorithm):
    rng, choose = np.random.default_rng(seed), random.Random(seed)  # noqa: S311 - for tests
    sources = (choose.randint(1, 3), choose.randint(1, 3))
    query = {
        "window": choose.choice([50, (300, 20), (0, 7), rows(80), (rows(1), rows(300))]),
        "where": choose.choice(
            [NEAR, None, NEAR + " and left.l % 3 <> 1", "left.k + left.x < right.x", "left.l < 9"]
        ),
        "by": choose.choice([None, "k"]),
        "how": choose.choice(["inner", "left", "right", "full", "semi", "anti"]),
        "sources": sources,
        "lateness": choose.choice([None, 5]),
    }
    tables = [
        side(schema, rng, ROWS, 60)
        for schema, count in zip((LEFT, RIGHT), sources, strict=True)
        for _ in range(count)
    ]
    pushes = []
    for number, one in enumerate(tables):
        cuts = sorted({0, one.num_rows, *rng.integers(0, one.num_rows, 12).tolist()})
        pushes += [
            (first, number, one.slice(first, last - first))
            for first, last in itertools.pairwise(cuts)
        ]
    # Sources are pushed in any order, and the rows of each source in order.
    pushes.sort(key=lambda push: (push[0], choose.random()))

    def play(join: WindowJoin, pushes: list, *, ends: bool) -> list[pa.RecordBatch]:
        found = []
        for _, number, piece in pushes:
            join.sources[number].push(piece)
            # Poll a few times, until no result is ready, or not at all.
            for _ in range(choose.choice([0, 0, 1, 2, 1000])):
                batch = join.poll()
                if batch is None:
                    break
                found.append(batch)
        if ends:
            for source in join.sources:
                source.close()
            found.extend(join)
        return found

    with new("auto", threads=1, **query) as join:
        wanted = table(play(join, pushes, ends=True), join)
    assert wanted.num_rows > 0 or query["how"] == "anti"
    threads = choose.randint(1, 8)
    with new(algorithm, threads=threads, **query) as join:
        found = table(play(join, pushes, ends=True), join)
    assert found.equals(wanted), f"{query} {threads}"
    # A snapshot halfway is restored into any algorithm, including the same one.
    cut = len(pushes) // 2
    for first, second in [(algorithm, "auto"), ("auto", algorithm), (algorithm, algorithm)]:
        with new(first, threads=3, **query) as join, new(second, threads=2, **query) as other:
            begun = play(join, pushes[:cut], ends=False)
            state = join.snapshot()
            other.restore(state)
            assert state == other.snapshot()
            ended = play(other, pushes[cut:], ends=True)
            assert table(begun + ended, join).equals(wanted), f"{query} {first} {second}"
            # The operator that made the snapshot also continues.
            ended = play(join, pushes[cut:], ends=True)
            assert table(begun + ended, join).equals(wanted), f"{query} {first} continues"


@pytest.mark.parametrize("algorithm", FREE)
@pytest.mark.parametrize("threads", [1, 3])
def test_feeders_on_threads_fill_the_memory_limit_and_wait(threads, algorithm):
    rng = np.random.default_rng(7)
    tables = [side(LEFT, rng, 20_000, 2_000), side(RIGHT, rng, 20_000, 2_000)]
    with new("auto", threads=1) as join:
        for source, one in zip(join.sources, tables, strict=True):
            source.push(one)
            source.close()
        wanted = table(list(join), join)

    def feed(join: WindowJoin, at: int) -> None:
        with join.sources[at] as source:
            # The push fits in the share of the limit that is reserved for its source.
            for first in range(0, 20_000, 200):
                source.push(tables[at].slice(first, 200), block=True)

    # The chain needs more memory per row.
    limit = 800_000 if algorithm == "scalejoin-gates" else 2_000_000
    with new(algorithm, threads=threads, memory_limit=limit) as join:
        feeders = [threading.Thread(target=feed, args=(join, at)) for at in (0, 1)]
        for feeder in feeders:
            feeder.start()
        found: list[pa.RecordBatch] = []
        join.run(found.append)
        for feeder in feeders:
            feeder.join()
        assert table(found, join).equals(wanted)
        stats = join.stats()
        assert stats["memory"] == 0
        assert stats["latency"] is not None


@pytest.mark.parametrize("algorithm", PROMPT)
@pytest.mark.parametrize("where", [NEAR, "left.x = right.x"])
def test_rows_that_leave_by_a_promise_give_their_memory_back(where, algorithm):
    with new(algorithm, window=10**6, threads=2, where=where) as join:
        rng = np.random.default_rng(1)
        for source, schema in zip(join.sources, (LEFT, RIGHT), strict=True):
            source.push(side(schema, rng, 20_000, 10**6))
            source.advance(10**5)
        while join.poll() is not None:
            pass
        full = join.stats()["state_bytes"]
        assert full > 40_000 * 8
        for source in join.sources:
            source.advance(10**7)
        assert join.poll() is None
        # The threads notice this and report the memory that they use.
        until = time.monotonic() + PATIENCE
        while join.stats()["state_bytes"] > full / 4:
            assert time.monotonic() < until, join.stats()
            time.sleep(0.001)
        assert join.stats()["state_rows"] == 0


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not list threads")
@pytest.mark.parametrize("algorithm", FREE)
@pytest.mark.parametrize("how", ["close", "drop", "with", "error"])
def test_no_thread_outlives_the_operator(how, algorithm):
    gc.collect()
    before = own_threads()
    window = rows(1) if algorithm == "handshake" else 10**9
    join = new(algorithm, window=window, threads=3, where=NEAR + " and 1 / left.l >= 0")
    wait_for_threads(before + 3)
    fed(join, 3_000)
    if how == "error":
        # The first pair divides by zero, and the error persists.
        for _ in range(2):
            with pytest.raises(TidegateError, match=r"[Dd]ivide"):
                join.poll()
        join.close()
    elif how == "close":
        # Some rows are still in transit.
        join.close()
        with pytest.raises(ClosedError):
            join.poll()
    elif how == "with":
        with join:
            pass
    del join
    gc.collect()
    wait_for_threads(before)


@pytest.mark.parametrize("algorithm", FREE)
def test_a_source_that_finds_no_room_is_told(algorithm):
    with new(algorithm, window=10**9, threads=2, memory_limit=100_000) as join:
        rng = np.random.default_rng(1)
        with pytest.raises(MemoryLimitError, match="memory_limit = 100000"):
            join.sources[0].push(side(LEFT, rng, 20_000, 10))


def run(script: str, algorithm: str) -> str:
    prelude = """
        import os, signal, threading
        import numpy as np
        import pyarrow as pa
        import tidegate as tg
        T = pa.table({"ts": np.arange(40_000) // 4, "x": np.arange(40_000) % 997})
        def new(algorithm, **more):
            join = tg.WindowJoin(
                T.schema, T.schema, on="ts", algorithm=algorithm,
                **{"where": "left.x = right.x", "threads": 2, "window": 500} | more,
            )
            for source in join.sources:
                source.push(T)
                source.close()
            return join
    """
    script = f"ALGORITHM = {algorithm!r}\n" + textwrap.dedent(prelude) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr}after\n{done.stdout}"
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("algorithm", FREE)
def test_a_child_lets_the_threads_be_and_makes_its_own(algorithm):
    script = """
        join = new(ALGORITHM)
        first = join.poll().num_rows
        child = os.fork()
        if child == 0:
            try:
                join.poll()
            except tg.ClosedError:
                pass
            else:
                os._exit(1)
            # The child does not wait for threads that it does not have.
            del join
            own = new(ALGORITHM)
            rows = sum(batch.num_rows for batch in own)
            del own
            os._exit(0 if rows > 0 else 2)
        assert os.waitpid(child, 0)[1] == 0
        rest = sum(batch.num_rows for batch in join)
        print(first + rest == sum(batch.num_rows for batch in new("auto")))
    """
    assert run(script, algorithm) == "True\n"


@pytest.mark.parametrize("algorithm", FREE)
def test_a_signal_ends_a_poll_and_nothing_is_lost(algorithm):
    script = """
        def broken(signum, frame):
            raise InterruptedError("a signal")

        signal.signal(signal.SIGUSR1, broken)
        # One processor compares 1600 million pairs, which makes polls wait.
        where = "left.x <= right.x + 2000 and left.x + right.x <= 2"
        join = new(ALGORITHM, window=10**9, threads=1, where=where)
        begun, over, main = threading.Event(), threading.Event(), threading.main_thread().ident
        def interrupt():
            begun.wait()
            while not over.wait(0.01):
                signal.pthread_kill(main, signal.SIGUSR1)
        thread = threading.Thread(target=interrupt)
        thread.start()
        batches, interrupted, ended = [], 0, False
        while not ended:
            try:
                begun.set()  # not earlier: no signal may arrive while the thread starts
                while (batch := join.poll()) is not None:
                    batches.append(batch)
                ended = True
            except InterruptedError:
                interrupted += 1
                if interrupted == 5:
                    over.set()
        while True:
            try:
                over.set()
                thread.join()
                break
            except InterruptedError:
                pass
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        batches.extend(join)
        wanted = pa.Table.from_batches(list(new("auto", window=10**9, where=where)))
        print(interrupted > 0, pa.Table.from_batches(batches).equals(wanted))
    """
    assert run(script, algorithm) == "True True\n"


@pytest.mark.parametrize("algorithm", FREE)
def test_an_interpreter_ends_while_threads_are_at_work(algorithm):
    script = """
        join = new(ALGORITHM, window=500 if ALGORITHM == "handshake" else 10**9)
        print(join.poll() is not None)
    """
    assert run(script, algorithm) == "True\n"
