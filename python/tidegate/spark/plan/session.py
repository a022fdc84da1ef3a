"""The session settings that affect plans."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from tidegate.spark.plan.host import host_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# If this setting is a limit, Spark measures a batch for Python after every row. Older versions do
# not have the setting.
MEASURE = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT = str(2**31 - 1)

STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SHUFFLED = "spark.sql.shuffle.partitions"
_SHUFFLE_PARTITIONS = 200  # Spark's default
_FRACTION = "0.6"  # Spark's default share of the memory that it does not reserve
_RESERVED = 300 << 20  # bytes that Spark reserves
_UNITS = {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_UNBOUNDED = 2**31 - 1  # Spark's default maximum number of executors
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def has_rocksdb(session: SparkSession) -> bool:
    """Return whether streams use Spark's RocksDB state store or a vendor's store with that name."""
    return (session.conf.get(STORE) or "").endswith(ROCKSDB.rpartition(".")[2])


def wanted(session: SparkSession) -> dict[str, str]:
    """Return the recommended settings that a session lacks, with their values."""
    settings = {MEASURE: NO_LIMIT, _CHANGELOG: "true"}
    if not has_rocksdb(session):
        settings[STORE] = ROCKSDB
    return {
        name: value for name, value in settings.items() if session.conf.get(name, None) != value
    }


def shuffle_partitions(session: SparkSession) -> int:
    """Return the number of partitions that Spark uses for a shuffle by default.

    On some platforms, the setting is `auto`. Spark then chooses the number, starting with the
    default. Sail ignores the setting, so it is used there only if the user has set it.
    """
    shuffled = host_of(session).shuffled
    if shuffled is not None:
        return int(session.conf.get(_SHUFFLED, None) or shuffled)
    value = session.conf.get(_SHUFFLED) or ""
    return int(value) if value.isdecimal() else _SHUFFLE_PARTITIONS


def allocated(session: SparkSession) -> int:
    """Return the number of tasks that can run in parallel if all executors are allocated.

    Without dynamic allocation, the result is 0. If the number of executors is unlimited, the result
    is the number of shuffle partitions.
    """
    if session.conf.get("spark.dynamicAllocation.enabled", "false") != "true":
        return 0
    executors = int(session.conf.get("spark.dynamicAllocation.maxExecutors", None) or _UNBOUNDED)
    if executors >= _UNBOUNDED:
        return shuffle_partitions(session)
    cores = int(session.conf.get("spark.executor.cores", None) or 1)
    return executors * (cores // int(session.conf.get("spark.task.cpus", None) or 1))


def task_memory(session: SparkSession) -> int:
    """Return how many bytes a task can use for tables while all cores of a process are busy.

    Returns 0 if the settings do not determine this number. Unless the number of cores is set, an
    executor can have any number of cores. See "Memory Management Overview" in Spark's tuning guide.
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
