//! The `JoinQuery` class, which describes a join independently of its inputs.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::How;

use crate::arrow::reader::BatchReader;
use crate::inputs::arguments::{Argument, widths};
use crate::inputs::rows::schema;
use crate::interpreter::interrupt::detached;
use crate::interpreter::native::module;
use crate::operators::stream_join::{StreamJoin, options};
use crate::queries::plan::JoinPlan;
use crate::queries::tables::{self, Relation};

#[doc = manual!(JoinQuery)]
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct JoinQuery {
    function: &'static str,
    /// The arguments as they were passed, so that another process can build the same query from
    /// them.
    arguments: Py<PyDict>,
    join: Arc<dyn Relation>,
}

impl JoinQuery {
    /// Builds a function's query from the function's arguments and the join that they describe.
    pub(crate) fn new(
        function: &'static str,
        arguments: Bound<'_, PyDict>,
        join: impl Relation,
    ) -> Self {
        JoinQuery { function, arguments: arguments.unbind(), join: Arc::new(join) }
    }
}

/// A function that rebuilds the same query, and the arguments to call it with.
type Reduction<'py> = (Bound<'py, PyAny>, (&'static str, Bound<'py, PyDict>));

#[pymethods]
impl JoinQuery {
    #[doc = manual!(JoinQuery.function)]
    #[getter]
    fn function(&self) -> &str {
        self.function
    }

    #[doc = manual!(JoinQuery.arguments)]
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.arguments.bind(py).copy()
    }

    #[doc = manual!(JoinQuery.how)]
    #[getter]
    fn how(&self) -> String {
        self.join.how()
    }

    #[doc = manual!(JoinQuery.threads)]
    #[getter]
    fn threads(&self) -> usize {
        self.join.options().threads
    }

    #[doc = manual!(JoinQuery.max_rows)]
    #[getter]
    fn max_rows(&self) -> Option<u64> {
        self.join.options().max_rows
    }

    #[doc = manual!(JoinQuery.keeps_right)]
    #[getter]
    fn keeps_right(&self) -> bool {
        matches!(self.join.options().how, How::Right | How::Full)
    }

    #[doc = manual!(JoinQuery.row_ends)]
    #[getter]
    fn row_ends(&self) -> (bool, bool) {
        self.join.row_ends().into()
    }

    #[doc = manual!(JoinQuery.replace)]
    #[pyo3(signature = (**changes))]
    fn replace<'py>(
        &self,
        py: Python<'py>,
        changes: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = self.arguments(py)?;
        if let Some(changes) = changes {
            arguments.update(changes.as_mapping())?;
        }
        join_query(self.function, &arguments)
    }

    #[doc = manual!(JoinQuery.plan)]
    fn plan(&self, left: &Bound<'_, PyAny>, right: &Bound<'_, PyAny>) -> PyResult<JoinPlan> {
        tables::to_plan(left, right, &*self.join)
    }

    #[doc = manual!(JoinQuery.table)]
    fn table<'py>(
        &self,
        py: Python<'py>,
        left: &Bound<'py, PyAny>,
        right: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        tables::to_table(py, left, right, &self.join)
    }

    #[doc = manual!(JoinQuery.batches)]
    fn batches<'py>(
        &self,
        py: Python<'py>,
        left: &Bound<'py, PyAny>,
        right: &Bound<'py, PyAny>,
    ) -> PyResult<BatchReader> {
        tables::to_reader(py, left, right, &self.join, &format!("{}_batches", self.function))
    }

    #[doc = manual!(JoinQuery.operator)]
    #[pyo3(signature = (left, right, *, max_width=None, lateness=None, pin=None))]
    fn operator<'py>(
        &self,
        py: Python<'py>,
        left: &Bound<'py, PyAny>,
        right: &Bound<'py, PyAny>,
        max_width: Option<Argument<'_, 'py>>,
        lateness: Option<Argument<'_, 'py>>,
        pin: Option<bool>,
    ) -> PyResult<Bound<'py, StreamJoin>> {
        let max_width = widths(max_width)?;
        let options = options(None, lateness, None, true, pin)?;
        let (left, right) = (schema("left", left)?, schema("right", right)?);
        let operator = detached(py, || self.join.operator(left, right, max_width, &options))?;
        Bound::new(py, StreamJoin::of(operator, false))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let text = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok(format!("{name}={}", value.repr()?))
        };
        let arguments: Vec<String> =
            self.arguments.bind(py).iter().map(text).collect::<PyResult<_>>()?;
        Ok(format!("{}({})", self.function, arguments.join(", ")))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduction<'py>> {
        Ok((module::<JoinQuery>(py)?.getattr("join_query")?, (self.function, self.arguments(py)?)))
    }
}

#[doc = manual!(join_query)]
#[pyfunction]
pub(crate) fn join_query<'py>(
    function: &str,
    arguments: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = arguments.py();
    module::<JoinQuery>(py)?.getattr(format!("{function}_query"))?.call((), Some(arguments))
}
