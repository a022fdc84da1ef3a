"""The ends of the lines of CSV that comes in pieces.

A quote opens a value only at the beginning of the value, as pyarrow reads CSV: the quote in `5"
pipe` is text. A line break inside an open quote ends no line. Each byte is visited a fixed number
of times, for any cuts and any quotes.
"""

import re

import numpy as np

QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"'
# A quoted value where a value begins, and a quote elsewhere, which is text. Before Python 3.11.5 a
# possessive repetition goes wrong if there is a choice within it. None is needed around one here:
# a shorter match would be followed by a quote, and a line is not.
PART = re.compile(
    rb'[^"\n]*+(?:(?:(?<![^,\n\r])(' + QUOTED + rb')|(?<=[^,\n\r])")[^"\n]*+)*',
)
LINES = re.compile(rb"(?:" + PART.pattern + rb"\n)*")

# What stands for the text before: nothing is open and a value begins; a quote is open; a quote was
# closed, which another quote at once would open again.
BEGIN, OPEN, CLOSED = b"\n", b'\n"', b'\n""'


# By byte: whether a quote behind it opens a value, or opens one again.
BEFORE_QUOTES = np.zeros(256, np.bool_)
BEFORE_QUOTES[list(b',\n\r"')] = True


class LineEnds:
    """Finds line ends in text that is given piece by piece."""

    def __init__(self) -> None:
        self._before = BEGIN

    def last(self, more: bytes) -> int:
        """Tell where the last line that is complete ends in `more`; 0 if none ends there."""
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
        """Pair each quote with the next; that is right unless a quote stands within plain text."""
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
        """Read value by value."""
        end = _end(LINES, text)
        rest = PART.match(text, end)
        if rest is None or rest.end() < len(text):
            self._before = OPEN
        elif rest.end(1) == len(text):
            self._before = CLOSED
        else:
            # A quote at the end is text, and so is one that follows it.
            self._before = text[-1:].replace(b'"', b"x")
        return end


def open_quote(text: bytes) -> int | None:
    """Tell where in a line the quote is that is not closed, if there is one."""
    place = _end(PART, text)
    return place if text[place : place + 1] == b'"' else None


def count_breaks(text: bytes) -> int:
    """Count all line breaks, also the ones between quotes."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))


def first_end(text: bytes, start: int) -> int:
    """Tell where the line ends that begins at `start`."""
    return min(_end(PART, text, start) + 1, len(text))


def _end(pattern: re.Pattern[bytes], text: bytes, start: int = 0) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()
