"""Formats the statistics of an operator, for monitoring tools and for display."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from tidegate._tidegate import Operator, TidegateError

_TOTALS = {
    "rows_in": "Rows pushed.",
    "rows_late": "Rows set aside because they are late or too wide.",
    "rows_out": "Result rows returned.",
}
_GAUGES = {
    "watermark": "Further rows cannot be earlier than this time, in the unit of the time column.",
    "memory": "Bytes held that count towards the limit.",
    "memory_limit": "Maximum number of bytes to hold.",
    "state_rows": "Rows kept for later rows.",
    "state_bytes": "Bytes of memory used in addition to the kept rows.",
    "state_keys": "Keys with a state.",
}
_OF_SOURCES = {
    "rows_in": ("counter", "Rows pushed into the source."),
    "rows_late": ("counter", "Rows from the source that were set aside."),
    "watermark": ("gauge", "Further rows from the source cannot be earlier than this time."),
    "memory": ("gauge", "Bytes held for the source's rows."),
    "closed": ("gauge", "Whether the source has ended."),
    "idle": ("gauge", "Whether the source is idle. Other sources do not wait for an idle source."),
    "abandoned": ("gauge", "Whether the source was abandoned before all of its rows had arrived."),
}
_OWN_LABELS = ("operator", "source", "quantile")
_UNITS = {"memory": "memory_bytes", "memory_limit": "memory_limit_bytes"}


def metrics(operator: Operator[Any], /, **labels: str) -> str:
    """Return an operator's statistics in Prometheus text format.

    The text contains watermarks and latencies. The text also contains the number of bytes held, and
    the numbers of rows that were pushed, late, returned or kept, or that are waiting for a silent
    source. Some statistics are reported both in total and for each source. Statistics that an
    operator does not have are omitted.

    Example:
        >>> import pyarrow as pa
        >>> import tidegate as tg
        >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
        >>> merge.sources[0].push([{"ts": 1}, {"ts": 2}])
        >>> print(tg.metrics(merge, job="feed").splitlines()[2])
        tidegate_rows_in_total{operator="Merge",job="feed"} 2

    Args:
        operator: The operator.
        labels: Additional labels for all metrics, such as `job="feed"`. The labels `operator`,
            `source` and `quantile` are reserved.

    Returns:
        The text that an HTTP endpoint for Prometheus should return.

    Raises:
        ClosedError: The operator was created before this process was forked.
        TidegateError: A label's name is reserved, or Prometheus does not accept the name.
        TypeError: A label's value is not a string.
    """
    for name, label in labels.items():
        if name in _OWN_LABELS or not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name):
            message = (
                f"labels: `{name:.80}` cannot be the name of a label; use letters, digits and "
            )
            message += f"underscores, but none of {', '.join(_OWN_LABELS)}"
            raise TidegateError(message)
        if not isinstance(label, str):
            message = f"labels: expected a string for `{name}`, got {type(label).__name__}"
            raise TypeError(message)
    of_all = {"operator": type(operator).__name__, **labels}
    lines: list[str] = []
    for name, kind, told, values in _families(dict(operator.stats())):
        lines += [f"# HELP tidegate_{name} {told}", f"# TYPE tidegate_{name} {kind}"]
        lines += [f"tidegate_{name}{_labelled({**of_all, **own})} {value}" for own, value in values]
    return "\n".join(lines) + "\n"


def _families(
    stats: dict[str, Any],
) -> Iterator[tuple[str, str, str, list[tuple[dict[str, str], float]]]]:
    """Yield each metric's name, kind and help text, and its labeled values."""
    for name, told in _TOTALS.items():
        yield f"{name}_total", "counter", told, [({}, stats[name])]
    for name, told in _GAUGES.items():
        if stats.get(name) is not None:
            yield _UNITS.get(name, name), "gauge", told, [({}, stats[name])]
    if stats["latency"] is not None:
        quantiles = zip(("0.5", "0.99", "1"), stats["latency"], strict=True)
        values = [({"quantile": quantile}, value) for quantile, value in quantiles]
        yield "latency_seconds", "gauge", "Time from a row's push to its results.", values
    waiting = stats["waiting"] or {"source": "", "seconds": 0, "rows": 0}
    of_source = {"source": waiting["source"]}
    yield "waiting_rows", "gauge", "Rows that wait for a source.", [(of_source, waiting["rows"])]
    silent = [(of_source, waiting["seconds"])]
    yield "waiting_seconds", "gauge", "Time since the source last delivered anything.", silent
    for name, (kind, told) in _OF_SOURCES.items():
        values = [
            ({"source": source["name"]}, _number(source[name]))
            for source in stats["sources"]
            if source[name] is not None or name == "abandoned"
        ]
        suffix = "_total" if kind == "counter" else ""
        if values:
            yield f"source_{_UNITS.get(name, name)}{suffix}", kind, told, values


def _number(value: object) -> int:
    """Return a number or boolean as an integer. A reason becomes 1, and None becomes 0."""
    return int(value) if isinstance(value, int) else int(value is not None)


def _labelled(labels: dict[str, str]) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return "{" + ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items()) + "}"


def text(operator: Operator[Any]) -> str:
    """Return a one-line description of the operator, for `repr`."""
    name = type(operator).__name__
    try:
        stats = operator.stats()
    except TidegateError as error:
        return f"<tidegate.{name}: {error}>"
    closed = sum(source["closed"] for source in stats["sources"])
    abandoned = sum(source["abandoned"] is not None for source in stats["sources"])
    lost = f", {abandoned} abandoned" if abandoned else ""
    return (
        f"<tidegate.{name}: {len(stats['sources'])} sources, {closed} closed{lost}; "
        f"{stats['rows_in']:,} rows in, {stats['rows_late']:,} late, {stats['rows_out']:,} out; "
        f"watermark {stats['watermark']}>"
    )


def page(operator: Operator[Any]) -> str:
    """Return an HTML description of the operator, for notebooks."""
    try:
        stats = operator.stats()
        explained = operator.explain()
    except TidegateError:
        return f"<code>{html.escape(text(operator))}</code>"
    columns = ("name", "rows_in", "rows_late", "watermark", "closed", "abandoned", "memory")
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(source[name])}</td>" for name in columns) + "</tr>"
        for source in stats["sources"]
    )
    return (
        f"<p><code>{html.escape(text(operator))}</code></p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        f"<pre>{html.escape(explained)}</pre>"
    )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else html.escape(str(value))
