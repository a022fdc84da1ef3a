//! The query for `asof_join`, and the class `AsofJoin`.

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use tidegate::stream::{self, Operator, StreamOptions};
use tidegate::{Bound as Length, Strategy};

use crate::inputs::arguments::{Argument, bound, name_pair, word};
use crate::interpreter::interrupt::detached;
use crate::queries::join::{Options, Sides, asof_class, asof_query, check_no_width, pairs};

const STRATEGIES: [(&str, Strategy); 3] = [
    ("backward", Strategy::Backward),
    ("forward", Strategy::Forward),
    ("nearest", Strategy::Nearest),
];

pairs! { tidegate::AsofJoin {
    fn operator(
        &self,
        left: SchemaRef,
        right: SchemaRef,
        max_width: Option<[Length; 2]>,
        options: &StreamOptions,
    ) -> tidegate::Result<Operator> {
        check_no_width(max_width)?;
        stream::asof_join(self, left, right, options)
    }
} }

/// Builds the join that the arguments describe.
fn read(
    on: Argument<'_, '_>,
    strategy: &str,
    tolerance: Option<Argument<'_, '_>>,
    allow_exact_matches: bool,
    options: Options<'_, '_>,
) -> PyResult<tidegate::AsofJoin> {
    Ok(tidegate::AsofJoin {
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

asof_query! { asof_join_query("asof_join") = read }

asof_class! { AsofJoin = open }

fn open(
    on: Argument<'_, '_>,
    strategy: &str,
    tolerance: Option<Argument<'_, '_>>,
    allow_exact_matches: bool,
    options: Options<'_, '_>,
    sides: Sides<'_, '_>,
) -> PyResult<stream::Operator> {
    let py = on.py();
    let query = read(on, strategy, tolerance, allow_exact_matches, options)?;
    let (left, right, options) = sides.read()?;
    detached(py, || stream::asof_join(&query, left, right, &options))
}
