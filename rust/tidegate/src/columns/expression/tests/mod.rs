//! Tests for expressions.
//!
//! - `text`: converts random trees to text and back; catches errors in precedence and quoting.
//! - `rows`: tests each rule of the module's *Meaning* section, and each error, on small tables
//!   with explicit matches.
//! - `oracle`: compares random trees over random columns with a row-by-row evaluation in plain
//!   Rust, including nulls, NaN, extremes and errors; catches errors in kernels, casts, scalars and
//!   the order of evaluation.
//! - `linear`: compares scans of random linear forms over two sides with an evaluation of every
//!   pair; catches rounding errors, errors with infinities, and undetected overflow.

mod linear;
mod oracle;
mod rows;
mod text;
