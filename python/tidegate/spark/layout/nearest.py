"""The right rows outside a slice that its left rows may pair with, where a row has one partner.

The partner of a left row is the nearest right row of its key, before it or after it. A right row is
at home in the slice of its own time. So a left row of a slice finds its partner among the right
rows that are at home there, the last one before the slice, and the first one after it::

    right rows of a key   │ a  b │    │   c   d │
    slice                 │  0   │ 1  │    2    │
    sent from outside     │  c   │b c │    b    │

Each task that sends rows tells the last and the first among its own rows alone. A slice so gets
rows of several such tasks, and the join takes the nearest of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.spark.layout.layout import Integers, Span

# Where a right row is at home: all pieces of the slice of its time.
HOME = Span(0, 0, copied=True)


class Slices(NamedTuple):
    """The first and the last slice of each row."""

    first: Integers
    last: Integers

    def of(self, rows: Integers) -> Slices:
        """The slices of the rows with these numbers."""
        return Slices(self.first[rows], self.last[rows])


class Carried(NamedTuple):
    """Rows, by number, that slices need beside those of their homes. A row may be there twice."""

    rows: Integers
    slices: Slices


def carried(keys: Integers, home: Slices, reached: Slices) -> Carried:
    """The rows that are the last of their key before a slice, or the first after it.

    Rows come in their order, and equal `keys` are equal numbers. A row goes no further than the
    slices that it reached, from the first to the last.
    """
    order = np.argsort(keys, kind="stable")
    key, first = keys[order], home.first[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (key[1:] != key[:-1]) | (first[1:] != first[:-1])
    begins = np.flatnonzero(is_first)
    # The first and the last row of a key in each slice where the key has rows.
    earliest = order[begins]
    latest = order[np.append(begins, len(order))[1:] - 1]
    # A row is the nearest up to the next slice where its key has rows, and that one included.
    follows = key[begins][1:] == key[begins][:-1]
    until = reached.last[latest]
    until[:-1] = np.where(follows, np.minimum(until[:-1], home.last[earliest[1:]]), until[:-1])
    since = reached.first[earliest]
    since[1:] = np.where(follows, np.maximum(since[1:], home.first[latest[:-1]]), since[1:])
    rows = np.concatenate([latest, earliest])
    begin = np.concatenate([home.last[latest] + 1, since])
    end = np.concatenate([until, home.first[earliest] - 1])
    sent = np.flatnonzero(begin <= end)
    return Carried(rows[sent], Slices(begin[sent], end[sent]))
