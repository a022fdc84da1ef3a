"""Finds the right rows that a slice needs from others if a left row has at most one partner.

The partner of a left row is the nearest right row with the same key, either before or after it. A
right row is at home in the slice of its time. The possible partners of a left row are therefore the
right rows at home in its slice, the last one before the slice, and the first one after it::

    right rows of a key   │ a  b │    │   c   d │
    slice                 │  0   │ 1  │    2    │
    sent from outside     │  c   │b c │    b    │

Each task that sends rows finds the last and first rows only among its own. A slice therefore
receives rows from several tasks, and the join selects the nearest ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.spark.layout.layout import Integers, Span

# A right row is at home in all pieces of the slice of its time.
HOME = Span(0, 0, copied=True)


class Slices(NamedTuple):
    """Each row's first and last slices."""

    first: Integers
    last: Integers

    def of(self, rows: Integers) -> Slices:
        """Return the slices of the rows with these numbers."""
        return Slices(self.first[rows], self.last[rows])


class Carried(NamedTuple):
    """The numbers of the rows that are needed outside their homes. A row may be listed twice."""

    rows: Integers
    slices: Slices


def carried(keys: Integers, home: Slices, reached: Slices) -> Carried:
    """For each key, return the last row before each slice and the first row after it.

    Rows are in order, and equal keys have equal numbers in `keys`. A row is sent only to slices
    within `reached`.
    """
    order = np.argsort(keys, kind="stable")
    key, first = keys[order], home.first[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (key[1:] != key[:-1]) | (first[1:] != first[:-1])
    begins = np.flatnonzero(is_first)
    # The first and the last row of a key in each slice where the key has rows.
    earliest = order[begins]
    latest = order[np.append(begins, len(order))[1:] - 1]
    # A row is the nearest one up to and including the next slice that contains rows with the same
    # key.
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
