"""Ctrl-C while a call is working on one piece: the call ends, and no results are lost.

Calls run in separate processes, with work that would take minutes. A second thread sends SIGINT
repeatedly until the call has ended. The test measures how long the call continues after the first
signal. With less work, polls are interrupted all the time, and the result must be that of an
uninterrupted operator.
"""

import os
import subprocess
import sys
import textwrap

import pytest

import campaign

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="Windows cannot send SIGINT to a child process"
)

# In seconds: far more than an interrupted call needs on a busy machine, far less than the work.
ENDS_WITHIN = 20
PATIENCE = 120

PRELUDE = """
    import os, signal, sys, threading, time
    import numpy as np, pyarrow as pa, tidegate as tg

    def rows(count, ts=0):
        zeros = np.zeros(count, np.int64)
        return pa.table({"ts": zeros + ts, "x": np.arange(count), "k": zeros})

    def ended_within(call):
        # Returns how long `call` continued after the first SIGINT.
        sent, over, raised = [], threading.Event(), 0
        def send():
            while not over.wait(0.15):
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)
        def interrupt(_number, _frame):
            # Not immediately again: the call has ended, unless pyarrow ignored the first signal.
            nonlocal raised
            if time.monotonic() - raised > 1:
                raised = time.monotonic()
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, interrupt)
        sender = threading.Thread(target=send)
        sender.start()
        try:
            call()
        except KeyboardInterrupt:
            pass
        ended = time.monotonic()
        over.set()
        sender.join()
        assert sent, "the call ended by itself"
        return ended - sent[0]

    def drained(operator):
        found = list(iter(operator.poll, None))
        return pa.Table.from_batches(found, operator.schema)

    def drained_under_fire(operator):
        # Like `drained`, with interrupted polls; also returns the number of interruptions.
        polling = False
        def watch(_frame, event, function):
            # An interrupt between the end of a poll and the next line would lose what it returned.
            nonlocal polling
            if getattr(function, "__name__", "") == "poll":
                polling = event == "c_call"
        def interrupt(_number, _frame):
            if polling:
                raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        found, times = [], 0
        sys.setprofile(watch)
        while True:
            signal.setitimer(signal.ITIMER_REAL, 0.02 * 1.2 ** min(times, 30))
            try:
                batch = operator.poll()
            except KeyboardInterrupt:
                times += 1
                continue
            signal.setitimer(signal.ITIMER_REAL, 0)
            if batch is None:
                sys.setprofile(None)
                return pa.Table.from_batches(found, operator.schema), times
            found.append(batch)

    def fed(operator, *tables):
        for source, table in zip(operator.sources, tables):
            source.push(table)
        return operator
"""


def run(script: str) -> str:
    """Return the output of a script that runs in a separate process."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr}after\n{done.stdout}"
    return done.stdout


def times_of(output: str) -> dict[str, float]:
    """Return, by name, how long calls continued."""
    named = (line.split("=") for line in output.splitlines())
    return {name: float(time) for name, time in named}


# A scan cannot test a negated comparison, so each pair is evaluated.
SUM = "NOT left.x + right.x <= {}"
JOINS = {
    **{
        f"window {algorithm}": f"""
            tg.WindowJoin(S, S, on="ts", window=0, where=W, algorithm="{algorithm}", threads=2)
        """
        for algorithm in (
            "auto",
            "scalejoin",
            "scalejoin-gates",
            "splitjoin",
            "cell",
            "three-step",
            "handshake",
            "low-latency-handshake",
        )
    },
    "window left": """tg.WindowJoin(S, S, on="ts", window=0, where=W, how="left", threads=1)""",
    "window rows": """tg.WindowJoin(S, S, on="ts", window=tg.rows(10**6), where=W, threads=2)""",
    "window scan": """
        tg.WindowJoin(S, S, on="ts", window=0, where=W + " and left.x < right.x", threads=2)
    """,
    **{
        f"interval {parallelism}": f"""
            tg.IntervalJoin(
                S, S, on="ts", by="k", lower=0, upper=0, where=W, parallelism="{parallelism}",
                threads=2,
            )
        """
        for parallelism in ("key", "data", "scale-oij")
    },
    "interval full": """
        tg.IntervalJoin(S, S, on="ts", lower=0, upper=0, where=W, how="full", threads=1)
    """,
    "aggregates of partners": """
        tg.IntervalJoin(
            S, S, on="ts", lower=0, upper=0, where=W, aggs={"n": tg.agg.count()}, how="inner",
            threads=2,
        )
    """,
    "as of": """tg.AsofJoin(S, S, on="ts", where=W, how="inner", threads=2)""",
    **{
        f"band {algorithm}": f"""
            tg.BandJoin(
                S, S, on="k", within=0, time="ts", window=0, where=W, algorithm="{algorithm}",
                threads=2,
            )
        """
        for algorithm in ("auto", "ibwj", "ibwj-bplus-tree")
    },
}

POLLED = """
    def made(count):
        S, W = rows(0).schema, {where!r}.format(2 * count - 9)
        return eval(join, globals() | dict(S=S, W=W))

    for name, join in {joins!r}.items():
        # 1. A poll is interrupted, in the middle of one piece.
        count = 100_000
        interrupted = fed(made(count), rows(count), rows(count))
        for source in interrupted.sources:
            source.close()
        print(name, ended_within(lambda: drained(interrupted)), sep="=", flush=True)
        # 2. Each call that must wait for the work to pause is interrupted.
        interrupted.stats()
        interrupted.close()
        # 3. Work that is interrupted repeatedly is completed, without lost or duplicate rows.
        count = {rows}
        operators = [fed(made(count), rows(count), rows(count)) for _ in range(2)]
        for operator in operators:
            fed(operator, rows(9, 1), rows(count, 1))
            for source in operator.sources:
                source.close()
        expected, found = drained(operators[0]), drained_under_fire(operators[1])[0]
        assert found.num_rows > 0 and found.equals(expected), (found.num_rows, expected.num_rows)
        assert operators[1].stats()["rows_out"] == found.num_rows
"""


# Each kind runs in one process, because starting a process takes as long as most joins.
@pytest.mark.timeout(PATIENCE + 30)
@pytest.mark.parametrize("kind", ["window", "interval", "band", "a"])
def test_a_poll_is_interrupted_and_goes_on(kind):
    joins = {name: " ".join(join.split()) for name, join in JOINS.items() if name.startswith(kind)}
    count = 1_000 if campaign.ALL else 500
    lasted = times_of(run(POLLED.format(joins=joins, where=SUM, rows=count)))
    assert lasted.keys() == joins.keys()
    assert not {name: time for name, time in lasted.items() if time > ENDS_WITHIN}


# Work that cannot pause halfway starts again.
BEGUN_AGAIN = """
    T, W = rows(1_500), "NOT left.x + right.x <= 2990"
    arguments = dict(on="ts", where=W, columns=["x"])
    aggs = dict(lower=0, upper=0, aggs={"n": tg.agg.count(), "last": tg.agg.last("x")})
    for join, function, more in (
        (tg.IntervalJoin, tg.interval_join, aggs),
        (tg.AsofJoin, tg.asof_join, {}),
    ):
        operator = fed(join(T.schema, T.schema, **arguments, **more, threads=2), T, T)
        for source in operator.sources:
            source.close()
        found, times = drained_under_fire(operator)
        wanted = function(T, T, **arguments, **more)
        assert found.equals(wanted.combine_chunks()), (found.num_rows, wanted.num_rows)
        print(times)
"""


@pytest.mark.timeout(PATIENCE + 30)
def test_a_join_of_left_rows_is_interrupted_and_begins_again():
    assert all(int(times) > 0 for times in run(BEGUN_AGAIN).split())


# Each setting defines `call`, which would take far longer than the test allows, and optionally
# `check`, which is called after it.
CALLS = {
    "snapshot": """
        operator = fed(tg.WindowJoin(S, S, on="ts", window=0, where=W, threads=2), T, T)
        for source in operator.sources:
            source.close()
        call = operator.snapshot
    """,
    "snapshot of a chain": """
        arguments = dict(on="ts", window=0, where=W, algorithm="handshake", threads=2)
        operator = fed(tg.WindowJoin(S, S, **arguments), T, T)
        for source in operator.sources:
            source.close()
        call = operator.snapshot
    """,
    "iteration": """
        operator = fed(tg.WindowJoin(S, S, on="ts", window=0, where=W, threads=2), T, T)
        call = lambda: next(operator)
    """,
    "waiting": """
        operator = tg.Merge(S)
        call = lambda: next(operator)
    """,
    "waiting for another poll": """
        operator = fed(tg.WindowJoin(S, S, on="ts", window=0, where=W, threads=2), T, T)
        for source in operator.sources:
            source.close()
        polling = threading.Thread(target=lambda: drained(operator), daemon=True)
        polling.start()
        time.sleep(0.5)
        call = operator.stats
        check = lambda: (sys.stdout.flush(), os._exit(0))
    """,
    "late": """
        operator = tg.Merge(S)
        operator.sources[0].push(rows(1, 10))
        many = pa.concat_tables([rows(1) for _ in range(5_000)])
        operator.sources[0].push(many)
        # A call that ends without an interrupt is repeated.
        call = lambda: [operator.stats() for _ in iter(int, 1)]
        check = lambda: operator.late().num_rows == 5_000
    """,
    "aggregate of many": """
        operator = tg.Aggregate(S, on="ts", size=1, advance=1, aggs={"n": tg.agg.count()})
        operator.sources[0].push(pa.table({"ts": [0, 10**9], "x": [0, 0], "k": [0, 0]}))
        call = lambda: [operator.poll() for _ in iter(int, 1)]
    """,
    **{
        f"aggregate {algorithm}": f"""
            table = pa.table({{"ts": np.arange(2_000_000), "k": np.arange(2_000_000) % 50_000}})
            aggs = {{"n": tg.agg.sum("k")}}
            arguments = dict(on="ts", size=10**6, advance=100, by="k", aggs=aggs, threads=2)
            call = lambda: tg.aggregate([table, table], algorithm="{algorithm}", **arguments)
        """
        for algorithm in ("slices", "mq", "mq-lf", "tumlsc", "tumlmc", "wiml")
    },
    "sessions": """
        table = pa.table({"ts": np.arange(3_000_000)[::-1], "k": np.arange(3_000_000) % 500_000})
        arguments = dict(on="ts", session=10, by="k", aggs={"n": tg.agg.sum("k")})
        call = lambda: [tg.aggregate(table, **arguments) for _ in iter(int, 1)]
    """,
    "interval_join": """
        call = lambda: tg.interval_join(T, T, on="ts", lower=0, upper=0, where=W)
    """,
    "interval_join_batches": """
        call = lambda: list(tg.interval_join_batches(T, T, on="ts", lower=0, upper=0, where=W))
    """,
    **{
        f"window_join {algorithm}": f"""
            arguments = dict(on="ts", window=0, where=W, algorithm="{algorithm}", threads=2)
            call = lambda: tg.window_join(T, T, **arguments)
        """
        for algorithm in (
            "auto",
            "scalejoin",
            "scalejoin-gates",
            "splitjoin",
            "cell",
            "three-step",
            "handshake",
            "low-latency-handshake",
        )
    },
    **{
        f"band_join {algorithm}": f"""
            arguments = dict(on="k", within=0, where=W, algorithm="{algorithm}", threads=2)
            call = lambda: tg.band_join(T, T, **arguments)
        """
        for algorithm in ("auto", "sort", "buckets")
    },
    "overlap_join": """
        arguments = dict(on=("k", "k"), aggs={"sum": tg.agg.sum("x")})
        call = lambda: [tg.overlap_join(T, T, **arguments) for _ in iter(int, 1)]
    """,
    "overlap_join where": """
        call = lambda: tg.overlap_join(T, T, on=("k", "k"), where=W)
    """,
    "aggs of an interval": """
        aggs = {"n": tg.agg.count(), "sum": tg.agg.sum("x"), "last": tg.agg.last("x")}
        arguments = dict(on="ts", lower=-10, upper=0, prevailing=True, aggs=aggs)
        call = lambda: [tg.interval_join(T, T, **arguments) for _ in iter(int, 1)]
    """,
    "aggs of pairs": """
        call = lambda: tg.band_join(T, T, on="k", within=0, aggs={"sum": tg.agg.sum("x")})
    """,
    "aggs where": """
        arguments = dict(on="ts", lower=0, upper=0, where=W, aggs={"sum": tg.agg.sum("x")})
        call = lambda: [tg.interval_join(T, T, **arguments) for _ in iter(int, 1)]
    """,
    "asof_join": """
        call = lambda: [tg.asof_join(T, T, on="ts") for _ in iter(int, 1)]
    """,
    "asof_join where": """
        call = lambda: [tg.asof_join(T, T, on="ts", where=W) for _ in iter(int, 1)]
    """,
    "merge": """
        many = [rows(1, number) for number in range(3_000)]
        call = lambda: [tg.merge(many) for _ in iter(int, 1)]
    """,
}

ALONE = ("waiting for another poll",)

CALLED = """
    T = rows(300_000)
    S, W = T.schema, "NOT left.x + right.x <= 599990"
    for name, setting in {settings!r}.items():
        names = dict(globals(), check=None)
        exec(setting, names)
        print(name, ended_within(names["call"]), sep="=", flush=True)
        assert names["check"] is None or names["check"](), name
"""


# All settings run in one process, because starting one takes as long as all calls together.
@pytest.mark.timeout(PATIENCE + 30)
@pytest.mark.parametrize("calls", [[name] for name in ALONE] + [sorted({*CALLS} - {*ALONE})])
def test_a_call_is_interrupted(calls):
    settings = {name: textwrap.dedent(CALLS[name]) for name in calls}
    lasted = times_of(run(CALLED.format(settings=settings)))
    assert lasted.keys() == settings.keys()
    assert not {name: time for name, time in lasted.items() if time > ENDS_WITHIN}


def test_a_push_is_taken_whole_or_not_at_all():
    output = run("""
        # Small pushes: if pyarrow ignores the first interrupt, pushes continue for a second.
        many = pa.concat_tables([rows(100, ts) for ts in (3, 2, 1)])
        operator = tg.Merge(many.schema, lateness=10, threads=2)
        source = operator.sources[0]
        pushes = []
        def push():
            while True:
                source.push(many)
                pushes.append(many.num_rows)
        lasted = ended_within(push)
        # The interrupted push was either accepted or not.
        rows_in = operator.stats()["rows_in"]
        assert rows_in in (sum(pushes), sum(pushes) + many.num_rows), (rows_in, pushes)
        source.close()
        assert sum(len(batch) for batch in iter(operator.poll, None)) == rows_in
        print(lasted)
    """)
    assert float(output) < ENDS_WITHIN


def test_a_restore_is_done_whole_or_not_at_all():
    output = run("""
        def made():
            arguments = dict(on="ts", lower=-10**9, upper=0, by="x", how="left", threads=1)
            return tg.IntervalJoin(rows(0).schema, rows(0).schema, **arguments)
        operator = fed(made(), rows(500_000), rows(10, 5))
        snapshot, times = operator.snapshot(), []
        def restore():
            while True:
                restored.append(made())
                restored[-1].restore(snapshot)
        restored = []
        lasted = ended_within(restore)
        for other in restored[-1:]:
            # A join whose restoration was interrupted can be restored.
            if other.stats()["rows_in"] == 0:
                other.restore(snapshot)
            assert other.stats()["rows_in"] == 500_010
            assert other.snapshot() == snapshot
        print(lasted)
    """)
    assert float(output) < ENDS_WITHIN


def test_a_handler_that_does_not_raise_lets_calls_go_on():
    output = run("""
        T = rows(2_000)
        W = "NOT left.x + right.x <= 3990"
        expected = tg.window_join(T, T, on="ts", window=0, where=W)
        times = []
        signal.signal(signal.SIGALRM, lambda *_: times.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        for _ in range(2):
            operator = fed(tg.WindowJoin(T.schema, T.schema, on="ts", window=0, where=W), T, T)
            for source in operator.sources:
                source.close()
            found = drained(operator)
            assert found.num_rows == expected.num_rows > 0
            operator.snapshot(), operator.late()
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(len(times))
    """)
    assert int(output) > 0
