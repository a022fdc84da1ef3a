//! The query for `overlap_join`, and the class `OverlapJoin`.

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tidegate::stream::{self, Operator, StreamOptions};
use tidegate::{Bound as Length, Closed, PartnerJoin};

use crate::inputs::arguments::{Argument, bound, widths, word};
use crate::inputs::expression::is_expr;
use crate::interpreter::interrupt::detached;
use crate::queries::join::{JoinRequest, Options, Sides, join_class, join_query, pairs};

join_query! {
    overlap_join_query("overlap_join") = ask;
    before_by(on: Argument)
    before_suffix(closed: &str = "both", open_ends: bool = false, min_overlap: Option<Argument> = None)
    before_threads()
}

join_class! {
    OverlapJoin = open;
    before_by(on: Argument)
    before_suffix(closed: &str = "both", min_overlap: Option<Argument> = None, max_width: Option<Argument> = None)
    before_threads()
}

pairs! { tidegate::OverlapJoin {
    fn operator(
        &self,
        left: SchemaRef,
        right: SchemaRef,
        max_width: Option<[Length; 2]>,
        options: &StreamOptions,
    ) -> tidegate::Result<Operator> {
        stream::overlap_join(self, max_width, left, right, options)
    }
} }

/// Requests pairs or aggregates, depending on the arguments.
fn ask(
    on: Argument,
    closed: &str,
    open_ends: bool,
    min_overlap: Option<Argument>,
    options: Options,
) -> PyResult<JoinRequest<tidegate::OverlapJoin>> {
    let functions = options.functions()?;
    let query = tidegate::OverlapJoin {
        on: sides(on)?,
        closed: word("closed", closed, &CLOSED)?,
        open_ends,
        min_overlap: match min_overlap {
            None => None,
            Some(length) => bound("min_overlap", length)?,
        },
        options: options.read()?,
    };
    JoinRequest::new(query, functions, PartnerJoin::Overlap)
}

fn open(
    on: Argument,
    closed: &str,
    min_overlap: Option<Argument>,
    max_width: Option<Argument>,
    options: Options,
    sides: Sides,
) -> PyResult<Operator> {
    let py = on.py();
    let query = ask(on, closed, false, min_overlap, options)?;
    let max_width = widths(max_width)?;
    let (left, right, options) = sides.read()?;
    detached(py, || match query {
        JoinRequest::Pairs(query) => stream::overlap_join(&query, max_width, left, right, &options),
        JoinRequest::Aggregates(query) => {
            stream::partner_aggregates(&query, max_width, left, right, &options)
        }
    })
}

const CLOSED: [(&str, Closed); 2] = [("both", Closed::Both), ("left", Closed::Left)];

/// A side's start and end.
type Ends<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Returns each side's start and end columns, or the SQL text of expressions.
fn sides(on: Argument) -> PyResult<[(String, String); 2]> {
    let both = |(start, end): &Ends<'_>| Ok::<_, PyErr>(named(start)?.zip(named(end)?));
    if let Ok(ends) = on.extract::<Ends<'_>>()
        && let Some(names) = both(&ends)?
    {
        return Ok([names.clone(), names]);
    }
    if let Ok((left, right)) = on.extract::<(Ends<'_>, Ends<'_>)>()
        && let (Some(left), Some(right)) = (both(&left)?, both(&right)?)
    {
        return Ok([left, right]);
    }
    let kind = on.get_type();
    Err(PyTypeError::new_err(format!(
        "on: expected a tuple with the names of the start and end columns, as in (\"start\", \
         \"end\"), or one for each side, as in ((\"ts\", \"ts\"), (\"start\", \"end\")), got {kind}"
    )))
}

/// Returns the name of a column, the SQL text of an expression, or `None` for any other value.
fn named(given: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if is_expr(given)? {
        return Ok(Some(given.str()?.to_string()));
    }
    Ok(given.extract().ok())
}
