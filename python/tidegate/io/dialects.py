"""Options for parsing CSV files: the dialect of the text, column types and time formats."""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidegate import TidegateError
from tidegate.io.lines import Marks, marks

ISO = "ISO8601"
"""The name of the default time format, as in pyarrow."""

EPOCH_UNITS = ("s", "ms", "us", "ns")

NAMES = {
    "string": pa.string(),
    "text": pa.string(),
    "int": pa.int64(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "binary": pa.binary(),
}
TIMESTAMP = re.compile(r"timestamp(?:\[(s|ms|us|ns)(?:, *(?:tz=)?([^\]]+))?\])?")
KNOWN = (
    "string, int64, double, bool, date, timestamp, timestamp[us], timestamp[ns, UTC], or the "
    "name of another Arrow type"
)
CHARACTERS = {"\\t": "\t", "tab": "\t", "space": " ", "none": ""}
"""Names of characters that are hard to type in a shell."""


def _is_character(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text not in "\r\n\0"


def character(text: str) -> str:
    r"""Return the character that a string stands for.

    Example:
        >>> character("tab"), character(r"\t"), character(";")
        ('\t', '\t', ';')
    """
    return CHARACTERS.get(text, text)


def type_named(text: str) -> pa.DataType:
    """Return the Arrow type with this name.

    Raises:
        ValueError: There is no type with this name; the message lists common types.

    Example:
        >>> type_named("double"), type_named("timestamp[ns, UTC]")
        (DataType(double), TimestampType(timestamp[ns, tz=UTC]))
    """
    if text in NAMES:
        return NAMES[text]
    if found := TIMESTAMP.fullmatch(text):
        return pa.timestamp(found[1] or "us", found[2])
    try:
        return pa.type_for_alias(text)
    except ValueError as error:
        message = f"{text!r:.80} is not a type; give {KNOWN}"
        raise ValueError(message) from error


class DialectError(TidegateError):
    """An option has an invalid value."""

    def __init__(self, *, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option
        self.reason = reason


@dataclass(frozen=True)
class Dialect:
    """The options for parsing a CSV file.

    Raises:
        DialectError: An option has an invalid value.
    """

    nulls: tuple[str, ...] = ("",)
    """The unquoted strings that represent null."""

    types: tuple[tuple[str, str], ...] = ()
    """The specified types, as pairs of a column name and the name of a type."""

    delimiter: str | None = None
    """The character between values; if None, a comma, or a tab in a tab-separated file."""

    header: bool | None = None
    """Whether the first line contains the column names. If None, it does, and numbers or times in
    it are errors because they are probably values."""

    names: tuple[str, ...] = ()
    """The column names of a file without a header, or names that replace those in the header."""

    quote: str = '"'
    """The character around quoted values; an empty string if no value is quoted."""

    escape: str = ""
    """The character that causes the next character to be read literally; empty if there is none."""

    time_formats: tuple[str, ...] = ()
    """The formats of times, such as `%d.%m.%Y %H:%M`; if empty, times are in ISO 8601 format."""

    zone: str | None = None
    """The time zone of times without a UTC offset."""

    epoch_unit: str | None = None
    """The unit of numbers that count time since the start of 1970 in UTC."""

    times: tuple[str, ...] = ()
    """The time columns of the query. With `epoch_unit`, numbers in them are times."""

    decimal: str = "."
    """The decimal point."""

    encoding: str | None = None
    """The character encoding; if None, UTF-8, or UTF-16 if the file begins with its byte order
    mark."""

    of_command: bool = False
    """Whether messages name the options of the command instead of those of `tidegate.csv`."""

    def __post_init__(self) -> None:
        for name, text in self.types:
            try:
                type_named(text)
            except ValueError as error:
                raise DialectError(option="types", reason=f"column `{name}`: {error}") from error
        if self.delimiter is not None and not _is_character(self.delimiter):
            reason = f"expected one ASCII character, such as ';', got {self.delimiter!r:.80}"
            raise DialectError(option="delimiter", reason=reason)
        if self.quote and not _is_character(self.quote):
            reason = f"expected one ASCII character, or '' for none, got {self.quote!r:.80}"
            raise DialectError(option="quote", reason=reason)
        self._check_escape()
        self._check_numbers()
        self._check_times()
        self._check_names()
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            reason = f"{self.encoding!r:.80} is unknown; give an encoding such as latin-1 or cp1252"
            raise DialectError(option="encoding", reason=reason) from None

    def _check_escape(self) -> None:
        if not self.escape:
            return
        if not _is_character(self.escape) or self.escape in {self.quote, self.separator}:
            reason = (
                "expected one ASCII character that is neither the delimiter nor the quote, such "
            )
            reason += f"as '\\', got {self.escape!r:.80}"
            raise DialectError(option="escape", reason=reason)
        if any(self.escape in null for null in self.nulls):
            reason = f"escape characters such as {self.escape!r} are removed before values are "
            reason += "compared with the null strings; quote the values, or omit `escape`"
            raise DialectError(option="null", reason=reason)

    def _check_numbers(self) -> None:
        if self.decimal not in {".", ","}:
            raise DialectError(
                option="decimal", reason=f"expected '.' or ',', got {self.decimal!r:.80}"
            )
        if self.decimal == self.separator:
            reason = f"{self.decimal!r} is also the delimiter; give another delimiter, such as ';'"
            raise DialectError(option="decimal", reason=reason)
        if self.quote in {self.separator, self.decimal}:
            raise DialectError(
                option="quote", reason=f"{self.quote!r} already separates values or digits"
            )

    def _check_times(self) -> None:
        if self.epoch_unit not in {None, *EPOCH_UNITS}:
            reason = f"expected s, ms, us or ns, got {self.epoch_unit!r:.80}"
            raise DialectError(option="epoch_unit", reason=reason)
        for each in self.time_formats:
            if "%z" in each and not each.endswith("%z"):
                raise DialectError(
                    option="time_format", reason=f"write %z at the end of {each!r:.80}"
                )
            if each != ISO and not re.search(r"%[dejmYyFDs]", each):
                reason = f"expected a format such as '%d.%m.%Y %H:%M' or {ISO}, got {each!r:.80}"
                raise DialectError(option="time_format", reason=reason)
        if self.zone is not None:
            try:
                pc.assume_timezone(pa.array([0], pa.timestamp("s")), self.zone)
            except (pa.ArrowException, ValueError):
                reason = f"{self.zone!r:.80} is unknown; give a time zone such as Europe/Berlin"
                raise DialectError(option="zone", reason=reason) from None

    def _check_names(self) -> None:
        for at, name in enumerate(self.names):
            if not name or name in self.names[:at]:
                problem = "specified twice" if name else "empty"
                raise DialectError(
                    option="names", reason=f"column {name!r:.80} is {problem}; rename it"
                )

    @property
    def separator(self) -> str:
        """The delimiter, which is a comma by default."""
        return self.delimiter or ","

    @property
    def has_text_times(self) -> bool:
        """Whether times are read as strings and converted afterwards."""
        return bool(self.time_formats or self.zone or self.epoch_unit)

    @property
    def marks(self) -> Marks:
        """The characters that separate, quote and escape values."""
        return marks(self.separator, self.quote, self.escape)

    def tab_separated(self) -> "Dialect":
        """Return the dialect for a tab-separated file."""
        return self if self.delimiter else replace(self, delimiter="\t")

    def types_given(self, first: pa.Schema) -> dict[str, pa.DataType]:
        """Return the specified types of the columns in the file.

        The type `timestamp` without a unit has a time zone if the first values have one, or if the
        dialect has a time zone.
        """
        found = {}
        for name, text in self.types:
            if name in first.names:
                guess = first.field(name).type
                zone = guess.tz if text == "timestamp" and pa.types.is_timestamp(guess) else None
                kind = pa.timestamp("us", zone) if zone else type_named(text)
                if pa.types.is_timestamp(kind) and (self.zone or self.epoch_unit):
                    kind = pa.timestamp(kind.unit, kind.tz or "UTC")
                found[name] = kind
        return found

    def written(self, option: str, value: str, column: str = "") -> str:
        """Return an option as the user would write it.

        Example:
            >>> Dialect().written("delimiter", ";")
            "tidegate.csv(path, delimiter=';')"
            >>> Dialect(of_command=True).written("types", "string", "user")
            '--types user=string'
        """
        if self.of_command:
            flag = f"--{option.replace('_', '-')}"
            plain = value if re.fullmatch(r"[\w.,/+=-]+", value) else f"'{value}'"
            return f"{flag} {column}={plain}" if column else f"{flag} {plain}"
        given = f"{{{column!r}: {value!r}}}" if column else repr(value)
        return f"tidegate.csv(path, {option}={given})"

    def differences(self) -> dict[str, object]:
        """Return the options that differ from the defaults, by name."""
        plain = Dialect()
        names = (name for name in self.__dataclass_fields__ if name != "of_command")
        return {
            name: getattr(self, name)
            for name in names
            if getattr(self, name) != getattr(plain, name)
        }


PLAIN = Dialect()


def advice(dialect: Dialect, column: str, kind: str = "string") -> str:
    """Return advice for a column whose inferred type is wrong."""
    others = " or ".join([", ".join(x for x in ("string", "double") if x != kind), "timestamp"])
    line = dialect.written("types", kind, column)
    return f"give the type of the column: {line} (or {others})"


def types_of(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return a mapping of types in the form that a dialect stores."""
    return tuple(given.items())
