//! Reads the keys of an aggregation: columns, and expressions over them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};
use tidegate::columns::expression::{Expr, Origin, parse_row_sql};
use tidegate::query::aggregate::GroupKey;

use crate::inputs::expression::is_expr;

/// Returns the keys that `by` specifies: a column or an expression, a list of them, or a mapping
/// from names of result columns to them.
pub(crate) fn group_keys(by: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<GroupKey>> {
    let Some(by) = by else { return Ok(Vec::new()) };
    if let Ok(mapping) = by.cast::<PyMapping>() {
        let one = |item: Bound<'_, PyAny>| {
            let (name, given): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            let name: String = name.extract().map_err(|_| wrong(by))?;
            Ok(GroupKey { name: Some(name), value: value(&given)?.ok_or_else(|| wrong(by))? })
        };
        return mapping.items()?.iter().map(one).collect();
    }
    if let Some(value) = value(by)? {
        return Ok(vec![GroupKey { name: None, value }]);
    }
    let items = by.try_iter().map_err(|_| wrong(by))?;
    let one = |item: PyResult<Bound<'_, PyAny>>| {
        Ok(GroupKey { name: None, value: value(&item?)?.ok_or_else(|| wrong(by))? })
    };
    items.map(one).collect()
}

/// Returns the name of a column or the text of an expression, or `None` for any other object.
pub(crate) fn value(ob: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if ob.is_instance_of::<PyString>() {
        return ob.extract().map(Some);
    }
    if !is_expr(ob)? {
        return Ok(None);
    }
    let text = ob.str()?.to_str()?.to_owned();
    match parse_row_sql(&text) {
        Ok(Expr::Column(Origin::Row, name)) => Ok(Some(name)),
        // The plan reports invalid expressions.
        _ => Ok(Some(text)),
    }
}

fn wrong(by: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "by: expected a column name, an expression of tidegate.row columns, a list of these, or a \
         mapping from result columns to them; got {}",
        by.get_type()
    ))
}
