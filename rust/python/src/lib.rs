//! The Python module `tidegate._tidegate`: registration only.
//!
//! The docstrings of the module are written in its stub, `python/tidegate/_tidegate.pyi`, and only
//! there. `build.rs` makes a macro of them: `manual!(interval_join)` is the text of that function.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `capsule.rs` | pointers out of Arrow capsules, to `tidegate-import` |
//! | `input.rs`, `expression.rs` | arguments, and Arrow data as it is read, without the GIL; expressions |
//! | `interval_join.rs`, `window_join.rs`, `band_join.rs` | their functions and their class |
//! | `join.rs` | the options that all of these have, and the macros that declare them |
//! | `stream_join.rs` | what else the classes share |
//! | `aggregate.rs` | the function `aggregate`, and the class `Aggregate` |
//! | `merge.rs` | the function `merge`, and the class `Merge` |
//! | `handle.rs` | who may use an operator when, and how Ctrl-C ends a call to it |
//! | `operator.rs` | what else the classes of operators share |
//! | `plan.rs` | what a join reads and gives |
//! | `reader.rs` | batches out |
//! | `interrupt.rs` | native work without the GIL, which Ctrl-C ends |
//! | `error.rs` | errors as Python exceptions |

#![deny(unsafe_code)]

// The macro `manual`.
include!(concat!(env!("OUT_DIR"), "/manual.rs"));

mod aggregate;
mod band_join;
mod capsule;
mod error;
mod expression;
mod handle;
mod input;
mod interrupt;
mod interval_join;
mod join;
mod merge;
mod operator;
mod plan;
mod reader;
mod stream_join;
mod window_join;

use pyo3::prelude::*;
use tidegate::Allocator;

/// Where the system refuses memory, a call fails, and not the process.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[doc = manual!(_tidegate)]
#[pymodule(gil_used = false)]
mod _tidegate {
    use super::*;

    #[pymodule_export]
    use super::aggregate::{Aggregate, aggregate, plan_aggregate};

    #[pymodule_export]
    use super::band_join::{BandJoin, band_join, band_join_batches, plan_band_join};

    #[pymodule_export]
    use super::interval_join::{
        IntervalJoin, interval_join, interval_join_batches, plan_interval_join,
    };

    #[pymodule_export]
    use super::join::default_threads;

    #[pymodule_export]
    use super::merge::{Merge, merge, merge_batches};

    #[pymodule_export]
    use super::operator::{Operator, Source};

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
        let end_readers = wrap_pyfunction!(reader::end_readers, module)?;
        module.py().import("atexit")?.call_method1("register", (end_readers,))?;
        error::register(module)
    }
}
