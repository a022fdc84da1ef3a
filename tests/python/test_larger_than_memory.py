"""Calls with a `memory_limit` return the same rows as a call on both inputs, sorted by time."""

import os
import random
import re
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from cases import grid
from tidegate.bounded import shares, sorting

SEEDS = range(campaign.tries(6))
TOO_LITTLE = re.compile("within reach of one left row|the last right rows for all keys")

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
HOWS_AND_SEEDS = grid(how=HOWS, seed=range(campaign.tries(6 if campaign.ALL else 12)))


@pytest.fixture
def small(monkeypatch):
    """Make limits so small that few rows need many slices and runs."""
    monkeypatch.setattr(shares, "LEAST", 1)
    monkeypatch.setattr(shares, "BESIDE", 0)
    monkeypatch.setattr(shares, "LEAST_ROWS", 3)
    monkeypatch.setattr("tidegate.bounded.sorting.RUNS", 4)
    # Dictionaries with few values are also read as dictionaries.
    monkeypatch.setattr("tidegate.io.pruning.CODE_BYTES", 1_000)


def rows(chance: random.Random, count: int, *, name: str, kind: pa.DataType) -> pa.Table:
    """Create rows out of order, with a few keys, some of which are null."""
    span = chance.choice([count // 4 + 1, count * 3])
    times = [chance.randrange(span) for _ in range(count)]
    disorder = chance.choice([0, 3, span])
    times.sort(key=lambda time: time + chance.uniform(0, disorder))
    return pa.table(
        {
            "ts": pa.array(times, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind),
            "k": pa.array(
                [chance.choice(["a", "b", "c", None]) for _ in range(count)], pa.string()
            ),
            name: np.arange(count),
            f"{name}_text": pa.array(
                [chance.choice(["", "long" * 9, "é", None]) for _ in range(count)],
                chance.choice([pa.string(), pa.binary(), pa.large_string()]),
            ),
        }
    )


def in_order(table: pa.Table, by: str = "ts") -> pa.Table:
    """Sort by time, with nulls first; rows with equal times keep their order."""
    order = pc.sort_indices(table, [(by, "ascending", "at_start")])
    return table.take(order)


def inputs(chance: random.Random, table: pa.Table, folder, name: str):
    """Pass the same rows in another form: a table, a reader, or Parquet files."""
    pieces = sorted(chance.randrange(table.num_rows + 1) for _ in range(3))
    parts = [
        table.slice(start, stop - start)
        for start, stop in zip([0, *pieces], [*pieces, table.num_rows], strict=True)
    ]
    match chance.choice(["table", "reader", "files", "generator"]):
        case "table":
            return pa.concat_tables(parts)
        case "reader":
            return pa.concat_tables(parts).to_reader(max_chunksize=7)
        case "generator":
            batches = (batch for part in parts for batch in part.to_batches(max_chunksize=5))
            return pa.RecordBatchReader.from_batches(table.schema, batches)
    (folder / name).mkdir()
    has_dictionaries = chance.random() < 0.7
    for number, part in enumerate(parts):
        file = folder / name / f"{number}.parquet"
        pq.write_table(part, file, row_group_size=5, use_dictionary=has_dictionaries)
    return folder / name


def check(function, chance, folder, left, right, expected, **query):
    """Check that, with some limit, the batches contain the expected rows in order."""
    limit = chance.choice([6_000, 16_000, 60_000, 10**9])
    given = inputs(chance, left, folder, "left"), inputs(chance, right, folder, "right")
    try:
        with function(*given, **query, memory_limit=limit) as reader:
            found = pa.Table.from_batches([*reader], reader.schema)
    except tg.MemoryLimitError as error:
        if limit < 60_000 and TOO_LITTLE.search(str(error)):
            return False
        raise
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist()
    return True


def two_sides(chance: random.Random, kind: pa.DataType) -> tuple[pa.Table, pa.Table]:
    """Draw a left and a right table, either of which may be empty."""
    counts = [chance.choice([0, 1, 30, 200]) for _ in range(2)]
    left, right = counts
    return rows(chance, left, name="x", kind=kind), rows(chance, right, name="y", kind=kind)


@HOWS_AND_SEEDS
@pytest.mark.usefixtures("small")
def test_an_interval_join_is_that_of_the_sorted_inputs(seed, how, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    left, right = two_sides(chance, pa.timestamp("ms"))
    ends = sorted(chance.choice([-9, -2, 0, 1, 5]) for _ in range(2))
    query = {
        "on": "ts",
        "by": chance.choice([None, "k"]),
        "lower": f"{ends[0]}ms",
        "upper": f"{ends[1]}ms",
        "closed": chance.choice(["both", "left", "neither"]),
        "how": how,
        "where": chance.choice([None, "left.x + right.y > 50"]),
        "columns": chance.choice([None, ["x"] if how in ("semi", "anti") else ["y", "ts"]]),
        "threads": chance.choice([1, 2]),
    }
    expected = tg.interval_join(in_order(left), in_order(right), **query)
    check(tg.interval_join_batches, chance, tmp_path, left, right, expected, **query)


def test_most_limits_of_the_tests_above_are_kept(tmp_path, small):
    kept = 0
    for seed in SEEDS:
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        left, right = two_sides(chance, pa.timestamp("ms"))
        query = {"on": "ts", "by": "k", "lower": "-2ms", "upper": "1ms", "how": "full"}
        expected = tg.interval_join(in_order(left), in_order(right), **query)
        folder = tmp_path / str(seed)
        folder.mkdir()
        kept += check(tg.interval_join_batches, chance, folder, left, right, expected, **query)
    assert kept > len(SEEDS) * 3 // 4


@pytest.mark.parametrize("prevailing", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("small")
def test_functions_of_partners_are_those_of_the_sorted_inputs(seed, prevailing, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    left, right = two_sides(chance, pa.int64())
    right = right.append_column("z", pa.array(np.random.default_rng(seed).random(right.num_rows)))
    query = {
        "on": "ts",
        "by": chance.choice([None, "k"]),
        "lower": chance.choice([-9, -1]),
        "upper": chance.choice([0, 4]),
        "closed": chance.choice(["both", "right"]),
        "how": chance.choice(["left", "inner"]),
        "prevailing": prevailing,
        "aggs": {"n": tg.agg.count(), "sum": tg.agg.sum("z"), "last": tg.agg.last("y")},
    }
    expected = tg.interval_join(in_order(left), in_order(right), **query)
    check(tg.interval_join_batches, chance, tmp_path, left, right, expected, **query)


@pytest.mark.parametrize("strategy", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("small")
def test_an_asof_join_is_that_of_the_sorted_inputs(seed, strategy, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    left, right = two_sides(chance, pa.date32())
    query = {
        "on": "ts",
        "by": chance.choice([None, "k"]),
        "strategy": strategy,
        "tolerance": chance.choice([None, "6d"]),
        "allow_exact_matches": chance.choice([True, False]),
        "how": chance.choice(["left", "inner", "semi", "anti"]),
        "where": chance.choice([None, None, "right.y > left.x / 2"]),
    }
    expected = tg.asof_join(in_order(left), in_order(right), **query)
    check(tg.asof_join_batches, chance, tmp_path, left, right, expected, **query)


def with_ends(chance: random.Random, table: pa.Table) -> pa.Table:
    """Draw rows with individual ends; some starts and ends are null."""
    starts = table.column("ts").to_pylist()
    ends = [start + chance.choice([0, 1, 5, 60]) for start in starts]
    ends = [None if chance.random() < 0.05 else end for end in ends]
    starts = [None if chance.random() < 0.05 else start for start in starts]
    table = table.set_column(0, "ts", pa.array(starts, pa.int64()))
    return table.append_column("end", pa.array(ends, pa.int64()))


@HOWS_AND_SEEDS
@pytest.mark.usefixtures("small")
def test_an_overlap_join_is_that_of_the_sorted_inputs(seed, how, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    left, right = (with_ends(chance, side) for side in two_sides(chance, pa.int64()))
    query = {
        "on": ("ts", "end"),
        "by": chance.choice([None, "k"]),
        "closed": chance.choice(["both", "left"]),
        "min_overlap": chance.choice([None, 2]),
        "open_ends": chance.random() < 0.5,
        "how": how,
    }
    expected = tg.overlap_join(in_order(left), in_order(right), **query)
    check(tg.overlap_join_batches, chance, tmp_path, left, right, expected, **query)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("small")
def test_a_window_join_is_that_of_the_sorted_inputs(seed, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    left, right = two_sides(chance, pa.int64())
    query = {"on": "ts", "by": "k", "window": (3, 1), "how": chance.choice(HOWS)}
    expected = tg.window_join(in_order(left), in_order(right), **query)
    check(tg.window_join_batches, chance, tmp_path, left, right, expected, **query)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("small")
def test_an_aggregation_is_that_of_the_sorted_streams(seed, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    streams = [rows(chance, 150, name="x", kind=pa.int64()) for _ in range(chance.choice([1, 2]))]
    query = {
        "on": "ts",
        "by": chance.choice([None, "k"]),
        "size": 10,
        "advance": chance.choice([None, 4]),
        "aggs": {"n": tg.agg.count(), "mean": tg.agg.mean("x"), "first": tg.agg.first("x")},
        "where": chance.choice([None, "x > 20"]),
    }
    expected = tg.aggregate([in_order(stream) for stream in streams], **query)
    given = [inputs(chance, one, tmp_path, f"{at}") for at, one in enumerate(streams)]
    with tg.aggregate_batches(given, **query, memory_limit=100_000) as reader:
        found = pa.Table.from_batches([*reader], reader.schema)
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist()


# Sorted runs


@pytest.mark.parametrize("count", range(1, 41))
def test_runs_of_several_levels_are_merged_in_the_order_of_their_rows(monkeypatch, count):
    """Rows with equal times stay in input order, regardless of the number of runs."""
    monkeypatch.setattr(sorting, "RUNS", 3)
    schema = pa.schema([("ts", pa.int64()), ("n", pa.int64())])
    batches = [
        pa.record_batch({"ts": [n % 2 * 5, 5], "n": [2 * n, 2 * n + 1]}, schema)
        for n in range(count)
    ]
    with ExitStack() as files:
        runs = sorting.Runs(schema, "ts", shares.Shares(shares.LARGE), files)
        for batch in batches:
            assert not [*filter(None, runs.sort([batch]))]
        found = pa.Table.from_batches(filter(None, runs.rows()), schema).to_pylist()

    rows = pa.Table.from_batches(batches, schema).to_pylist()
    assert found == sorted(rows, key=lambda row: row["ts"])


# Runs in separate processes, to measure the peak memory and the remaining files.

WORK = """
    import sys
    from pathlib import Path
    import tidegate as tg
    left, right = (Path(sys.argv[1], name) for name in ("x.parquet", "y.parquet"))
    query = dict(on="ts", by="k", lower=-5, upper=0, memory_limit=sys.argv[2])
    rows = 0
    with tg.interval_join_batches(left, right, **query) as reader:
        for batch in reader:
            rows += batch.num_rows
    # `resource` would include the peak memory of the parent process.
    status = Path("/proc/self/status").read_text()
    print(rows, int(status.partition("VmHWM:")[2].split()[0]) * 1024)
"""


def write_sides(folder: Path, count: int) -> None:
    """Write two files of rows in no order."""
    for seed, name in enumerate("xy"):
        random_ = np.random.default_rng(seed)
        table = {
            "ts": random_.integers(0, count, count),
            "k": random_.integers(0, 4, count),
            name: random_.random(count),
        }
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table(table), path, row_group_size=1 << 18, use_dictionary=False)


def command(script: str, folder: Path, limit: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(script), str(folder), limit]


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads the peak memory from /proc")
def test_memory_stays_within_the_limit(tmp_path):
    held = []
    for count in (1_000, 2_800_000):
        write_sides(tmp_path, count)
        done = subprocess.run(
            command(WORK, tmp_path, "128MB"), capture_output=True, text=True, check=True
        )
        rows, most = map(int, done.stdout.split())
        assert rows > count
        held.append(most)
    # Both peaks include the modules. The rows of the second run need 134 MB.
    assert held[1] - held[0] < 128_000_000


@pytest.mark.skipif(os.name != "posix", reason="file size limits require POSIX")
def test_a_full_disk_is_told_with_its_folder(tmp_path):
    full = """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    """
    write_sides(tmp_path, 300_000)
    done = subprocess.run(
        command(textwrap.dedent(full) + textwrap.dedent(WORK), tmp_path, "128MB"),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    told = done.stderr.splitlines()[-1]
    assert told.startswith(f"tidegate.TidegateError: {tmp_path}: ")
    assert told.endswith("free space, or set TMPDIR to a folder on a larger disk")
    assert {path.name for path in tmp_path.iterdir()} == {"x.parquet", "y.parquet"}


@pytest.mark.skipif(os.name != "posix", reason="Windows kills without a signal")
def test_a_killed_process_leaves_no_file(tmp_path):
    write_sides(tmp_path, 1_000_000)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    endless = WORK.replace(
        "rows += batch.num_rows", "print('begun', flush=True); __import__('time').sleep(99)"
    )
    with subprocess.Popen(
        command(endless, tmp_path, "128MB"),
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:
        assert process.stdout.readline() == b"begun\n"
        process.kill()
    assert [*temporary.iterdir()] == []


def small_table() -> pa.Table:
    return pa.table({"ts": [3, 1, 2], "x": [1, 2, 3]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t: tg.interval_join(t, t, on="ts", lower=0, upper=0, memory_limit=1000),
            "leave no room for the batches that are held simultaneously; give 256000000 or more",
        ),
        (
            lambda t: tg.interval_join_batches(t, t, on="ts", lower=0, upper=0, memory_limit=1000),
            "memory_limit: 1000 bytes leave no room",
        ),
        (
            lambda t: tg.interval_join(t, t, on="ts", lower=0, upper=0, memory_limit="much"),
            "memory_limit",
        ),
        (
            lambda t: tg.interval_join(
                t, t, on="ts", lower=0, upper=0, memory_limit="1GB", lateness=(1, 2, 3)
            ),
            "lateness: expected one bound, or one for each side, got 3",
        ),
        (
            lambda t: tg.band_join(t, t, on="x", within=1, memory_limit="1GB"),
            "band_join joins by values that are not ordered by time; omit it, or write",
        ),
        (
            lambda t: tg.interval_join(t, t, on="ts", lower=0, upper=0, lateness=5),
            "lateness",
        ),
        (
            lambda t: tg.interval_join(
                t, t, on="ts", lower=0, upper=0, memory_limit="1GB", lateness=1
            ),
            "raise lateness, or omit it to have the input sorted",
        ),
    ],
)
def test_a_limit_that_has_no_meaning_is_told(call, message):
    with pytest.raises((tg.TidegateError, TypeError)) as error:
        call(small_table())
    assert message in str(error.value)


def test_a_table_of_all_rows_has_half_of_the_limit(monkeypatch):
    monkeypatch.setattr(shares, "LEAST", 1)
    table = pa.table({"ts": np.zeros(2_000, np.int64), "x": np.arange(2_000)})
    with pytest.raises(tg.MemoryLimitError, match="half of memory_limit; raise memory_limit, or"):
        tg.interval_join(table, table, on="ts", lower=0, upper=0, memory_limit=2_000_000)


@HOWS_AND_SEEDS
@pytest.mark.usefixtures("small")
def test_ends_of_each_row_are_those_of_the_sorted_inputs(seed, how, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    left, right = two_sides(chance, pa.int64())
    near = np.random.default_rng(seed).integers(0, 9, left.num_rows)
    left = left.append_column("near", pa.array(near, pa.int64()))
    query = {
        "on": "ts",
        "by": chance.choice([None, "k"]),
        "lower": chance.choice([-4, -tg.left.near, tg.left.ts - tg.left.near]),
        "upper": chance.choice([tg.left.near, tg.left.near * 2]),
        "how": how,
    }
    expected = tg.interval_join(in_order(left), in_order(right), **query)
    check(tg.interval_join_batches, chance, tmp_path, left, right, expected, **query)


@pytest.mark.parametrize("window", [tg.rows(3), (tg.rows(5), tg.rows(2))])
def test_windows_of_rows_are_refused(window):
    table = pa.table({"ts": [1, 2], "x": [1, 2]})
    with pytest.raises(tg.TidegateError, match=r"a row-based window counts .* window=\"5s\""):
        tg.window_join_batches(table, table, on="ts", window=window, memory_limit="256MB")
    with pytest.raises(tg.TidegateError, match="a row-based window counts"):
        tg.band_join_batches(
            *(table, table), on="x", within=1, time="ts", window=window, memory_limit="256MB"
        )
