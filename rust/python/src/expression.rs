//! `where` as Python gives it.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use tidegate::expression::{Expr, parse_sql};

use crate::error::raise;

/// Reads SQL text or a `tidegate.Expr`, which is its own SQL text: one parser serves both.
pub(crate) fn extract(ob: &Bound<'_, PyAny>) -> PyResult<Expr> {
    static EXPR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if !ob.is_instance_of::<PyString>() && !ob.is_instance(EXPR.import(ob.py(), "tidegate.expressions", "Expr")?)? {
        return Err(PyTypeError::new_err(format!(
            "where: expected an expression of tidegate.left and tidegate.right columns or SQL text, got {}",
            ob.get_type().name()?
        )));
    }
    parse_sql(ob.str()?.to_str()?).map_err(raise)
}
