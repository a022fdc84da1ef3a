//! The arguments of a call: from Python's objects to the values that `tidegate` takes.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `arguments.rs` | columns, durations, counts and words |
//! | `time.rs` | a time, in the unit of a column |
//! | `expression.rs` | expressions: the `where`, and ends of intervals |
//! | `functions.rs` | the functions of `aggs` |
//! | `rows.rs` | the rows of inputs |
//! | `untyped.rs` | types for the columns of an empty input that have none |

pub(crate) mod arguments;
pub(crate) mod expression;
pub(crate) mod functions;
pub(crate) mod rows;
pub(crate) mod time;
pub(crate) mod untyped;
