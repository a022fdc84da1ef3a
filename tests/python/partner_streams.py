"""Random streams for joins with one result row per left row, and the rows that are used."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate import StreamJoin

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("k", pa.int64()),
        ("x", pa.int64()),
        ("v", pa.float64()),
        ("s", pa.string()),
        ("id", pa.int64()),
    ]
)

Event = tuple[int, pa.Table | int | None]
"""The number of a source, and the rows that it pushes, a time that it promises, or its end."""


@dataclass(frozen=True)
class Streams:
    """The events of sources, in order for each of them, and the rows that are not late."""

    histories: Sequence[Sequence[Event]]
    left_sources: int
    lateness: int
    left: pa.Table
    right: pa.Table
    late: int

    @property
    def sources(self) -> tuple[int, int]:
        """Return the number of left sources and the number of right sources."""
        return self.left_sources, len(self.histories) - self.left_sources

    def events(self, rng: random.Random) -> list[Event]:
        """Interleave all events at random."""
        waiting = [list(history) for history in self.histories]
        found = []
        while waiting:
            turn = rng.choice(waiting)
            found.append(turn.pop(0))
            if not turn:
                waiting.remove(turn)
        return found


def draw(rng: random.Random, *, rows: int = 40, span: int = 30, keys: int = 3) -> Streams:
    """Draw streams of a few sources on each side, with ties, nulls, NaN and late rows."""
    lateness = rng.choice([0, 0, 1, 4])
    counts = rng.randint(1, 3), rng.randint(1, 3)
    histories, used, late = [], ([], []), 0
    for number in range(sum(counts)):
        side = int(number >= counts[0])
        history, own, missed = _source(rng, number, rng.randrange(rows), span, keys, lateness)
        histories.append(history)
        used[side].extend(own)
        late += missed
    # Merged order: time, source, position. Sources and positions are already ascending.
    left, right = (
        pa.Table.from_pylist(sorted(side, key=lambda row: row["ts"]), SCHEMA) for side in used
    )
    return Streams(histories, counts[0], lateness, left, right, late)


def _source(
    rng: random.Random, number: int, rows: int, span: int, keys: int, lateness: int
) -> tuple[list[Event], list[dict[str, Any]], int]:
    times = sorted(rng.randrange(span) for _ in range(rows))
    if lateness:
        times = sorted(times, key=lambda ts: ts + rng.randint(0, lateness + rng.choice([0, 0, 2])))
    made = [_row(rng, ts, keys, 1000 * number + at) for at, ts in enumerate(times)]
    history: list[Event] = []
    used, late, watermark = [], 0, -(2**62)
    while made:
        if rng.random() < 0.2:
            promise = rng.randrange(span)
            watermark = max(watermark, promise)
            history.append((number, promise))
        count = rng.randint(1, 8)
        piece, made = made[:count], made[count:]
        history.append((number, pa.Table.from_pylist(piece, SCHEMA)))
        for row in piece:
            if row["ts"] < watermark:
                late += 1
            else:
                used.append(row)
                watermark = max(watermark, row["ts"] - lateness)
    history.append((number, None))
    return history, used, late


def _row(rng: random.Random, ts: int, keys: int, number: int) -> dict[str, Any]:
    return {
        "ts": ts,
        "k": rng.choice([None, *range(keys)]) if rng.random() < 0.2 else rng.randrange(keys),
        "x": rng.choice([None, *range(-9, 9)]),
        # Sums of these values are rounded, so they depend on the order of additions.
        "v": rng.choice([None, float("nan"), -0.0]) if rng.random() < 0.1 else rng.gauss(0, 1e3),
        "s": rng.choice([None, "a", "bb", "ccc"]),
        "id": number,
    }


def play(
    make: Callable[..., StreamJoin],
    streams: Streams,
    rng: random.Random,
    *,
    restores: bool = True,
    checks: Callable[[StreamJoin], None] = lambda _: None,
) -> pa.Table:
    """Feed a join in some order, with polls and restarts in between, and return all results."""
    join = make(threads=rng.choice([1, 2]))
    batches: list[pa.RecordBatch] = []
    for number, event in streams.events(rng):
        happen(join, number, event)
        if rng.random() < 0.4:
            batches.extend(iter(join.poll, None))
            checks(join)
        if restores and rng.random() < 0.1:
            snapshot = join.snapshot()
            join = make(threads=rng.choice([1, 2]))
            join.restore(snapshot)
            assert join.snapshot() == snapshot
    batches.extend(join)
    stats = join.stats()
    assert stats["rows_in"] == stats["rows_used"] + stats["rows_late"]
    assert stats["rows_late"] == join.late().num_rows == streams.late
    assert stats["rows_used"] == streams.left.num_rows + streams.right.num_rows
    assert stats["state_rows"] == 0
    found = pa.Table.from_batches(batches, join.schema)
    assert stats["rows_out"] == found.num_rows
    return found


def happen(join: StreamJoin, number: int, event: pa.Table | int | None) -> None:
    """Apply an event to its source."""
    source = join.sources[number]
    if event is None:
        source.close()
    elif isinstance(event, int):
        source.advance(event)
    else:
        source.push(event)


def bits(table: pa.Table) -> list[str]:
    """Return the rows with floats replaced, so that different bits differ and NaN equals NaN."""
    return [repr(row) for row in table.to_pylist()]
