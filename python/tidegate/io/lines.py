"""Finds line ends in CSV text that arrives in pieces.

As in pyarrow, a quote opens a quoted value only at the beginning of the value. For example, the
quote in `5" pipe` is text. A line break inside a quoted value does not end the line. Each byte is
visited a fixed number of times, regardless of how the text is split or quoted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True)
class Marks:
    """The characters that separate and quote values, and the patterns for them."""

    delimiter: bytes
    quote: bytes
    part: re.Pattern[bytes]
    """Matches text up to the end of a line, unless a quote opens and is not closed."""

    lines: re.Pattern[bytes]
    """Matches all complete lines."""

    before_quotes: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """For each byte, whether a quote after it opens or reopens a quoted value."""

    escape: bytes = b""
    """The character that causes the next character to be read literally."""

    tokens: re.Pattern[bytes] | None = None
    """Matches the bytes that change the meaning of later ones, if there is an escape character."""

    begin: bytes = b"\n"
    """Stands in for the text before a piece that begins with a new value."""

    @property
    def opened(self) -> bytes:
        """Stands in for the text before a piece that begins inside a quoted value."""
        return self.begin + self.quote

    @property
    def closed(self) -> bytes:
        """Stands in for the text before a piece that begins right after a closing quote.

        Another quote immediately after it would reopen the value.
        """
        return self.begin + self.quote * 2


@cache
def marks(delimiter: str = ",", quote: str = '"', escape: str = "") -> Marks:
    """Return the patterns for a delimiter, a quote and an escape character.

    The quote or the escape character is empty if there is none.
    """
    between, mark = re.escape(delimiter.encode()), re.escape(quote.encode())
    # In a pattern without quotes, no part contains one.
    other = rb"[^%b\n]" % mark
    quoted = _quoted(mark)
    before = rb"[^%b\n\r]" % between
    # Matches a quoted value at the beginning of a value, and a quote elsewhere, which is text.
    # Before Python 3.11.5, possessive repetitions that contain alternatives match incorrectly. The
    # outer repetition does not have to be possessive, because a shorter match would be followed by
    # a quote instead of a line end.
    part = (
        rb"%b*+(?:(?:(?<!%b)(%b)|(?<=%b)%b)%b*+)*" % (other, before, quoted, before, mark, other)
        if quote
        else rb"[^\n]*+()"
    )
    table = np.zeros(256, np.bool_)
    table[[*(delimiter + "\n\r" + quote).encode()]] = True
    return Marks(
        delimiter.encode(),
        quote.encode(),
        re.compile(part),
        re.compile(rb"(?:%b\n)*" % part),
        table,
        escape.encode(),
        _tokens(delimiter + quote, escape) if escape else None,
    )


def _tokens(separators: str, escape: str) -> re.Pattern[bytes]:
    escaped = re.escape(escape.encode())
    between = b"".join(re.escape(one.encode()) for one in separators)
    return re.compile(rb"%b(?:.|\Z)|[%b\r\n]" % (escaped, between), re.DOTALL)


class _Escaped:
    """Finds line endings, token by token, in text that uses an escape character."""

    def __init__(self, of: Marks) -> None:
        assert of.tokens is not None  # noqa: S101 - for mypy
        self._tokens, self._quote, self._escape = of.tokens, of.quote, of.escape
        self._state = "begin"
        self._awaits = False
        """Whether the last byte was an escape character."""

        self.opened = 0
        """The position of the last quote that opened a value."""

    @property
    def is_open(self) -> bool:
        """Whether the text so far ends within a quoted value."""
        return self._state == "quoted"

    def ends(self, text: bytes, start: int = 0) -> Iterator[int]:
        """Yield the positions of the line endings in the next piece of text."""
        place = start
        if self._awaits and text:
            place, self._awaits = start + 1, False
            self._pass_over()
        for found in self._tokens.finditer(text, place):
            if found.start() > place:
                self._pass_over()
            token, place = found[0], found.end()
            if token[:1] == self._escape:
                self._pass_over()
                self._awaits = len(token) == 1
            elif token == self._quote:
                self._at_quote(found.start())
            elif self._state != "quoted":
                self._state = "begin"
                if token == b"\n":
                    yield place
        if len(text) > place:
            self._pass_over()

    def _pass_over(self) -> None:
        """Note that the text contains other bytes."""
        if self._state != "quoted":
            self._state = "plain"

    def _at_quote(self, place: int) -> None:
        if self._state == "quoted":
            self._state = "quote"
        elif self._state in {"begin", "quote"}:
            self.opened = place if self._state == "begin" else self.opened
            self._state = "quoted"


def _quoted(mark: bytes) -> bytes:
    return rb"%b[^%b]*+(?:%b%b[^%b]*+)*+%b" % (mark, mark, mark, mark, mark, mark)


def escaped_quote(lines: bytes, delimiter: str = ",", quote: str = '"') -> bytes | None:
    r"""Return the first quoted value that seems to escape a quote with a backslash, or None.

    Such a value contains a backslash before a quote, and text follows its closing quote. The result
    includes the beginning of this text.

    Example:
        >>> escaped_quote(rb'1,"say \"hi\""')
        b'"say \\"hi\\""'
        >>> escaped_quote(rb'1,"C:\",2')
    """
    mark = quote.encode()
    if not mark or b"\\" + mark not in lines:
        return None
    between = re.escape(delimiter.encode())
    value = _quoted(re.escape(mark))
    pattern = rb"(?:^|(?<=[%b\r\n]))(%b)[^%b\r\n]{1,20}" % (between, value, between)
    return next(
        (found[0] for found in re.finditer(pattern, lines) if b"\\" + mark in found[1]), None
    )


class LineEnds:
    """Finds line ends in text that arrives piece by piece."""

    def __init__(self, of: Marks | None = None) -> None:
        self._marks = of or marks()
        self._before = self._marks.begin
        self._escaped = None if self._marks.tokens is None else _Escaped(self._marks)

    def last(self, more: bytes) -> int:
        """Return the end of the last complete line in `more`, or 0 if no line ends in `more`."""
        if not more:
            return 0
        if self._escaped is not None:
            return max(self._escaped.ends(more), default=0)
        text = self._before + more
        if not self._marks.quote or self._marks.quote not in text:
            end, self._before = text.rfind(b"\n") + 1, text[-1:]
        else:
            paired = self._last_by_pairs(text)
            end = self._last_by_values(text) if paired is None else paired
        return max(end - (len(text) - len(more)), 0)

    def _last_by_pairs(self, text: bytes) -> int | None:
        """Find the end of the last line by pairing quotes, or return None if this fails."""
        codes = np.frombuffer(text, np.uint8)
        quotes = np.flatnonzero(codes == ord(self._marks.quote))
        if not self._marks.before_quotes[codes[quotes[::2] - 1]].all():
            return None
        self._before = text[-1:]
        if len(quotes) % 2:
            self._before = self._marks.opened
        elif quotes[-1] == len(text) - 1:
            self._before = self._marks.closed
        last = text.rfind(b"\n")
        if np.searchsorted(quotes, last) % 2 == 0:
            return last + 1
        breaks = np.flatnonzero(codes == ord("\n"))
        ends = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
        return int(ends[-1]) + 1 if len(ends) else 0

    def _last_by_values(self, text: bytes) -> int:
        """Find the end of the last line by matching one value at a time."""
        end = _end(self._marks.lines, text)
        rest = self._marks.part.match(text, end)
        if rest is None or rest.end() < len(text):
            self._before = self._marks.opened
        elif rest.end(1) == len(text):
            self._before = self._marks.closed
        else:
            # A quote at the end is text, and so is a quote that follows it.
            self._before = text[-1:].replace(self._marks.quote, b"x")
        return end


def open_quote(text: bytes, of: Marks | None = None) -> int | None:
    """Return the position of an unclosed quote in a line, if there is one."""
    known = of or marks()
    if known.tokens is not None:
        scanner = _Escaped(known)
        _ = [*scanner.ends(text)]
        return scanner.opened if scanner.is_open else None
    place = _end(known.part, text)
    is_open = known.quote and text[place : place + 1] == known.quote
    return place if is_open else None


def count_breaks(text: bytes) -> int:
    """Count all line breaks, including those in quoted values."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))


def first_end(text: bytes, start: int, of: Marks | None = None) -> int:
    """Return the end of the line that begins at `start`."""
    known = of or marks()
    if known.tokens is not None:
        return next(_Escaped(known).ends(text, start), len(text))
    return min(_end(known.part, text, start) + 1, len(text))


def _end(pattern: re.Pattern[bytes], text: bytes, start: int = 0) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()
