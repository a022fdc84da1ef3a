"""A standalone cluster of Spark, whose master and two workers are processes of their own.

What `test_spark_cluster.py` cannot show: workers that live in other processes than the driver, and
a whole worker that is killed with its executor. Its rows and its state are then gone, and the other
worker goes on from the checkpoint.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

import cluster
import standalone
import streaming_query

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the executor in /proc")

QUERY = "interval_join"


@pytest.fixture(scope="module")
def left_by(tmp_path_factory) -> Iterator[Callable[[str], Path]]:
    """The application has run; give what a part of it has left."""
    folder = tmp_path_factory.mktemp("standalone")
    with standalone.cluster(folder, workers=2) as address:
        yield cluster.ran(folder, address, "worker", ["key"], [QUERY])


def test_an_executor_that_is_killed_costs_no_row(left_by):
    assert left_by("killed-key")
    assert [*map(int, left_by("key").read_text().split())] == cluster.expected()


def test_a_worker_that_is_killed_costs_no_row_of_a_stream(left_by):
    rows = pq.read_table(left_by(f"{QUERY}/rows.parquet"))
    folder = left_by(QUERY)
    assert len(cluster.markers(folder)) == 1
    streaming_query.check(QUERY, folder, rows, restarted=False)


def test_a_cluster_that_does_not_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(standalone.spark_session, "JVM", "-Xms1g")
    with (
        pytest.raises(standalone.ClusterError, match="heap size"),
        standalone.cluster(tmp_path, workers=1),
    ):
        pass
