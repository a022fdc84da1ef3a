//! The Python module `tidegate._tidegate`. The package `tidegate` re-exports this module; users
//! import the package. Each function in this module does three things: it reads the arguments, does
//! the native work without the GIL, and wraps the result. Anything more complex belongs in the
//! crate `tidegate`.
//!
//! ```text
//!  Python objects ──▶ inputs, arrow ──▶ tidegate ──▶ arrow, operators ──▶ Python objects
//!  (Arrow, text)                        (no GIL)     batches, late rows
//!             errors of all of these ──▶ interpreter ──▶ exceptions
//! ```
//!
//! From Python:
//!
//! ```text
//! >>> import pyarrow as pa, tidegate as tg
//! >>> trades = pa.table({"ts": [10, 20, 30]})
//! >>> quotes = pa.table({"ts": [8, 19, 29]})
//! >>> pairs = tg.interval_join(trades, quotes, on="ts", lower=-2, upper=0)
//! >>> pa.table(pairs).to_pydict()
//! {'ts': [10, 20, 30], 'ts_right': [8, 19, 29]}
//! ```
//!
//! The docstrings of the module are written only in its stub, `python/tidegate/_tidegate.pyi`.
//! `build.rs` turns them into a macro: `manual!(interval_join)` expands to the docstring of that
//! function.
//!
//! # Files
//!
//! Each folder depends only on the folders above it in this table.
//!
//! | where | what is in it |
//! | --- | --- |
//! | `interpreter/` | Python threads, exceptions, signals, and functions of the package |
//! | `arrow/` | Arrow data in both directions |
//! | `inputs/` | arguments |
//! | `operators/` | the parts that all operator classes share |
//! | `queries/` | queries; one file per kind, with its options and its operator class |
//! | `memory.rs` | memory that is reused by later calls |

#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![deny(unsafe_code)]

// The macro `manual`.
include!(concat!(env!("OUT_DIR"), "/manual.rs"));

mod arrow;
mod inputs;
mod interpreter;
mod memory;
mod operators;
mod queries;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use tidegate::Allocator;

use crate::arrow::{import, reader};
use crate::inputs::computed;
use crate::interpreter::{callbacks, error, threads};

/// Returns the docstring of a method that is written in Python.
#[pyfunction]
fn manual_of(name: &str) -> Option<&'static str> {
    match name {
        "Operator.run" => Some(manual!(Operator.run)),
        "Operator.running" => Some(manual!(Operator.running)),
        "Source.push_json" => Some(manual!(Source.push_json)),
        "Source.push_async" => Some(manual!(Source.push_async)),
        "Digest.update" => Some(manual!(Digest.update)),
        "Index.time_range" => Some(manual!(Index.time_range)),
        "Index.save" => Some(manual!(Index.save)),
        "Merge.index" => Some(manual!(Merge.index)),
        _ => None,
    }
}

/// If the system refuses a memory request, the call fails but the process continues.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[doc = manual!(_tidegate)]
#[pymodule(gil_used = false)]
mod _tidegate {
    use super::*;

    #[pymodule_export]
    use super::queries::aggregate::{Aggregate, AggregationQuery, aggregation_query};

    #[pymodule_export]
    use super::queries::asof_join::{AsofJoin, asof_join_query};

    #[pymodule_export]
    use super::queries::band_join::{BandJoin, band_join_query};

    #[pymodule_export]
    use super::operators::digest::{Digest, digest, unpickled_digest};

    #[pymodule_export]
    use super::queries::interval_join::{IntervalJoin, interval_join_query};

    #[pymodule_export]
    use super::queries::join::default_threads;

    #[pymodule_export]
    use super::memory::release_memory;

    #[pymodule_export]
    use super::queries::merge::{Merge, MergeReader, merge, merge_batches};

    #[pymodule_export]
    use super::operators::operator::Operator;

    #[pymodule_export]
    use super::operators::source::Source;

    #[pymodule_export]
    use super::queries::overlap_join::{OverlapJoin, overlap_join_query};

    #[pymodule_export]
    use super::queries::plan::{AggregationPlan, JoinPlan};

    #[pymodule_export]
    use super::queries::query::{JoinQuery, join_query};

    #[pymodule_export]
    use super::inputs::arguments::byte_count;

    #[pymodule_export]
    use super::inputs::index::{Index, SavedIndex};

    #[pymodule_export]
    use super::inputs::rows::{InputRows, is_arrow};

    #[pymodule_export]
    use super::inputs::time::instants_of;

    #[pymodule_export]
    use super::arrow::iterated::reader_of;

    #[pymodule_export]
    use super::arrow::reader::BatchReader;

    #[pymodule_export]
    use super::operators::stream_join::StreamJoin;

    #[pymodule_export]
    use super::queries::rolling::{Rolling, RollingQuery, rolling_query};

    #[pymodule_export]
    use super::queries::window_join::{WindowJoin, window_join_query};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("BUILD_PROFILE", if cfg!(debug_assertions) { "debug" } else { "release" })?;
        let simd = tidegate::chosen_instructions()
            .map_err(|refused| PyImportError::new_err(refused.to_string()))?;
        module.add("SIMD", simd.name())?;
        memory::keep_as_told()?;
        // The package itself uses these functions, so they do not appear in any list of names.
        module.setattr("_with_computed", wrap_pyfunction!(computed::with_computed, module)?)?;
        module.setattr("_check", wrap_pyfunction!(import::check_rows, module)?)?;
        module.setattr("_CheckedBatches", module.py().get_type::<import::CheckedBatches>())?;
        module.setattr("_set_callbacks", wrap_pyfunction!(callbacks::set_callbacks, module)?)?;
        module.setattr("_manual", wrap_pyfunction!(manual_of, module)?)?;
        tidegate_import::release_through(threads::release);
        threads::count_anew_after_fork(module.py())?;
        let end_readers = wrap_pyfunction!(reader::end_readers, module)?;
        module.py().import("atexit")?.call_method1("register", (end_readers,))?;
        error::register(module)
    }
}
