//! `interval_join` and the forms of it.

use pyo3::prelude::*;
use tidegate::{Closed, IntervalJoin};

use crate::error::raise;
use crate::input::{bound, name_pair, schema};
use crate::join::{Options, to_reader, to_table, word};
use crate::reader::BatchReader;

#[doc = manual!(interval_join)]
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
    let join = Arguments {
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
        batch_rows: None,
    };
    let join = join.read()?;
    to_table(py, left, right, join.options.threads, move |left, right, stop| {
        join.start(left, right, stop)
    })
}

#[doc = manual!(interval_join_batches)]
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
    let join = Arguments {
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
    let join = join.read()?;
    let threads = join.options.threads;
    to_reader(
        py,
        left,
        right,
        threads,
        move |left, right, stop| join.start(left, right, stop),
        "interval_join_batches",
    )
}

#[doc = manual!(explain_interval_join)]
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
    let join = Arguments {
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
        let Arguments { by, r#where, how, suffix, columns, threads, max_rows, batch_rows, .. } =
            self;
        Ok(IntervalJoin {
            on: name_pair("on", self.on)?,
            lower: bound("lower", self.lower)?,
            upper: bound("upper", self.upper)?,
            closed: word("closed", self.closed, &CLOSED)?,
            options: Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows }
                .read()?,
        })
    }
}

const CLOSED: [(&str, Closed); 4] = [
    ("both", Closed::Both),
    ("left", Closed::Left),
    ("right", Closed::Right),
    ("neither", Closed::Neither),
];
