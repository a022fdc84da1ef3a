//! Reads the expressions that Python code passes: conditions and interval ends.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use tidegate::columns::expression::{Expr, parse_row_sql, parse_sql};

use crate::interpreter::error::raise;

/// Reads SQL text or a `tidegate.Expr`. The same parser handles both forms, because a
/// `tidegate.Expr` contains its SQL text.
pub(crate) fn extract(ob: &Bound<'_, PyAny>) -> PyResult<Expr> {
    parse_sql(&text(ob, "tidegate.left and tidegate.right")?).map_err(raise)
}

/// Reads an expression over single rows in the same way as [`extract`].
pub(crate) fn extract_row(ob: &Bound<'_, PyAny>) -> PyResult<Expr> {
    parse_row_sql(&text(ob, "tidegate.row")?).map_err(raise)
}

/// Returns the end of an interval if it is an expression: a `tidegate.Expr`, or SQL text that names
/// a column.
pub(crate) fn extract_end(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Option<Expr>> {
    let is_text = ob.is_instance_of::<PyString>();
    if !is_text && !is_expr(ob)? {
        return Ok(None);
    }
    let text = ob.str()?;
    let text = text.to_str()?;
    if is_text && !["left.", "right."].iter().any(|side| text.contains(side)) {
        return Ok(None);
    }
    parse_sql(text).map(Some).map_err(|error| raise(error.of_argument("where", argument)))
}

/// Returns whether an object is a `tidegate.Expr`.
pub(crate) fn is_expr(ob: &Bound<'_, PyAny>) -> PyResult<bool> {
    static EXPR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    ob.is_instance(EXPR.import(ob.py(), "tidegate.expressions", "Expr")?)
}

fn text(ob: &Bound<'_, PyAny>, columns: &str) -> PyResult<String> {
    if !ob.is_instance_of::<PyString>() && !is_expr(ob)? {
        return Err(PyTypeError::new_err(format!(
            "where: expected an expression of {columns} columns or SQL text, got {}",
            ob.get_type().name()?
        )));
    }
    Ok(ob.str()?.to_str()?.to_owned())
}
