"""The windows of an operator that are still open, as rows."""

from typing import Any

import pyarrow as pa
import pytest

import campaign
import tidegate as tg
from tidegate import agg

AGGS = {"n": agg.count(), "sum": agg.sum("v"), "last": agg.last("v")}
WHOLE = {**AGGS, "median": agg.median("v")}
LISTED = {"window_start": [0, 5, 40], "window_end": [30, 70, 60]}
WINDOWS: list[dict[str, Any]] = [
    {"size": 20, "advance": 7},
    {"session": 9},
    {"size": tg.rows(5), "advance": tg.rows(2)},
    {"windows": LISTED},
]


@pytest.mark.parametrize("windows", WINDOWS, ids=["size", "session", "rows", "listed"])
@pytest.mark.parametrize("aggs", [AGGS, WHOLE], ids=["states", "rows"])
def test_open_windows_are_those_that_closing_would_emit(
    windows: dict[str, Any], aggs: dict[str, Any]
) -> None:
    draw = campaign.rng(f"open {windows} {len(aggs)}")
    for _ in range(campaign.tries(8)):
        times = sorted(draw.randrange(90) for _ in range(40))
        rows = pa.table({"ts": times, "k": [draw.randrange(3) for _ in times], "v": times})
        query = {"on": "ts", "by": "k", "aggs": aggs, "digest": draw.random() < 0.5, **windows}
        operator, twin = (tg.Aggregate(rows.schema, **query, sources=2) for _ in range(2))
        cut = draw.randrange(len(times))
        found = []
        for one in (operator, twin):
            one.sources[0].push(rows.slice(0, cut))
            one.sources[1].push(rows.slice(0, 3))
        if draw.random() < 0.5:
            found += iter(operator.poll, None)
        polled = [*iter(twin.poll, None)]
        before = operator.snapshot()
        opened = operator.open()
        assert operator.snapshot() == before
        for source in twin.sources:
            source.close()
        assert opened.equals(pa.Table.from_batches([*twin], operator.schema))
        # The operator itself is unchanged.
        found += iter(operator.poll, None)
        assert sum(map(len, found)) == sum(map(len, polled))


def test_a_closed_operator_has_no_open_windows() -> None:
    operator = tg.Aggregate(pa.schema({"ts": pa.int64()}), on="ts", size=5, aggs={"n": agg.count()})
    assert len(operator.open()) == 0
    operator.close()
    with pytest.raises(tg.ClosedError):
        operator.open()
