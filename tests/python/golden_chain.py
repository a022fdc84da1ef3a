"""Create the snapshot of a chain that later versions must restore: run this file.

It is written to a folder named after the version in the snapshot. Existing files stay unchanged.
"""

import zlib

import pyarrow as pa

from golden import FOLDER, rows_of
from states import LEFT, RIGHT, table
from tidegate import Aggregate, Chain, IntervalJoin, agg

CHAINS = FOLDER / "chains"
VERSION_AT = len(b"TIDECHAIN")


def version_of(snapshot: bytes) -> int:
    """Return the version of the format of chains, which is part of a snapshot."""
    return int.from_bytes(snapshot[VERSION_AT : VERSION_AT + 2], "little")


def make() -> tuple[IntervalJoin, Chain]:
    """Create an interval join that feeds an aggregation."""
    join = IntervalJoin(
        LEFT, RIGHT, on="ts", by="k", lower=-6, upper=3, sources=(2, 1), lateness=2, threads=1
    )
    pairs = {"pairs": agg.count(), "least": agg.min("x_right"), "last": agg.last("text")}
    schema = join.schema.append(pa.field("seen", pa.int64()))
    count = Aggregate(schema, on="seen", by="k", size=10, advance=5, aggs=pairs, threads=1)
    return join, Chain(count, {count.sources[0]: (join, "later")})


def used() -> tuple[IntervalJoin, Chain]:
    """Create a chain with rows in both operators, some of whose results have been emitted."""
    join, chain = make()
    pushes = [(0, [1, 4, 3, 9, 28]), (1, [2, 8, 15, 27]), (2, [0, 2, 6, 9, 13, 26])]
    for number, times in pushes:
        join.sources[number].push(table((LEFT, LEFT, RIGHT)[number], times))
    assert chain.poll() is not None
    return join, chain


def go_on(join: IntervalJoin, chain: Chain) -> list[dict[str, object]]:
    """Return the rows that are emitted after the remaining rows have been pushed."""
    for number, times in [(0, [30, 31, 45]), (1, [29, 40]), (2, [25, 30, 33, 50])]:
        join.sources[number].push(table((LEFT, LEFT, RIGHT)[number], times))
        join.sources[number].close()
    batches: list[pa.RecordBatch] = []
    while (batch := chain.poll()) is not None:
        batches.append(batch)
    return [row for batch in batches for row in batch.to_pylist()]


def main() -> None:
    """Write the snapshot, unless it exists."""
    join, chain = used()
    snapshot = chain.snapshot()
    path = CHAINS / f"{version_of(snapshot)}.snapshot"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zlib.compress(snapshot, 9))
        path.with_suffix(".rows").write_text(rows_of(go_on(join, chain)))


if __name__ == "__main__":
    main()
