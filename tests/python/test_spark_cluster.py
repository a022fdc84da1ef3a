"""A cluster on this machine, whose executors are processes of their own, and some are killed.

What `local[*]` cannot show: tasks in other processes than the driver, which get the plan and the
broadcast side over the network, and executors that take rows with them when they go. Spark's
`local-cluster` is its standalone cluster, with the master and the workers in the driver's process.
One application does all that the tests look at, since to start one takes longer than its queries.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

import cluster
import spark_session
import streaming
import streaming_query
import tidegate
from cases import more

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the executor in /proc")

ROOT = Path(__file__).parents[2]
CLUSTER = "local-cluster[2,1,1024]"
PARALLELISMS = ["hybrid", *more("broadcast")]
QUERIES = streaming_query.tried("aggregate")


def manual(begin: str) -> str:
    """The first block of the manual's page that begins with this."""
    text = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{begin}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[0]


@pytest.fixture(scope="module")
def left_by(tmp_path_factory) -> Callable[[str], Path]:
    """The application has run; give what a part of it has left."""
    folder = tmp_path_factory.mktemp("cluster")
    example = manual("python")
    assert '.master("local[*]")' in example
    (folder / "example.py").write_text(example.replace("local[*]", CLUSTER))
    # What an administrator sets for all programs, so that short jobs do not wait for Java.
    (folder / "spark-defaults.conf").write_text(
        f"spark.driver.extraJavaOptions {spark_session.JVM}\n"
        f"spark.executor.extraJavaOptions {spark_session.JVM}\n"
        "spark.python.daemon.module spark_daemon\n"
        "spark.sql.shuffle.partitions 4\n"
        "spark.ui.enabled false\n"
    )
    for query in QUERIES:
        streaming.write(folder / query, 2, seed=5)
    run = subprocess.run(
        [sys.executable, cluster.__file__, folder, ",".join(PARALLELISMS), ",".join(QUERIES)],
        cwd=ROOT,
        env={
            **os.environ,
            "PYSPARK_PYTHON": spark_session.python(),
            "SPARK_CONF_DIR": str(folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    def left(name: str) -> Path:
        assert (folder / name).exists(), run.stderr
        return folder / name

    return left


def test_the_example_of_the_manual_needs_no_more_than_the_address_of_a_cluster(left_by):
    printed = left_by("example.txt").read_text()
    # Spark's own averages differ in their last digits, as it adds up what comes first.
    found, expected = (
        re.findall(r"[A-Z]{3}|\d+\.\d{9}", text) for text in (printed, manual("text"))
    )
    assert found == expected
    assert len(found) == 9


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_an_executor_that_is_killed_costs_no_row(left_by, parallelism):
    assert left_by(f"killed-{parallelism}")
    ids = np.arange(cluster.ROWS)
    table = pa.table({"id": ids, "key": ids % 7, "ts": ids * 3})
    pairs = tidegate.interval_join(table, table, on="ts", by="key", lower=-50, upper=50)
    numbers = pairs["id"].to_numpy() * cluster.ROWS + pairs["id_right"].to_numpy()
    expected = [len(numbers), len(np.unique(numbers)), int(numbers.sum())]
    assert [*map(int, left_by(parallelism).read_text().split())] == expected


@pytest.mark.parametrize("query", QUERIES)
def test_executors_of_a_stream_that_are_killed_cost_no_row(left_by, query):
    rows = pq.read_table(left_by(f"{query}/rows.parquet"))
    folder = left_by(query)
    assert len(cluster.markers(folder)) == cluster.KILLS
    streaming_query.check(query, folder, rows, restarted=False)
