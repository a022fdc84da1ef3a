//! The query for `window_join`, and the class `WindowJoin`.

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tidegate::stream::{self, Operator, StreamOptions};
use tidegate::{Algorithm, Bound as Length, PartnerJoin, Window};

use crate::inputs::arguments::{Argument, bound, name_pair, row_count, word};
use crate::interpreter::interrupt::detached;
use crate::queries::join::{
    JoinRequest, Options, Sides, check_no_width, join_class, join_query, pairs,
};

join_query! {
    window_join_query("window_join") = ask;
    before_by(on: Argument, window: Argument)
    before_suffix()
    before_threads(algorithm: &str = "auto")
}

join_class! {
    WindowJoin = open;
    before_by(on: Argument, window: Argument)
    before_suffix()
    before_threads(algorithm: &str = "auto")
}

const ALGORITHMS: [(&str, Option<Algorithm>); 8] = [
    ("auto", None),
    ("scalejoin", Some(Algorithm::ScaleJoin)),
    ("scalejoin-gates", Some(Algorithm::ScaleGates)),
    ("splitjoin", Some(Algorithm::SplitJoin)),
    ("cell", Some(Algorithm::Cell)),
    ("three-step", Some(Algorithm::ThreeStep)),
    ("handshake", Some(Algorithm::Handshake)),
    ("low-latency-handshake", Some(Algorithm::LowLatencyHandshake)),
];

pairs! { tidegate::WindowJoin {
    fn operator(
        &self,
        left: SchemaRef,
        right: SchemaRef,
        max_width: Option<[Length; 2]>,
        options: &StreamOptions,
    ) -> tidegate::Result<Operator> {
        check_no_width(max_width)?;
        stream::window_join(self, left, right, options)
    }
} }

/// Requests pairs or aggregates, depending on the arguments.
fn ask(
    on: Argument,
    window: Argument,
    algorithm: &str,
    options: Options,
) -> PyResult<JoinRequest<tidegate::WindowJoin>> {
    let functions = options.functions()?;
    JoinRequest::new(read(on, window, algorithm, options)?, functions, PartnerJoin::Window)
}

/// Builds the join that the arguments describe.
fn read(
    on: Argument,
    window: Argument,
    algorithm: &str,
    options: Options,
) -> PyResult<tidegate::WindowJoin> {
    let algorithm = word("algorithm", algorithm, &ALGORITHMS)?;
    Ok(tidegate::WindowJoin {
        on: name_pair("on", on)?,
        window: windows(window)?,
        algorithm,
        options: options.read()?,
    })
}

fn open(
    on: Argument,
    window: Argument,
    algorithm: &str,
    options: Options,
    sides: Sides,
) -> PyResult<stream::Operator> {
    let py = on.py();
    let query = ask(on, window, algorithm, options)?;
    // The paper's threads are pinned, and they run only the join's own code.
    let pin = sides.pin.or((algorithm == "scalejoin-gates").then_some(true));
    let (left, right, options) = Sides { pin, ..sides }.read()?;
    detached(py, || match query {
        JoinRequest::Pairs(query) => stream::window_join(&query, left, right, &options),
        JoinRequest::Aggregates(query) => {
            stream::partner_aggregates(&query, None, left, right, &options)
        }
    })
}

/// Returns the windows for both sides, given one window for both or a pair of windows.
pub(crate) fn windows(ob: &Bound<'_, PyAny>) -> PyResult<(Window, Window)> {
    let Ok(pair) = ob.cast::<PyTuple>() else {
        let both = window(ob)?;
        return Ok((both, both));
    };
    match pair.len() {
        2 => Ok((window(&pair.get_item(0)?)?, window(&pair.get_item(1)?)?)),
        items => Err(PyTypeError::new_err(format!(
            "window: expected one window or a pair of windows, got {items}"
        ))),
    }
}

/// Creates a window from a length of time or from `tidegate.rows(n)`.
fn window(ob: &Bound<'_, PyAny>) -> PyResult<Window> {
    if let Some(rows) = row_count(ob)? {
        return Ok(Window::Rows(rows as usize));
    }
    let wrong = || {
        PyTypeError::new_err(format!(
            "window: expected a timedelta, a string such as \"15m\", an integer if times are \
             integers, or tidegate.rows(n); got {}",
            ob.get_type()
        ))
    };
    match bound("window", ob) {
        Ok(length) => length.map(Window::Time).ok_or_else(wrong),
        Err(error) if error.is_instance_of::<PyTypeError>(ob.py()) => Err(wrong()),
        Err(error) => Err(error),
    }
}
