//! The class `JoinPlan`: the columns that a join reads, and the columns of its result.

use std::sync::Arc;

use arrow_schema::Schema;
use pyo3::prelude::*;
use pyo3_arrow::PySchema;
use tidegate::QueryPlan;

#[doc = manual!(JoinPlan)]
#[pyclass(frozen, module = "tidegate")]
pub(crate) struct JoinPlan {
    plan: QueryPlan,
    /// Of the inputs.
    schemas: [Arc<Schema>; 2],
}

/// The left and the right column of a column.
type Origin = (Option<String>, Option<String>);

impl JoinPlan {
    pub(crate) fn new(plan: QueryPlan, left: Arc<Schema>, right: Arc<Schema>) -> Self {
        JoinPlan { plan, schemas: [left, right] }
    }

    fn name(&self, side: usize, at: usize) -> String {
        self.schemas[side].field(at).name().clone()
    }

    fn reads(&self, side: usize) -> Vec<String> {
        self.plan.reads[side].iter().map(|&at| self.name(side, at)).collect()
    }
}

#[pymethods]
impl JoinPlan {
    #[doc = manual!(JoinPlan.explanation)]
    #[getter]
    fn explanation(&self) -> &str {
        &self.plan.explanation
    }

    #[doc = manual!(JoinPlan.schema)]
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PySchema::new(self.plan.schema.clone()).into_pyarrow(py)
    }

    #[doc = manual!(JoinPlan.left_columns)]
    #[getter]
    fn left_columns(&self) -> Vec<String> {
        self.reads(0)
    }

    #[doc = manual!(JoinPlan.right_columns)]
    #[getter]
    fn right_columns(&self) -> Vec<String> {
        self.reads(1)
    }

    #[doc = manual!(JoinPlan.origins)]
    #[getter]
    fn origins(&self) -> Vec<Origin> {
        let names = |&(left, right): &(Option<usize>, Option<usize>)| {
            (left.map(|at| self.name(0, at)), right.map(|at| self.name(1, at)))
        };
        self.plan.origins.iter().map(names).collect()
    }
}
