"""Describes the jobs that a call runs before its result is used, for Spark's user interface."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_DESCRIPTION = "spark.job.description"

# The descriptions of the jobs that have started, if they are being recorded.
_recorded: ContextVar[list[str] | None] = ContextVar("_recorded", default=None)


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Record the descriptions of the jobs that start inside the block."""
    texts: list[str] = []
    token = _recorded.set(texts)
    try:
        yield texts
    finally:
        _recorded.reset(token)


@contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Describe the jobs that start inside the block. Spark Connect has no job descriptions."""
    texts = _recorded.get()
    if texts is not None:
        texts.append(text)
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
        context._jsc.setLocalProperty(_DESCRIPTION, before)  # noqa: SLF001 - also accepts None
