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
import tidegate

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the executor in /proc")

SPARK = Path(pyspark.__file__).parent


@contextmanager
def daemon(log: Path, name: str, *arguments: str) -> Iterator[None]:
    """One of Spark's daemons, its output in a file."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
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


@pytest.mark.parametrize("parallelism", ["broadcast", "hybrid"])
def test_an_executor_that_is_killed_costs_no_row(master, tmp_path, parallelism):
    marker = tmp_path / "killed"
    run = subprocess.run(
        [sys.executable, cluster_join.__file__, master, marker, parallelism],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert marker.exists()
    ids = np.arange(cluster_join.ROWS)
    table = pa.table({"id": ids, "key": ids % 7, "ts": ids * 3})
    pairs = tidegate.interval_join(table, table, on="ts", by="key", lower=-50, upper=50)
    numbers = pairs["id"].to_numpy() * cluster_join.ROWS + pairs["id_right"].to_numpy()
    expected = [len(numbers), len(np.unique(numbers)), int(numbers.sum())]
    assert list(map(int, run.stdout.split())) == expected
