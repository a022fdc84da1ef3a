//! Tests for expressions.
//!
//! - `text`: converts random trees to text and back; catches errors in precedence and quoting.
//! - `rows`: tests each error and each rule in the module's *Meaning* section on small tables with
//!   explicitly listed matches.
//! - `oracle`: evaluates random trees over random columns, and compares the results with a
//!   row-by-row evaluation in plain Rust. The data includes nulls, NaN, extremes and errors.
//!   Catches errors in kernels, casts, scalars and the order of evaluation.
//! - `linear`: compares scans of random linear forms over two sides with an evaluation of every
//!   pair. Catches rounding errors, mishandled infinities and undetected overflow.

mod linear;
mod oracle;
mod rows;
mod text;
