"""The compared systems: one module per system, with one function per form of the join.

A form is a way to write the same join. A *plain* form is what most users write first. An *expert*
form is written by someone who knows that plain forms visit every pair with equal keys. The forms
are listed here rather than in the modules, so that the list can be read even if a system is not
installed.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from workload import Inputs

Kind = Literal["ours", "plain", "expert"]
Output = Literal["table", "batches"]
Visits = Literal["matches", "equal keys", "close times"]
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Query(Generic[Result]):
    """A join that is ready to run, with its inputs in the system's own format."""

    run: Callable[[], Result]
    """The timed function. The clock stops before the result is freed."""

    batches: Callable[[Result], Iterable[pa.RecordBatch]]
    """Converts the result of `run` to Arrow for the check, untimed."""


@dataclasses.dataclass(frozen=True)
class Form:
    """One way to write the join in one system."""

    system: str
    name: str
    kind: Kind
    output: Output = "table"
    visits: Visits = "matches"  # visited pairs; if other than matches, it runs only for few pairs
    single: bool = False  # uses one thread, regardless of the number allowed

    @property
    def title(self) -> str:
        """Return the name in tables."""
        return f"{self.system} {self.name}"

    def prepare(self, inputs: Inputs, threads: int) -> Query[Any]:
        """Load the system, and pass the inputs to it."""
        module = importlib.import_module(f"systems.{_MODULES[self.system]}")
        query: Query[Any] = getattr(module, self.name.replace(" ", "_"))(inputs, threads)
        return query


_MODULES = {
    "tidegate": "tidegate",
    "polars": "polars",
    "duckdb": "duckdb",
    "datafusion": "datafusion",
    "polars-bio": "polars_bio",
    "pyjanitor": "pyjanitor",
    "numpy": "by_hand",
}
SYSTEMS = tuple(_MODULES)

FORMS = (
    Form("tidegate", "table", "ours"),
    Form("tidegate", "batches", "ours", "batches"),
    Form("tidegate", "batches summed", "ours", "batches"),
    Form("polars", "plain", "plain", visits="equal keys"),
    Form("polars", "join where", "plain", visits="equal keys"),
    Form("polars", "range join", "expert"),
    Form("polars", "buckets", "expert"),
    Form("polars", "wide buckets", "expert"),
    Form("polars", "buckets batches", "expert", "batches"),
    Form("duckdb", "plain", "plain", visits="equal keys"),
    Form("duckdb", "prefer range joins", "expert", visits="close times"),
    Form("duckdb", "range join", "expert"),
    Form("duckdb", "neighbours", "expert"),
    Form("duckdb", "buckets", "expert"),
    Form("duckdb", "wide buckets", "expert"),
    Form("duckdb", "buckets batches", "expert", "batches"),
    Form("datafusion", "plain", "plain", visits="equal keys"),
    Form("datafusion", "sort merge", "plain", visits="equal keys"),
    Form("datafusion", "buckets", "expert"),
    Form("datafusion", "wide buckets", "expert"),
    Form("datafusion", "buckets batches", "expert", "batches"),
    Form("polars-bio", "overlap", "plain"),
    Form("polars-bio", "superintervals", "expert"),
    Form("pyjanitor", "conditional join", "plain"),
    Form("numpy", "by hand", "expert", single=True),
)
