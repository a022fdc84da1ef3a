"""A cluster on this machine, whose executors are processes of their own, and some are killed.

What `local[*]` cannot show: tasks in other processes than the driver, which get the plan and the
broadcast side over the network, and executors that take rows with them when they go. Spark's
`local-cluster` is its standalone cluster, with the master and the workers in the driver's process.
One application does all that the tests look at, since to start one takes longer than its queries.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

import cluster
import streaming_query
from cases import more

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the executor in /proc")

CLUSTER = "local-cluster[2,1,1024]"
PARALLELISMS = ["hybrid", *more("broadcast")]
QUERIES = streaming_query.tried("aggregate")


@pytest.fixture(scope="module")
def left_by(tmp_path_factory) -> Callable[[str], Path]:
    """The application has run; give what a part of it has left."""
    folder = tmp_path_factory.mktemp("cluster")
    return cluster.ran(folder, CLUSTER, "executor", PARALLELISMS, QUERIES)


def test_the_example_of_the_manual_needs_no_more_than_the_address_of_a_cluster(left_by):
    printed = left_by("example.txt").read_text()
    # Spark's own averages differ in their last digits, as it adds up what comes first.
    found, expected = (
        re.findall(r"[A-Z]{3}|\d+\.\d{9}", text) for text in (printed, cluster.manual("text"))
    )
    assert found == expected
    assert len(found) == 9


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_an_executor_that_is_killed_costs_no_row(left_by, parallelism):
    assert left_by(f"killed-{parallelism}")
    assert [*map(int, left_by(parallelism).read_text().split())] == cluster.expected()


@pytest.mark.parametrize("query", QUERIES)
def test_executors_of_a_stream_that_are_killed_cost_no_row(left_by, query):
    rows = pq.read_table(left_by(f"{query}/rows.parquet"))
    folder = left_by(query)
    assert len(cluster.markers(folder)) == cluster.KILLS["executor"]
    streaming_query.check(query, folder, rows, restarted=False)
