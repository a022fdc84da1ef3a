"""Carries each key's last rows into later slices, or its first rows into earlier slices.

A *carry* moves rows in one direction. Its preparation steps form a tree in which each node covers
consecutive slices. A node's *total* contains a fixed number of rows per key, usually one: the last
rows, or the first rows for a carry into earlier slices. A node's *entry* contains the merged totals
of its preceding siblings:

    level 2   │            total             │        entry, total          │
    level 1   │ total │ entry, total │ ...   │ total │ entry, total │ ...   │
    slice k   └── reads the entries of the nodes that contain it

Nodes have up to `FAN_IN` children. A slice therefore reads at most one file per level. The number
of rows per key in a file does not depend on the number of slices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.bounded.ordered import LOWEST, places
from tidegate.io.destinations import file_in
from tidegate.slices.last_rows import last_rows
from tidegate.slices.scratch import rows_of, write_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

FAN_IN = 32


@dataclass(frozen=True)
class Carry:
    """The files of a carry, and their contents."""

    folder: str
    stem: str
    """The prefix of the carry's file names."""

    slices: int
    schema: pa.Schema
    keys: tuple[str, ...]
    backwards: bool = False
    """Whether each key's first rows are carried into earlier slices. If so, nodes are numbered from
    the last slice to the first."""

    nulls: bool = False
    """Whether null counts as a key."""

    most: int = 1
    """The number of rows to carry for each key."""

    @property
    def levels(self) -> int:
        """The number of levels that have entries."""
        level = 0
        while _count(self.slices, level) > 1:
            level += 1
        return level

    @property
    def files(self) -> int:
        """The number of files for totals and entries."""
        counts = [_count(self.slices, level) for level in range(self.levels)]
        return sum(2 * count - 1 - -(-count // FAN_IN) for count in counts)

    def total(self, level: int, node: int) -> str:
        """Return the path of a node's total."""
        return file_in(self.folder, f"{self.stem}-total-{level}-{node:06d}.arrows")

    def entry(self, level: int, node: int) -> str:
        """Return the path of a node's entry."""
        return file_in(self.folder, f"{self.stem}-entry-{level}-{node:06d}.arrows")

    def node(self, number: int) -> int:
        """Return the slice's node at the lowest level."""
        return self.slices - 1 - number if self.backwards else number

    def has_total(self, level: int, node: int) -> bool:
        """Return whether a node's total is needed; the last total at each level is not."""
        return node < _count(self.slices, level) - 1

    def reads(self, number: int) -> bool:
        """Return whether rows from a slice are carried into other slices."""
        return self.has_total(0, self.node(number))

    def entries(self, number: int) -> tuple[str, ...]:
        """Return the paths of the files that a slice reads, in time order.

        Example:
            >>> carry = Carry("x", "y", 100, pa.schema([]), ())
            >>> carry.entries(0), carry.entries(70)
            ((), ('x/y-entry-1-000002.arrows', 'x/y-entry-0-000070.arrows'))
        """
        node, found = self.node(number), []
        for level in range(self.levels):
            if node % FAN_IN:
                found.append(self.entry(level, node))
            node //= FAN_IN
        return tuple(found if self.backwards else reversed(found))

    def merges(self, level: int) -> list[Merge]:
        """Return the preparation steps that merge one level's totals into the next level's."""
        count = _count(self.slices, level)
        starts = range(0, count, FAN_IN)
        found = [Merge(self, level, start, min(start + FAN_IN, count)) for start in starts]
        # The only child of the last node has neither preceding siblings nor following nodes.
        return found[:-1] if count % FAN_IN == 1 else found

    def last_rows(self, rows: pa.Table, on: str | None = None) -> pa.Table:
        """Return the rows to carry.

        Args:
            rows: Some rows.
            on: The time column; None if the rows are in time order.
        """
        times = None if on is None else places(rows.column(on), 1, nulls=LOWEST)
        first, nulls, most = self.backwards, self.nulls, self.most
        return last_rows(rows, self.keys, times, first=first, nulls=nulls, most=most)


@dataclass(frozen=True)
class Merge:
    """A preparation step that merges the totals of sibling nodes."""

    carry: Carry
    level: int
    first: int
    stop: int
    """The siblings are numbered from `first` up to, but not including, `stop`."""

    def run(self) -> None:
        """Write the entry of each sibling except the first, and their parent's total.

        Raises:
            TidegateError: The previous stage has not finished, or a file cannot be read or written.
        """
        carry, parent = self.carry, (self.level + 1, self.first // FAN_IN)
        merged: pa.Table | None = None
        for node in range(self.first, self.stop):
            if merged is not None:
                write_rows(carry.entry(self.level, node), merged)
            if not carry.has_total(self.level, node):
                return
            found = rows_of(carry.total(self.level, node), carry.schema)
            rows = pa.Table.from_batches(found, carry.schema)
            if merged is None:
                merged = rows
                continue
            in_order = [rows, merged] if carry.backwards else [merged, rows]
            merged = carry.last_rows(pa.concat_tables(in_order))
        if merged is not None and carry.has_total(*parent):
            write_rows(carry.total(*parent), merged)


def merging(carries: Sequence[Carry]) -> list[list[Merge]]:
    """Return the preparation steps that merge totals, stage by stage."""
    levels = max(carry.levels for carry in carries)
    return [[merge for one in carries for merge in one.merges(level)] for level in range(levels)]


def _count(slices: int, level: int) -> int:
    """Return the number of nodes at a level."""
    for _ in range(level):
        slices = -(-slices // FAN_IN)
    return slices
