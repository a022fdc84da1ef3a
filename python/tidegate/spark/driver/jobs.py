"""The names of a plan's jobs in Spark's user interface."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_DESCRIPTION = "spark.job.description"


@contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Describe the jobs that begin meanwhile; Spark Connect has no such descriptions."""
    try:
        context = session.sparkContext
    except PySparkException:
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"tidegate: {text}")
    try:
        yield
    finally:
        context._jsc.setLocalProperty(_DESCRIPTION, before)  # noqa: SLF001 - takes None, too
