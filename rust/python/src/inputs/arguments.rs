//! Arguments: columns, durations and counts.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDelta, PyDict, PyInt, PyList, PyString, PyTuple, PyType};
use tidegate::stream::Lateness;
use tidegate::{Bound as Duration, Closed, End, Error, MAX_THREADS, parse_duration, shown};

use crate::inputs::expression;
use crate::interpreter::error::raise;

/// An argument, exactly as it was passed.
pub(crate) type Argument<'a, 'py> = &'a Bound<'py, PyAny>;

/// Returns one name per side, given a single name for both sides or a pair of names.
pub(crate) fn name_pair(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<(String, String)> {
    if let Ok(name) = ob.extract::<String>() {
        return Ok((name.clone(), name));
    }
    if expression::is_expr(ob)? {
        return Err(not_computed(argument, ob));
    }
    if let Ok(pair) = ob.cast::<PyTuple>() {
        for item in pair.iter() {
            if expression::is_expr(&item)? {
                return Err(not_computed(argument, &item));
            }
        }
    }
    ob.extract::<(String, String)>().map_err(|_| {
        let kind = ob.get_type();
        PyTypeError::new_err(format!(
            "{argument}: expected a column name or a pair (left name, right name), got {kind}"
        ))
    })
}

/// Returns the error for an expression that only calls on tables can compute.
fn not_computed(argument: &str, ob: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "{argument}: only calls on tables accept an expression such as `{ob}`; add a column \
         with these values to the rows, and pass its name"
    ))
}

/// Returns the key columns, given as a name, a list of names or pairs, or a mapping from left to
/// right names.
pub(crate) fn name_pairs(
    argument: &str,
    ob: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<(String, String)>> {
    let Some(ob) = ob else { return Ok(Vec::new()) };
    if ob.is_instance_of::<PyString>() || expression::is_expr(ob)? {
        return Ok(vec![name_pair(argument, ob)?]);
    }
    if let Ok((left, right)) = ob.extract::<(String, String)>()
        && ob.is_instance_of::<PyTuple>()
    {
        let quoted = |name: &str| PyString::new(ob.py(), name).repr().map(|name| name.to_string());
        let (left, right) = (quoted(&left)?, quoted(&right)?);
        return Err(PyTypeError::new_err(format!(
            "{argument}: ({left}, {right}) can mean two columns or one pair; write \
             {argument}=[{left}, {right}] for columns of these names on both sides, or \
             {argument}=[({left}, {right})] for the left column {left} with the right column \
             {right}"
        )));
    }
    if let Ok(mapping) = ob.cast::<PyDict>() {
        return mapping
            .iter()
            .map(|(left, right)| {
                name_pair(argument, PyTuple::new(ob.py(), [left, right])?.as_any())
            })
            .collect();
    }
    let items = ob.try_iter().map_err(|_| {
        let kind = ob.get_type();
        PyTypeError::new_err(format!(
            "{argument}: expected a column name, a list of names or of pairs of a left and a right \
             name, or a mapping from left to right names; got {kind}"
        ))
    })?;
    items.map(|item| name_pair(argument, &item?)).collect()
}

/// Returns one end of an interval join's intervals, given a value that [`bound`] accepts or an
/// expression over columns.
pub(crate) fn end(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Option<End>> {
    match expression::extract_end(argument, ob)? {
        Some(expr) => Ok(Some(End::Computed(expr))),
        None => {
            let end = bound(argument, ob).map_err(|error| match ob.cast::<PyString>() {
                Ok(_) => with_hint(
                    ob.py(),
                    &error,
                    "; write a column with its side, as in \"left.until\"",
                ),
                Err(_) => error,
            });
            Ok(end?.map(End::Fixed))
        }
    }
}

/// Returns the same error with additional text.
fn with_hint(py: Python<'_>, error: &PyErr, hint: &str) -> PyErr {
    PyErr::from_type(error.get_type(py), format!("{}{hint}", error.value(py)))
}

/// Returns how far out of order each source's rows can be, given one duration or a list with one
/// duration per source.
pub(crate) fn lateness(ob: Option<&Bound<'_, PyAny>>) -> PyResult<Lateness> {
    let Some(ob) = ob else { return Ok(Lateness::All(None)) };
    match ob.cast::<PyList>() {
        Ok(each) => {
            let one =
                |(at, one): (usize, Bound<'_, PyAny>)| bound(&format!("lateness[{at}]"), &one);
            each.iter().enumerate().map(one).collect::<PyResult<_>>().map(Lateness::Each)
        }
        Err(_) => bound("lateness", ob).map(Lateness::All),
    }
}

/// Returns the maximum width on the left and on the right, given a single width or a pair.
pub(crate) fn widths(given: Option<Argument>) -> PyResult<Option<[Duration; 2]>> {
    let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(None) };
    let width = |ob: &Bound<'_, PyAny>| {
        bound("max_width", ob)?.ok_or_else(|| {
            PyTypeError::new_err(
                "max_width: expected a width for each side, got None; give 0 for a side without \
                 widths",
            )
        })
    };
    match given.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => {
            Ok(Some([width(&pair.get_item(0)?)?, width(&pair.get_item(1)?)?]))
        }
        _ => Ok(Some([width(given)?; 2])),
    }
}

/// Returns an end of an interval: a duration, an integer for integer times, or `None` for no bound.
pub(crate) fn bound(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if ob.is_none() {
        return Ok(None);
    }
    if let Ok(text) = ob.extract::<String>() {
        let named = |error: Error| raise(Error::argument(format!("{argument}: {error}")));
        return parse_duration(&text).map(Duration::Nanoseconds).map(Some).map_err(named);
    }
    if ob.is_instance_of::<pyo3::types::PyBool>() {
        return Err(wrong_bound(argument, ob));
    }
    if ob.hasattr("dtype")? && ob.hasattr("astype")? {
        return numpy_bound(argument, ob).map(Some);
    }
    if let Some(nanoseconds) = timedelta(ob)? {
        return Ok(Some(Duration::Nanoseconds(nanoseconds)));
    }
    if let Some(nanoseconds) = offset(argument, ob)? {
        return Ok(Some(Duration::Nanoseconds(nanoseconds)));
    }
    if ob.is_instance_of::<PyInt>() {
        let steps = ob.extract().map_err(|_| {
            raise(Error::argument(format!(
                "{argument}: {} does not fit 64 bits; give None for no bound",
                shown(&ob.to_string())
            )))
        })?;
        return Ok(Some(Duration::Steps(steps)));
    }
    Err(wrong_bound(argument, ob))
}

/// Returns the length of a timedelta, or `None` for any other object.
///
/// The object's attributes are read instead of its C fields, because a subclass may leave the C
/// fields at 0. Before pandas 3, this applies to `pandas.Timedelta` with units other than
/// nanoseconds.
fn timedelta(ob: &Bound<'_, PyAny>) -> PyResult<Option<i128>> {
    if !ob.is_instance_of::<PyDelta>() {
        return Ok(None);
    }
    let part = |name: &str| ob.getattr(name)?.extract::<i128>();
    let seconds = part("days")? * 86_400 + part("seconds")?;
    let whole = seconds * 1_000_000_000 + part("microseconds")? * 1_000;
    // `pandas.Timedelta` stores the last three digits in a separate attribute.
    let rest = if ob.hasattr("nanoseconds")? { part("nanoseconds")? } else { 0 };
    Ok(Some(whole + rest))
}

/// Returns the length of a pandas offset, or `None` for any other object.
fn offset(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Option<i128>> {
    let is_of_pandas = ob.get_type().module()?.to_str()?.starts_with("pandas");
    if !is_of_pandas || !ob.hasattr("is_on_offset")? {
        return Ok(None);
    }
    match ob.getattr("nanos").and_then(|nanos| nanos.extract()) {
        Ok(nanoseconds) => Ok(Some(nanoseconds)),
        Err(_) => Err(raise(Error::argument(format!(
            "{argument}: {} has no fixed length; write a pandas.Timedelta, or a string such as \
             \"30d\"",
            shown(&ob.repr()?.to_string())
        )))),
    }
}

fn wrong_bound(argument: &str, ob: &Bound<'_, PyAny>) -> PyErr {
    let kind = ob.get_type();
    if kind.name().is_ok_and(|name| name == "NaTType") {
        return not_a_duration(argument);
    }
    PyTypeError::new_err(format!(
        "{argument}: expected a timedelta, a string such as \"-5s\", an integer if times are \
         integers, or None for no bound; got {kind}"
    ))
}

fn not_a_duration(argument: &str) -> PyErr {
    raise(Error::argument(format!("{argument}: NaT is not a duration; give None for no bound")))
}

/// Returns the value of a NumPy scalar: a timedelta64 with a fixed unit, or an integer.
fn numpy_bound(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Duration> {
    if ob.getattr_opt("ndim")?.is_none_or(|ndim| !ndim.eq(0).unwrap_or(false)) {
        return Err(wrong_bound(argument, ob));
    }
    let kind: String = ob.getattr("dtype")?.getattr("kind")?.extract()?;
    match kind.as_str() {
        "i" | "u" => Ok(Duration::Steps(ob.call_method0("item")?.extract()?)),
        "m" => {
            let numpy = ob.py().import("numpy")?;
            if numpy.call_method1("isnat", (ob,))?.is_truthy()? {
                return Err(not_a_duration(argument));
            }
            let (unit, count): (String, i128) =
                numpy.call_method1("datetime_data", (ob.getattr("dtype")?,))?.extract()?;
            let number: i128 =
                ob.call_method1("astype", ("int64",))?.call_method0("item")?.extract()?;
            let size = match unit.as_str() {
                "W" => 604_800_000_000_000,
                "D" => 86_400_000_000_000,
                "h" => 3_600_000_000_000,
                "m" => 60_000_000_000,
                "s" => 1_000_000_000,
                "ms" => 1_000_000,
                "us" => 1_000,
                "ns" => 1,
                _ => {
                    return Err(raise(Error::argument(format!(
                        "{argument}: timedelta64[{unit}] has no fixed length in nanoseconds; use \
                         W, D, h, m, s, ms, us or ns"
                    ))));
                }
            };
            Ok(Duration::Nanoseconds(number * count * size))
        }
        _ => Err(wrong_bound(argument, ob)),
    }
}

/// A list of column names.
pub(crate) fn names(
    argument: &str,
    ob: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Vec<String>>> {
    let Some(ob) = ob else { return Ok(None) };
    let wrong = || {
        let kind = ob.get_type();
        PyTypeError::new_err(format!("{argument}: expected a list of column names, got {kind}"))
    };
    if ob.is_instance_of::<PyString>() {
        return Err(wrong());
    }
    let items = ob.try_iter().map_err(|_| wrong())?;
    items
        .map(|item| item?.extract().map_err(|_| wrong()))
        .collect::<PyResult<Vec<String>>>()
        .map(Some)
}

/// The key columns of an aggregation, given as one name or a list of names.
pub(crate) fn key_names(by: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    match by {
        Some(name) if name.is_instance_of::<PyString>() => Ok(vec![name.extract()?]),
        Some(ob) if expression::is_expr(ob)? => Err(not_computed("by", ob)),
        by => Ok(names("by", by)?.unwrap_or_default()),
    }
}

/// Returns the number of rows that `tidegate.rows(n)` specifies, or `None` for any other object.
pub(crate) fn row_count(ob: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    static ROWS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if ob.is_instance(ROWS.import(ob.py(), "tidegate.windows", "Rows")?)? {
        return ob.getattr("count")?.extract().map(Some);
    }
    Ok(None)
}

/// The ends that an interval includes.
pub(crate) const CLOSED: [(&str, Closed); 4] = [
    ("both", Closed::Both),
    ("left", Closed::Left),
    ("right", Closed::Right),
    ("neither", Closed::Neither),
];

/// A whole number within limits.
pub(crate) fn count(
    argument: &str,
    ob: Option<&Bound<'_, PyAny>>,
    least: i64,
    most: i64,
) -> PyResult<Option<i64>> {
    let Some(ob) = ob else { return Ok(None) };
    if ob.is_instance_of::<pyo3::types::PyBool>() || !ob.hasattr("__index__")? {
        let kind = ob.get_type();
        return Err(PyTypeError::new_err(format!("{argument}: expected an integer, got {kind}")));
    }
    match ob.extract::<i64>() {
        Ok(given) if (least..=most).contains(&given) => Ok(Some(given)),
        _ => {
            let is_large = ob.ge(least).unwrap_or(false);
            let range = match most {
                i64::MAX if is_large => "less than 2^63".to_owned(),
                i64::MAX => format!("at least {least}"),
                _ => format!("from {least} to {most}"),
            };
            let given = ob.to_string();
            Err(raise(Error::argument(format!(
                "{argument} must be {range}, got {}",
                shown(&given)
            ))))
        }
    }
}

/// Returns the number of worker threads.
pub(crate) fn threads_of(threads: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    let threads = count("threads", threads, 1, MAX_THREADS as i64)?;
    Ok(threads.map_or_else(tidegate::default_threads, |threads| threads as usize))
}

/// Returns a number of bytes, given an integer or a string such as "2GB" or "512 MiB".
pub(crate) fn bytes(argument: &str, ob: Option<&Bound<'_, PyAny>>) -> PyResult<Option<usize>> {
    let Some(ob) = ob else { return Ok(None) };
    let Ok(text) = ob.extract::<String>() else {
        return Ok(count(argument, Some(ob), 0, i64::MAX)?.map(|bytes| bytes as usize));
    };
    let written = text.trim();
    let end = written.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(written.len());
    let (number, unit) = written.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let scale = BYTES.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
    let bytes = number.parse::<f64>().ok().zip(scale).map(|(number, scale)| number * scale);
    match bytes {
        Some(bytes) if bytes < i64::MAX as f64 => Ok(Some(bytes as usize)),
        _ => Err(raise(Error::argument(format!(
            "{argument}: `{}` is not a number of bytes; write, for example, \"2GB\", \"512MiB\" or \
             2_000_000_000",
            shown(&text)
        )))),
    }
}

#[doc = manual!(byte_count)]
#[pyfunction]
pub(crate) fn byte_count(
    argument: &str,
    given: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<usize>> {
    bytes(argument, given)
}

/// The names of memory units, in lower case, with their sizes in bytes.
const BYTES: [(&str, f64); 9] = [
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
];

/// Returns the value that a word represents.
pub(crate) fn word<T: Copy>(argument: &str, given: &str, words: &[(&str, T)]) -> PyResult<T> {
    words.iter().find(|(word, _)| *word == given).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let meant = known.iter().find(|word| word.eq_ignore_ascii_case(of_other_libraries(given)));
        let hint = meant.map(|word| format!("; write `{word}`")).unwrap_or_default();
        raise(Error::argument(format!(
            "{argument} must be one of {}, got `{}`{hint}",
            known.join(", "),
            shown(given)
        )))
    })
}

/// Returns this package's word for a term from pandas, Polars, Spark or SQL.
pub(crate) fn of_other_libraries(given: &str) -> &str {
    let plain = given.to_lowercase().replace(['_', ' '], "");
    match plain.as_str() {
        "outer" | "fullouter" => "full",
        "leftouter" => "left",
        "rightouter" => "right",
        "leftsemi" => "semi",
        "leftanti" => "anti",
        _ => given,
    }
}
