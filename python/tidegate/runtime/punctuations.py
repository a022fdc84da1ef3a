"""Emits the punctuations of an operator as rows among its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate._tidegate import SchemaError, Source, TidegateError
from tidegate.runtime.running import Taker, sink_of

if TYPE_CHECKING:
    from tidegate.types import Sink

_WATERMARK = "watermark"


class Punctuated(Taker):
    """A sink that also receives the operator's punctuations, as rows among the results."""

    def __init__(self, operator: Any, sink: Sink) -> None:  # noqa: ANN401 - of Rust
        if isinstance(sink, Source):
            message = (
                "punctuations: a source of another operator accepts only results; "
                "omit punctuations, or use a tidegate.Chain, which passes watermarks to the source"
            )
            raise TidegateError(message)
        self.schema = _with_watermark(operator.schema)
        self.nulls = [pa.nulls(1, field.type) for field in operator.schema]
        self.sink = sink_of(sink)
        self.operator = operator
        self.last: int | None = None
        # The exception that the sink raised for a punctuation, after it had accepted results.
        self.error: BaseException | None = None

    def give(self, batch: pa.RecordBatch) -> bool:
        """Pass results to the sink, followed by a punctuation."""
        self._check()
        watermarks = pa.nulls(batch.num_rows, pa.int64())
        rows = pa.RecordBatch.from_arrays([*batch.columns, watermarks], schema=self.schema)
        if not self.sink.give(rows):
            return False
        try:
            self.promise(self.operator)
        except BaseException as error:  # noqa: BLE001 - the next call raises it
            self.error = error
        return True

    def promise(self, operator: Any) -> None:  # noqa: ANN401 - of Rust
        """Pass a punctuation to the sink if the promise has advanced."""
        self._check()
        promised = operator.promised
        if promised is None or promised == self.last:
            return
        columns = [*self.nulls, pa.array([promised], pa.int64())]
        # If the queue is full, it receives a later punctuation instead.
        if self.sink.give(pa.RecordBatch.from_arrays(columns, schema=self.schema)):
            self.last = promised

    def end(self) -> bool:
        """Signal the end of the results."""
        self._check()
        return self.sink.end()

    def _check(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


def _with_watermark(schema: pa.Schema) -> pa.Schema:
    """Return the schema of results with punctuations. Any of its columns may be null."""
    if _WATERMARK in schema.names:
        message = (
            f"punctuations: the results already have a column `{_WATERMARK}`; "
            "rename it in the sources"
        )
        raise SchemaError(message)
    fields = [field.with_nullable(nullable=True) for field in schema]
    return pa.schema([*fields, pa.field(_WATERMARK, pa.int64())], metadata=schema.metadata)
