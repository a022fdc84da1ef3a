"""Sessions of Spark Connect with a server: the rows of the native calls."""

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("grpc_status", reason="Spark Connect needs pyspark[connect]")
pytest.importorskip("google.protobuf", reason="Spark Connect needs protobuf")

import connect
import tidegate


def rows(seed, count, value):
    rng = np.random.default_rng(seed)
    columns = {"k": rng.integers(0, 5, count), "ts": rng.integers(0, 1_000, count)}
    return pa.table({**columns, value: rng.integers(0, 100, count)})


LEFT, RIGHT = rows(1, 500, "a"), rows(2, 400, "b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Run the application in a process that uses Spark Connect, and return its output folder."""
    folder = tmp_path_factory.mktemp("connect")
    pq.write_table(LEFT, folder / "left.parquet")
    pq.write_table(RIGHT, folder / "right.parquet")
    run = subprocess.run(
        [sys.executable, connect.__file__, folder],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-10_000:]
    return folder


def counted(table):
    return Counter(repr([*row.values()]) for row in table.to_pylist())


@pytest.mark.parametrize("query", connect.JOINS)
def test_rows_are_those_of_the_native_join(folder, query):
    join, arguments = connect.JOINS[query]
    native = {name: value for name, value in arguments.items() if name != "parallelism"}
    expected = getattr(tidegate, join)(LEFT, RIGHT, **native)
    assert expected.num_rows > 10
    assert counted(pq.read_table(folder / f"{query}.parquet")) == counted(expected)


def test_tasks_read_files_and_write_their_results(folder):
    expected = counted(tidegate.interval_join(LEFT, RIGHT, **connect.NEAR, how="full"))
    assert counted(pq.read_table(folder / "files.parquet")) == expected
    assert len([*(folder / "sink").iterdir()]) == 3
    assert counted(pq.read_table(folder / "sink")) == expected


def test_workers_map_the_file_of_an_index(folder):
    expected = tidegate.interval_join(LEFT, RIGHT, **connect.NEAR, how="left")
    assert counted(pq.read_table(folder / "index.parquet")) == counted(expected)


def test_windows_are_those_of_the_native_aggregation(folder):
    expected = tidegate.aggregate(LEFT.sort_by("ts"), **connect.WINDOWS)
    assert counted(pq.read_table(folder / "aggregate.parquet")) == counted(expected)


def test_a_stream_is_joined_with_a_table_if_that_is_sent_whole(folder):
    expected = tidegate.interval_join(LEFT, RIGHT, **connect.NEAR)
    assert counted(pq.read_table(folder / "stream.parquet")) == counted(expected)
    message = (folder / "refused.txt").read_text()
    assert "right is of unknown size, and left is a stream" in message
    assert "give parallelism='broadcast'" in message
