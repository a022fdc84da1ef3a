//! Converts the arguments of a call from Python objects to the values that `tidegate` expects.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `arguments.rs` | columns, durations, counts and words |
//! | `time.rs` | times, in the unit of a column |
//! | `expression.rs` | expressions, for `where` and the ends of intervals |
//! | `functions.rs` | the functions of `aggs` |
//! | `keys.rs` | the keys of aggregations |
//! | `computed.rs` | columns that are computed from expressions before a call |
//! | `rows.rs` | the rows of inputs |
//! | `index.rs` | rows that have been prepared for many joins |
//! | `untyped.rs` | types for the untyped columns of an empty input |

pub(crate) mod arguments;
pub(crate) mod computed;
pub(crate) mod expression;
pub(crate) mod functions;
pub(crate) mod index;
pub(crate) mod keys;
pub(crate) mod rows;
pub(crate) mod time;
pub(crate) mod untyped;
