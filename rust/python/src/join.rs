//! What the functions that join tables share.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::PyTable;
use tidegate::{Batches, Driver, Error, How, Join, JoinOptions, MAX_THREADS, Next, Stop, Table};

use crate::error::raise;
use crate::input::{check_distinct, count, name_pairs, names, read};
use crate::reader::{BatchReader, BatchStream, Held, Numbers};
use crate::{expression, interrupt};

#[doc = manual!(default_threads)]
#[pyfunction]
pub(crate) fn default_threads() -> usize {
    tidegate::default_threads()
}

/// The keyword arguments that any join has, as they came.
pub(crate) struct Options<'a, 'py> {
    pub(crate) by: Option<&'a Bound<'py, PyAny>>,
    pub(crate) r#where: Option<&'a Bound<'py, PyAny>>,
    pub(crate) how: &'a str,
    pub(crate) suffix: &'a str,
    pub(crate) columns: Option<&'a Bound<'py, PyAny>>,
    pub(crate) threads: Option<&'a Bound<'py, PyAny>>,
    pub(crate) max_rows: Option<&'a Bound<'py, PyAny>>,
    pub(crate) batch_rows: Option<&'a Bound<'py, PyAny>>,
}

impl Options<'_, '_> {
    pub(crate) fn read(self) -> PyResult<JoinOptions> {
        Ok(JoinOptions {
            by: name_pairs("by", self.by)?,
            predicate: self.r#where.map(expression::extract).transpose()?,
            how: word("how", self.how, &HOW)?,
            suffix: self.suffix.to_owned(),
            columns: names("columns", self.columns)?,
            threads: count("threads", self.threads, 1, MAX_THREADS as i64)?
                .map_or_else(tidegate::default_threads, |threads| threads as usize),
            max_rows: count("max_rows", self.max_rows, 0, i64::MAX)?.map(i64::unsigned_abs),
            batch_rows: count("batch_rows", self.batch_rows, 1, i64::MAX)?
                .map(|rows| rows as usize),
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

pub(crate) fn word<T: Copy>(argument: &str, given: &str, words: &[(&str, T)]) -> PyResult<T> {
    words.iter().find(|(word, _)| *word == given).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        raise(Error::argument(format!(
            "{argument} must be one of {}, got `{given}`",
            known.join(", ")
        )))
    })
}

/// Joins two inputs and returns the result as a `pyarrow.Table`.
pub(crate) fn to_table<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    threads: usize,
    start: impl FnOnce(&Table, &Table, Stop) -> tidegate::Result<Join> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    let (batches, schema) = run(py, left, right, threads, move |left, right, stop| {
        let join = start(left, right, stop)?;
        let schema = join.schema().clone();
        Ok((join.read_all()?, schema))
    })?;
    PyTable::try_new(batches, schema)?.into_pyarrow(py)
}

/// Joins two inputs and returns a reader of the result's batches, for the function called
/// `made_by`.
pub(crate) fn to_reader<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    threads: usize,
    start: impl FnOnce(&Table, &Table, Stop) -> tidegate::Result<Join> + Send + 'static,
    made_by: &'static str,
) -> PyResult<BatchReader> {
    let join = run(py, left, right, threads, start)?;
    let schema = join.schema().clone();
    Ok(BatchReader::new(join.into_batches(), schema, made_by))
}

/// Reads and checks two inputs and calls `work` with them, such that Ctrl-C stops it.
fn run<'py, T: Send + 'static>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    threads: usize,
    work: impl FnOnce(&Table, &Table, Stop) -> tidegate::Result<T> + Send + 'static,
) -> PyResult<T> {
    check_distinct(left, right)?;
    let stop = Stop::default();
    let (left, right) = (read("left", left, &stop)?, read("right", right, &stop)?);
    let running = stop.clone();
    interrupt::run(py, &stop, move || {
        let driver = Driver::new(threads, running.clone());
        let left = Table::new("left", left.0, left.1, &driver)?;
        let right = Table::new("right", right.0, right.1, &driver)?;
        work(&left, &right, running)
    })
}

impl BatchStream for Batches {
    fn next_within(&self, patience: Duration) -> tidegate::Result<Next> {
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
            dict.set_item("where", stats.condition_method)?;
            Ok(dict)
        })
    }

    fn close(&self) {
        Batches::close(self);
    }

    fn held(&self) -> Held {
        Batches::held(self)
    }
}
