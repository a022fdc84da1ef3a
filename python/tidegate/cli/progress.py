"""Shows the progress of work on growing files, as a line on standard error every ten seconds."""

import sys
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import tidegate
from tidegate.cli.feeding import Feeder
from tidegate.io.iso_times import iso

EVERY_S = 10.0


class Progress:
    """Counts rows, and shows how far the work has progressed and which file delays it."""

    def __init__(
        self, operator: tidegate.Operator[Any], feeders: Sequence[Feeder], *, shown: bool
    ) -> None:
        self._operator = operator
        self._feeders = feeders
        self._is_shown = shown
        self._due_s = time.monotonic() + EVERY_S

    def show_if_due(self) -> None:
        """Show a line if ten seconds have passed since the last one."""
        if self._is_shown and time.monotonic() >= self._due_s:
            self._due_s += EVERY_S
            sys.stderr.write(f"tidegate: {self.line()}\n")
            sys.stderr.flush()

    def line(self) -> str:
        """Return the row counts, the time up to which rows are final, and the silent file."""
        stats = self._operator.stats()
        late = f" ({stats['rows_late']:,} of them late)" if stats["rows_late"] else ""
        told = [f"{stats['rows_in']:,} rows in{late}, {stats['rows_out']:,} rows out"]
        told += self._final(stats["watermark"])
        told += [
            f"{feeder.name_of_file} has had no rows for {feeder.silent_s:.0f} s"
            for feeder in self._feeders
            if feeder.is_alive() and feeder.silent_s >= EVERY_S
        ]
        return "; ".join(told)

    def _final(self, watermark: int | None) -> list[str]:
        """Return the time up to which rows are final, and how far it is behind the clock."""
        if watermark is None:
            waiting = [one.name_of_file for one in self._feeders if one.last_time is None]
            return [f"waiting for the first rows of {', '.join(waiting)}"] if waiting else []
        kind = self._feeders[0].time_type
        if not pa.types.is_timestamp(kind):
            return [f"final before {watermark}"]
        at = pa.array([watermark], kind)
        behind = (
            time.time() - at.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())[0].as_py() / 1e9
        )
        told = f"final before {iso(at)[0].as_py()}"
        # Times that do not follow the clock cannot be behind it.
        return [f"{told}, {behind:,.1f} s behind" if 0 <= behind < LONGEST_LAG_S else told]


# Rows with a longer lag are most likely old rows that are being reread, not late ones.
LONGEST_LAG_S = 86_400 * 7
