"""Operators in asyncio and as Arrow streams, and reports about a source that blocks results."""

import asyncio
import re
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import tidegate as tg

SCHEMA = pa.schema({"ts": pa.int64()})


def rows(*times: int) -> pa.Table:
    return pa.table({"ts": times}, SCHEMA)


async def taken(operator: tg.Merge) -> list[int]:
    return [ts async for batch in operator for ts in batch["ts"].to_pylist()]


# asyncio


def test_batches_come_while_a_coroutine_feeds():
    async def feed(merge: tg.Merge) -> None:
        with merge.sources[0] as source:
            for ts in range(0, 50, 10):
                source.push(rows(ts, ts + 1))
                await asyncio.sleep(0.01)

    async def both() -> list[int]:
        merge = tg.Merge(SCHEMA)
        found, _ = await asyncio.gather(taken(merge), feed(merge))
        return found

    assert asyncio.run(both()) == [ts + one for ts in range(0, 50, 10) for one in (0, 1)]


def test_a_push_is_awaited_while_there_is_no_room():
    async def feed(merge: tg.Merge) -> None:
        with merge.sources[0] as source:
            for ts in range(0, 500, 10):
                await source.push_async(rows(*range(ts, ts + 10)))

    async def both() -> list[int]:
        merge = tg.Merge(SCHEMA, memory_limit=1_000)
        found, _ = await asyncio.gather(taken(merge), feed(merge))
        return found

    assert asyncio.run(both()) == list(range(500))


def test_a_push_that_never_fits_is_not_awaited():
    merge = tg.Merge(SCHEMA, memory_limit=100)
    with pytest.raises(tg.MemoryLimitError, match="set memory_limit to"):
        asyncio.run(merge.sources[0].push_async(rows(*range(100))))
    with pytest.raises(tg.SchemaError, match="row 0 of the list has no value for column `ts`"):
        asyncio.run(merge.sources[0].push_async([{"no": 1}]))


def test_a_push_that_is_cancelled_while_it_waits_has_pushed_nothing():
    async def run() -> None:
        merge = tg.Merge(SCHEMA, memory_limit=1_000)
        source = merge.sources[0]
        for ts in range(15):
            source.push(rows(ts))
        before = merge.stats()["rows_in"]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(source.push_async(rows(*range(15, 30))), 0.05)
        assert merge.stats()["rows_in"] == before
        assert merge.poll().num_rows == 15
        await source.push_async(rows(*range(15, 30)))
        assert merge.poll().num_rows == 15

    asyncio.run(run())


def test_a_cancelled_wait_loses_no_batch():
    async def run() -> list[int]:
        merge = tg.Merge(SCHEMA)
        for turn in range(30):
            waiting = asyncio.create_task(anext(aiter(merge), None))
            if turn % 2:
                await asyncio.sleep(0)
            merge.sources[0].push(rows(turn, turn))
            await asyncio.sleep(0.002 * (turn % 3))
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            if waiting.done() and not waiting.cancelled() and waiting.result() is not None:
                found.extend(waiting.result()["ts"].to_pylist())
        merge.sources[0].close()
        return found + await taken(merge)

    found: list[int] = []
    assert asyncio.run(run()) == [turn for turn in range(30) for _ in (0, 1)]


def test_the_loop_goes_on_while_sources_are_silent_and_ends_soon_after():
    async def run() -> int:
        merge = tg.Merge(SCHEMA)
        waiting = asyncio.create_task(taken(merge))
        turns = 0
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            await asyncio.sleep(0.005)
            turns += 1
        waiting.cancel()
        return turns

    assert asyncio.run(run()) > 5


def test_an_error_reaches_the_coroutine():
    merge = tg.Merge(SCHEMA)
    merge.sources[0].push(rows(1, 2))
    merge.sources[0].abandon("lost")
    found = []

    async def run() -> None:
        async for batch in merge:
            found.extend(batch["ts"].to_pylist())

    with pytest.raises(tg.TidegateError, match=r"abandoned before its end \(lost\)"):
        asyncio.run(run())
    assert found[:1] == [1]


# Arrow streams


def fed() -> tg.IntervalJoin:
    """Create a join whose sources another thread feeds and closes."""
    schema = pa.schema({"ts": pa.int64(), "k": pa.string()})
    join = tg.IntervalJoin(schema, schema, on="ts", by="k", lower=-1, upper=1, columns=["ts"])

    def feed() -> None:
        for ts in range(20):
            for source in join.sources:
                source.push([{"ts": ts, "k": "a"}])
        for source in join.sources:
            source.close()

    threading.Thread(target=feed).start()
    return join


@pytest.mark.timeout(120)
def test_others_read_an_operator():
    assert pl.DataFrame(fed())["ts"].len() == 58
    assert pa.RecordBatchReader.from_stream(fed()).read_all().num_rows == 58
    with duckdb.connect() as connection:
        connection.register("joined", pa.RecordBatchReader.from_stream(fed()))
        assert connection.sql("SELECT count(*), max(ts) FROM joined").fetchall() == [(58, 19)]
    # tidegate as the consumer: the pairs of a live join are aggregated.
    found = tg.aggregate(fed(), on="ts", size=10, aggs={"n": tg.agg.count()})
    assert found["n"].to_pylist() == [29, 29]


# A silent source


def test_the_source_that_rows_wait_for_is_named():
    merge = tg.Merge(SCHEMA, sources=3)
    assert merge.stats()["waiting"] is None
    merge.sources[0].push(rows(1, 5))
    merge.sources[1].push(rows(2))
    waiting = merge.stats()["waiting"]
    assert (waiting["source"], waiting["rows"]) == ("source 2", 3)
    assert waiting["seconds"] >= 0
    merge.sources[2].advance(3)
    assert merge.poll()["ts"].to_pylist() == [1, 2]
    # 5 waits for source 1, whose watermark is 2.
    waiting = merge.stats()["waiting"]
    assert (waiting["source"], waiting["rows"]) == ("source 1", 1)
    assert "1 rows, for source 1, which has been silent for" in merge.explain()
    restored = tg.Merge(SCHEMA, sources=3)
    restored.restore(merge.snapshot())
    assert restored.stats()["waiting"]["rows"] == 1
    assert restored.stats()["waiting"]["source"] == "source 1"
    for source in restored.sources:
        source.close()
    assert restored.poll()["ts"].to_pylist() == [5]
    assert restored.stats()["waiting"] is None
    assert "waiting" not in restored.explain()


def test_late_rows_do_not_wait():
    schema = pa.schema({"ts": pa.int64(), "x": pa.int64()})
    join = tg.IntervalJoin(schema, schema, on="ts", lower=0, upper=1)
    join.left_sources[0].push(pa.table({"ts": [5, 1, 6], "x": [0, 0, 0]}))
    waiting = join.stats()["waiting"]
    assert (waiting["source"], waiting["rows"]) == ("right source 0", 2)


# Statistics


def test_metrics_are_what_prometheus_reads():
    schema = pa.schema({"ts": pa.int64()})
    join = tg.IntervalJoin(schema, schema, on="ts", lower=0, upper=5, memory_limit=10**6)
    join.left_sources[0].push(rows(10, 3, 12))
    join.right_sources[0].push(rows(11))
    join.poll()
    text = tg.metrics(join, job='a "quoted" one')
    numbers = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) tidegate_[a-z_]+ .+", line)
            continue
        name, value = line.rsplit(" ", 1)
        assert re.fullmatch(
            r'tidegate_[a-z_]+\{operator="IntervalJoin",job="a \\"quoted\\" one".*\}', name
        )
        numbers[name.replace('operator="IntervalJoin",job="a \\"quoted\\" one"', "")] = float(value)
    assert numbers["tidegate_rows_in_total{}"] == 4
    assert numbers["tidegate_rows_late_total{}"] == 1
    assert numbers['tidegate_source_rows_in_total{,source="left source 0"}'] == 3
    assert numbers['tidegate_source_closed{,source="right source 0"}'] == 0
    assert numbers['tidegate_waiting_rows{,source="right source 0"}'] == 1
    assert numbers["tidegate_memory_limit_bytes{}"] == 10**6
    assert {'tidegate_latency_seconds{,quantile="0.99"}', "tidegate_state_rows{}"} <= numbers.keys()
    # Each family is declared once, before its numbers.
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families))


@pytest.mark.parametrize("name", ["a-b", "operator", "source", "quantile", "", "1a"])
def test_labels_are_names_of_their_own(name):
    with pytest.raises(tg.TidegateError, match="cannot be the name of a label"):
        tg.metrics(tg.Merge(SCHEMA), **{name: "x"})
    with pytest.raises(TypeError, match="labels: expected a string for `job`, got int"):
        tg.metrics(tg.Merge(SCHEMA), job=1)


def test_waiting_takes_no_thread_of_the_loop():
    class Refusing(ThreadPoolExecutor):
        def submit(self, *_args: object, **_options: object) -> NoReturn:
            pytest.fail("an operator must not wait on a thread of the loop")

    async def run() -> list[list[int]]:
        asyncio.get_running_loop().set_default_executor(Refusing())
        operators = [tg.Merge(SCHEMA) for _ in range(5)]
        waiting = [asyncio.create_task(taken(operator)) for operator in operators]
        await asyncio.sleep(0.01)
        for operator in operators:
            operator.sources[0].push(rows(1))
            operator.sources[0].close()
        return await asyncio.gather(*waiting)

    assert asyncio.run(run()) == [[1]] * 5


def test_an_operator_shows_itself():
    merge = tg.Merge(SCHEMA, sources=2)
    merge.sources[0].push(rows(1, 2))
    merge.sources[0].close()
    assert repr(merge) == (
        "<tidegate.Merge: 2 sources, 1 closed; 2 rows in, 0 late, 0 out; watermark None>"
    )
    page = merge._repr_html_()
    assert "<td>source 1</td>" in page
    assert "2 rows, for source 1, which has been silent" in page
    merge.sources[1].abandon("<lost>")
    assert "&lt;lost&gt;" in merge._repr_html_()
    assert "1 closed, 1 abandoned; 2 rows in" in repr(merge)
    assert 'tidegate_source_abandoned{operator="Merge",source="source 1"} 1' in tg.metrics(merge)
    merge.close()
    assert repr(merge).startswith("<tidegate.Merge: 2 sources, 2 closed")


@pytest.mark.filterwarnings("always")
def test_an_operator_that_is_dropped_tells_what_is_lost():
    def dropped(*, close: bool = False, closes_sources: bool = False, pushed: int = 2) -> list[str]:
        merge = tg.Merge(SCHEMA, sources=2)
        merge.sources[0].push(rows(*range(pushed)))
        if closes_sources:
            for source in merge.sources:
                source.close()
        if close:
            merge.close()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            del merge
        assert all(warning.category is ResourceWarning for warning in told)
        return [str(warning.message) for warning in told]

    (message,) = dropped()
    assert "2 of its 2 sources were open, so results of the 2 pushed rows" in message
    assert message.startswith("a merge was dropped while")
    assert dropped(close=True) == dropped(closes_sources=True) == dropped(pushed=0) == []
