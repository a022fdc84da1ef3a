"""A standalone Spark cluster on this machine: a master and workers, each in a separate process.

They are started from PySpark's jars, and listen on free ports of 127.0.0.1.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

import spark_session

# The seconds that a process may take to become ready. Starting Java takes long on a busy machine.
PATIENCE = 120


class ClusterError(Exception):
    """Raised if a process of the cluster does not start."""


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """Start a master and single-core workers, yield the master's address, and end all processes."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        port = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        running.append(_started(folder / "master.log", "master.Master", *port))
        address = _said(
            running[0], folder / "master.log", r"Starting Spark master at (spark://\S+)"
        )
        for number in range(workers):
            work = folder / f"worker-{number}"
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(work))
            log = folder / f"worker-{number}.log"
            running.append(_started(log, "worker.Worker", *port, *limits, address))
        for number, process in enumerate(running[1:]):
            _said(
                process, folder / f"worker-{number}.log", r"(Successfully registered with master)"
            )
        yield address
    finally:
        for process in reversed(running):
            # A worker's executors are in its process group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)


def _started(log: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = _find_spark_home()
    command = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{name}", *arguments]
    settings = {
        "PYSPARK_PYTHON": spark_session.python(),
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": spark_session.JVM,
    }
    with log.open("wb") as said:
        return subprocess.Popen(
            command,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """Wait until a process logs that it is ready, and return the matched text."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        ended = process.poll() is not None
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[1]
        if ended:
            break
        time.sleep(0.1)
    message = f"no {pattern!r} in {log}:\n{log.read_text(errors='replace')[-2_000:]}"
    raise ClusterError(message)
