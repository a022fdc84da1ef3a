"""A standalone cluster on this machine, some of whose processes are killed.

The tests cover what `local[*]` does not. Tasks outside the driver's process receive the plan and
the broadcast side over the network. A lost executor loses its rows. If a worker is lost together
with its executor, the other worker resumes from the checkpoint. One application runs everything
that the tests check, because starting one takes longer than its queries.
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
from cases import more

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the executor in /proc")

PARALLELISMS = ["hybrid", "files", *more("broadcast")]
QUERIES = streaming_query.tried("aggregate")


@pytest.fixture(scope="module")
def left_by(tmp_path_factory) -> Iterator[Callable[[str], Path]]:
    """Run the application, and return a function that gives the output folder of a part."""
    folder = tmp_path_factory.mktemp("cluster")
    with standalone.cluster(folder, workers=2) as address:
        yield cluster.ran(folder, address, PARALLELISMS, QUERIES)


def test_the_example_of_the_manual_needs_no_more_than_the_address_of_a_cluster(left_by):
    printed = left_by("example.txt").read_text()
    assert printed.strip() == cluster.manual("text").strip()


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_an_executor_that_is_killed_costs_no_row(left_by, parallelism):
    assert left_by(f"killed-{parallelism}")
    assert [*map(int, left_by(parallelism).read_text().split())] == cluster.expected()


@pytest.mark.parametrize("query", QUERIES)
def test_what_is_killed_under_a_stream_costs_no_row(left_by, query):
    rows = pq.read_table(left_by(f"{query}/rows.parquet"))
    folder = left_by(query)
    kills = cluster.KILLS_OF_LAST if query == QUERIES[-1] else cluster.KILLS
    assert len(cluster.markers(folder)) == kills
    streaming_query.check(query, folder, rows, restarted=False)
