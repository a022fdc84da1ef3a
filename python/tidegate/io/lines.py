"""Finds line ends in CSV text that arrives in pieces.

As in pyarrow, a quote opens a quoted value only at the beginning of the value. For example, the
quote in `5" pipe` is text. A line break inside a quoted value does not end the line. Each byte is
visited a fixed number of times, regardless of how the text is split or quoted.
"""

import re

import numpy as np

QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"'
# Matches a quoted value at the beginning of a value, and a quote elsewhere, which is text. Before
# Python 3.11.5, possessive repetitions that contain alternatives match incorrectly. The outer
# repetition does not have to be possessive, because a shorter match would be followed by a quote
# instead of a line end.
PART = re.compile(
    rb'[^"\n]*+(?:(?:(?<![^,\n\r])(' + QUOTED + rb')|(?<=[^,\n\r])")[^"\n]*+)*',
)
LINES = re.compile(rb"(?:" + PART.pattern + rb"\n)*")

# Substitutes for the text before a piece: a value begins and no quote is open; a quote is open; or
# a quote was closed, and would be reopened by another quote immediately after it.
BEGIN, OPEN, CLOSED = b"\n", b'\n"', b'\n""'


# For each byte, whether a quote after it opens or reopens a quoted value.
BEFORE_QUOTES = np.zeros(256, np.bool_)
BEFORE_QUOTES[list(b',\n\r"')] = True


class LineEnds:
    """Finds line ends in text that arrives piece by piece."""

    def __init__(self) -> None:
        self._before = BEGIN

    def last(self, more: bytes) -> int:
        """Return the end of the last complete line in `more`, or 0 if no line ends in `more`."""
        if not more:
            return 0
        text = self._before + more
        if b'"' not in text:
            end, self._before = text.rfind(b"\n") + 1, text[-1:]
        else:
            paired = self._last_by_pairs(text)
            end = self._last_by_values(text) if paired is None else paired
        return max(end - (len(text) - len(more)), 0)

    def _last_by_pairs(self, text: bytes) -> int | None:
        """Find the end of the last line by pairing quotes, or return None if this fails."""
        codes = np.frombuffer(text, np.uint8)
        quotes = np.flatnonzero(codes == ord('"'))
        if not BEFORE_QUOTES[codes[quotes[::2] - 1]].all():
            return None
        self._before = text[-1:]
        if len(quotes) % 2:
            self._before = OPEN
        elif quotes[-1] == len(text) - 1:
            self._before = CLOSED
        last = text.rfind(b"\n")
        if np.searchsorted(quotes, last) % 2 == 0:
            return last + 1
        breaks = np.flatnonzero(codes == ord("\n"))
        ends = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
        return int(ends[-1]) + 1 if len(ends) else 0

    def _last_by_values(self, text: bytes) -> int:
        """Find the end of the last line by matching one value at a time."""
        end = _end(LINES, text)
        rest = PART.match(text, end)
        if rest is None or rest.end() < len(text):
            self._before = OPEN
        elif rest.end(1) == len(text):
            self._before = CLOSED
        else:
            # A quote at the end is text, and so is a quote that follows it.
            self._before = text[-1:].replace(b'"', b"x")
        return end


def open_quote(text: bytes) -> int | None:
    """Return the position of an unclosed quote in a line, if there is one."""
    place = _end(PART, text)
    return place if text[place : place + 1] == b'"' else None


def count_breaks(text: bytes) -> int:
    """Count all line breaks, including those in quoted values."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))


def first_end(text: bytes, start: int) -> int:
    """Return the end of the line that begins at `start`."""
    return min(_end(PART, text, start) + 1, len(text))


def _end(pattern: re.Pattern[bytes], text: bytes, start: int = 0) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()
