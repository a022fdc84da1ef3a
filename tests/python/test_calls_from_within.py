"""A function that an operator or reader runs cannot call that object: the call fails at once."""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg

ROWS = pa.table({"ts": np.arange(3000), "x": np.arange(3000) * 0.5})
MESSAGE = "is called by a function or stream that it waits for"
needs_signals = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="the system has no interval timers"
)

Call = Callable[[], object]


def directly(call: Call) -> object:
    return call()


def in_thread(call: Call) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def in_pool(call: Call) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


WAYS = [directly, in_thread, in_pool]


class Within:
    """A function for `agg.udf` that calls its object and records the errors raised."""

    def __init__(self, way: Callable[[Call], object], call: Callable[[object], object]) -> None:
        self.object: object = None
        self.way = way
        self.call = call
        self.refused: list[str] = []
        self.answered = 0

    def __call__(self, values: pa.Array) -> list[int]:
        if self.answered + len(self.refused) < 2:
            self.way(self._once)
        return [len(one) for one in values]

    def _once(self) -> None:
        try:
            self.call(self.object)
        except tg.TidegateError as error:
            self.refused.append(str(error))
        else:
            self.answered += 1

    @property
    def aggs(self) -> dict[str, tg.agg.Aggregate]:
        return {"n": tg.agg.udf(self, "x", pa.int64())}


OPERATORS: dict[str, Callable[..., tg.Operator]] = {
    "Aggregate": lambda **more: tg.Aggregate(ROWS.schema, on="ts", size=10, **more),
    "IntervalJoin": lambda **more: tg.IntervalJoin(
        ROWS.schema, ROWS.schema, on="ts", lower=0, upper=3, **more
    ),
    "WindowJoin": lambda **more: tg.WindowJoin(ROWS.schema, ROWS.schema, on="ts", window=3, **more),
}
CALLS: dict[str, Callable[..., object]] = {
    "next": next,
    "poll": lambda operator: operator.poll(),
    "stats": lambda operator: operator.stats(),
    "snapshot": lambda operator: operator.snapshot(),
    "late": lambda operator: operator.late(),
    "explain": lambda operator: operator.explain(),
    "promised": lambda operator: operator.promised,
    "add_source": lambda operator: operator.add_source(side=None),
    "close": lambda operator: operator.close(),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_that_its_own_function_calls(name, call, way, threads):
    within = Within(way, CALLS[call])
    operator = OPERATORS[name](aggs=within.aggs, threads=threads)
    within.object = operator
    for source in operator.sources:
        source.push(ROWS)
        source.close()
    rows = sum(batch.num_rows for batch in operator)
    assert rows == (300 if name == "Aggregate" else 3000)
    assert within.refused
    assert within.answered == 0
    assert all(MESSAGE in text for text in within.refused)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("limit", [{}, {"memory_limit": "512MB"}], ids=["whole", "within"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_a_reader_that_its_own_function_reads(way, threads, limit):
    taken: list[int] = []
    within = Within(way, lambda reader: taken.append(next(reader).num_rows))
    reader = tg.interval_join_batches(
        ROWS, ROWS, on="ts", lower=0, upper=3, aggs=within.aggs, batch_rows=500, threads=threads,
        **limit,
    )  # fmt: skip
    within.object = reader
    # Another thread may receive a batch that is ready.
    assert sum(batch.num_rows for batch in reader) + sum(taken) == 3000
    assert within.refused or way is not directly
    assert not taken or way is not directly


@pytest.mark.timeout(60)
def test_a_function_may_use_other_operators_and_push_into_its_own():
    other = tg.Merge(ROWS.schema)

    def use(operator: tg.Operator) -> None:
        operator.sources[0].push(ROWS.slice(2999))
        other.stats()

    within = Within(directly, use)
    operator = tg.Aggregate(ROWS.schema, on="ts", size=10, aggs=within.aggs)
    within.object = operator
    operator.sources[0].push(ROWS)
    while operator.poll() is not None:
        pass
    assert within.answered > 0
    assert within.refused == []


@needs_signals
@pytest.mark.timeout(60)
def test_a_signal_handler_asks_an_operator_whose_late_rows_are_made():
    operator = tg.Merge(ROWS.schema, lateness=0)
    operator.sources[0].push([(10**9, 0.0)])
    late = pa.table({"ts": np.arange(200_000), "x": np.zeros(200_000)})
    for _ in range(40):
        operator.sources[0].push(late)
    asked = []
    before = signal.signal(signal.SIGALRM, lambda *_: asked.append(operator.stats()["rows_late"]))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        found = operator.late()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert found.num_rows == 8_000_000
    assert asked
    assert set(asked) == {8_000_000}
    assert operator.late().num_rows == 0


@pytest.mark.timeout(60)
def test_late_rows_are_given_to_one_of_the_threads_that_ask():
    operator = tg.Merge(ROWS.schema, lateness=0)
    operator.sources[0].push([(10**9, 0.0)])
    found: list[int] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            found.append(operator.late().num_rows)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        operator.sources[0].push(ROWS)
    over.set()
    for thread in threads:
        thread.join()
    assert sum(found) + operator.late().num_rows == 200 * 3000
