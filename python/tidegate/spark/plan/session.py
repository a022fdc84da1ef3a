"""The settings of a session that plans go by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# If it has a limit, Spark measures a batch for Python after every row. Older ones have none.
MEASURE = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT = str(2**31 - 1)

STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SHUFFLE_PARTITIONS = 200  # Spark's default
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
