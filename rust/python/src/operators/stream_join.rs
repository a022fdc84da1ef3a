//! The class `StreamJoin`: an operator with a left and a right side.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use tidegate::Error;
use tidegate::stream::{self, Lateness, Side, StreamOptions};

use crate::inputs::arguments::{bytes, count, lateness as lateness_of_each};
use crate::interpreter::error::raise;
use crate::operators::operator::Operator;
use crate::operators::source::Source;

#[doc = manual!(StreamJoin)]
#[pyclass(frozen, extends = Operator, subclass, module = "tidegate")]
pub(crate) struct StreamJoin;

impl StreamJoin {
    /// Creates a join. If requested, the join computes a digest of its results.
    pub(crate) fn of(join: stream::Operator, digest: bool) -> PyClassInitializer<StreamJoin> {
        PyClassInitializer::from(Operator::new(join, digest)).add_subclass(StreamJoin)
    }
}

/// Reads the arguments that all streaming joins accept in addition to those of the query.
pub(crate) fn options(
    sources: Option<&Bound<'_, PyAny>>,
    lateness: Option<&Bound<'_, PyAny>>,
    memory_limit: Option<&Bound<'_, PyAny>>,
    ordered: bool,
    pin: Option<bool>,
) -> PyResult<StreamOptions> {
    Ok(StreamOptions {
        sources: sources_of(sources, 1)?,
        lateness: lateness_of(lateness)?,
        memory_limit: bytes("memory_limit", memory_limit)?,
        ordered,
        pin: pin.unwrap_or(false),
    })
}

/// Reads the arguments for a self-join, which joins a stream with itself. Such a join has only left
/// sources.
pub(crate) fn options_of_one(
    sources: Option<&Bound<'_, PyAny>>,
    lateness: Option<&Bound<'_, PyAny>>,
    memory_limit: Option<&Bound<'_, PyAny>>,
    ordered: bool,
    pin: Option<bool>,
) -> PyResult<StreamOptions> {
    let sources = sources_of(sources, 0)?;
    if sources.1 > 0 {
        return Err(raise(Error::argument(format!(
            "sources: without a right schema, all sources are left sources; write sources=({}, 0)",
            sources.0
        ))));
    }
    if lateness.is_some_and(PyAnyMethods::is_instance_of::<PyTuple>) {
        return Err(PyTypeError::new_err(
            "lateness: without a right schema, all sources are left sources; give one duration, or \
             a list with one duration for each source",
        ));
    }
    let lateness = (lateness_of_each(lateness)?, None.into());
    let memory_limit = bytes("memory_limit", memory_limit)?;
    let pin = pin.unwrap_or(false);
    Ok(StreamOptions { sources, lateness, memory_limit, ordered, pin })
}

/// Returns the number of sources on each side. `least` is both the minimum and the default number
/// of sources on the right side.
fn sources_of(sources: Option<&Bound<'_, PyAny>>, least: usize) -> PyResult<(usize, usize)> {
    let Some(sources) = sources else { return Ok((1, least)) };
    let wrong = || {
        let kind = sources.get_type();
        PyTypeError::new_err(format!(
            "sources: expected a pair (left sources, right sources), got {kind}"
        ))
    };
    let pair = sources.cast::<PyTuple>().map_err(|_| wrong())?;
    if pair.len() != 2 {
        return Err(wrong());
    }
    let number = |at: usize, least: usize| -> PyResult<usize> {
        let given = pair.get_item(at)?;
        Ok(count("sources", Some(&given), least as i64, 1 << 15)?.unwrap_or(1) as usize)
    };
    Ok((number(0, 1)?, number(1, least)?))
}

/// Returns the lateness on each side, given a single duration or a pair of durations or lists.
fn lateness_of(lateness: Option<&Bound<'_, PyAny>>) -> PyResult<(Lateness, Lateness)> {
    let of = |lateness: &Bound<'_, PyAny>| lateness_of_each(Some(lateness));
    let Some(given) = lateness else { return Ok((None.into(), None.into())) };
    match given.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => Ok((of(&pair.get_item(0)?)?, of(&pair.get_item(1)?)?)),
        _ if given.is_instance_of::<PyList>() => Err(PyTypeError::new_err(
            "lateness: the sources of a join belong to two sides; write a pair of lists, \
             lateness=([left, ...], [right, ...])",
        )),
        _ => {
            let both = of(given)?;
            Ok((both.clone(), both))
        }
    }
}

#[pymethods]
impl StreamJoin {
    #[doc = manual!(StreamJoin.left_sources)]
    #[getter]
    fn left_sources(slf: PyRef<'_, Self>) -> PyResult<Vec<Source>> {
        slf.as_super().sources_of(Side::Left)
    }

    #[doc = manual!(StreamJoin.right_sources)]
    #[getter]
    fn right_sources(slf: PyRef<'_, Self>) -> PyResult<Vec<Source>> {
        slf.as_super().sources_of(Side::Right)
    }
}
