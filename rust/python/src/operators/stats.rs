//! Statistics about an operator and its sources, as dicts.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::stream::{Figure, SourceStats, Stats};

/// Returns statistics for an operator and each of its sources.
pub(crate) fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let sources = source_stats(py, &stats.sources, &dict)?;
    dict.set_item("rows_out", stats.rows_out)?;
    dict.set_item("watermark", stats.watermark)?;
    dict.set_item("latency", stats.latency)?;
    dict.set_item("memory", stats.memory)?;
    dict.set_item("memory_limit", stats.memory_limit)?;
    let waiting = stats.waiting.as_ref().map(|waiting| {
        let dict = PyDict::new(py);
        dict.set_item("source", &*waiting.source)?;
        dict.set_item("seconds", waiting.seconds)?;
        dict.set_item("rows", waiting.rows)?;
        Ok::<_, PyErr>(dict)
    });
    dict.set_item("waiting", waiting.transpose()?)?;
    for (name, figure) in &stats.figures {
        match figure {
            Figure::Number(number) => dict.set_item(*name, number)?,
            Figure::Numbers(numbers) => dict.set_item(*name, numbers)?,
            Figure::Text(text) => dict.set_item(*name, text)?,
        }
    }
    dict.set_item("sources", sources)?;
    Ok(dict)
}

/// Returns statistics about sources, with one dict per source, and adds their sums to `total`.
fn source_stats<'py>(
    py: Python<'py>,
    sources: &[SourceStats],
    total: &Bound<'py, PyDict>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let sum = |of: fn(&SourceStats) -> u64| sources.iter().map(of).sum::<u64>();
    let (rows_in, rows_late) = (sum(|source| source.rows_in), sum(|source| source.rows_late));
    total.set_item("rows_in", rows_in)?;
    total.set_item("rows_used", rows_in - rows_late)?;
    total.set_item("rows_late", rows_late)?;
    let one = |source: &SourceStats| {
        let dict = PyDict::new(py);
        dict.set_item("name", &*source.name)?;
        dict.set_item("rows_in", source.rows_in)?;
        dict.set_item("rows_used", source.rows_in - source.rows_late)?;
        dict.set_item("rows_late", source.rows_late)?;
        dict.set_item("watermark", source.watermark)?;
        dict.set_item("closed", source.closed)?;
        dict.set_item("idle", source.idle)?;
        dict.set_item("abandoned", source.abandoned.as_deref())?;
        dict.set_item("memory", source.memory)?;
        Ok(dict)
    };
    sources.iter().map(one).collect()
}
