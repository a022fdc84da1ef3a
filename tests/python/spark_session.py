"""One Spark session for all tests that need Spark: two cores, small, an awkward time zone."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
from pyspark.sql import SparkSession

import tidegate
from tidegate.spark.plan.session import wanted

JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Java's settings for short runs.

Code is compiled quickly, one thread collects garbage, and Spark's classes are not verified. Java's
second compiler would take half of the processor time, because tests run each plan once.
"""

FOLDER = TemporaryDirectory(prefix="spark-python-")


@cache
def python() -> str:
    """Return the command that starts this Python for Spark, with PySpark as it is installed.

    Spark puts an archive of PySpark in front of it, and Python would compile the archive's modules
    again in each process, which takes a second. Workers import the same `tidegate` as the tests.
    """
    command = Path(FOLDER.name, "python")
    path = os.pathsep.join(str(Path(file).parent) for file in (__file__, *tidegate.__path__))
    command.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} "$@"\n')
    command.chmod(0o755)
    return str(command)


def _manager() -> str:
    room = "" if pyspark.__version__.startswith("4.0") else "checkpointing."
    return f"org.apache.spark.sql.execution.streaming.{room}FileSystemBasedCheckpointFileManager"


SHORT = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.streaming.checkpointFileManagerClass": _manager(),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.python.daemon.module": "spark_daemon",
}
"""Spark's settings for short queries.

Spark interprets its plans, because compiling one takes longer than running it on a few rows. It
does not format plans for a web page that is never read, and PySpark does not report the line of
each call to Java. Checkpoint files have no second file with a checksum, and are renamed without
starting `readlink` for each.
"""


def start(master: str = "local[2,4]") -> SparkSession:
    """Start the session, or return the running one. A task may fail three times."""
    os.environ["PYSPARK_PYTHON"] = python()
    session = (
        SparkSession.builder.master(master)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraJavaOptions", JVM)
        .config(map=SHORT)
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


@contextmanager
def unconfigured(session: SparkSession) -> Iterator[None]:
    """Let an example configure the session temporarily."""
    with settings(session, **{name.replace(".", "__"): None for name in wanted(session)}):
        yield


@contextmanager
def settings(session: SparkSession, **values: object) -> Iterator[None]:
    """Set SQL options temporarily. `__` in a name means a dot, and `None` leaves it unchanged."""
    names = {name.replace("__", "."): value for name, value in values.items()}
    before = {name: session.conf.get(name, None) for name in names}
    for name, value in names.items():
        if value is not None:
            session.conf.set(name, str(value))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)
