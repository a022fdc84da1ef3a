"""Writes times as ISO 8601 strings, as most sources do."""

import pyarrow as pa
import pyarrow.compute as pc

from tidegate import TidegateError

PER_SECOND = dict(zip(("s", "ms", "us", "ns"), (1, 10**3, 10**6, 10**9), strict=True))
UTC = {"UTC", "Etc/UTC", "GMT", "Z", "+00:00"}


def iso(column: pa.Array) -> pa.Array:
    """Return timestamps as strings with a `T` and without trailing zeros in the fraction.

    Times in UTC end with a `Z`, and times in other zones with their UTC offset.

    Example:
        >>> iso(pa.array([0, 1500], pa.timestamp("ms", "UTC"))).to_pylist()
        ['1970-01-01T00:00:00Z', '1970-01-01T00:00:01.5Z']
        >>> iso(pa.array([0], pa.timestamp("s", "Asia/Kolkata"))).to_pylist()
        ['1970-01-01T05:30:00+05:30']
    """
    kind = column.type
    instant = column.cast(pa.timestamp(kind.unit, "UTC")) if kind.tz else column
    # The cast drops the zone, but not the instant.
    instant = instant.cast(pa.int64()).cast(pa.timestamp(kind.unit))
    if kind.tz is None or kind.tz in UTC:
        local, offsets = instant, pa.scalar("Z" if kind.tz else "")
    else:
        local = pc.local_timestamp(column)
        offsets = _offsets(local, instant)
    try:
        # Without fractions, there are no trailing zeros to remove.
        texts = local.cast(pa.timestamp("s")).cast(pa.string())
    except pa.ArrowInvalid:
        texts = pc.replace_substring_regex(local.cast(pa.string()), r"\.?0+$", "")
    texts = pc.replace_substring(texts, " ", "T")
    return pc.binary_join_element_wise(texts, offsets, "")


def as_text(column: pa.Array, name: str) -> pa.Array:
    """Return the values of a column as strings.

    Raises:
        TidegateError: A time or date has no form as a string; the message names the column.
    """
    texts = iso(column) if pa.types.is_timestamp(column.type) else column.cast(pa.string())
    # Instead of raising an error, pyarrow returns strings such as `<value out of range: 9999999>`.
    if pa.types.is_temporal(column.type) and pc.any(wrong := pc.starts_with(texts, "<")).as_py():
        plain = column.filter(wrong).cast(pa.int64() if column.type.bit_width > 32 else pa.int32())  # noqa: PLR2004 - bits
        message = f"column `{name}`: the value {plain[0].as_py()} of type {column.type} is too far "
        message += "from 1970 to be written as text; check the unit of the times, or write Parquet "
        message += "or Arrow"
        raise TidegateError(message)
    return texts


def _offsets(local: pa.Array, instant: pa.Array) -> pa.Array:
    """Return UTC offsets such as `+01:00`."""
    per_second = PER_SECOND[local.type.unit]
    apart = pc.subtract(local.cast(pa.int64()), instant.cast(pa.int64())).dictionary_encode()
    texts = [_offset(value // per_second) for value in apart.dictionary.to_pylist()]
    return pc.take(pa.array(texts, pa.string()), apart.indices)


def _offset(seconds: int) -> str:
    sign, rest = ("-", -seconds) if seconds < 0 else ("+", seconds)
    hours, minutes = divmod(rest // 60, 60)
    text = f"{sign}{hours:02}:{minutes:02}"
    return f"{text}:{rest % 60:02}" if rest % 60 else text
