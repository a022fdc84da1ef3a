"""Joins tables `l` and `r` in SQL that DuckDB and DataFusion share."""

from __future__ import annotations

from workload import COLUMNS, KEY_SHIFT

SELECT = "select " + ", ".join(COLUMNS)


def plain(upper: int) -> str:
    """Join on equal keys and close times, as most users would first write it."""
    return f"{SELECT} from l join r on k = k2 and {close(upper)}"


def range_join(upper: int) -> str:
    """Combine key and time into one number, so that a range join finds only the pairs."""
    code = f"* {1 << KEY_SHIFT} +"
    return (
        f"{SELECT} from (select *, k {code} t as code from l) x"  # noqa: S608  (numbers only)
        f" join (select *, k2 {code} t2 as code2 from r) y"
        f" on code2 between code - {upper} and code + {upper}"
    )


def buckets(upper: int, widen: int, divide: str) -> str:
    """Put a left row into each of the at most two time buckets that its interval touches.

    `upper` is added to times, so that no bucket is negative and division rounds down in both
    systems. Key and bucket are packed into one integer, which is faster to join than two columns.
    """
    width = 2 * upper * widen + 1
    first = f"t {divide} {width}"
    last = f"(t + {2 * upper}) {divide} {width}"
    own = f"(t2 + {upper}) {divide} {width}"
    spread = (
        f"select *, {_packed('k', first)} as bucket from l union all"  # noqa: S608  (numbers only)
        f" select *, {_packed('k', last)} from l where {first} < {last}"
    )
    return (
        f"{SELECT} from ({spread}) x"  # noqa: S608  (as above)
        f" join (select *, {_packed('k2', own)} as bucket2 from r) y"
        f" on bucket = bucket2 where {close(upper)}"
    )


def neighbours(upper: int) -> str:
    """Join each left row with the right rows in its time bucket, the previous and the next one."""
    width = 2 * upper + 1
    return " union all ".join(
        f"{SELECT} from l join r on k = k2 and t // {width} + ({step}) = t2 // {width}"
        f" and {close(upper)}"
        for step in (-1, 0, 1)
    )


def close(upper: int) -> str:
    """Return the condition on times."""
    return f"t2 between t - {upper} and t + {upper}"


def _packed(key: str, bucket: str) -> str:
    return f"{key} * {1 << 32} + {bucket}"
