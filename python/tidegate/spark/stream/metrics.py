"""Reports a stream's row count and other metrics in the progress of its query.

In each micro-batch, every bucket with work reports its metrics. Spark adds up these numbers as
observed metrics. Spark's own `stateOperators` metrics count only the entries and bytes of the whole
store.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


class Numbers(NamedTuple):
    """The metrics of a bucket. Output rows that contain a batch have no metrics."""

    came: int | None = None
    set_aside: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    of_hot_key: int | None = None
    hot_key: str | None = None
    results: int | None = None
    digest_0: int | None = None
    digest_1: int | None = None
    digest_2: int | None = None
    digest_3: int | None = None


# The Spark schema of these numbers.
COLUMNS = ", ".join(
    f"{name} {'string' if name == 'hot_key' else 'bigint'}" for name in Numbers._fields
)

# Spark cannot add 128-bit integers. Digits of 32 bits, starting with the least significant one, can
# be added over all buckets.
_BITS = 32
_MASK = (1 << _BITS) - 1
_DIGITS = [name for name in Numbers._fields if name.startswith("digest_")]


class Digested:
    """Counts results as they pass through and computes an order-independent digest of them."""

    def __init__(self) -> None:
        """Start without results."""
        self._digest: tidegate.Digest | None = None

    def passed(self, results: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results, counting each one."""
        for batch in results:
            if self._digest is None:
                self._digest = tidegate.Digest(batch.schema)
            self._digest.update(batch, threads=1)
            yield batch

    def told(self, numbers: Numbers) -> Numbers:
        """Return the metrics of a bucket, including those of its results."""
        rows, left = 0, 0
        if self._digest is not None:
            rows, left = self._digest.rows, int(self._digest.sum, 16)
        digits = [left >> _BITS * at & _MASK for at in range(4)]
        return numbers._replace(
            results=rows,
            digest_0=digits[0],
            digest_1=digits[1],
            digest_2=digits[2],
            digest_3=digits[3],
        )


# A query may have several calls, whose metrics must have different names.
_calls = itertools.count(1)


def _sum_of_digests() -> Column:
    """Return the sum of the buckets' digests modulo 2^128, as 32 hexadecimal digits."""
    digits: list[Column] = []
    carry = F.lit(0)
    for name in _DIGITS:
        total = F.expr(f"coalesce(sum({name}), 0L)") + carry
        digits.insert(0, total.bitwiseAND(_MASK))
        carry = F.shiftright(total, _BITS)
    # This avoids `lower`: on its first call, Spark reads all of Unicode, which takes seconds.
    return F.format_string(f"%0{_BITS // 4}x" * len(digits), *digits)


def observed(results: DataFrame, function: str, *, digest: bool) -> DataFrame:
    """Return the output of a call's buckets, with an observation that adds up their metrics.

    With `digest`, the metrics also include the number and the digest of the results.
    """
    sums = {
        "rows": "came",
        "late_rows": "set_aside",
        "state_rows": "state_rows",
        "state_bytes": "state_bytes",
        **({"result_rows": "results"} if digest else {}),
    }
    return results.observe(
        f"tidegate.{function} {next(_calls)}",
        F.count("came").alias("buckets"),
        *(F.expr(f"coalesce(sum({column}), 0L)").alias(name) for name, column in sums.items()),
        F.expr("coalesce(max(came), 0L)").alias("rows_of_fullest"),
        F.expr("max_by(hot_key, of_hot_key)").alias("hot_key"),
        F.expr("coalesce(max(of_hot_key), 0L)").alias("rows_of_hot_key"),
        *([_sum_of_digests().alias("digest")] if digest else []),
    )
