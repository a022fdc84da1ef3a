//! The class `IntervalJoin`.

use pyo3::prelude::*;
use tidegate::stream::{self, Parallelism};

use crate::error::raise;
use crate::input::schema;
use crate::interval_join::Arguments;
use crate::join::word;
use crate::stream_join::{StreamJoin, options};

const PARALLELISM: [(&str, Parallelism); 4] = [
    ("auto", Parallelism::Auto),
    ("key", Parallelism::Key),
    ("data", Parallelism::Data),
    ("hybrid", Parallelism::Hybrid),
];

/// Join rows as they come.
#[pyclass(frozen, extends = StreamJoin, module = "tidegate")]
pub(crate) struct IntervalJoin;

#[pymethods]
impl IntervalJoin {
    #[new]
    #[pyo3(signature = (
        left, right, *, on, lower, upper, by=None, r#where=None, how="inner", closed="both", suffix="_right",
        columns=None, sources=None, lateness=None, parallelism="auto", threads=None, memory_limit=None, ordered=true,
        pin=true
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new<'py>(
        left: &Bound<'py, PyAny>,
        right: &Bound<'py, PyAny>,
        on: &Bound<'py, PyAny>,
        lower: &Bound<'py, PyAny>,
        upper: &Bound<'py, PyAny>,
        by: Option<&Bound<'py, PyAny>>,
        r#where: Option<&Bound<'py, PyAny>>,
        how: &str,
        closed: &str,
        suffix: &str,
        columns: Option<&Bound<'py, PyAny>>,
        sources: Option<&Bound<'py, PyAny>>,
        lateness: Option<&Bound<'py, PyAny>>,
        parallelism: &str,
        threads: Option<&Bound<'py, PyAny>>,
        memory_limit: Option<&Bound<'py, PyAny>>,
        ordered: bool,
        pin: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (max_rows, batch_rows) = (None, None);
        let query = Arguments {
            on,
            lower,
            upper,
            by,
            r#where,
            how,
            closed,
            suffix,
            columns,
            threads,
            max_rows,
            batch_rows,
        };
        let query = query.read()?;
        let parallelism = word("parallelism", parallelism, &PARALLELISM)?;
        let options = options(sources, lateness, memory_limit, ordered, pin)?;
        let (left, right) = (schema("left", left)?, schema("right", right)?);
        let join = stream::StreamJoin::interval(&query, parallelism, left, right, &options)
            .map_err(raise)?;
        Ok(PyClassInitializer::from(StreamJoin::new(join)).add_subclass(IntervalJoin))
    }
}
