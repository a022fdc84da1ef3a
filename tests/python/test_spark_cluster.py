"""A standalone cluster on this machine, a master and two workers, of which an executor is killed.

What `local[*]` cannot show: tasks in other processes than the driver, which get the plan and the
broadcast side over the network, and executors that take rows with them when they go.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyspark
import pytest

import cluster_join
import cluster_stream
import spark_session
import streaming
import streaming_query
import tidegate
from cases import more

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the executor in /proc")

SPARK = Path(pyspark.__file__).parent


@contextmanager
def daemon(log: Path, name: str, *arguments: str) -> Iterator[None]:
    """One of Spark's daemons, its output in a file."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": spark_session.JVM,
        "PYSPARK_PYTHON": spark_session.python(),
    }
    command = [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("w") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def said(log: Path, pattern: str) -> str:
    """What a daemon has written, once it has."""
    for _ in range(1_200):
        found = re.search(pattern, log.read_text())
        if found:
            return found[0]
        time.sleep(0.1)
    pytest.fail(f"{log.name}: no {pattern!r} in\n{log.read_text()}")


@pytest.fixture(scope="module")
def master(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        log = folder / "master"
        stack.enter_context(daemon(log, "master.Master", *here, "--port", "0"))
        url = said(log, r"spark://127\.0\.0\.1:\d+")
        for number in range(2):
            log = folder / f"worker{number}"
            room = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder))
            stack.enter_context(daemon(log, "worker.Worker", *here, *room, url))
            said(log, "Successfully registered with master")
        yield url


def ran(*command: object, **environment: str) -> str:
    """What a script on the cluster prints."""
    run = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYSPARK_PYTHON": spark_session.python(), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("parallelism", ["hybrid", *more("broadcast")])
def test_an_executor_that_is_killed_costs_no_row(master, tmp_path, parallelism):
    marker = tmp_path / "killed"
    printed = ran(cluster_join.__file__, master, marker, parallelism)
    assert marker.exists()
    ids = np.arange(cluster_join.ROWS)
    table = pa.table({"id": ids, "key": ids % 7, "ts": ids * 3})
    pairs = tidegate.interval_join(table, table, on="ts", by="key", lower=-50, upper=50)
    numbers = pairs["id"].to_numpy() * cluster_join.ROWS + pairs["id_right"].to_numpy()
    expected = [len(numbers), len(np.unique(numbers)), int(numbers.sum())]
    assert list(map(int, printed.split())) == expected


@pytest.mark.parametrize("query", streaming_query.tried("aggregate"))
def test_executors_of_a_stream_that_are_killed_cost_no_row(master, tmp_path, query):
    pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")
    streaming.write(tmp_path, 5, seed=5)
    ran(cluster_stream.__file__, master, tmp_path, query)
    assert len(cluster_stream.markers(tmp_path)) == cluster_stream.KILLS
    # The sink's own log tells which files count.
    found = spark_session.start().read.parquet(str(tmp_path / "found")).toArrow()
    if query == "aggregate":
        streaming.check_windows(tmp_path, found, aggs=streaming_query.AGGS)
    else:
        streaming.check(tmp_path, found, how=streaming_query.HOW)


def test_the_example_of_the_readme_needs_no_more_than_the_address_of_a_cluster(master, tmp_path):
    text = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"## From PySpark\n\n```python\n(.*?)```", text, re.DOTALL)
    [shown] = re.findall(r"## From PySpark.*?```text\n(.*?)```", text, re.DOTALL)
    assert '.master("local[*]")' in example
    script = tmp_path / "example.py"
    script.write_text(example.replace("local[*]", master))
    # What an administrator sets for all programs, so that short jobs do not wait for Java.
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.driver.extraJavaOptions {spark_session.JVM}\n"
        f"spark.executor.extraJavaOptions {spark_session.JVM}\n"
        "spark.sql.shuffle.partitions 4\n"
        "spark.ui.enabled false\n"
    )
    printed = ran(script, SPARK_CONF_DIR=str(tmp_path))
    # Spark's own averages differ in their last digits, as it adds up what comes first.
    found, expected = (re.findall(r"[A-Z]{3}|\d+\.\d{9}", text) for text in (printed, shown))
    assert found == expected
    assert len(found) == 9
