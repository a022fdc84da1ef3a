//! The classes `JoinPlan` and `AggregationPlan`: the columns that a query reads, and the columns of
//! its result.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tidegate::{Difference, Driver, Error, Length, QueryPlan, Reach, ResultWindows, Stop};

use crate::arrow::{export, import};
use crate::inputs::arguments::{bound, word};
use crate::interpreter::error::raise;
use crate::interpreter::interrupt;

#[doc = manual!(JoinPlan)]
#[pyclass(frozen, module = "tidegate")]
pub(crate) struct JoinPlan {
    plan: QueryPlan,
    /// The schemas of the inputs.
    schemas: [SchemaRef; 2],
}

/// The names of a left column and a right column.
type Pair = (String, String);

/// The smallest and largest difference between two values. `None` means no bound.
type Ends<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// The left and right columns from which a result column is computed.
type Origin = (Option<String>, Option<String>);

impl JoinPlan {
    pub(crate) fn new(plan: QueryPlan, left: SchemaRef, right: SchemaRef) -> Self {
        JoinPlan { plan, schemas: [left, right] }
    }

    fn name(&self, side: usize, at: usize) -> String {
        name(&self.schemas[side], at)
    }

    fn pair(&self, (left, right): (usize, usize)) -> Pair {
        (self.name(0, left), self.name(1, right))
    }

    fn reads(&self, side: usize) -> Vec<String> {
        self.names(side, &self.plan.reads[side])
    }

    fn names(&self, side: usize, columns: &[usize]) -> Vec<String> {
        columns.iter().map(|&at| self.name(side, at)).collect()
    }

    fn reach<'py>(&self, py: Python<'py>, reach: &Reach) -> PyResult<(Pair, Ends<'py>)> {
        let end = |end: Option<Difference>| {
            end.map(|end| match end {
                Difference::Steps(steps) => Ok::<_, PyErr>(steps.into_pyobject(py)?.into_any()),
                Difference::Float(float) => Ok(float.into_pyobject(py)?.into_any()),
            })
            .transpose()
        };
        Ok((self.pair(reach.columns), (end(reach.lower)?, end(reach.upper)?)))
    }
}

#[pymethods]
impl JoinPlan {
    /// Returns the schemas of the inputs. The untyped columns of empty inputs have been assigned
    /// types.
    #[getter]
    fn _inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.schemas.iter().map(|schema| export::schema(py, schema)).collect()
    }

    #[doc = manual!(JoinPlan.explanation)]
    #[getter]
    fn explanation(&self) -> &str {
        &self.plan.explanation
    }

    #[doc = manual!(JoinPlan.schema)]
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema(py, &self.plan.schema)
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

    #[doc = manual!(JoinPlan.needed)]
    #[getter]
    fn needed(&self) -> (Vec<String>, Vec<String>) {
        let [left, right] = &self.schemas;
        let needed = self.plan.needed(left, right);
        let names = |side: usize| -> Vec<String> {
            needed[side].iter().map(|&at| self.name(side, at)).collect()
        };
        (names(0), names(1))
    }

    #[doc = manual!(JoinPlan.origins)]
    #[getter]
    fn origins(&self) -> Vec<Origin> {
        let names = |&(left, right): &(Option<usize>, Option<usize>)| {
            (left.map(|at| self.name(0, at)), right.map(|at| self.name(1, at)))
        };
        self.plan.origins.iter().map(names).collect()
    }

    #[doc = manual!(JoinPlan.keys)]
    #[getter]
    fn keys(&self) -> Vec<Pair> {
        self.plan.keys.iter().map(|&key| self.pair(key)).collect()
    }

    #[doc = manual!(JoinPlan.bands)]
    #[getter]
    fn bands<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Pair, Ends<'py>)>> {
        self.plan.bands.iter().map(|reach| self.reach(py, reach)).collect()
    }

    #[doc = manual!(JoinPlan.time)]
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Option<(Pair, Ends<'py>)>> {
        self.plan.time.as_ref().map(|reach| self.reach(py, reach)).transpose()
    }

    #[doc = manual!(JoinPlan.distances)]
    #[getter]
    fn distances(&self) -> (Option<i64>, Option<i64>) {
        self.plan.distances
    }

    #[doc = manual!(JoinPlan.intervals)]
    #[getter]
    fn intervals(&self) -> Option<(Pair, Pair)> {
        let [left, right] = self.plan.intervals?;
        let names = |side, (start, end)| (self.name(side, start), self.name(side, end));
        Some((names(0, left), names(1, right)))
    }

    /// Whether a bound of an interval join varies from row to row.
    #[getter]
    fn _has_row_bounds(&self) -> bool {
        self.plan.has_row_bounds()
    }

    #[doc = manual!(JoinPlan.looks_back)]
    #[getter]
    fn looks_back(&self) -> bool {
        self.plan.looks_back
    }

    #[doc = manual!(JoinPlan.condition_columns)]
    #[getter]
    fn condition_columns(&self) -> (Vec<String>, Vec<String>) {
        let [left, right] = &self.plan.condition_reads;
        (self.names(0, left), self.names(1, right))
    }

    #[doc = manual!(JoinPlan.end_columns)]
    #[getter]
    fn end_columns(&self) -> (Vec<String>, Vec<String>) {
        let [left, right] = self.plan.end_reads();
        (self.names(0, &left), self.names(1, &right))
    }

    #[doc = manual!(JoinPlan.steps)]
    fn steps(&self, name: &str, length: &Bound<'_, PyAny>) -> PyResult<i64> {
        match bound(name, length)? {
            Some(length) => self.plan.steps(name, length).map_err(raise),
            None => Err(PyTypeError::new_err(format!("{name}: expected a duration, got None"))),
        }
    }

    #[doc = manual!(JoinPlan.row_intervals)]
    fn row_intervals<'py>(
        &self,
        side: &str,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let of_left = word("side", side, &[("left", true), ("right", false)])?;
        let given = import::read("rows", rows, &Stop::default())?;
        let expected = &self.schemas[usize::from(!of_left)];
        let types = |schema: &SchemaRef| -> Vec<_> {
            let fields = schema.fields().iter();
            fields.map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        if types(given.schema()) != types(expected) {
            return Err(raise(Error::schema(format!(
                "rows: expected the columns of the {side} side for which the plan was created, got \
                 {}; select these columns",
                given.schema()
            ))));
        }
        let found = interrupt::detached(rows.py(), || {
            let driver = Driver::new(1, Stop::default());
            self.plan.row_intervals(&given.table(&driver)?, of_left)
        })?;
        let batch = |[starts, ends]: [Vec<i64>; 2]| {
            let columns = [("start", starts), ("end", ends)]
                .map(|(name, times)| (name, Arc::new(Int64Array::from(times)) as ArrayRef));
            let batch = RecordBatch::try_from_iter(columns)
                .map_err(|error| raise(Error::bug(error.to_string())))?;
            export::batch(rows.py(), batch)
        };
        found.map(batch).transpose()
    }
}

#[doc = manual!(AggregationPlan)]
#[pyclass(frozen, module = "tidegate")]
pub(crate) struct AggregationPlan {
    plan: tidegate::AggregationPlan,
    /// The schemas of the streams.
    schemas: Vec<SchemaRef>,
}

impl AggregationPlan {
    pub(crate) fn new(plan: tidegate::AggregationPlan, schemas: Vec<SchemaRef>) -> Self {
        AggregationPlan { plan, schemas }
    }
}

#[pymethods]
impl AggregationPlan {
    /// Returns the schemas of the inputs. The untyped columns of empty inputs have been assigned
    /// types.
    #[getter]
    fn _inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.schemas.iter().map(|schema| export::schema(py, schema)).collect()
    }

    #[doc = manual!(AggregationPlan.explanation)]
    #[getter]
    fn explanation(&self) -> &str {
        &self.plan.explanation
    }

    #[doc = manual!(AggregationPlan.schema)]
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema(py, &self.plan.schema)
    }

    #[doc = manual!(AggregationPlan.columns)]
    #[getter]
    fn columns(&self) -> Vec<Vec<String>> {
        let names = |(reads, schema): (&Vec<usize>, &SchemaRef)| {
            reads.iter().map(|&at| name(schema, at)).collect()
        };
        self.plan.reads.iter().zip(&self.schemas).map(names).collect()
    }

    #[doc = manual!(AggregationPlan.longest)]
    #[getter]
    fn longest(&self) -> Option<i64> {
        self.plan.windows.as_ref().map(ResultWindows::longest)
    }

    #[doc = manual!(AggregationPlan.last_windows)]
    fn last_windows(&self, times: Vec<i64>) -> PyResult<Vec<(i64, i64)>> {
        let windows = self.windows()?;
        Ok(times.into_iter().map(|ts| windows.last_window(ts)).collect())
    }

    #[doc = manual!(AggregationPlan.slices)]
    #[getter]
    fn slices<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (size, offset) = self.windows()?.slices();
        Ok((length(py, size)?, length(py, offset)?))
    }

    #[doc = manual!(AggregationPlan.calendar)]
    #[getter]
    fn calendar(&self) -> Option<&str> {
        self.plan.calendar.as_deref()
    }

    #[doc = manual!(AggregationPlan.zone)]
    #[getter]
    fn zone(&self) -> Option<&str> {
        self.plan.zone.as_deref()
    }

    #[doc = manual!(AggregationPlan.gap_column)]
    #[getter]
    fn gap_column(&self) -> Option<&str> {
        self.plan.gap_column.as_deref()
    }

    #[doc = manual!(AggregationPlan.advice)]
    #[getter]
    fn advice(&self) -> Option<&str> {
        self.plan.advice.as_deref()
    }
}

impl AggregationPlan {
    fn windows(&self) -> PyResult<&ResultWindows> {
        let windows = self.plan.windows.as_ref();
        windows.ok_or_else(|| {
            raise(Error::argument("the length of session windows is not known in advance"))
        })
    }
}

/// Converts a length to the integer or string that can be passed as an argument.
fn length(py: Python<'_>, length: Length) -> PyResult<Bound<'_, PyAny>> {
    Ok(match length {
        Length::Fixed(tidegate::Bound::Steps(steps)) => steps.into_pyobject(py)?.into_any(),
        length => length.to_string().into_pyobject(py)?.into_any(),
    })
}

fn name(schema: &SchemaRef, at: usize) -> String {
    schema.field(at).name().clone()
}
