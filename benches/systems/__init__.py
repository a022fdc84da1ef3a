"""The compared systems: one module a system, one function in it for each form of the join.

A form is a way to write the same join. *plain* is what a user writes first; *expert* is what
someone writes who knows that plain forms visit every pair with equal keys. The list of forms is
here and not in the modules, so that it can be read where a system is not installed.
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
    """A join that is ready to run: its inputs are in the system's own format."""

    run: Callable[[], Result]
    """What is timed. The clock stops before the result is freed."""

    batches: Callable[[Result], Iterable[pa.RecordBatch]]
    """The result of `run` as Arrow, for the check. Not timed."""


@dataclasses.dataclass(frozen=True)
class Form:
    """One way to write the join in one system."""

    system: str
    name: str
    kind: Kind
    output: Output = "table"
    visits: Visits = "matches"  # pairs it looks at: beyond matches, run only where that ends
    single: bool = False  # has one thread, however many it may use

    @property
    def title(self) -> str:
        """How tables name it."""
        return f"{self.system} {self.name}"

    def prepare(self, inputs: Inputs, threads: int) -> Query[Any]:
        """Load the system and hand it the inputs."""
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
