"""A standalone cluster of Spark on this machine: a master and workers, each a process of its own.

They are started from the jars that PySpark brings, and speak on free ports of 127.0.0.1.
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

# Seconds that a process may take to say that it is ready. Java alone takes some on a busy machine.
PATIENCE = 120


class ClusterError(Exception):
    """A process of the cluster did not start."""


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """Start a master and workers of one core, give the master's address, and end them all."""
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
            # With its executors, which are in its group.
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
    """What a process says once it is ready."""
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
