"""Converts strings to times: ISO 8601, other formats, numbers since 1970, and local times.

All results are exact. A string that does not fit raises an error instead of becoming a different
time. For example, the C library reads February 31 as March 3, so the day is compared with the one
in the string.
"""

import re
from decimal import Decimal
from functools import cache
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.io.dialects import ISO, Dialect
from tidegate.io.iso_times import PER_SECOND

Texts: TypeAlias = pa.Array | pa.ChunkedArray

# A UTC offset after a time of day; `-02` at the end of a date is not one.
OFFSET = r"[T ]\d\d.*(?:Z|[+-]\d\d(?::?\d\d)?)$"
NUMBER = r"^[ \t]*[+-]?\d+(?:\.\d+)?[ \t]*$"
FRACTION = r"^(.*\d)[.,](\d{1,9})(\D.*)?$"


# pyarrow applies no daylight saving time after this year.
LAST_KNOWN_YEAR = 2037
# 18 digits before the decimal point, and as many after it as there are nanoseconds.
SCALED = pa.decimal128(27, 9)

# The patterns of the directives in a format; only the day is compared.
DIRECTIVES = {
    "d": r"(?P<day>\d{1,2})",
    "e": r"(?P<day>\d{1,2})",
    "Y": r"\d{4}",
    "p": r"[AaPp][Mm]",
    "z": r"(?:Z|[+-]\d\d:?\d\d)",
    **dict.fromkeys("mHIMSyklU", r"\d{1,2}"),
    **dict.fromkeys("bBhaA", r"\p{L}+\.?"),
    "j": r"\d{1,3}",
    "f": r"\d{1,9}",
    "T": r"\d\d:\d\d:\d\d",
    "R": r"\d\d:\d\d",
    "%": "%",
}


def guessed(texts: Texts, dialect: Dialect) -> Texts | None:
    """Return the strings as times if all of them are times, and at least one is not null.

    The unit is seconds, or nanoseconds if any value has a fraction of a second.
    """
    if texts.null_count == len(texts):
        return None
    for each in dialect.time_formats or [ISO]:
        found = _iso(texts, dialect) if each == ISO else _by_format(texts, each, dialect)
        if found is not None:
            return found
    return None


def since_epoch(texts: Texts, unit: str) -> Texts | None:
    """Return numbers that count time since 1970 as times in UTC, or None for other values.

    Example:
        >>> since_epoch(pa.array(["0.5", "2"]), "s").to_pylist()[1].isoformat()
        '1970-01-01T00:00:02+00:00'
    """
    if not pc.all(pc.match_substring_regex(texts, NUMBER)).as_py():
        return None
    plain = pc.utf8_trim(texts, " \t")
    try:
        if not pc.any(pc.match_substring(plain, ".")).as_py():
            return plain.cast(pa.int64()).cast(pa.timestamp(unit, "UTC"))
        factor = Decimal(10**9 // PER_SECOND[unit])
        scaled = pc.multiply(plain.cast(SCALED), pa.scalar(factor, pa.decimal128(10, 0)))
        return scaled.cast(pa.int64()).cast(pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid:
        return None


def converted(texts: Texts, kind: pa.DataType, dialect: Dialect) -> Texts:
    """Return the strings as times of a type.

    Raises:
        ArrowInvalid: A string is not a time of this type; the message shows it.
    """
    found = _times(texts, dialect)
    if found is None:
        message = f"the value {_misfit(texts, dialect)!r:.80} is not a time; {_expected(dialect)}"
        raise pa.ArrowInvalid(message)
    if kind.tz is not None and found.type.tz is None:
        message = f"the value {texts.drop_null()[0].as_py()!r:.80} has no time zone, but the "
        message += f"column is {kind}; give {dialect.written('zone', 'UTC')} or another zone"
        raise pa.ArrowInvalid(message)
    return found.cast(kind)


def _times(texts: Texts, dialect: Dialect) -> Texts | None:
    if texts.null_count == len(texts):
        zone = "UTC" if dialect.zone or dialect.epoch_unit else None
        return texts.cast(pa.timestamp("s", zone))
    if dialect.epoch_unit and (found := since_epoch(texts, dialect.epoch_unit)) is not None:
        return found
    return guessed(texts, dialect)


def _misfit(texts: Texts, dialect: Dialect) -> str:
    """Return the first value that is not a time."""
    values = texts.drop_null()
    first, last = 0, len(values)
    # All values before `first` are times; not all before `last` are.
    while last - first > 1:
        middle = (first + last) // 2
        if _times(values.slice(first, middle - first), dialect) is None:
            last = middle
        else:
            first = middle
    return str(values[first].as_py())


def _expected(dialect: Dialect) -> str:
    if dialect.time_formats:
        return f"expected the format {' or '.join(dialect.time_formats)}"
    if dialect.epoch_unit:
        return f"expected a number of {dialect.epoch_unit} since 1970, or a time in ISO 8601 format"
    return "expected a time in ISO 8601 format"


def _iso(texts: Texts, dialect: Dialect) -> Texts | None:
    zoned = pc.match_substring_regex(texts, OFFSET)
    has_zone, has_none = pc.any(zoned).as_py(), not pc.all(zoned).as_py()
    if has_zone and has_none and dialect.zone is None:
        return None
    nothing = pa.scalar(None, pa.string())
    for unit in ("s", "ns", "us"):
        try:
            with_zone = without = None
            if has_zone:
                with_zone = pc.if_else(zoned, texts, nothing).cast(pa.timestamp(unit, "UTC"))
            if has_none:
                plain = pc.if_else(zoned, nothing, texts).cast(pa.timestamp(unit))
                without = in_zone(plain, dialect)
        except pa.ArrowInvalid as error:
            if _is_local(error):
                raise
            continue
        if with_zone is None or without is None:
            return without if with_zone is None else with_zone
        return pc.coalesce(with_zone, without)
    return None


def _is_local(error: pa.ArrowInvalid) -> bool:
    """Return whether local times cannot be converted, for example because one exists twice."""
    return any(word in str(error) for word in ("ambiguous", "exist", "rules of"))


def in_zone(plain: Texts, dialect: Dialect) -> Texts:
    """Convert local times of the dialect's time zone to UTC.

    Raises:
        ArrowInvalid: A local time was skipped or repeated when the UTC offset changed.
    """
    if dialect.zone is None:
        return plain
    if dialect.zone != "UTC" and (pc.max(pc.year(plain)).as_py() or 0) > LAST_KNOWN_YEAR:
        message = f"times after {LAST_KNOWN_YEAR} have to be written with a UTC offset, because "
        message += f"the rules of {dialect.zone} are only known until then"
        raise pa.ArrowInvalid(message)
    try:
        return pc.assume_timezone(plain, dialect.zone).cast(pa.timestamp(plain.type.unit, "UTC"))
    except pa.ArrowInvalid as error:
        first = str(error).splitlines()[0].removesuffix(".  It could be")
        message = f"{first}; write such times with a UTC offset, as in 2026-10-25T02:30:00+01:00"
        raise pa.ArrowInvalid(message) from error


@cache
def _pattern(layout: str) -> str:
    """Return the regular expression for a format, with a group for the day."""
    found, at, has_day = "^", 0, False
    while at < len(layout):
        one = layout[at]
        if one == "%" and at + 1 < len(layout):
            at += 1
            known = DIRECTIVES.get(layout[at], r".+?")
            found += known.replace("?P<day>", "?:") if has_day else known
            has_day = has_day or "day" in known
        else:
            found += r"\s*" if one.isspace() else re.escape(one)
        at += 1
    return found + r"\s*$"


def _by_format(texts: Texts, layout: str, dialect: Dialect) -> Texts | None:
    """Return the strings as times in this format, or None if any string has another form."""
    if not pc.all(pc.match_substring_regex(texts, _pattern(layout))).as_py():
        return None
    fractions = None
    plain, form = texts, layout
    if "%f" in layout:
        form = layout.replace(".%f", "").replace(",%f", "")
        digits = pc.replace_substring_regex(texts, FRACTION, r"\2")
        padded = pc.utf8_rpad(digits, 9, padding="0")
        plain = pc.replace_substring_regex(texts, FRACTION, r"\1\3")
        try:
            fractions = padded.cast(pa.int64()).cast(pa.duration("ns"))
        except pa.ArrowInvalid:
            return None
    found = pc.strptime(plain, format=form, unit="s", error_is_null=True)
    if found.null_count > texts.null_count:
        return None
    if not _same_days(texts, layout, plain, form, found):
        return None
    if fractions is not None:
        try:
            found = pc.add_checked(found.cast(pa.timestamp("ns", found.type.tz)), fractions)
        except pa.ArrowInvalid:
            return None
    return found if found.type.tz is not None else in_zone(found, dialect)


def _same_days(texts: Texts, layout: str, plain: Texts, form: str, found: Texts) -> bool:
    """Return whether the day of each time is the day in its string."""
    pattern = _pattern(layout)
    if "?P<day>" not in pattern:
        return True
    local = found
    if found.type.tz is not None:
        # Converted without its UTC offset, the time keeps the day in its string.
        bare = pc.replace_substring_regex(plain, r"\s*(?:Z|[+-]\d\d:?\d\d)$", "")
        local = pc.strptime(bare, format=form.replace("%z", "").rstrip(), unit="s")
    days = pc.struct_field(pc.extract_regex(texts, pattern), "day")
    same = pc.equal(days.cast(pa.int64()), pc.day(local))
    return bool(pc.all(same).as_py())
