"""Computes digests for `tidegate digest`, which reads tables batch by batch."""

import tidegate
from tidegate.cli.tables import Input, opened


def run(given: Input, *, ordered: bool, threads: int | None) -> str:
    """Return the digest of the rows in a table."""
    [table] = opened([given], streamed=True)
    try:
        return tidegate.digest(table, ordered=ordered, threads=threads)
    except tidegate.TidegateError as error:
        # Arrow's C interface passes on only the message of a reader's exception.
        raise (error if table.failure is None else table.failure) from error
