"""The engine behind a session: Spark, or Sail, which serves Spark Connect without Spark.

Each session queries its engine only once. The answers affect the speed of a call, never its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidegate.spark.layout.costs import SAIL, SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.layout.costs import Prices

# The number of rows from which an engine is asked for the number of partitions of a shuffle. Each
# partition receives some of them.
_SPREAD = 10_000


class Host(NamedTuple):
    """The properties of an engine.

    `places_rows` specifies whether it can assign a row to a partition by number. Spark can since
    version 4.1. `shuffled` is the number of partitions of a shuffle if settings do not determine
    it, and None otherwise.
    """

    places_rows: bool
    is_sail: bool = False
    shuffled: int | None = None

    @property
    def prices(self) -> Prices:
        """The costs of a join's steps."""
        return SAIL if self.is_sail else SPARK


# The answers of servers of Spark Connect.
_answers: WeakKeyDictionary[SparkSession, Host] = WeakKeyDictionary()


def host_of(session: SparkSession) -> Host:
    """Return a session's engine. The first call may query a Spark Connect server."""
    if not type(session).__module__.startswith("pyspark.sql.connect."):
        return Host(hasattr(DataFrame, "repartitionById"))
    if session not in _answers:
        _answers[session] = _asked(session)
    return _answers[session]


def _asked(session: SparkSession) -> Host:
    """Return the capabilities of a Spark Connect server. The server may be older than PySpark."""
    if not _is_sail(session):
        return Host(_places_rows(session))
    rows = session.range(_SPREAD).groupBy("id").count()
    numbers = rows.select(F.spark_partition_id().alias("number")).distinct()
    return Host(_places_rows(session), is_sail=True, shuffled=numbers.count())


def _is_sail(session: SparkSession) -> bool:
    """Return whether the server is Sail. Unlike a Spark application, Sail has no identifier."""
    try:
        return session.conf.get("spark.app.id", None) is None
    except PySparkException:
        # Some vendors do not report the setting.
        return False


def _places_rows(session: SparkSession) -> bool:
    if not hasattr(DataFrame, "repartitionById"):
        return False
    try:
        # A server rejects an expression that it does not know when it reports the columns.
        placed = session.range(1).repartitionById(1, F.lit(0)).columns
    except PySparkException:
        return False
    return placed == ["id"]
