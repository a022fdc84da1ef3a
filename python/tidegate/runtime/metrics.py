"""The numbers of an operator for monitoring, and for people who look at it."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

from tidegate._tidegate import TidegateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate._tidegate import Operator

_TOTALS = {
    "rows_in": "Rows pushed.",
    "rows_late": "Rows set aside, as late or too wide.",
    "rows_out": "Result rows handed out.",
}
_GAUGES = {
    "watermark": "No row below it can come, in the unit of the time column.",
    "memory": "Bytes held that count towards the limit.",
    "memory_limit": "Bytes that may be held.",
    "state_rows": "Rows kept for later ones.",
    "state_bytes": "Bytes held beside the rows that are kept.",
    "state_keys": "Keys with a state.",
}
_OF_SOURCES = {
    "rows_in": ("counter", "Rows pushed into the source."),
    "rows_late": ("counter", "Rows of the source set aside."),
    "watermark": ("gauge", "No later row of the source is below it."),
    "memory": ("gauge", "Bytes held of the source's rows."),
    "closed": ("gauge", "Whether the source has ended."),
    "idle": ("gauge", "Whether the others go on without the source."),
    "abandoned": ("gauge", "Whether rows of the source are missing that will not come."),
}
_OWN_LABELS = ("operator", "source", "quantile")
_UNITS = {"memory": "memory_bytes", "memory_limit": "memory_limit_bytes"}


def metrics(operator: Operator[Any], /, **labels: str) -> str:
    """Return the numbers of an operator in the text format of Prometheus.

    They are counts of rows in, late and out, watermarks, bytes held, rows kept, latencies, and how
    many rows wait for a silent source, in all and for each source. A number that an operator does
    not have is left out.

    Example:
        >>> import pyarrow as pa
        >>> import tidegate as tg
        >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
        >>> merge.sources[0].push([{"ts": 1}, {"ts": 2}])
        >>> print(tg.metrics(merge, job="feed").splitlines()[2])
        tidegate_rows_in_total{operator="Merge",job="feed"} 2

    Args:
        operator: The operator.
        labels: Further labels of every number, such as `job="feed"`; not `operator`, `source` or
            `quantile`, which have a meaning.

    Returns:
        The text, as an HTTP endpoint for Prometheus gives it.

    Raises:
        ClosedError: The operator was made before this process was forked.
        TidegateError: A label has a name that Prometheus does not take, or one that has a meaning.
        TypeError: The value of a label is no text.
    """
    for name, label in labels.items():
        if name in _OWN_LABELS or not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name):
            message = (
                f"labels: `{name:.80}` cannot be the name of a label; take letters, digits and "
            )
            message += f"underscores, and none of {', '.join(_OWN_LABELS)}"
            raise TidegateError(message)
        if not isinstance(label, str):
            message = f"labels: expected text for `{name}`, got {type(label).__name__}"
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
    """Yield name, kind, help, and the values with the labels of each."""
    for name, told in _TOTALS.items():
        yield f"{name}_total", "counter", told, [({}, stats[name])]
    for name, told in _GAUGES.items():
        if stats.get(name) is not None:
            yield _UNITS.get(name, name), "gauge", told, [({}, stats[name])]
    if stats["latency"] is not None:
        quantiles = zip(("0.5", "0.99", "1"), stats["latency"], strict=True)
        values = [({"quantile": quantile}, value) for quantile, value in quantiles]
        yield "latency_seconds", "gauge", "From a row's push until its results were made.", values
    waiting = stats["waiting"] or {"source": "", "seconds": 0, "rows": 0}
    of_source = {"source": waiting["source"]}
    yield "waiting_rows", "gauge", "Rows that wait for a source.", [(of_source, waiting["rows"])]
    silent = [(of_source, waiting["seconds"])]
    yield "waiting_seconds", "gauge", "How long the source has brought nothing.", silent
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
    """A number as it is; of a reason, whether there is one."""
    return int(value) if isinstance(value, int) else int(value is not None)


def _labelled(labels: dict[str, str]) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return "{" + ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items()) + "}"


def text(operator: Operator[Any]) -> str:
    """The operator in a line, for `repr`."""
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
    """The operator as HTML, for notebooks."""
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
