//! The `where` that Python gives.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use tidegate::columns::expression::{Expr, parse_row_sql, parse_sql};

use crate::error::raise;

/// Reads SQL text or a `tidegate.Expr`, which is its own SQL text: one parser serves both.
pub(crate) fn extract(ob: &Bound<'_, PyAny>) -> PyResult<Expr> {
    parse_sql(&text(ob, "tidegate.left and tidegate.right")?).map_err(raise)
}

/// As [`extract`], for an expression over single rows.
pub(crate) fn extract_row(ob: &Bound<'_, PyAny>) -> PyResult<Expr> {
    parse_row_sql(&text(ob, "tidegate.row")?).map_err(raise)
}

fn text(ob: &Bound<'_, PyAny>, columns: &str) -> PyResult<String> {
    static EXPR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if !ob.is_instance_of::<PyString>()
        && !ob.is_instance(EXPR.import(ob.py(), "tidegate.expressions", "Expr")?)?
    {
        return Err(PyTypeError::new_err(format!(
            "where: expected an expression of {columns} columns or SQL text, got {}",
            ob.get_type().name()?
        )));
    }
    Ok(ob.str()?.to_str()?.to_owned())
}
