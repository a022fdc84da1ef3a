"""Parquet files with a `memory_limit`: row groups that overlap in time are sorted together."""

import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from cases import more
from tidegate import _tidegate
from tidegate.bounded import ordered, shares, sorting
from tidegate.bounded.stretches import parted, stretches
from tidegate.io.open_tables import open_table

SEEDS = range(campaign.tries(15))
KINDS = [pa.int64(), pa.int32(), pa.date32(), *map(pa.timestamp, ("s", "ms", "us", "ns"))]


@pytest.fixture
def small(monkeypatch):
    """Let few rows have many slices, and row groups of any size relative to the limit."""
    monkeypatch.setattr(shares, "LEAST", 1)
    monkeypatch.setattr(shares, "BESIDE", 0)
    monkeypatch.setattr(shares, "LEAST_ROWS", 3)
    monkeypatch.setattr(shares, "GOOD_SLICE", 500)
    monkeypatch.setattr("tidegate.bounded.sorting.RUNS", 4)
    monkeypatch.setattr("tidegate.io.pruning.CODE_BYTES", 1_000)


def row_group(chance: random.Random, begin: int) -> list[int]:
    """Draw the times of a row group, starting close to `begin`."""
    count, span = chance.choice([(1, 1), (5, 1), (5, 6), (5, 6), (60, 200)])
    times = [begin + chance.randrange(span) for _ in range(count)]
    return times if chance.random() < 0.4 else sorted(times)


def times_of(chance: random.Random) -> list[list[int | None]]:
    """Draw times by row groups, which follow each other, touch, overlap, or have no order."""
    groups: list[list[int | None]] = []
    begin = 0
    disorder = chance.choice([0, 0, 0.1, 1])
    for _ in range(chance.choice([1, 4, 25])):
        at = chance.randrange(100) if chance.random() < disorder else begin
        groups.append([*row_group(chance, at)])
        begin = max(time or 0 for time in groups[-1]) + chance.choice([0, 0, 1, 7, -1])
    return groups


def written(groups, kind: pa.DataType, folder, name: str, **options) -> pa.Table:
    """Write row groups to files in a folder, and return the rows of all files."""
    folder.mkdir()
    tables = []
    number = 0
    for at, group in enumerate(groups):
        count = len(group)
        plain = pa.int32() if kind == pa.date32() else pa.int64()
        tables.append(
            pa.table(
                {
                    "ts": pa.array(group, plain).cast(kind),
                    "k": pa.array([f"key{row % 3}" for row in range(number, number + count)]),
                    name: np.arange(number, number + count),
                }
            )
        )
        number += count
        if at % 3 == 2 or at == len(groups) - 1:
            held = tables[at - at % 3 :]
            with pq.ParquetWriter(folder / f"{at:03}.parquet", held[0].schema, **options) as file:
                for table in held:
                    file.write_table(table)
    # Parquet has no seconds.
    return ds.dataset(folder).to_table()


def in_order(table: pa.Table) -> pa.Table:
    is_null = table["ts"].is_null()
    nulls, others = table.filter(is_null), table.filter(pc.invert(is_null))
    return pa.concat_tables([nulls, others.take(pc.sort_indices(others, [("ts", "ascending")]))])


def some_limit(chance: random.Random) -> int:
    return chance.choice([20_000, 60_000, 10**9])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("small")
def test_a_join_of_files_is_that_of_the_sorted_rows(seed, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    kind = chance.choice(KINDS)
    left, right = (written(times_of(chance), kind, tmp_path / name, name) for name in ("x", "y"))
    unit = "d" if kind == pa.date32() else getattr(kind, "unit", "")
    query = {
        "on": "ts",
        "by": chance.choice([None, "k"]),
        "lower": f"-3{unit}" if unit else -3,
        "upper": f"2{unit}" if unit else 2,
        "how": chance.choice(["inner", "left", "right", "full", "semi", "anti"]),
    }
    expected = tg.interval_join(in_order(left), in_order(right), **query)
    files = tmp_path / "x", tmp_path / "y"
    with tg.interval_join_batches(*files, **query, memory_limit=some_limit(chance)) as reader:
        found = pa.Table.from_batches([*reader], reader.schema)
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist(), query


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("small")
def test_windows_of_files_are_those_of_the_sorted_rows(seed, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    table = written(times_of(chance), pa.timestamp("ms"), tmp_path / "x", "x")
    aggs = {"n": tg.agg.count(), "first": tg.agg.first("x"), "all": tg.agg.collect("x")}
    query = {"on": "ts", "size": "6ms", "advance": "3ms", "by": "k", "aggs": aggs}
    expected = tg.aggregate(in_order(table), **query)
    limit = chance.choice([60_000, 10**9])
    with tg.aggregate_batches(tmp_path / "x", **query, memory_limit=limit) as reader:
        found = pa.Table.from_batches([*reader], reader.schema)
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("seed", range(campaign.tries(60)))
def test_stretches_one_after_the_other_are_the_order_of_a_stable_sort(seed):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    groups = [group for group in times_of(chance) if group]
    rows = [(time, number) for number, group in enumerate(groups) for time in group]
    spans = [(min(group), max(group)) for group in groups]
    found = []
    for part in parted(spans):
        of_part = [(time, number) for number in part for time in groups[number]]
        found += sorted(of_part, key=lambda row: row[0])
    assert found == sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize(
    ("spans", "parts"),
    [
        ([(0, 1), (2, 3)], [[0], [1]]),
        ([(0, 2), (2, 3)], [[0], [1]]),
        ([(0, 3), (2, 3)], [[0, 1]]),
        ([(2, 3), (0, 1)], [[1], [0]]),
        # The rows with time 2 in the first file are first.
        ([(2, 3), (0, 2)], [[0, 1]]),
        ([(5, 5), (5, 5), (5, 9)], [[0], [1], [2]]),
        ([(0, 9), (1, 2), (9, 9)], [[0, 1], [2]]),
        ([(20, 29), (0, 9), (9, 12)], [[1], [2], [0]]),
        ([(0, 9), (9, 9), (5, 9), (9, 12)], [[0, 1, 2], [3]]),
        ([(1, 9), (0, 2), (9, 9)], [[0, 1], [2]]),
        ([], []),
    ],
)
def test_row_groups_without_a_common_time_are_apart(spans, parts):
    assert parted(spans) == parts


def test_tables_whose_times_are_not_known_have_no_stretches(tmp_path):
    times = [[1, 2], [3, 4]]
    kind = pa.timestamp("us")
    written(times, kind, tmp_path / "told", "x")
    written(times, kind, tmp_path / "bare", "x", write_statistics=False)
    written([[1, None], [3, 4]], kind, tmp_path / "null", "x")
    table = pa.table({"ts": [1, 2]})
    with pa.ipc.new_file(tmp_path / "x.arrow", table.schema) as file:
        file.write_table(table)
    assert len(stretches(open_table(tmp_path / "told"), "ts")) == 2
    for name in ("bare", "null", "x.arrow"):
        assert stretches(open_table(tmp_path / name), "ts") is None, name


QUERY = {"on": "ts", "lower": 0, "upper": 0}


@pytest.fixture
def two_sides(tmp_path):
    """Write row groups in order, whose rows are out of order."""
    chance = random.Random(1)  # noqa: S311 - not for secrets
    groups = [chance.sample(range(at * 10, at * 10 + 10), 10) for at in range(30)]
    for name in ("x", "y"):
        written(groups, pa.int64(), tmp_path / name, name)
    return tmp_path / "x", tmp_path / "y"


def test_row_groups_that_follow_each_other_need_no_temporary_file(two_sides, monkeypatch):
    def refused(_schema):
        message = "a temporary file"
        raise AssertionError(message)

    monkeypatch.setattr(sorting, "Run", refused)
    with tg.interval_join_batches(*two_sides, **QUERY, memory_limit="1GB") as reader:
        assert sum(batch.num_rows for batch in reader) == 300


def test_explain_says_how_many_row_groups_are_sorted_together(two_sides):
    left, _ = two_sides
    table = pa.table({"ts": [1], "y": [1]})
    pa.csv.write_csv(table, left.parent / "y.csv")
    plan = tg.explain(
        tg.interval_join_batches, left, left.parent / "y.csv", **QUERY, memory_limit="1GB"
    )
    *_, inputs, csv = plan.splitlines()
    assert inputs == (
        "  inputs     left: 30 row groups in 30 time spans, each sorted as it is read; "
        "right: sorted in full, unless already in time order"
    )
    assert csv == "  csv        right: ts int64, y int64"
    streams = [left, left]
    plan = tg.explain(
        tg.aggregate_batches,
        streams,
        on="ts",
        size=5,
        aggs={"n": tg.agg.count()},
        memory_limit="1GB",
    )
    assert "streams[1]: 30 row groups in 30 time spans" in plan
    plan = tg.explain(
        tg.interval_join_batches, left, left, **QUERY, memory_limit="1GB", lateness=(0, None)
    )
    assert "  inputs     left: in order, apart from its lateness; right: 30 row" in plan


def test_times_are_not_read_before_the_rows(two_sides, monkeypatch):
    def refused(_batches):
        message = "times alone"
        raise AssertionError(message)

    monkeypatch.setattr(ordered, "ascends", refused)
    with tg.interval_join_batches(*two_sides, **QUERY, memory_limit="1GB") as reader:
        assert sum(batch.num_rows for batch in reader) == 300


def test_rows_that_statistics_rule_out_are_an_error(two_sides, monkeypatch):
    """A file with wrong statistics does not cause a wrong result."""
    real = stretches

    def wrong(table, on):
        return [*reversed(real(table, on))]

    monkeypatch.setattr(ordered, "stretches", wrong)
    told = r"^left: a row has 280 in column `ts`, which the statistics of its row group rule out"
    with (
        pytest.raises(tg.TidegateError, match=told),
        tg.interval_join_batches(*two_sides, **QUERY, memory_limit="1GB") as reader,
    ):
        for _ in reader:
            pass


def test_columns_of_folders_are_kept(tmp_path):
    table = pa.table({"ts": [3, 1, 2], "day": ["a", "b", "a"], "x": [1, 2, 3]})
    ds.write_dataset(
        table,
        tmp_path / "x",
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive"),
    )
    with tg.interval_join_batches(
        tmp_path / "x", table, **QUERY, by="day", memory_limit="1GB"
    ) as reader:
        found = pa.Table.from_batches([*reader], reader.schema)
    assert found.select(["ts", "day", "x"]).to_pylist() == [
        {"ts": 1, "day": "b", "x": 2},
        {"ts": 2, "day": "a", "x": 3},
        {"ts": 3, "day": "a", "x": 1},
    ]


# Peak memory, measured in a separate process

WORK = """
import sys
from pathlib import Path
import tidegate as tg
query = dict(on="ts", by="k", lower=-5, upper=0, memory_limit="128MB")
rows = 0
with tg.interval_join_batches("x.parquet", "y.parquet", **query) as reader:
    for batch in reader:
        rows += batch.num_rows
status = Path("/proc/self/status").read_text()
print(rows, int(status.partition("VmHWM:")[2].split()[0]) * 1024)
"""


def most_memory(folder, count: int, rows: int) -> int:
    """Return the peak memory of a join whose row groups are in order and their rows are not."""
    for seed, name in enumerate("xy"):
        random_ = np.random.default_rng(seed)
        times = np.concatenate(
            [start + random_.permutation(rows) for start in range(0, count, rows)]
        )
        columns = {"ts": times, "k": times % 4, name: random_.random(len(times))}
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=rows, use_dictionary=False)
    done = subprocess.run(
        [sys.executable, "-c", WORK], cwd=folder, capture_output=True, text=True, check=True
    )
    found, most = map(int, done.stdout.split())
    assert found > count
    return most


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize("rows", [1 << 18, *more(1 << 20)])
def test_memory_stays_within_the_limit(rows, tmp_path):
    """A small row group is sorted in memory, and a large one in temporary files."""
    alone = most_memory(tmp_path, 1000, 1000)
    # The rows of both sides need 138 MB.
    assert most_memory(tmp_path, 11 << 18, rows) - alone < 128_000_000


def test_texts_reach_the_native_join_as_numbers_of_a_dictionary(tmp_path, monkeypatch):
    rows = 10_000
    words = pa.array([f"word {row % 5}" for row in range(rows)])
    table = pa.table({"ts": np.arange(rows), "k": words, "note": words.cast(pa.binary())})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=4_000)
    given = []

    class Noting:
        """A query that records the columns of each slice."""

        def __init__(self, query):
            self.query = query

        def __getattr__(self, name):
            return getattr(self.query, name)

        def replace(self, **changes):
            return Noting(self.query.replace(**changes))

        def batches(self, left, right):
            given.extend([left.schema, right.schema])
            return self.query.batches(left, right)

    make = _tidegate.interval_join_query
    monkeypatch.setattr(_tidegate, "interval_join_query", lambda **query: Noting(make(**query)))
    query = {"on": "ts", "by": "k", "lower": -5, "upper": 0}
    files = [tmp_path / "rows.parquet"] * 2
    for changed, coded in (({}, True), ({"aggs": {"last": tg.agg.last("note")}}, False)):
        given.clear()
        with tg.interval_join_batches(*files, **query, **changed, memory_limit="256MB") as reader:
            found = pa.Table.from_batches([*reader], reader.schema)
        assert found == tg.interval_join(table, table, **query, **changed)
        of_texts = [schema.field(name).type for schema in given for name in ("k", "note")]
        assert given
        assert [pa.types.is_dictionary(kind) for kind in of_texts] == [coded] * len(of_texts)
