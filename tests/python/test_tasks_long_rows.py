"""Overlap joins by tasks, with a few rows that are much longer than the others."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from cases import grid, more
from test_tasks_unsorted import VALUES, assert_same_rows, bytes_read, prepared

SEEDS = range(campaign.tries(12))
HOWS = ["inner", "left", "right", "full", "semi", "anti"]
SPAN = 5000
KINDS = [pa.int64(), pa.timestamp("us"), pa.date32()]
AGGS = {"n": tg.agg.count(), "sum": tg.agg.sum("x"), "first": tg.agg.first("row")}


def table(chance: random.Random, kind: pa.DataType, rows: int) -> pa.Table:
    """Create rows, of which few or many are long; some have no start or no end."""
    long, nulls = chance.choice([0, 0.01, 0.1, 1]), chance.choice([0, 0, 0.05])
    lengths = chance.choice([[0], [3], [0, 1, 5, 20]])
    hot = chance.choice([0, 0, 0.5])
    starts = [700 if chance.random() < hot else chance.randrange(SPAN) for _ in range(rows)]
    if chance.random() < 0.6:
        starts.sort()
    ends = [
        time + (chance.randrange(SPAN) if chance.random() < long else chance.choice(lengths))
        for time in starts
    ]
    storage = pa.int32() if kind == pa.date32() else pa.int64()
    return pa.table(
        {
            name: pa.array(
                [None if chance.random() < nulls else time for time in times], storage
            ).cast(kind)
            for name, times in (("start", starts), ("end", ends))
        }
        | {
            "k": pa.array([chance.choice(["a", "b", "c", None]) for _ in starts], pa.string()),
            "x": pa.array([chance.choice(VALUES) for _ in starts], pa.float64()),
            "row": range(rows),
        }
    )


def written(rows: pa.Table, folder: Path, chance: random.Random) -> str:
    """Write rows to one to four files; some of them have no statistics."""
    folder.mkdir(parents=True)
    cuts = sorted(chance.randrange(rows.num_rows + 1) for _ in range(chance.randrange(4)))
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, rows.num_rows], strict=True)):
        pq.write_table(
            rows.slice(start, stop - start),
            folder / f"{number}.parquet",
            row_group_size=chance.choice([20, 60]),
            write_statistics=chance.random() < 0.7,
        )
    return str(folder)


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_return_the_rows_of_an_overlap_join(seed, tmp_path):
    chance = campaign.rng(f"overlap joins by tasks {seed}")
    kind = chance.choice(KINDS)
    tables = [table(chance, kind, chance.choice([1, 200, 500])) for _ in range(2)]
    paths = [
        written(rows, tmp_path / name, chance)
        for name, rows in zip(("left", "right"), tables, strict=True)
    ]
    by = chance.choice(["k", None])
    on = {
        "on": ("start", "end"),
        "by": by,
        "closed": chance.choice(["both", "left"]),
        "open_ends": chance.random() < 0.6,
    }
    cases = [{**on, "how": how} for how in HOWS] + [
        {**on, "aggs": AGGS},
        {**on, "how": "full", "where": "left.x < right.x"},
    ]
    size = sum(task.size for task in tg.tasks(tg.overlap_join, *paths, **on).tasks)
    for arguments in campaign.some(chance, cases, 3):
        whole = tg.overlap_join(*tables, **arguments)
        target = max(1, size // chance.choice([1, 3, 20]))
        plan = tg.tasks(tg.overlap_join, *paths, target=target, scratch=tmp_path, **arguments)
        prepared(plan)
        assert_same_rows(plan, whole)


ON = {"on": ("start", "end")}


def rows(seed: int, long: int, *, in_order: bool = True) -> pa.Table:
    """Create 20,000 short rows, of which some are replaced by very long ones."""
    draw = np.random.default_rng(seed)
    start = np.arange(20_000) * 10
    length = draw.integers(0, 20, 20_000)
    # One in each of the first row groups, if there are many.
    length[np.linspace(0, 12_000, long).astype(int)] = 80_000
    order = np.arange(20_000) if in_order else draw.permutation(20_000)
    return pa.table({"start": start[order], "end": (start + length)[order], "row": order})


@grid(
    in_order=[True, False],
    how=["inner", "left", "full"],
    long=[(1, 0), (3, 3), (0, 200), *more((0, 1), (200, 0), (40, 40))],
)
def test_tasks_read_few_rows_twice(tmp_path, long, how, in_order):
    paths, (left, right) = [], long
    tables = [rows(1, left, in_order=in_order), rows(2, right, in_order=in_order)]
    for name, one in zip(("left", "right"), tables, strict=True):
        (tmp_path / name).mkdir()
        pq.write_table(one, tmp_path / name / "0.parquet", row_group_size=200)
        paths.append(str(tmp_path / name))
    whole = tg.overlap_join(*tables, **ON, how=how)
    size = sum(task.size for task in tg.tasks(tg.overlap_join, *paths, **ON).tasks)
    arguments = {**ON, "how": how, "target": size // 20, "scratch": tmp_path}
    plan = tg.tasks(tg.overlap_join, *paths, **arguments)
    prepared(plan)
    assert len(plan.tasks) >= 19
    assert_same_rows(plan, whole)
    read = bytes_read(plan)[0] / (2 * 20_000 * 24)
    # Without layers and sorting, the tasks read the files up to 20 times.
    assert read <= (4.5 if how == "full" else 3)
