"""The state of an operator after one of its calls has failed halfway.

Each memory request is refused once, in turn, and each user function and sink raises once. A failed
call accepts no rows and loses none. Once the call is repeated, the result is the same as that of a
run without failures, and contains each row exactly once.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tidegate as tg
from cases import more
from tidegate import Operator, TidegateError

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        not hasattr(Operator, "_refuse_memory"), reason="only builds with checks can refuse memory"
    ),
]

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("k", pa.dictionary(pa.int8(), pa.string())),
        ("x", pa.int64()),
    ]
)
OTHER = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("y", pa.int64())])
RUNS_AT_MOST = 400
# More than the requests for memory that a snapshot of these few rows makes.
SNAPSHOT_REQUESTS = 60


def rows(*times: int, schema: pa.Schema = SCHEMA) -> pa.Table:
    """One row per time; its key and value are derived from the time."""
    keys = pa.array([f"k{ts % 3}" for ts in times]).cast(schema.field("k").type)
    return pa.table([pa.array(times, pa.int64()), keys, [10 * ts for ts in times]], schema=schema)


def merge() -> Operator[Any]:
    return tg.Merge(SCHEMA, lateness=5, sources=2, threads=1)


def sorted_merge() -> Operator[Any]:
    return tg.Merge(SCHEMA, sources=2, threads=1)


def interval_join(**others: Any) -> Operator[Any]:
    return tg.IntervalJoin(
        SCHEMA, OTHER, on="ts", by="k", lower=-9, upper=9, lateness=5, threads=1, **others
    )


def eager_join() -> Operator[Any]:
    return interval_join(ordered=False, how="left")


def left_join() -> Operator[Any]:
    return interval_join(how="left")


def window_join(**others: Any) -> Operator[Any]:
    return tg.WindowJoin(SCHEMA, OTHER, on="ts", window=9, lateness=5, threads=1, **others)


def eager_window_join() -> Operator[Any]:
    return window_join(ordered=False)


def band_join(**others: Any) -> Operator[Any]:
    return tg.BandJoin(
        SCHEMA,
        OTHER,
        on=[("x", "y")],
        within=90,
        time="ts",
        window=9,
        lateness=5,
        threads=1,
        **others,
    )


def eager_band_join() -> Operator[Any]:
    return band_join(ordered=False, how="full")


def asof_join() -> Operator[Any]:
    return tg.AsofJoin(SCHEMA, OTHER, on="ts", by="k", lateness=5, threads=1)


def partners() -> Operator[Any]:
    return interval_join(aggs={"n": tg.agg.count(), "y": tg.agg.sum("y")})


def aggregate() -> Operator[Any]:
    aggs = {"n": tg.agg.count(), "x": tg.agg.sum("x"), "last": tg.agg.last("x")}
    return tg.Aggregate(
        SCHEMA, on="ts", by="k", size=10, aggs=aggs, lateness=5, sources=2, threads=1
    )


def chosen_rows() -> Operator[Any]:
    aggs = {"first": tg.agg.first("k"), "most": tg.agg.arg_max("k", "x")}
    return tg.Aggregate(
        SCHEMA, on="ts", by="k", size=10, aggs=aggs, lateness=5, sources=2, threads=1
    )


def medians() -> Operator[Any]:
    aggs = {"x": tg.agg.median("x")}
    return tg.Aggregate(
        SCHEMA, on="ts", by="k", size=10, aggs=aggs, lateness=5, sources=2, threads=1
    )


OPERATORS = [
    merge,
    sorted_merge,
    interval_join,
    eager_join,
    left_join,
    window_join,
    eager_window_join,
    band_join,
    eager_band_join,
    asof_join,
    partners,
    aggregate,
    chosen_rows,
    medians,
]
# Operators whose polls can always be repeated after a failure, because they still hold the rows.
REPEATED = [merge, sorted_merge]


def second(operator: Operator[Any]) -> pa.Schema:
    return SCHEMA if isinstance(operator, tg.Merge | tg.Aggregate) else OTHER


def calls(operator: Operator[Any]) -> list[Callable[[], object]]:
    """Calls on the sources; some push late rows, and others idle, advance or close a source."""
    one, other = operator.sources
    schema = second(operator)
    return [
        lambda: one.push(rows(12, 9, 14, 10)),
        lambda: other.push(rows(3, 8, 11, schema=schema)),
        lambda: one.push(rows(20, 17, 2, 18, 40, 36)),
        other.idle,
        lambda: one.advance(38),
        lambda: other.push(rows(39, 44, 7, 41, schema=schema)),
        lambda: other.advance(43),
        lambda: one.push(rows(50, 60, 49, 57)),
        one.close,
        lambda: other.push(rows(45, 62, schema=schema)),
        other.close,
    ]


def taken(operator: Operator[Any], found: list[Any]) -> None:
    while (batch := operator.poll()) is not None:
        found.extend(map(str, batch.to_pylist()))


def polled(operator: Operator[Any]) -> list[dict[str, Any]]:
    batches = iter(operator.poll, None)
    return [row for batch in batches for row in batch.to_pylist()]


def outcome(operator: Operator[Any], found: list[Any]) -> tuple[object, ...]:
    stats = operator.stats()
    assert stats["rows_in"] == stats["rows_used"] + stats["rows_late"]
    assert stats["rows_out"] == len(found)
    late = operator.late().to_pylist()
    assert len(late) == stats["rows_late"]
    numbers = [stats[name] for name in ("rows_in", "rows_late", "rows_out")]
    # Without an order, rows are emitted as soon as they are found.
    is_ordered = "eager" not in operator.explain()
    return numbers, found if is_ordered else sorted(found), late


def undisturbed(make: Callable[[], Operator[Any]]) -> tuple[object, ...]:
    operator, found = make(), []
    for call in calls(operator):
        call()
    taken(operator, found)
    return outcome(operator, found)


def steady(stats: Any) -> dict[str, object]:
    """The statistics that do not depend on the clock."""
    return {name: value for name, value in stats.items() if name != "waiting"}


def refused(after: int, call: Callable[[], object]) -> bool:
    """Whether the call runs out of memory if the request after `after` others is refused."""
    Operator._refuse_memory(after)
    try:
        call()
    except tg.MemoryLimitError:
        return True
    finally:
        Operator._refuse_memory(None)
    return False


@pytest.mark.parametrize("make", OPERATORS)
def test_a_call_of_a_source_that_finds_no_memory_has_changed_nothing(make):
    expected, failures = undisturbed(make), 0
    for after in range(RUNS_AT_MOST):
        operator, found, fails = make(), [], 0
        for call in calls(operator):
            before = operator.stats()
            if refused(after, call):
                fails += 1
                assert steady(operator.stats()) == steady(before)
                call()
        taken(operator, found)
        assert outcome(operator, found) == expected
        failures += fails
        if fails == 0:
            break
    assert failures > 20


def has_ended(operator: Operator[Any], found: list[Any]) -> bool:
    """Whether the operator cannot continue; if so, every later call reports this."""
    before = operator.stats()["rows_in"]
    try:
        taken(operator, found)
    except tg.MemoryLimitError:
        pass
    else:
        return False
    with pytest.raises(
        tg.MemoryLimitError, match="cannot continue; create a new one, and restore a"
    ):
        operator.snapshot()
    for call in (calls(operator)[-2], partial(operator.sources[1].advance, 90)):
        with pytest.raises(tg.MemoryLimitError, match="while the operator is halted"):
            call()
    assert operator.stats()["rows_in"] == before
    assert operator.late().num_rows == operator.stats()["rows_late"]
    return True


@pytest.mark.parametrize("make", OPERATORS)
def test_a_poll_that_finds_no_memory_loses_no_row_or_says_so_at_every_call(make):
    expected, failures = undisturbed(make), 0
    for after in range(RUNS_AT_MOST):
        operator, found = make(), []
        for call in calls(operator)[:-2]:
            call()
        if not refused(after, partial(taken, operator, found)):
            break
        failures += 1
        if make not in REPEATED and has_ended(operator, found):
            continue
        for call in calls(operator)[-2:]:
            call()
        taken(operator, found)
        assert outcome(operator, found) == expected
    assert failures > 0


@pytest.mark.parametrize("make", OPERATORS)
def test_a_snapshot_and_late_rows_that_find_no_memory_can_be_asked_for_again(make):
    operator = make()
    for call in calls(operator)[:-2]:
        call()
    saved = operator.snapshot()
    # A request whose refusal has no effect, such as one for spare memory, may precede the others.
    assert sum(refused(after, operator.snapshot) for after in range(SNAPSHOT_REQUESTS)) > 5
    for after in range(5):
        again = make()
        again.restore(saved)
        # Joins that have only one piece of late rows per side need no memory to return them.
        if refused(after, again.late):
            assert again.late().num_rows == again.stats()["rows_late"] > 0
    operator.late()
    again = make()
    again.restore(saved)
    found: list[Any] = []
    for call in calls(again)[-2:]:
        call()
    taken(again, found)
    assert outcome(again, found) == undisturbed(make)
    # The operator itself also continues; its late rows have already been returned.
    found = []
    for call in calls(operator)[-2:]:
        call()
    taken(operator, found)
    assert sorted(found) == sorted(undisturbed(make)[1])


@pytest.mark.parametrize("make", OPERATORS)
@pytest.mark.parametrize("pushes", [5, 9, *more(2, 8)])
def test_an_operator_whose_snapshot_finds_no_memory_goes_on_as_if_nothing_had_been_asked(
    make, pushes
):
    expected, failures = undisturbed(make), 0
    for after in range(SNAPSHOT_REQUESTS):
        operator, found = make(), []
        for call in calls(operator)[:pushes]:
            call()
        taken(operator, found)
        failures += refused(after, operator.snapshot)
        for call in calls(operator)[pushes:]:
            call()
        taken(operator, found)
        assert outcome(operator, found) == expected
    assert failures > 5


@pytest.mark.parametrize("make", OPERATORS)
def test_an_operator_whose_restore_finds_no_memory_is_as_it_was_or_closed(make):
    operator = make()
    for call in calls(operator)[:-2]:
        call()
    saved = operator.snapshot()
    for after in range(RUNS_AT_MOST):
        again, found = make(), []
        fails = refused(after, partial(again.restore, saved))
        try:
            if fails:
                again.restore(saved)
        except tg.ClosedError:
            continue
        for call in calls(again)[-2:]:
            call()
        taken(again, found)
        assert outcome(again, found) == undisturbed(make)
        if not fails:
            break
    assert after > 5


def categorical(first: int, times: range) -> pd.DataFrame:
    words = pd.Categorical([f"S{first + at}" for at in range(len(times))])
    return pd.DataFrame({"ts": list(times), "word": words})


@pytest.mark.parametrize("lateness", [None, 60, 10**6])
def test_categoricals_whose_values_together_have_no_indices_come_out_in_short_batches(lateness):
    schema = pa.Schema.from_pandas(categorical(0, range(100)), preserve_index=False)
    assert schema.field("word").type.index_type == pa.int8()
    operator = tg.Merge(schema, lateness=lateness, sources=2, threads=1)
    pushed = []
    for step in range(4):
        for number, source in enumerate(operator.sources):
            frame = categorical(1000 * step + 100 * number, range(100 * step, 100 * step + 100))
            source.push(frame)
            pushed += [(row.ts, number, row.word) for row in frame.itertuples()]
    if (batch := operator.poll()) is not None:
        operator._take_back(batch)
    saved = operator.snapshot()
    again = tg.Merge(schema, lateness=lateness, sources=2, threads=1)
    again.restore(saved)
    for merged in (operator, again):
        for source in merged.sources:
            source.close()
        batches = list(merged)
        assert batches
        assert all(batch.schema.equals(merged.schema, check_metadata=True) for batch in batches)
        assert merged.schema.field("word").type == schema.field("word").type
        found = [(row["ts"], row["word"]) for batch in batches for row in batch.to_pylist()]
        assert found == [(ts, word) for ts, _, word in sorted(pushed)]


def test_categoricals_of_both_sides_of_a_join_and_of_the_keys_of_an_aggregation():
    frames = [categorical(100 * step, range(50 * step, 50 * step + 100)) for step in range(4)]
    schema = pa.Schema.from_pandas(frames[0], preserve_index=False)
    plain = [
        pa.table({"ts": frame["ts"].tolist(), "word": frame["word"].astype(str).tolist()})
        for frame in frames
    ]
    whole = pa.concat_tables(plain)
    near = {"on": "ts", "lower": -5, "upper": 0}
    expected = tg.interval_join(whole, whole, **near)
    join = tg.IntervalJoin(schema, schema, **near, lateness=60)
    for frame in frames:
        for source in join.sources:
            source.push(frame)
    for source in join.sources:
        source.close()
    found = sum(batch.num_rows for batch in join)
    assert join.stats()["rows_late"] == 0
    assert found == expected.num_rows
    totals = tg.Aggregate(schema, on="ts", by="word", size=1000, aggs={"n": tg.agg.count()})
    for step in range(3):
        totals.sources[0].push(categorical(100 * step, range(100 * step, 100 * step + 100)))
    totals.sources[0].close()
    words = [row["word"] for batch in totals for row in batch.to_pylist()]
    assert words == sorted(f"S{at}" for at in range(300))


class DiskFullError(OSError):
    """The error raised by a sink."""


def late_merge() -> Operator[Any]:
    operator = tg.Merge(pa.schema({"ts": pa.int64()}))
    operator.sources[0].push([{"ts": 100}])
    operator.sources[0].push([{"ts": ts} for ts in (1, 2, 3)])
    return operator


def raises(rows: pa.Table) -> None:
    assert rows["ts"].to_pylist() == [1, 2, 3]
    raise DiskFullError


def run_within_block(operator: Operator[Any], late: Callable[[pa.Table], None]) -> None:
    with operator.running(print, late=late):
        pass


def run_here(operator: Operator[Any], late: Callable[[pa.Table], None]) -> None:
    operator.sources[0].close()
    operator.run(print, late=late)


@pytest.mark.parametrize("run", [run_within_block, run_here])
def test_late_rows_whose_function_raises_are_the_operators_again(run):
    operator = late_merge()
    with pytest.raises(DiskFullError):
        run(operator, raises)
    assert operator.stats()["rows_late"] == 3
    again = late_merge()
    with pytest.raises(DiskFullError):
        run(again, raises)
    found: list[pa.Table] = []
    run(again, found.append)
    assert [row["ts"] for table in found for row in table.to_pylist()] == [1, 2, 3]
    assert again.late().num_rows == 0
    assert operator.late()["late_position"].to_pylist() == [1, 2, 3]
    assert operator.late().num_rows == 0


def test_late_rows_that_come_while_the_function_has_others_stay_behind_them():
    operator = late_merge()

    def late(rows: pa.Table) -> None:
        operator.sources[0].push([{"ts": 4}])
        assert operator.late()["ts"].to_pylist() == [4]
        operator.sources[0].push([{"ts": 5}])
        raise DiskFullError

    with pytest.raises(DiskFullError), operator.running(print, late=late) as running:
        running.wait()
    assert operator.late()["ts"].to_pylist() == [1, 2, 3, 5]


def test_a_snapshot_has_the_late_rows_that_a_function_has_been_given():
    operator, saved = late_merge(), []

    def late(rows: pa.Table) -> None:
        saved.append(operator.snapshot())
        raise DiskFullError

    with pytest.raises(DiskFullError):
        run_within_block(operator, late)
    again = tg.Merge(pa.schema({"ts": pa.int64()}))
    again.restore(saved[0])
    assert again.late()["ts"].to_pylist() == [1, 2, 3]


NUMBERS = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
DIVIDED = "left.x / right.x > 0"


def numbers(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table(list(zip(*pairs, strict=True)), schema=NUMBERS)


def near_join(**others: Any) -> Operator[Any]:
    return tg.IntervalJoin(NUMBERS, NUMBERS, on="ts", lower=0, upper=0, **others)


POISONED = {
    "interval": lambda: near_join(where=DIVIDED),
    "eager": lambda: near_join(where=DIVIDED, ordered=False),
    "overflow": lambda: near_join(where="left.x + 9223372036854775807 / right.x >= 0"),
    "window": lambda: tg.WindowJoin(NUMBERS, NUMBERS, on="ts", window=0, where=DIVIDED),
    "band": lambda: tg.BandJoin(
        NUMBERS, NUMBERS, on="ts", within=0, time="ts", window=0, where=DIVIDED
    ),
    "asof": lambda: tg.AsofJoin(NUMBERS, NUMBERS, on="ts", tolerance=0, how="inner", where=DIVIDED),
    "partners": lambda: near_join(where=DIVIDED, how="inner", aggs={"n": tg.agg.count()}),
}


@pytest.mark.parametrize("kind", POISONED)
def test_a_pair_without_a_value_is_named_and_can_be_left_out(kind):
    join = POISONED[kind]()
    left, right = join.sources
    left.push(numbers((1, 10), (2, 20), (3, 30)))
    right.push(numbers((1, 5), (2, 0), (3, 5)))
    for source in (left, right):
        source.advance(100)
    # 1. The operator is halted, and every call reports it.
    for ask in (join.poll, join.poll, join.snapshot):
        with pytest.raises(TidegateError, match=r"right\.x = 0; no rows are lost, and skip\(\)"):
            ask()
    for tell in (lambda: left.push(numbers((200, 1))), lambda: left.advance(200)):
        with pytest.raises(
            TidegateError, match=r"left source 0: no rows are accepted.*right\.x = 0"
        ):
            tell()
    assert join.stats()["rows_in"] == 6
    # 2. The operator resumes without the pair and accepts rows again.
    assert join.skip()
    assert not join.skip()
    left.push(numbers((200, 1)))
    right.push(numbers((200, 1)))
    saved = join.snapshot()
    again = POISONED[kind]()
    again.restore(saved)
    for operator in (join, again):
        for source in operator.sources:
            source.close()
        assert [row["ts"] for batch in operator for row in batch.to_pylist()] == [1, 3, 200]


def test_results_before_the_failure_are_handed_out_first():
    join = near_join(where=DIVIDED)
    left, right = join.sources
    for source, x in ((left, 8), (right, 2)):
        source.push(numbers((1, x)))
        source.advance(5)
    assert join.poll()["ts"].to_pylist() == [1]
    for source, x in ((left, 8), (right, 0)):
        source.push(numbers((5, x)))
        source.close()
    found: list[pa.RecordBatch] = []
    with pytest.raises(TidegateError, match="Divide by zero"):
        join.run(found.append)
    assert join.skip()
    join.run(found.append)
    assert found == []


@pytest.mark.parametrize("aggs", [{}, {"median": tg.agg.median("x")}])
def test_a_sum_that_does_not_fit_is_named_and_can_be_null(aggs):
    most = 2**63 - 1
    totals = tg.Aggregate(NUMBERS, on="ts", size=10, aggs={"sum": tg.agg.sum("x")} | aggs)
    (source,) = totals.sources
    source.push(numbers((1, most), (2, most), (15, 7)))
    source.advance(30)
    for _ in range(2):
        with pytest.raises(TidegateError, match=r"window that starts at 0 .*does not fit int64"):
            totals.poll()
    with pytest.raises(TidegateError, match="no rows are accepted"):
        source.push(numbers((40, 1)))
    assert totals.skip()
    found = [(row["window_start"], row["sum"]) for row in polled(totals)]
    assert found == [(0, None), (10, 7)]


@pytest.mark.parametrize("aggs", [{}, {"median": tg.agg.median("x")}])
def test_a_row_whose_condition_has_no_value_can_be_left_out(aggs):
    aggs = {"n": tg.agg.count(where="10 / row.x > 0")} | aggs
    totals = tg.Aggregate(NUMBERS, on="ts", size=10, aggs=aggs)
    (source,) = totals.sources
    source.push(numbers((1, 1), (2, 0), (15, 5)))
    source.close()
    with pytest.raises(TidegateError, match=r"Divide by zero error, for x = 0; no rows are lost"):
        totals.poll()
    assert totals.skip()
    assert [row["n"] for batch in totals for row in batch.to_pylist()] == [1, 1]


@pytest.mark.parametrize("aggs", [{}, {"median": tg.agg.median("x")}])
def test_a_time_whose_window_ends_beyond_64_bits_is_refused_where_it_is_pushed(aggs):
    totals = tg.Aggregate(NUMBERS, on="ts", size=10, aggs={"n": tg.agg.count()} | aggs)
    (source,) = totals.sources
    source.push(numbers((1, 1)))
    with pytest.raises(TidegateError, match=r"source 0: row 2: the time 9223372036854775807"):
        source.push(numbers((2, 1), (2**63 - 1, 1)))
    source.push(numbers((2, 1)))
    source.close()
    assert [row["n"] for batch in totals for row in batch.to_pylist()] == [2]


def test_a_sink_and_a_caller_of_asyncio_that_fail_lose_no_row():
    operator, found = tg.Merge(NUMBERS), []
    operator.sources[0].push(numbers((1, 1), (2, 2)))
    operator.sources[0].close()

    def sink(batch: pa.RecordBatch) -> None:
        found.append(batch.num_rows)
        if len(found) == 1:
            raise DiskFullError

    with pytest.raises(DiskFullError):
        operator.run(sink)
    assert operator.stats()["rows_out"] == 0
    operator.run(sink)
    assert found == [2, 2]

    async def read() -> list[int]:
        later = tg.Merge(NUMBERS)
        await later.sources[0].push_async(numbers((1, 1)))
        assert refused(0, lambda: later.sources[0].push(numbers((2, 2))))
        await later.sources[0].push_async(numbers((2, 2)))
        later.sources[0].close()
        return [batch.num_rows async for batch in later]

    assert sum(asyncio.run(read())) == 2


def test_a_chain_stands_where_an_operator_of_it_does_and_goes_on_after_a_skip():
    join = near_join(where=DIVIDED)
    count = tg.Aggregate(join.schema, on="ts", size=10, aggs={"n": tg.agg.count()})
    chain = tg.Chain(count, {count.sources[0]: join})
    left, right = join.sources
    left.push(numbers((1, 10), (2, 20), (3, 30)))
    right.push(numbers((1, 5), (2, 0), (3, 5)))
    for source in (left, right):
        source.close()
    found: list[pa.RecordBatch] = []
    with pytest.raises(TidegateError, match="Divide by zero"), chain.running(found.append):
        pass
    assert join.skip()
    with chain.running(found.append):
        pass
    assert [row["n"] for batch in found for row in batch.to_pylist()] == [2]


def test_a_call_with_a_memory_limit_reports_each_refused_request():
    """Threads that read the inputs must survive, because the call waits for them."""

    def call() -> None:
        sides = [rows(*range(10)), rows(*range(5, 15))]
        aggs = {"n": tg.agg.count(), "x": tg.agg.collect("x")}
        readers = [pa.RecordBatchReader.from_batches(SCHEMA, s.to_batches()) for s in sides]
        found.append(
            tg.aggregate(readers, on="ts", size=5, aggs=aggs, memory_limit="256MB", lateness=20)
        )

    found: list[pa.Table] = []
    failures = next(after for after in range(RUNS_AT_MOST) if not refused(after, call))
    assert failures > 10
    assert found[0]["n"].to_pylist() == [5, 10, 5]
