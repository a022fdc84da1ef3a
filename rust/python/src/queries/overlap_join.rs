//! The query for `overlap_join`.

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tidegate::stream::{Operator, StreamOptions};
use tidegate::{Bound as Length, Closed, Error, PartnerJoin};

use crate::inputs::arguments::{Argument, bound, word};
use crate::inputs::expression::is_expr;
use crate::queries::join::{JoinRequest, Options, join_query, pairs};

join_query! {
    overlap_join_query("overlap_join") = ask;
    before_by(on: Argument)
    before_suffix(closed: &str = "both", open_ends: bool = false, min_overlap: Option<Argument> = None)
    before_threads()
}

pairs! { tidegate::OverlapJoin {
    fn operator(
        &self,
        _left: SchemaRef,
        _right: SchemaRef,
        _max_width: Option<Length>,
        _options: &StreamOptions,
    ) -> tidegate::Result<Operator> {
        Err(Error::argument("rows with a start and an end can only be joined as tables"))
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
