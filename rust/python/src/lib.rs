//! The Python module `tidegate._tidegate`. The package `tidegate` re-exports it, and users import
//! the package. A function here makes three moves: it takes the arguments, runs native work without
//! the GIL, and wraps the result. Anything cleverer belongs in the crate `tidegate`.
//!
//! ```text
//!  Python objects ──▶ source, input, expression ──▶ tidegate ──▶ reader, operator ──▶ Python objects
//!  (Arrow, text)       capsule ─▶ import    (no GIL)      batches, late rows
//!                          errors of all of these ──▶ error ──▶ exceptions
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
//! The docstrings of the module are written in its stub, `python/tidegate/_tidegate.pyi`, and only
//! there. `build.rs` makes a macro of them: `manual!(interval_join)` is the text of that function.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `capsule.rs` | pointers out of Arrow capsules, to `tidegate-import` |
//! | `import.rs` | imports Arrow data: reads it without the GIL, and checks it |
//! | `input.rs`, `expression.rs` | arguments; expressions |
//! | `source.rs` | inputs of functions: Arrow data, and what `tidegate.io.given` opens |
//! | `interval_join.rs`, `window_join.rs`, `band_join.rs`, `asof_join.rs` | the functions and the class of a join |
//! | `overlap_join.rs` | the functions of a join of tables |
//! | `join.rs` | the options that all joins have, and the macros that declare them |
//! | `stream_join.rs` | the other things that the classes of joins share |
//! | `aggregate.rs` | the function `aggregate`, and the class `Aggregate` |
//! | `functions.rs` | the functions of `aggs` |
//! | `merge.rs` | the function `merge`, and the class `Merge` |
//! | `digest.rs` | the function `digest`, and the class `Digest` |
//! | `handle.rs` | who may use an operator when, and how Ctrl-C ends a call to it |
//! | `operator.rs` | the other things that all classes of operators share |
//! | `callbacks.rs` | functions of the package that native code calls |
//! | `memory.rs` | memory that is kept for later calls |
//! | `plan.rs` | the columns that a join reads, and the columns of its result |
//! | `reader.rs` | a result as record batches |
//! | `export.rs` | objects of pyarrow; streams for any consumer |
//! | `bounded.rs` | calls with a `memory_limit`, whose batches `tidegate.bounded` makes |
//! | `interpreter.rs` | how threads detach from the interpreter and reattach to it |
//! | `interrupt.rs` | native work without the GIL, which Ctrl-C ends |
//! | `error.rs` | errors as Python exceptions |

#![deny(unsafe_code)]

// The macro `manual`.
include!(concat!(env!("OUT_DIR"), "/manual.rs"));

mod aggregate;
mod asof_join;
mod band_join;
mod bounded;
mod callbacks;
mod capsule;
mod digest;
mod error;
mod export;
mod expression;
mod functions;
mod handle;
mod import;
mod input;
mod interpreter;
mod interrupt;
mod interval_join;
mod join;
mod memory;
mod merge;
mod operator;
mod overlap_join;
mod plan;
mod reader;
mod source;
mod stream_join;
mod untyped;
mod window_join;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use tidegate::Allocator;

/// Returns the manual's text on a method that is written in Python.
#[pyfunction]
fn manual_of(name: &str) -> Option<&'static str> {
    match name {
        "Operator.run" => Some(manual!(Operator.run)),
        "Operator.running" => Some(manual!(Operator.running)),
        "Source.push_async" => Some(manual!(Source.push_async)),
        _ => None,
    }
}

/// If the system refuses memory, a call fails, and not the process.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[doc = manual!(_tidegate)]
#[pymodule(gil_used = false)]
mod _tidegate {
    use super::*;

    #[pymodule_export]
    use super::aggregate::{Aggregate, aggregate, aggregate_batches, plan_aggregate};

    #[pymodule_export]
    use super::asof_join::{AsofJoin, asof_join, asof_join_batches, plan_asof_join};

    #[pymodule_export]
    use super::band_join::{BandJoin, band_join, band_join_batches, plan_band_join};

    #[pymodule_export]
    use super::digest::{Digest, digest};

    #[pymodule_export]
    use super::interval_join::{
        IntervalJoin, interval_join, interval_join_batches, plan_interval_join,
    };

    #[pymodule_export]
    use super::join::default_threads;

    #[pymodule_export]
    use super::memory::release_memory;

    #[pymodule_export]
    use super::merge::{Merge, MergeReader, merge, merge_batches};

    #[pymodule_export]
    use super::operator::{Operator, Source};

    #[pymodule_export]
    use super::overlap_join::{overlap_join, overlap_join_batches, plan_overlap_join};

    #[pymodule_export]
    use super::plan::{AggregationPlan, JoinPlan};

    #[pymodule_export]
    use super::reader::BatchReader;

    #[pymodule_export]
    use super::stream_join::StreamJoin;

    #[pymodule_export]
    use super::window_join::{WindowJoin, plan_window_join, window_join, window_join_batches};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("BUILD_PROFILE", if cfg!(debug_assertions) { "debug" } else { "release" })?;
        let simd = tidegate::chosen_instructions()
            .map_err(|refused| PyImportError::new_err(refused.to_string()))?;
        module.add("SIMD", simd.name())?;
        memory::keep_as_told()?;
        // These are for the package itself, so they do not appear in any list of names.
        module.setattr("_check", wrap_pyfunction!(import::check_rows, module)?)?;
        module.setattr("_CheckedBatches", module.py().get_type::<import::CheckedBatches>())?;
        module.setattr("_set_callbacks", wrap_pyfunction!(callbacks::set_callbacks, module)?)?;
        module.setattr("_manual", wrap_pyfunction!(manual_of, module)?)?;
        tidegate_import::release_through(interpreter::release);
        interpreter::count_anew_after_fork(module.py())?;
        let end_readers = wrap_pyfunction!(reader::end_readers, module)?;
        module.py().import("atexit")?.call_method1("register", (end_readers,))?;
        error::register(module)
    }
}
