//! The query for `overlap_join`.

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tidegate::stream::{Operator, StreamOptions};
use tidegate::{Bound as Length, Closed, Error, PartnerJoin};

use crate::inputs::arguments::{Argument, bound, word};
use crate::queries::join::{JoinRequest, Options, join_query, pairs};

join_query! {
    overlap_join_query("overlap_join") = ask;
    before_by(on: Argument)
    before_suffix(closed: &str = "both", min_overlap: Option<Argument> = None)
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
    min_overlap: Option<Argument>,
    options: Options,
) -> PyResult<JoinRequest<tidegate::OverlapJoin>> {
    let functions = options.functions()?;
    let query = tidegate::OverlapJoin {
        on: sides(on)?,
        closed: word("closed", closed, &CLOSED)?,
        min_overlap: match min_overlap {
            None => None,
            Some(length) => bound("min_overlap", length)?,
        },
        options: options.read()?,
    };
    JoinRequest::new(query, functions, PartnerJoin::Overlap)
}

const CLOSED: [(&str, Closed); 2] = [("both", Closed::Both), ("left", Closed::Left)];

/// Returns each side's start and end columns.
fn sides(on: Argument) -> PyResult<[(String, String); 2]> {
    if let Ok(names) = on.extract::<(String, String)>() {
        return Ok([names.clone(), names]);
    }
    if let Ok((left, right)) = on.extract::<((String, String), (String, String))>() {
        return Ok([left, right]);
    }
    let kind = on.get_type();
    Err(PyTypeError::new_err(format!(
        "on: expected a tuple with the names of the start and end columns, as in (\"start\", \
         \"end\"), or one for each side, as in ((\"ts\", \"ts\"), (\"start\", \"end\")), got {kind}"
    )))
}
