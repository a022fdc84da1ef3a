//! `asof_join` and its other forms, and the class `AsofJoin`.

use pyo3::prelude::*;
use tidegate::{AsofJoin as Query, Strategy, stream};

use crate::inputs::arguments::{Given, bound, name_pair, word};
use crate::interpreter::interrupt::detached;
use crate::queries::join::{Options, Sides, asof_class, asof_functions};
use crate::queries::tables;

const STRATEGIES: [(&str, Strategy); 3] = [
    ("backward", Strategy::Backward),
    ("forward", Strategy::Forward),
    ("nearest", Strategy::Nearest),
];

impl tables::Query for Query {
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

    fn pairs(&self) -> Vec<(String, String)> {
        Query::pairs(self)
    }

    fn is_plain(&self) -> bool {
        !self.has_expressions()
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
        options: options.of_left_rows().read()?,
    })
}

asof_functions! { read; asof_join, asof_join_batches, plan_asof_join }

asof_class! { AsofJoin = open }

fn open(
    on: Given<'_, '_>,
    strategy: &str,
    tolerance: Option<Given<'_, '_>>,
    allow_exact_matches: bool,
    options: Options<'_, '_>,
    sides: Sides<'_, '_>,
) -> PyResult<stream::Operator> {
    let py = on.py();
    let query = read(on, strategy, tolerance, allow_exact_matches, options)?;
    let (left, right, options) = sides.read()?;
    detached(py, || stream::asof_join(&query, left, right, &options))
}
