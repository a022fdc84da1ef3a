//! The inputs of functions: rows and their values.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `columns.rs` | the rows of sources, and columns of their values |
//! | `places.rs` | the position of a row; the rows of several sources in merged order |
//! | `values.rs` | the values that rows add to a function, and which rows count |

pub(super) mod columns;
pub(super) mod places;
pub(super) mod values;
