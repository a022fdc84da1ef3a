//! The class `Aggregate`.

use pyo3::prelude::*;
use tidegate::stream::{self, AggregateOptions};

use crate::aggregate::Arguments;
use crate::error::raise;
use crate::input::{bound, count, schema};
use crate::operator::Operator;

#[doc = manual!(Aggregate)]
#[pyclass(frozen, extends = Operator, module = "tidegate")]
pub(crate) struct Aggregate;

#[pymethods]
impl Aggregate {
    #[new]
    #[pyo3(signature = (
        schema, *, on, size=None, advance=None, offset=None, session=None, by=None, aggs, r#where=None, sources=None,
        lateness=None, algorithm="auto", threads=None, memory_limit=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new<'py>(
        schema: &Bound<'py, PyAny>,
        on: &str,
        size: Option<&Bound<'py, PyAny>>,
        advance: Option<&Bound<'py, PyAny>>,
        offset: Option<&Bound<'py, PyAny>>,
        session: Option<&Bound<'py, PyAny>>,
        by: Option<&Bound<'py, PyAny>>,
        aggs: &Bound<'py, PyAny>,
        r#where: Option<&Bound<'py, PyAny>>,
        sources: Option<&Bound<'py, PyAny>>,
        lateness: Option<&Bound<'py, PyAny>>,
        algorithm: &str,
        threads: Option<&Bound<'py, PyAny>>,
        memory_limit: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let max_rows = None;
        let query = Arguments {
            on,
            size,
            advance,
            offset,
            session,
            by,
            aggs,
            r#where,
            algorithm,
            threads,
            max_rows,
        }
        .read()?;
        let options = AggregateOptions {
            sources: count("sources", sources, 1, 1 << 16)?.unwrap_or(1) as usize,
            lateness: lateness.map(|lateness| bound("lateness", lateness)).transpose()?.flatten(),
            memory_limit: count("memory_limit", memory_limit, 0, i64::MAX)?
                .map(|bytes| bytes as usize),
        };
        let schema = self::schema("schema", schema)?;
        let aggregation = stream::aggregate(&query, schema, &options).map_err(raise)?;
        Ok(PyClassInitializer::from(Operator::new(aggregation)).add_subclass(Aggregate))
    }
}
