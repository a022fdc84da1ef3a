//! `asof_join` and its other forms.

use pyo3::prelude::*;
use tidegate::{AsofJoin as Query, Strategy};

use crate::input::{bound, name_pair};
use crate::join::{self, Given, Options, word};
use crate::plan::JoinPlan;
use crate::reader::BatchReader;

const STRATEGIES: [(&str, Strategy); 3] = [
    ("backward", Strategy::Backward),
    ("forward", Strategy::Forward),
    ("nearest", Strategy::Nearest),
];

impl join::Query for Query {
    const BATCHES: &'static str = "asof_join_batches";

    fn threads(&self) -> usize {
        self.options.threads
    }

    fn start(
        &self,
        left: &tidegate::Table,
        right: &tidegate::Table,
        stop: tidegate::Stop,
    ) -> tidegate::Result<tidegate::Join> {
        Query::start(self, left, right, stop)
    }

    fn plan(
        &self,
        left: &arrow_schema::Schema,
        right: &arrow_schema::Schema,
    ) -> tidegate::Result<tidegate::QueryPlan> {
        self.query_plan(left, right)
    }
}

/// The join that the arguments ask for.
fn read(
    on: Given<'_, '_>,
    strategy: &str,
    tolerance: Option<Given<'_, '_>>,
    allow_exact_matches: bool,
    options: Options<'_, '_>,
) -> PyResult<Query> {
    Ok(Query {
        on: name_pair("on", on)?,
        strategy: word("strategy", strategy, &STRATEGIES)?,
        tolerance: match tolerance {
            Some(tolerance) => bound("tolerance", tolerance)?,
            None => None,
        },
        allow_exact_matches,
        options: options.read()?,
    })
}

/// One of the functions of an as-of join, whose `how` is `left` unless it is given. `$form` makes
/// its result of the query.
macro_rules! asof_function {
    ($name:ident -> $result:ty: $form:ident; $($batch_rows:ident)?) => {
        #[doc = manual!($name)]
        #[pyfunction]
        #[pyo3(signature = (
            left, right, *, on, by=None, strategy="backward", tolerance=None,
            allow_exact_matches=true, r#where=None, how="left", suffix="_right", columns=None,
            threads=None, max_rows=None $(, $batch_rows=None)?
        ))]
        #[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
        pub(crate) fn $name<'py>(
            py: Python<'py>,
            left: &Bound<'py, PyAny>,
            right: &Bound<'py, PyAny>,
            on: &Bound<'py, PyAny>,
            by: Option<&Bound<'py, PyAny>>,
            strategy: &str,
            tolerance: Option<&Bound<'py, PyAny>>,
            allow_exact_matches: bool,
            r#where: Option<&Bound<'py, PyAny>>,
            how: &str,
            suffix: &str,
            columns: Option<&Bound<'py, PyAny>>,
            threads: Option<&Bound<'py, PyAny>>,
            max_rows: Option<&Bound<'py, PyAny>>,
            $($batch_rows: Option<&Bound<'py, PyAny>>,)?
        ) -> PyResult<$result> {
            let batch_rows = None $(.or($batch_rows))?;
            let options = Options {
                by, r#where, how, suffix, columns, threads, max_rows, batch_rows,
            };
            let query = read(on, strategy, tolerance, allow_exact_matches, options)?;
            join::$form(py, left, right, query)
        }
    };
}

asof_function! { asof_join -> Bound<'py, PyAny>: to_table; }
asof_function! { asof_join_batches -> BatchReader: to_reader; batch_rows }
asof_function! { plan_asof_join -> JoinPlan: to_plan; batch_rows }
