//! `interval_join` and the forms of it.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::PyTable;
use tidegate::{Batches, Closed, Driver, Error, How, IntervalJoin, Join, MAX_THREADS, Next, Stop, Table};

use crate::error::raise;
use crate::input::{Input, bound, check_distinct, count, name_pair, name_pairs, names, schema, table};
use crate::reader::{BatchReader, BatchStream, Numbers};
use crate::{expression, interrupt};

/// Return the number of threads that a call uses when it does not say.
#[pyfunction]
pub(crate) fn default_threads() -> usize {
    tidegate::default_threads()
}

/// Pair the rows of two inputs that share a key and are close in time.
///
/// `(l, r)` is in the result when all `by` columns are equal, `l.ts + lower <= r.ts <= l.ts + upper` and `where` holds.
/// Returns a `pyarrow.Table` in left row order, then right row order.
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, lower, upper, by=None, r#where=None, how="inner", closed="both", suffix="_right",
    columns=None, threads=None, max_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn interval_join<'py>(
    py: Python<'py>,
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
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let join =
        Arguments { on, lower, upper, by, r#where, how, closed, suffix, columns, threads, max_rows, batch_rows: None };
    let join = join.read()?;
    check_distinct(left, right)?;
    let (left, right) = (table("left", left)?, table("right", right)?);
    let stop = Stop::default();
    let running = stop.clone();
    let (batches, schema) = interrupt::run(py, &stop, move || {
        let join = start(&join, left, right, running)?;
        let schema = join.schema().clone();
        Ok((join.read_all()?, schema))
    })?;
    PyTable::try_new(batches, schema)?.into_pyarrow(py)
}

/// Do as `interval_join`, and return the rows batch by batch.
///
/// Returns a `BatchReader`, for results larger than memory.
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, lower, upper, by=None, r#where=None, how="inner", closed="both", suffix="_right",
    columns=None, threads=None, max_rows=None, batch_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn interval_join_batches<'py>(
    py: Python<'py>,
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
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
    batch_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<BatchReader> {
    let join = Arguments { on, lower, upper, by, r#where, how, closed, suffix, columns, threads, max_rows, batch_rows };
    let join = join.read()?;
    check_distinct(left, right)?;
    let (left, right) = (table("left", left)?, table("right", right)?);
    let stop = Stop::default();
    let running = stop.clone();
    let join = interrupt::run(py, &stop, move || start(&join, left, right, running))?;
    let schema = join.schema().clone();
    Ok(BatchReader::new(join.into_batches(), schema, "interval_join_batches"))
}

/// Say what `interval_join` would do with these arguments; `tidegate.explain` calls it.
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, lower, upper, by=None, r#where=None, how="inner", closed="both", suffix="_right",
    columns=None, threads=None, max_rows=None, batch_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn explain_interval_join<'py>(
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
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
    batch_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<String> {
    let join = Arguments { on, lower, upper, by, r#where, how, closed, suffix, columns, threads, max_rows, batch_rows };
    join.read()?.explain(&*schema("left", left)?, &*schema("right", right)?).map_err(raise)
}

/// The keyword arguments as they came.
pub(crate) struct Arguments<'a, 'py> {
    pub(crate) on: &'a Bound<'py, PyAny>,
    pub(crate) lower: &'a Bound<'py, PyAny>,
    pub(crate) upper: &'a Bound<'py, PyAny>,
    pub(crate) by: Option<&'a Bound<'py, PyAny>>,
    pub(crate) r#where: Option<&'a Bound<'py, PyAny>>,
    pub(crate) how: &'a str,
    pub(crate) closed: &'a str,
    pub(crate) suffix: &'a str,
    pub(crate) columns: Option<&'a Bound<'py, PyAny>>,
    pub(crate) threads: Option<&'a Bound<'py, PyAny>>,
    pub(crate) max_rows: Option<&'a Bound<'py, PyAny>>,
    pub(crate) batch_rows: Option<&'a Bound<'py, PyAny>>,
}

impl Arguments<'_, '_> {
    pub(crate) fn read(self) -> PyResult<IntervalJoin> {
        Ok(IntervalJoin {
            on: name_pair("on", self.on)?,
            by: name_pairs("by", self.by)?,
            lower: bound("lower", self.lower)?,
            upper: bound("upper", self.upper)?,
            closed: word("closed", self.closed, &CLOSED)?,
            predicate: self.r#where.map(expression::extract).transpose()?,
            how: word("how", self.how, &HOW)?,
            suffix: self.suffix.to_owned(),
            columns: names("columns", self.columns)?,
            threads: count("threads", self.threads, 1, MAX_THREADS as i64)?
                .map_or_else(tidegate::default_threads, |threads| threads as usize),
            max_rows: count("max_rows", self.max_rows, 0, i64::MAX)?.map(i64::unsigned_abs),
            batch_rows: count("batch_rows", self.batch_rows, 1, i64::MAX)?.map(|rows| rows as usize),
        })
    }
}

const HOW: [(&str, How); 6] = [
    ("inner", How::Inner),
    ("left", How::Left),
    ("right", How::Right),
    ("full", How::Full),
    ("semi", How::Semi),
    ("anti", How::Anti),
];

const CLOSED: [(&str, Closed); 4] =
    [("both", Closed::Both), ("left", Closed::Left), ("right", Closed::Right), ("neither", Closed::Neither)];

pub(crate) fn word<T: Copy>(argument: &str, given: &str, words: &[(&str, T)]) -> PyResult<T> {
    words.iter().find(|(word, _)| *word == given).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        raise(Error::argument(format!("{argument} must be one of {}, got `{given}`", known.join(", "))))
    })
}

fn start(join: &IntervalJoin, left: Input, right: Input, stop: Stop) -> tidegate::Result<Join> {
    let driver = Driver::new(join.threads, stop.clone());
    let left = Table::new("left", left.schema, left.batches, &driver)?;
    let right = Table::new("right", right.schema, right.batches, &driver)?;
    join.start(&left, &right, stop)
}

impl BatchStream for Batches {
    fn next_within(&mut self, patience: Duration) -> tidegate::Result<Next> {
        Batches::next_within(self, patience)
    }

    fn stats(&self) -> Numbers {
        let stats = Batches::stats(self);
        Box::new(move |py| {
            let dict = PyDict::new(py);
            dict.set_item("left_rows", stats.left_rows)?;
            dict.set_item("right_rows", stats.right_rows)?;
            dict.set_item("rows", stats.rows)?;
            dict.set_item("left_rows_done", stats.left_rows_done)?;
            dict.set_item("threads", stats.threads)?;
            dict.set_item("keys", stats.key_method)?;
            Ok(dict)
        })
    }

    fn close(&mut self) {
        Batches::close(self);
    }
}
