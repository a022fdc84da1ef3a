"""The argument `progress`: the same rows as without it, and a last report that counts all rows."""

import builtins
import importlib.util
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.types import Progress

ROWS = pa.table(
    {
        "ts": np.arange(200_000),
        "k": pa.array(np.arange(200_000) % 7, pa.int8()).dictionary_encode(),
        "end": np.arange(200_000) + 3,
    }
)
CALLS: dict[str, tuple[Any, Any, tuple[Any, ...], dict[str, Any]]] = {
    "interval_join": (
        tg.interval_join, tg.interval_join_batches, (ROWS, ROWS),
        {"on": "ts", "by": "k", "lower": -9, "upper": 0},
    ),
    "asof_join": (
        tg.asof_join, tg.asof_join_batches, (ROWS, ROWS), {"on": "ts", "strategy": "forward"},
    ),
    "overlap_join": (
        tg.overlap_join, tg.overlap_join_batches, (ROWS[:20_000], ROWS), {"on": ("ts", "end")},
    ),
    "aggregate": (
        tg.aggregate, tg.aggregate_batches, (ROWS,),
        {"on": "ts", "by": "k", "size": 50, "aggs": {"n": tg.agg.count()}},
    ),
    "merge": (tg.merge, tg.merge_batches, ([ROWS, ROWS],), {"on": "ts"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_reports_and_rows(name):
    table, batches, inputs, query = CALLS[name]
    wanted = table(*inputs, **query)
    for call in (table, batches):
        seen: list[Progress] = []
        found = call(*inputs, **query, progress=seen.append)
        if call is batches:
            found = pa.Table.from_batches(found, found.schema)
        assert found.equals(wanted)
        assert found.schema == wanted.schema
        first, last = seen[0], seen[-1]
        assert (first.rows, last.rows) == (0, wanted.num_rows)
        for field in ("done", "rows"):
            counts = [getattr(one, field) for one in seen]
            assert counts == sorted(counts)
        if name.endswith("join"):
            assert last.done == last.total == inputs[0].num_rows
            assert len(seen) > 3
        elif name == "merge":
            assert last.done == 2 * ROWS.num_rows


def test_a_memory_limit():
    _, _, inputs, query = CALLS["interval_join"]
    seen: list[Progress] = []
    found = tg.interval_join(*inputs, **query, memory_limit="2GB", progress=seen.append)
    assert found.equals(tg.interval_join(*inputs, **query, memory_limit="2GB"))
    assert seen[-1].done == ROWS.num_rows


@pytest.mark.parametrize("library", ["tqdm", "rich", None])
def test_a_bar(library, monkeypatch, capfd):
    known = importlib.util.find_spec

    def find(name: str, *more: Any) -> Any:
        return None if name in {"tqdm", "rich"} - {library} else known(name, *more)

    monkeypatch.setattr("tidegate.calls.progress.find_spec", find)
    if library is None:
        with pytest.raises(tg.TidegateError, match=r"install one of them, or pass a function"):
            tg.merge([ROWS, ROWS], on="ts", progress=True)
        return
    assert tg.merge([ROWS, ROWS], on="ts", progress=True).num_rows == 2 * ROWS.num_rows
    assert "merge" in "".join(capfd.readouterr())


def test_a_report_that_fails_ends_the_call():
    def fail(progress: Progress) -> None:
        if progress.rows:
            message = "enough"
            raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="enough"):
        tg.merge([ROWS, ROWS], on="ts", progress=fail)
    with pytest.raises((RuntimeError, tg.TidegateError), match="enough"):
        list(tg.merge_batches([ROWS, ROWS], on="ts", progress=fail))


def test_wrong_arguments():
    with pytest.raises(TypeError, match="progress: expected True, False or a function, got 3"):
        tg.merge([ROWS], on="ts", progress=3)  # type: ignore[arg-type]
    query = {"on": "ts", "by": "k", "lower": 0, "upper": 0}
    assert tg.explain(tg.interval_join, ROWS, ROWS, **query, progress=builtins.print)
    with pytest.raises(TypeError, match="tasks: progress applies to a whole call"):
        tg.tasks(tg.interval_join, "a.parquet", "b.parquet", **query, progress=True)
