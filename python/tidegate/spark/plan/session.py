"""The settings of a session that plans go by."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# If it has a limit, Spark measures a batch for Python after every row. Older ones have none.
MEASURE = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT = str(2**31 - 1)

STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SHUFFLE_PARTITIONS = 200  # Spark's default
_FRACTION = "0.6"  # Spark's default, of the memory that it does not keep for itself
_RESERVED = 300 << 20  # bytes that it keeps for itself
_UNITS = {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_UNBOUNDED = 2**31 - 1  # Spark's default maximum number of executors
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def has_rocksdb(session: SparkSession) -> bool:
    """Whether streams keep their state in RocksDB: Spark's store, or a vendor's of this name."""
    return (session.conf.get(STORE) or "").endswith(ROCKSDB.rpartition(".")[2])


def wanted(session: SparkSession) -> dict[str, str]:
    """The settings that a session lacks, with the values that they should have."""
    settings = {MEASURE: NO_LIMIT, _CHANGELOG: "true"}
    if not has_rocksdb(session):
        settings[STORE] = ROCKSDB
    return {
        name: value for name, value in settings.items() if session.conf.get(name, None) != value
    }


def shuffle_partitions(session: SparkSession) -> int:
    """Partitions that Spark shuffles rows into if nobody says how many.

    Some hosts let Spark choose (`auto`), from the default number on.
    """
    value = session.conf.get("spark.sql.shuffle.partitions") or ""
    return int(value) if value.isdecimal() else _SHUFFLE_PARTITIONS


def allocated(session: SparkSession) -> int:
    """The number of tasks that can run at once if dynamic allocation requests all executors.

    Returns 0 without dynamic allocation, and the number of shuffle partitions if the number of
    executors is unlimited.
    """
    if session.conf.get("spark.dynamicAllocation.enabled", "false") != "true":
        return 0
    executors = int(session.conf.get("spark.dynamicAllocation.maxExecutors", None) or _UNBOUNDED)
    if executors >= _UNBOUNDED:
        return shuffle_partitions(session)
    cores = int(session.conf.get("spark.executor.cores", None) or 1)
    return executors * (cores // int(session.conf.get("spark.task.cpus", None) or 1))


def task_memory(session: SparkSession) -> int:
    """Bytes that Spark lets a task take for its tables while all cores of a process have tasks.

    0 where the settings do not tell: an executor may have any number of cores unless one is set.
    See "Memory Management Overview" in Spark's guide to tuning.
    """
    local = re.fullmatch(
        r"local(?:\[(\d+|\*)(?:,\d+)?\])?", session.conf.get("spark.master", "") or ""
    )
    if local:
        cores = (os.cpu_count() or 0) if local[1] == "*" else int(local[1] or 1)
    else:
        cores = int(session.conf.get("spark.executor.cores", None) or 0)
    owner = "driver" if local else "executor"
    given = session.conf.get(f"spark.{owner}.memory", None) or "1g"
    size = re.fullmatch(r"(\d+)(?:(b)|([kmgt])b?)?", given.strip().lower())
    if size is None or not cores:
        return 0
    whole = int(size[1]) << _UNITS[size[2] or size[3] or "m"]
    fraction = float(session.conf.get("spark.memory.fraction", None) or _FRACTION)
    return int(max(0, whole - _RESERVED) * fraction) // cores
