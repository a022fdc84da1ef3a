"""The work of `tidegate aggregate`: read, aggregate, write, count."""

import re
import time
from dataclasses import dataclass, replace
from typing import cast, get_args

import pyarrow as pa
from tqdm import tqdm

from tidegate._tidegate import AggregationQuery, RollingQuery
from tidegate.agg import Aggregate, Function, Interpolation, ewm_mean, quantile, top
from tidegate.calls import explain, ways
from tidegate.cli.tables import NO_LIMITS, Input, Limits, Output, opened, show_csv
from tidegate.io.open_tables import OpenTable, of_one_type
from tidegate.other_names import INSTEAD

# The command line supports every function except `udf`, which needs Python code.
NAMES = [name for name in get_args(Function) if name != "udf"]
OF_TWO = ("weighted_mean", "arg_min", "arg_max", "covar", "corr")
# These functions list the values of several rows if a number of rows follows the column.
OF_SOME = ("first", "last")
# Calls to functions with other parameters, as shown in messages.
WITH_PARAMETER = {
    "quantile": "quantile(column, share), where share is a fraction such as 0.99",
    "top": "top(column, n) or top(column, n, by) with a number of rows such as 3",
    "ewm_mean": "ewm_mean(column, half_life) with a duration such as 5m",
}

# The interval of one function, after everything else.
OVER = re.compile(
    r"(?s)(.*?)\s+over\s+((?:(?:lower|upper|closed|prevailing)\s*=\s*[^\s=,]+\s*,?\s*)+)",
    re.IGNORECASE,
)
FUNCTION = re.compile(r"(?s)\s*(\w+)\s*\(\s*(.*?)\s*\)\s*(?:where\s+(.+))?", re.IGNORECASE)


@dataclass(frozen=True)
class Job:
    """The tables to aggregate, with the query and the limits."""

    streams: list[Input]
    query: AggregationQuery | RollingQuery
    limits: Limits = NO_LIMITS


@dataclass(frozen=True)
class Counts:
    """The numbers of rows read and written; `str` returns the last line that the command prints."""

    streams: int
    rows: int
    out: int
    seconds: float

    def __str__(self) -> str:
        """Return the counts and the speed in input rows per second."""
        speed = self.rows / max(self.seconds, 1e-9)
        streams = "1 stream" if self.streams == 1 else f"{self.streams} streams"
        return (
            f"{self.rows:,} rows of {streams}, {self.out:,} rows out, "
            f"{self.seconds:.2f} s, {speed:,.0f} input rows/s"
        )


def function(text: str) -> Aggregate:
    """Parse a function such as `sum(price * size)`, `corr(x, y)` or `first(price) where size > 10`.

    In a join, the function's own interval can follow, as in `count() over lower=-1h, upper=0s`.

    Raises:
        ValueError: The text does not have one of these forms; the message shows what was expected.

    Example:
        >>> function("sum(size) where side = 'B'")
        Aggregate(function='sum', column='size', where="side = 'B'")
    """
    if (over := OVER.fullmatch(text)) is not None:
        settings = re.findall(r"(\w+)\s*=\s*([^\s=,]+)", over[2])
        own = tuple((name.lower(), _setting(name.lower(), value)) for name, value in settings)
        return replace(function(over[1]), interval=own)
    found = FUNCTION.fullmatch(text)
    if found is None or found[1].lower() not in NAMES or found[2] == "*":
        word, column = (text.strip(), "") if found is None else (found[1], found[2])
        message = f"{text!r:.80} is not a function; {_instead(word.lower(), column)}"
        raise ValueError(message)
    name = cast("Function", found[1].lower())
    if name in WITH_PARAMETER:
        return _with_parameter(name, text, found[2], found[3])
    column, second = found[2] or None, None
    if name in OF_SOME and len(parts := _arguments(found[2])) > 1 and _is_count(parts[-1]):
        return Aggregate(name, ", ".join(parts[:-1]), found[3], n=int(parts[-1]))
    if name in OF_TWO and column is not None and len(parts := _arguments(column)) > 1:
        column, second = parts[0], ", ".join(parts[1:])
    return Aggregate(name, column, found[3], second)


def _setting(name: str, text: str) -> object:
    """Parse a setting of a function's own interval."""
    if name == "prevailing":
        if text.lower() not in {"true", "false"}:
            message = f"prevailing: expected true or false, got {text!r:.80}"
            raise ValueError(message)
        return text.lower() == "true"
    if name == "closed":
        return text.lower()
    if text.lower() in {"none", "unbounded"}:
        return None
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else text


def _instead(word: str, column: str) -> str:
    """Return advice for a function name from another library, or one without parentheses."""
    if word == "count" or INSTEAD.get(word) == "count()":
        return "write count()"
    # The command does not support Python functions.
    known = INSTEAD.get(word, "")
    if known.partition("(")[0] in NAMES:
        return f"write {known.replace('column', column or 'column', 1)}"
    if word in NAMES:
        return f"write {word}(column)"
    return f"expected one of {', '.join(NAMES)}, as in sum(size) or count() where size > 10"


def _arguments(text: str) -> list[str]:
    """Split a string at its commas, except those in parentheses or quotes.

    Example:
        >>> _arguments("coalesce(a, b), 'x,y'")
        ['coalesce(a, b)', "'x,y'"]
    """
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        depth += (char == "(") - (char == ")") if not quote else 0
        if char == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _is_count(text: str) -> bool:
    return re.fullmatch(r"\d+", text) is not None


def _with_parameter(name: str, text: str, inside: str, where: str | None) -> Aggregate:
    """Parse a function whose second argument is a parameter instead of a column."""
    column, *parameters = _arguments(inside)
    match name, parameters:
        case "quantile", [share, *more] if len(more) <= 1:
            how = more[0] if more else "linear"
            if how in get_args(Interpolation) and re.fullmatch(r"[\d.eE+-]+", share):
                method = cast("Interpolation", how)
                return quantile(column, float(share), interpolation=method, where=where)
        case "top", [n, *by] if _is_count(n):
            return top(column, int(n), by=", ".join(by) or None, where=where)
        case "ewm_mean", [half_life]:
            steps = int(half_life) if _is_count(half_life) else half_life
            return ewm_mean(column, steps, where=where)
    message = f"expected {WITH_PARAMETER[name]}; got {text!r:.80}"
    raise ValueError(message)


def _opened(job: Job) -> list[OpenTable]:
    tables = of_one_type(opened(job.streams, streamed=job.limits.streamed))
    return [given.timed(table) for given, table in zip(job.streams, tables, strict=True)]


def plan(job: Job) -> str:
    """Describe how the rows would be aggregated, reading only the schemas if possible."""
    return explain.of_aggregation(job.query, _opened(job), job.limits.of_call(), in_batches=True)


def run(job: Job, output: Output, *, show_progress: bool, verbose: bool) -> Counts:
    """Aggregate files and write the result to another file."""
    start = time.perf_counter()
    output.check(job.streams)
    if job.query.arguments["threads"] is not None:
        pa.set_cpu_count(job.query.threads)
    tables = _opened(job)
    show_csv(tables, shown=verbose)
    out = 0
    name = "rolling" if isinstance(job.query, RollingQuery) else "aggregate"
    with (
        tqdm(desc=name, unit=" rows", unit_scale=True, disable=not show_progress) as bar,
        ways.aggregated_batches(job.query, tables, job.limits.of_call()) as batches,
        output.writer(batches.schema) as writer,
    ):
        known = [count for table in tables if (count := table.row_count()) is not None]
        total = sum(known) if len(known) == len(tables) else None
        for batch in batches:
            writer.write_batch(batch)
            out += batch.num_rows
            if total and (done := batches.stats().get("rows_in")) is not None:
                bar.set_postfix_str(f"{done / total:.0%} of input rows", refresh=False)
            bar.update(batch.num_rows)
        read = batches.stats().get("rows_in")
    rows = sum(table.rows_read for table in tables) if read is None else read
    return Counts(len(tables), rows, out, time.perf_counter() - start)
