"""Measures when tidegate, Flink and Pathway emit pairs of rows that are pushed when due.

    python benches/w1s_eager_peers.py --systems "tidegate eager,tidegate in order"
    PATHWAY/bin/python benches/w1s_eager_peers.py --systems pathway
    FLINK/bin/python benches/w1s_eager_peers.py --systems "flink,flink by row"

As in `w1s_eager.py latency`, the right source lags by a second. tidegate and Flink have a lateness
of a second on both sides; Pathway waits for late rows forever. Each key has 25 rows per second and
side, so higher rates have more keys. The interval of 20 ms to either side gives a row one partner
on average. A latency is the time from the later push of a pair's rows until the sink has received
the pair. Pairs are compared with the reference before figures are printed. All systems use one
thread or a parallelism of one.

Each system runs at `--rate`, and at half of its peak. To find the peak, the rate is doubled
until the delay of pairs keeps growing.
"""

from __future__ import annotations

import argparse
import importlib
import io
import logging
import socket
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

import workload
from w1s import LATE_US
from w1s_eager import LAG, Paced, Watched, paced, spread, watched
from workload import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EACH = 25
"""The rows per second of a key on one side."""

UPPER_US = 20_000
"""The maximum distance between the rows of a pair, which gives one partner per row on average."""

LIMIT_S = 120
"""The seconds that a peer may be silent before the run fails."""

BUFFER_MS = 1
"""The time that Flink holds rows back to fill a buffer between two operators."""

COMMIT_MS = 5
"""The time that Pathway's connectors hold rows back, so that commits do not limit high rates."""

FALLING_BEHIND = 0.05
"""A rate is too high if it delays pairs by more than this share of the feed's duration."""

HALVINGS = 2
"""The number of rates to try between the last sustained rate and its double."""


@dataclass(frozen=True)
class Feed:
    """The rows that are due within some seconds at a rate."""

    sides: list[Paced]
    seconds: float

    @classmethod
    def at(cls, rate: float, seconds: float) -> Feed:
        """Return a feed whose two sides have `rate` rows per second in total."""
        keys = max(1, round(rate / 2 / EACH))
        return cls([paced(rate / 2, seconds, keys, seed) for seed in (1, 2)], seconds)

    def tables(self) -> list[pa.Table]:
        """Return the two sides with the columns of W1: key, time, then the others."""
        return [
            pa.Table.from_batches(side.pushes).select(["k", "ts", "row"]) for side in self.sides
        ]

    def check(self, name: str, found: Watched) -> None:
        """Compare the number of pairs, and a hash of both rows of each, with the reference."""
        left, right = tables = self.tables()
        expected = workload.reference(workload.Inputs(left, right, UPPER_US))
        columns = [
            column.to_numpy()[rows]
            for table, rows in zip(tables, (found.left, found.right), strict=True)
            for column in table.columns
        ]
        pairs = Fingerprint(len(found.left), workload.hash_rows(columns))
        if pairs != expected:
            sys.exit(f"{name}: expected {expected}, found {pairs}")

    def lag(self, found: Watched) -> float:
        """Return the seconds from the due time of a pair to the pair, at the end of the feed."""
        sides = zip(self.sides, (found.left, found.right), strict=True)
        left, right = (rows // side.pushes[0].num_rows * side.step for side, rows in sides)
        due = np.maximum(left, right + LAG)
        # Later pairs are emitted when the sources are closed.
        at_the_end = (due >= self.seconds - LAG / 2) & (due < self.seconds)
        return float(np.median((found.seen - due)[at_the_end]))


class Clock:
    """Pushes both sides when due, from one thread each; starts when both are ready."""

    def __init__(self, feed: Feed) -> None:
        self._sides = feed.sides
        self._start = 0.0
        self._ready = threading.Barrier(2, self._begin, LIMIT_S)
        rows = sum(batch.num_rows for batch in feed.sides[0].pushes)
        self.pushed = np.zeros((2, rows))

    def _begin(self) -> None:
        self._start = time.perf_counter()

    def now(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self._start

    def push(self, at: int, pushes: Sequence[Any], push: Callable[[Any], object]) -> None:
        """Push the rows of a side, which are prepared in the form that `push` accepts."""
        side = self._sides[at]
        each = side.pushes[0].num_rows
        self._ready.wait()
        for number, rows in enumerate(pushes):
            time.sleep(max(0.0, at * LAG + number * side.step - self.now()))
            self.pushed[at, number * each : (number + 1) * each] = self.now()
            push(rows)


def tidegate(feed: Feed, *, ordered: bool) -> Watched:
    """Run an `IntervalJoin` that one thread pushes to and polls."""
    return watched(feed.sides, UPPER_US, threads=1, ordered=ordered)


def pathway(feed: Feed) -> Watched:
    """Run an interval join of two Python connectors, which waits for late rows forever.

    A connector commits after a push, but at most every `COMMIT_MS`, because a commit costs as much
    as dozens of rows. A cutoff would cost time, and would lose pairs when one side is ahead.
    """
    pw: Any = importlib.import_module("pathway")
    logging.disable(logging.WARNING)  # it logs each commit
    pw.internals.parse_graph.G.clear()  # the tables of the previous run
    clock = Clock(feed)
    prepared = [[batch.to_pylist() for batch in side.pushes] for side in feed.sides]

    def subject(at: int) -> object:
        def run(self: Any) -> None:  # noqa: ANN401 - a class of Pathway's
            committed = -np.inf

            def push(rows: list[dict[str, int]]) -> None:
                nonlocal committed
                for row in rows:
                    self.next(**row)
                if clock.now() - committed >= COMMIT_MS / 1e3:
                    self.commit()
                    committed = clock.now()

            clock.push(at, prepared[at], push)

        return type("Side", (pw.io.python.ConnectorSubject,), {"run": run})()

    schema = pw.schema_from_types(ts=int, k=int, row=int)
    left, right = (
        pw.io.python.read(subject(at), schema=schema, autocommit_duration_ms=None) for at in (0, 1)
    )
    pairs = left.interval_join(
        right,
        left.ts,
        right.ts,
        pw.temporal.interval(-UPPER_US, UPPER_US),
        left.k == right.k,
    ).select(left=left.row, right=right.row)
    found: list[tuple[int, int, float]] = []

    def take(key: object, row: dict[str, int], time: int, is_addition: bool) -> None:  # noqa: ARG001, FBT001 - Pathway's
        if not is_addition:
            sys.exit(f"pathway: took the pair {row} back")
        found.append((row["left"], row["right"], clock.now()))

    pw.io.subscribe(pairs, on_change=take)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    rows = np.array(found, dtype=[("left", np.int64), ("right", np.int64), ("seen", float)])
    return Watched(clock.pushed, rows["left"], rows["right"], rows["seen"])


def flink(feed: Feed, buffer_ms: int) -> Watched:
    """Run an interval join in Flink SQL, with one socket per side and one for the pairs.

    Buffers between operators are flushed after `buffer_ms` or, if it is 0, after each row.
    """
    clock = Clock(feed)
    with ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        for one in listening:
            one.settimeout(LIMIT_S)
        job = flink_job([one.getsockname()[1] for one in listening], buffer_ms)
        try:
            *sources, sink = (stack.enter_context(one.accept()[0]) for one in listening)
        except TimeoutError:
            if job.done():
                job.result()  # reports why it failed
            raise
        threads = [
            threading.Thread(target=send, args=(clock, at, feed.sides[at], source))
            for at, source in enumerate(sources)
        ]
        for thread in threads:
            thread.start()
        chunks = []
        sink.settimeout(LIMIT_S)
        while chunk := sink.recv(1 << 20):
            chunks.append((clock.now(), chunk))
        for thread in threads:
            thread.join()
        job.result()
    text = b"".join(chunk for _, chunk in chunks)
    names = csv.ReadOptions(column_names=["left", "right"])
    left, right = (column.to_numpy() for column in csv.read_csv(io.BytesIO(text), names).columns)
    # A pair has arrived when the end of its line has arrived.
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    sizes = np.cumsum([len(chunk) for _, chunk in chunks])
    seen = np.array([at for at, _ in chunks])[np.searchsorted(sizes, ends, "right")]
    return Watched(clock.pushed, left, right, seen)


def send(clock: Clock, at: int, side: Paced, to: socket.socket) -> None:
    """Send the rows of a side as lines, and close."""
    lines = []
    for batch in side.pushes:
        text = io.BytesIO()
        csv.write_csv(batch, text, csv.WriteOptions(include_header=False))
        lines.append(text.getvalue())
    to.settimeout(LIMIT_S)
    to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    clock.push(at, lines, to.sendall)
    to.shutdown(socket.SHUT_RDWR)


def flink_job(ports: list[int], buffer_ms: int) -> Any:  # noqa: ANN401 - a class of Flink's
    """Start the join between the ports of left, right and sink."""
    api: Any = importlib.import_module("pyflink.table")
    streaming: Any = importlib.import_module("pyflink.datastream")
    jvm: Any = importlib.import_module("pyflink.java_gateway").get_gateway().jvm
    env = streaming.StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.set_buffer_timeout(buffer_ms)
    session = api.StreamTableEnvironment.create(env)
    session.get_config().set("table.local-time-zone", "UTC")
    session.get_config().set("table.exec.mini-batch.enabled", "false")
    ts, k, row = (f"SPLIT_INDEX(f0, ',', {at})" for at in range(3))
    ts, k = (f"CAST({text} AS BIGINT)" for text in (ts, k))
    for name, port in zip(("l", "r"), ports[:2], strict=True):
        # Flink's times are in milliseconds. They bound the state; exact times decide the matches.
        schema = (
            api.Schema.new_builder()
            .column("f0", "STRING")
            .column_by_expression("ts", ts)
            .column_by_expression("k", k)
            .column_by_expression("number", row)
            .column_by_expression("ts_ms", f"TO_TIMESTAMP_LTZ({ts} / 1000, 3)")
            .watermark("ts_ms", f"ts_ms - INTERVAL '{LATE_US // 1_000_000}' SECOND")
            .build()
        )
        lines = env._j_stream_execution_environment.socketTextStream("127.0.0.1", port)  # noqa: SLF001 - Python has no name for it
        session.create_temporary_view(name, streaming.DataStream(lines), schema)
    interval = f"INTERVAL '{UPPER_US / 1e6:.3f}' SECOND(1, 3)"
    pairs = session.sql_query(f"""
        SELECT CONCAT(l.number, ',', r.number, '\n') FROM l JOIN r ON l.k = r.k
        AND r.ts_ms BETWEEN l.ts_ms - {interval} AND l.ts_ms + {interval}
        AND r.ts BETWEEN l.ts - {UPPER_US} AND l.ts + {UPPER_US}
    """)  # noqa: S608 - a query of numbers that are ours
    text = jvm.org.apache.flink.table.api.DataTypes.STRING()
    as_text = jvm.org.apache.flink.api.common.serialization.SimpleStringSchema()
    found = session._j_tenv.toDataStream(pairs._j_table, text)  # noqa: SLF001 - as above
    found.writeToSocket("127.0.0.1", ports[2], as_text)
    return env.execute_async("w1s").get_job_execution_result()


SYSTEMS: dict[str, Callable[[Feed], Watched]] = {
    "tidegate eager": lambda feed: tidegate(feed, ordered=False),
    "tidegate in order": lambda feed: tidegate(feed, ordered=True),
    "pathway": pathway,
    "flink": lambda feed: flink(feed, BUFFER_MS),
    "flink by row": lambda feed: flink(feed, 0),
}


def run(name: str, rate: float, seconds: float) -> tuple[Feed, Watched]:
    """Run once, and check the pairs."""
    feed = Feed.at(rate, seconds)
    found = SYSTEMS[name](feed)
    feed.check(name, found)
    return feed, found


def peak(name: str, rate: float, seconds: float) -> float:
    """Return the highest rate that a system sustains, by doubling and bisection.

    A system sustains a rate if its lag at the end is about the lag at the first rate, at which it
    waits only for the lateness, if its results are ordered.
    """

    def lag(rate: float) -> float:
        feed, found = run(name, rate, seconds)
        late = feed.lag(found)
        print(f"{name} at {rate:,.0f} rows/s: {late:.3f} s behind", file=sys.stderr, flush=True)
        return late

    tolerated = FALLING_BEHIND * seconds
    first = lag(rate)
    if first > LATE_US / 1e6 + tolerated:
        sys.exit(f"{name} does not hold {rate:,.0f} rows/s: give a lower --rate")
    while lag(2 * rate) <= first + tolerated:
        rate *= 2
    step = rate
    for _ in range(HALVINGS):
        step /= 2
        if lag(rate + step) <= first + tolerated:
            rate += step
    return rate


def latencies(name: str, rate: float, options: argparse.Namespace) -> str:
    """Return table cells of rounds: pairs of the last one, and median ms with their range."""
    rounds, pairs = [], 0
    for _ in range(options.rounds):
        _, found = run(name, rate, options.seconds)
        took = found.took(LAG + options.warm_up, options.seconds)
        pairs = len(took)
        rounds.append([1e3 * np.quantile(took, share) for share in (0.5, 0.99, 1.0)])
    cells = (spread(list(values)) for values in zip(*rounds, strict=True))
    return f"{rate:,.0f} | {pairs:,} | {' | '.join(cells)}"


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--systems", default="tidegate eager,tidegate in order", help="comma-separated")
    add(
        "--rate",
        type=float,
        default=1_000,
        help="rows per second of both sides that all systems sustain",
    )
    add("--seconds", type=float, default=10, help="seconds of the feed per run")
    add("--warm-up", type=float, default=3, help="seconds after the lag that are not counted")
    add("--rounds", type=int, default=3, help="number of runs; the median counts")
    options = parser.parse_args()
    if options.seconds < LAG + options.warm_up + 1:
        parser.error("--seconds must be at least the lag, --warm-up and a second to measure")
    unknown = set(options.systems.split(",")) - set(SYSTEMS)
    if unknown:
        parser.error(f"--systems: expected some of {', '.join(SYSTEMS)}; found {unknown}")
    print("| system | peak, rows/s | rows/s of both sides | pairs | p50, ms | p99, ms | max, ms |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    for name in options.systems.split(","):
        most = peak(name, options.rate, options.seconds)
        for rate in (options.rate, most / 2):
            print(f"| {name} | {most:,.0f} | {latencies(name, rate, options)} |", flush=True)


if __name__ == "__main__":
    main()
