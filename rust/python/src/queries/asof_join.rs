//! The query for `asof_join`, and the class `AsofJoin`.

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use tidegate::stream::{self, Operator, StreamOptions};
use tidegate::{Bound as Length, Error, Lookups, Offset, Strategy};

use crate::inputs::arguments::{Argument, bound, count, name_pair, word};
use crate::interpreter::error::raise;
use crate::interpreter::interrupt::detached;
use crate::queries::join::{Options, Sides, asof_class, asof_query, check_no_width, pairs};

/// The strategies; `None` for interpolation.
const STRATEGIES: [(&str, Option<Strategy>); 4] = [
    ("backward", Some(Strategy::Backward)),
    ("forward", Some(Strategy::Forward)),
    ("nearest", Some(Strategy::Nearest)),
    ("interpolate", None),
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

/// The lookups that the caller requests, as they were passed.
#[derive(Clone, Copy, Default)]
pub(crate) struct LookupArguments<'a, 'py> {
    pub(crate) at: Option<Argument<'a, 'py>>,
    pub(crate) long: bool,
    pub(crate) n: Option<Argument<'a, 'py>>,
}

/// Builds the join that the arguments describe.
fn read(
    on: Argument<'_, '_>,
    strategy: &str,
    tolerance: Option<Argument<'_, '_>>,
    allow_exact_matches: bool,
    lookups: LookupArguments<'_, '_>,
    options: Options<'_, '_>,
) -> PyResult<tidegate::AsofJoin> {
    let strategy = word("strategy", strategy, &STRATEGIES)?;
    let at = lookups.at.map(|at| offsets(at, tolerance)).transpose()?;
    let tolerance = match (&at, tolerance) {
        (Some(_), _) | (None, None) => None,
        (None, Some(tolerance)) if is_list(tolerance) => {
            return Err(PyTypeError::new_err(
                "tolerance: a list has one value per offset, but there are no offsets; give one \
                 value, or give at",
            ));
        }
        (None, Some(tolerance)) => bound("tolerance", tolerance)?,
    };
    let partners = count("n", lookups.n, 1, u32::MAX.into())?.map(|n| n as u32);
    let interpolates = strategy.is_none();
    let has_lookups = at.is_some() || lookups.long || partners.is_some() || interpolates;
    let lookups = Lookups { at, is_long: lookups.long, partners, interpolates };
    Ok(tidegate::AsofJoin {
        on: name_pair("on", on)?,
        strategy: strategy.unwrap_or(Strategy::Backward),
        tolerance,
        allow_exact_matches,
        lookups: has_lookups.then_some(lookups),
        options: options.of_left_rows().read()?,
    })
}

/// Returns the offsets, each with its tolerance. `tolerance` is one value, or a list with one value
/// per offset.
fn offsets(at: Argument<'_, '_>, tolerance: Option<Argument<'_, '_>>) -> PyResult<Vec<Offset>> {
    if !is_list(at) {
        let kind = at.get_type();
        return Err(PyTypeError::new_err(format!(
            "at: expected a list of offsets, such as [\"0s\", \"10s\"], got {kind}"
        )));
    }
    let mut offsets = Vec::with_capacity(at.len()?);
    for (number, given) in at.try_iter()?.enumerate() {
        let (given, name) = (given?, format!("at[{number}]"));
        let Some(distance) = bound(&name, &given)? else {
            return Err(PyTypeError::new_err(format!("{name}: expected an offset, got None")));
        };
        let label = match given.cast::<PyString>() {
            Ok(text) => text.to_str()?.trim().to_owned(),
            Err(_) => tidegate::Length::Fixed(distance).to_string(),
        };
        offsets.push(Offset { label, distance, tolerance: None });
    }
    match tolerance {
        None => {}
        Some(each) if is_list(each) => {
            if each.len()? != offsets.len() {
                return Err(raise(Error::argument(format!(
                    "tolerance: expected one value, or a list with one value for each of the {} \
                     offsets, got a list with {} values",
                    offsets.len(),
                    each.len()?
                ))));
            }
            for (number, (offset, tolerance)) in
                offsets.iter_mut().zip(each.try_iter()?).enumerate()
            {
                offset.tolerance = bound(&format!("tolerance[{number}]"), &tolerance?)?;
            }
        }
        Some(tolerance) => {
            let tolerance = bound("tolerance", tolerance)?;
            offsets.iter_mut().for_each(|offset| offset.tolerance = tolerance);
        }
    }
    Ok(offsets)
}

/// Returns whether a value is a list or a tuple.
fn is_list(ob: Argument<'_, '_>) -> bool {
    ob.is_instance_of::<PyList>() || ob.is_instance_of::<PyTuple>()
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
    let lookups = LookupArguments::default();
    let query = read(on, strategy, tolerance, allow_exact_matches, lookups, options)?;
    let (left, right, options) = sides.read()?;
    detached(py, || stream::asof_join(&query, left, right, &options))
}
