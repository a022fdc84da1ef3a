"""Large Parquet files in time order are read slice by slice, without a `memory_limit`."""

import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from tidegate.bounded import aggregates, joins, shares
from tidegate.calls import ways

SEEDS = range(campaign.tries(6 if campaign.ALL else 4))
SLICED = "inputs     slice by slice"


@pytest.fixture
def small(monkeypatch):
    """Treat small files as large, and let slices have few rows."""
    monkeypatch.setattr(ways, "LARGE", 0)
    monkeypatch.setattr(joins, "LARGE", 4_000)
    monkeypatch.setattr(aggregates, "LARGE", 4_000)
    monkeypatch.setattr(shares, "LEAST", 1)
    monkeypatch.setattr(shares, "BESIDE", 0)
    monkeypatch.setattr(shares, "LEAST_ROWS", 3)
    # Dictionaries with few values are also read as dictionaries.
    monkeypatch.setattr("tidegate.io.pruning.CODE_BYTES", 1_000)


def side(chance: random.Random, name: str, folder, *, in_order=True) -> tuple[pa.Table, object]:
    """Write a table to files."""
    count = chance.choice([1, 40, 300])
    times = sorted(chance.randrange(count * 2) for _ in range(count))
    if not in_order and count > 1:
        times[count // 2 :] = reversed(times[count // 2 :])
    table = pa.table(
        {
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("ms")),
            "k": pa.array([chance.choice(["a", "b", None]) for _ in times], pa.string()),
            name: [chance.randrange(50) for _ in times],
            f"{name}_float": np.random.default_rng(count).normal(size=count) * 1e6,
            f"{name}_text": [("", "long" * 9, "é", None)[time * 7 % 4] for time in times],
        }
    )
    (folder / name).mkdir()
    cut = chance.randrange(count + 1)
    has_dictionaries = count != 40
    for number, part in enumerate((table.slice(0, cut), table.slice(cut))):
        file = folder / name / f"{number}.parquet"
        pq.write_table(part, file, row_group_size=7, use_dictionary=has_dictionaries)
    return table, folder / name


def query_of(chance: random.Random):
    """Return a function and its arguments except the inputs."""
    common = {"on": "ts", "by": chance.choice([None, "k"]), "threads": chance.choice([1, 2])}
    where = chance.choice(
        [None, "left.x > 20", "right.y > left.x", "left.x_text < right.y_text", "left.k = 'a'"]
    )
    match chance.choice(["interval", "aggs", "asof", "window"]):
        case "interval":
            how = chance.choice(["inner", "left", "right", "full", "semi", "anti"])
            ends = {"lower": "-9ms", "upper": "3ms", "how": how, "where": where}
            return "interval_join", common | ends
        case "aggs":
            aggs = {"n": tg.agg.count(), "sum": tg.agg.sum("y_float"), "last": tg.agg.last("y")}
            prevailing = chance.choice([False, True])
            ends = {"lower": "-20ms", "upper": "3ms", "aggs": aggs, "prevailing": prevailing}
            return "interval_join", common | ends
        case "asof":
            strategy = chance.choice(["backward", "forward", "nearest"])
            return "asof_join", common | {"strategy": strategy, "tolerance": "30ms"}
    return "window_join", common | {"window": ("4ms", "9ms"), "where": where}


def is_sliced(batches: str, *inputs, **query) -> bool:
    return SLICED in tg.explain(getattr(tg, batches), *inputs, **query)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("small")
def test_rows_and_their_order_are_those_of_whole_tables(seed, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    for number in range(4 if campaign.ALL else 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        (left, left_files), (right, right_files) = (
            side(chance, name, folder) for name in ("x", "y")
        )
        function, query = query_of(chance)
        assert is_sliced(f"{function}_batches", left_files, right_files, **query)
        expected = getattr(tg, function)(left, right, **query)
        with getattr(tg, f"{function}_batches")(left_files, right_files, **query) as reader:
            found = pa.Table.from_batches([*reader], reader.schema)
        assert found.schema == expected.schema
        assert found.to_pylist() == expected.to_pylist(), (function, query)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("small")
def test_windows_of_files_in_order_are_those_of_whole_tables(seed, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    tables, files = zip(
        *(side(chance, "x", folder) for folder in _folders(tmp_path, chance.choice([1, 3]))),
        strict=True,
    )
    aggs = {"n": tg.agg.count(), "sum": tg.agg.sum("x_float"), "last": tg.agg.last("x")}
    spans = chance.choice(
        [{"size": "10ms"}, {"size": "30ms", "advance": "7ms"}, {"session": "3ms"}]
    )
    query = {"on": "ts", "by": chance.choice([None, "k"]), "aggs": aggs, **spans}
    assert is_sliced("aggregate_batches", [*files], **query)
    expected = tg.aggregate([*tables], **query)
    with tg.aggregate_batches([*files], **query) as reader:
        found = pa.Table.from_batches([*reader], reader.schema)
    assert found.schema == expected.schema
    rows, wanted = found.to_pylist(), expected.to_pylist()
    if "session" in spans:
        # Batches return sessions by their ends, and a table by their starts.
        rows, wanted = sorted(rows, key=repr), sorted(wanted, key=repr)
    assert rows == wanted, query


def _folders(folder, count):
    for number in range(count):
        (folder / str(number)).mkdir()
        yield folder / str(number)


@pytest.mark.usefixtures("small")
def test_rows_out_of_order_within_a_row_group_are_read_whole(tmp_path):
    """The statistics of one row group do not show the order."""
    times = np.random.default_rng(1).permutation(600)
    left = pa.table({"ts": times, "x": np.arange(600)})
    for name in ("left", "right"):
        pq.write_table(left, tmp_path / f"{name}.parquet")
    files = tmp_path / "left.parquet", tmp_path / "right.parquet"
    query = {"on": "ts", "lower": 0, "upper": 1}
    with tg.interval_join_batches(*files, **query) as reader:
        found = pa.Table.from_batches([*reader], reader.schema)
    assert found == tg.interval_join(left, left, **query)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, "slice by slice: both are in time order, according to the file statistics"),
        ({"lower": None}, "read whole: matching rows may be any distance apart in time"),
        ({"upper": None}, "read whole: matching rows may be any distance apart in time"),
    ],
)
def test_explain_says_which_way_is_taken_and_why(change, why, tmp_path):
    files = [
        side(random.Random(1), name, tmp_path)[1]  # noqa: S311 - not for secrets
        for name in ("x", "y")
    ]
    query = {"on": "ts", "lower": "-1s", "upper": "0s", **change}
    assert why in tg.explain(tg.interval_join_batches, *files, **query)
    assert "  inputs  " not in tg.explain(tg.interval_join, *files, **query)
    limited = tg.explain(tg.interval_join_batches, *files, **query, memory_limit="256MB")
    assert "time spans, each sorted as it is read" in limited
    assert "limit " in limited


@pytest.mark.usefixtures("small")
def test_explain_says_what_keeps_files_from_being_taken_slice_by_slice(tmp_path):
    chance = random.Random(4)  # noqa: S311 - not for secrets
    (tmp_path / "sorted").mkdir()
    (_, right) = side(chance, "y", tmp_path / "sorted")
    table = pa.table({"ts": pa.array(range(9, -1, -1), pa.int64()).cast(pa.timestamp("ms"))})
    pq.write_table(table, tmp_path / "falling.parquet", row_group_size=5)
    pa.csv.write_csv(table, tmp_path / "left.csv")
    pq.write_table(table, tmp_path / "bare.parquet", write_statistics=False)
    query = {"on": "ts", "lower": "-1s", "upper": "0s"}

    def told(left):
        return tg.explain(tg.interval_join_batches, left, right, **query)

    assert "the statistics of left show that its rows are not ordered by `ts`" in told(
        tmp_path / "falling.parquet"
    )
    assert "left has no Parquet statistics that show the order" in told(tmp_path / "left.csv")
    assert "have no statistics for `ts`" in told(tmp_path / "bare.parquet")


def test_files_that_fit_memory_easily_are_read_whole(tmp_path):
    files = [
        side(random.Random(1), name, tmp_path)[1]  # noqa: S311 - not for secrets
        for name in ("x", "y")
    ]
    told = tg.explain(tg.interval_join_batches, *files, on="ts", lower="-1s", upper="0s")
    assert "read whole: their columns take" in told
    assert f"less than {shares.LARGE:,}" in told


PEAK = """
import re, sys
from pathlib import Path
import tidegate as tg
from tidegate.bounded import joins
from tidegate.calls import ways
large = int(sys.argv[1])
ways.LARGE = large
joins.LARGE = 128_000_000
with tg.interval_join_batches("left.parquet", "right.parquet", on="ts", lower=-2, upper=0) as pairs:
    rows = sum(batch.num_rows for batch in pairs)
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(rows, int(peak) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_memory_is_that_of_slices(tmp_path):
    """The same call uses far less memory if it streams automatically."""
    rows = 2_000_000
    for name in ("left", "right"):
        columns = {f"{name}_{at}": np.random.default_rng(at).random(rows) for at in range(6)}
        table = pa.table({"ts": np.arange(rows), **columns})
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table, path, row_group_size=1 << 17, use_dictionary=False)
    found = [
        subprocess.run(
            [sys.executable, "-c", PEAK, str(large)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        ).stdout.split()
        for large in (0, 1 << 60)
    ]
    (sliced, of_slices), (whole, of_whole) = found
    assert sliced == whole
    # Both sides use 224 MB.
    assert int(of_slices) < 300
    assert int(of_whole) > 400
