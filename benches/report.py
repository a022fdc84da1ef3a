"""Writes the tables of W1: tidegate's lead as ratios, then every form.

Seconds depend on the machine, so the first table contains only tidegate's seconds. A ratio is a
rival's median divided by tidegate's median, in one run on one machine.
"""

from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING

from systems import FORMS, Form

if TYPE_CHECKING:
    from collections.abc import Iterable

    from measure import Measurement
    from workload import Case

NONE = "-"


@dataclasses.dataclass(frozen=True)
class Result:
    """The measurements of a form for one case and number of threads."""

    case: Case
    system: str
    form: str
    threads: int
    measurement: Measurement | None = None
    skipped: str = ""

    @property
    def title(self) -> str:
        """Return the name in tables."""
        return f"{self.system} {self.form}"

    @property
    def spec(self) -> Form:
        """Return the measured form."""
        return next(form for form in FORMS if (form.system, form.name) == (self.system, self.form))

    @property
    def median(self) -> float | None:
        """Return the median of the seconds."""
        return statistics.median(self.measurement.seconds) if self.measurement else None

    @property
    def scratch_per_row(self) -> float | None:
        """Return the bytes in addition to input and output, per input row."""
        if self.measurement is None or self.measurement.scratch is None:
            return None
        return self.measurement.scratch / (2 * self.case.rows)

    def line(self) -> str:
        """Return a line that shows progress."""
        seconds = _seconds(self.median) if self.median else self.skipped
        return f"{self.title}, threads {self.threads}: {seconds}"


def markdown(results: list[Result]) -> str:
    """Return both tables, and the versions of the systems."""
    return "\n".join((_leads(results), _all_forms(results), _versions(results)))


def _leads(results: list[Result]) -> str:
    header = (
        *("rows", "keys", "skew", "threads"),
        *("tidegate table, s", "batches, s", "batches summed, s"),
        *("fastest plain", "table ahead by", "fastest expert", "table ahead by"),
        *("batches ahead by", "fastest expert in batches", "batches ahead by"),
        *("table, over one thread", "batches, over one thread"),
        *("table: bytes per row beyond input and output", "batches: bytes per row beyond input"),
    )
    rows = [_lead(results, case, threads) for case, threads in _points(results)]
    return _table(header, rows)


def _lead(results: list[Result], case: Case, threads: int) -> list[str]:
    here = [result for result in results if result.case == case and _runs_at(result, threads)]
    table, batches, summed = (_find(here, form) for form in ("table", "batches", "batches summed"))
    plain = _fastest(here, "plain", "table")
    expert = _fastest(here, "expert", "table")
    streamed = _fastest(here, "expert", "batches")
    return [
        *(f"{case.rows:,}", f"{case.keys:,}", case.skew, str(threads)),
        *(_seconds_of(result) for result in (table, batches, summed)),
        *(_title(plain), _ratio(plain, table), _title(expert), _ratio(expert, table)),
        *(_ratio(expert, batches), _title(streamed), _ratio(streamed, batches)),
        *(_ratio(_alone(results, result), result) for result in (table, batches)),
        *(_scratch(result) for result in (table, batches)),
    ]


def _all_forms(results: list[Result]) -> str:
    header = (
        *("rows", "keys", "skew", "threads", "system", "kind"),
        *("median s", "min s", "max s", "first s", "cpu s", "over tidegate table"),
        "bytes per row beyond input and output",
    )
    return _table(header, [_detail(results, result) for result in results])


def _detail(results: list[Result], result: Result) -> list[str]:
    case = result.case
    place = [f"{case.rows:,}", f"{case.keys:,}", case.skew, str(result.threads), result.title]
    found = result.measurement
    if found is None:
        return [*place, result.spec.kind, result.skipped, *[NONE] * 6]
    here = [other for other in results if other.case == case and other.threads == result.threads]
    times = (min(found.seconds), max(found.seconds), found.first_s, found.cpu_s)
    return [
        *(*place, result.spec.kind, _seconds_of(result)),
        *(_seconds(value) for value in times),
        *(_ratio(result, _find(here, "table")), _scratch(result)),
    ]


def _versions(results: list[Result]) -> str:
    versions = {
        result.system: result.measurement.version for result in results if result.measurement
    }
    return "Versions: " + ", ".join(f"{name} {text}" for name, text in versions.items()) + "\n"


def _points(results: list[Result]) -> list[tuple[Case, int]]:
    """Return cases and threads, in the order of the runs."""
    threads = sorted({result.threads for result in results})
    return [
        (case, count)
        for case in dict.fromkeys(result.case for result in results)
        for count in threads
    ]


def _runs_at(result: Result, threads: int) -> bool:
    """Return the forms for a thread count, always including single-threaded forms."""
    return result.threads == threads or (result.spec.single and result.threads < threads)


def _find(results: list[Result], form: str) -> Result | None:
    """Return the measurements of one of tidegate's forms."""
    for result in results:
        if (result.system, result.form) == ("tidegate", form) and result.measurement:
            return result
    return None


def _fastest(results: Iterable[Result], kind: str, output: str) -> Result | None:
    rivals = [
        result
        for result in results
        if result.measurement and (result.spec.kind, result.spec.output) == (kind, output)
    ]
    return min(rivals, key=lambda result: result.median or 0.0, default=None)


def _alone(results: list[Result], result: Result | None) -> Result | None:
    """Return the measurements of the same form and case on one thread."""
    if result is None:
        return None
    here = [other for other in results if other.case == result.case and other.threads == 1]
    return _find(here, result.form)


def _ratio(slower: Result | None, faster: Result | None) -> str:
    if slower is None or faster is None or not slower.median or not faster.median:
        return NONE
    return f"{slower.median / faster.median:.2f}x"


def _title(result: Result | None) -> str:
    return result.title if result else NONE


def _seconds_of(result: Result | None) -> str:
    return _seconds(result.median) if result and result.median else NONE


def _seconds(value: float) -> str:
    return f"{value:.4f}" if value < 1 else f"{value:.2f}"


def _scratch(result: Result | None) -> str:
    value = result.scratch_per_row if result else None
    return NONE if value is None else f"{value:.0f}"


def _table(header: Iterable[str], rows: list[list[str]]) -> str:
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
