//! How the expressions are known to be right.
//!
//! - `text`: trees against their text, both ways, over random trees; catches precedence and
//!   quoting.
//! - `rows`: small tables with the matches written out, one test a rule of the module's *Meaning*,
//!   and every error.
//! - `oracle`: random trees over random columns against an evaluation row by row in plain Rust,
//!   nulls, NaN, extremes and errors included; catches kernels, casts, scalars and the order of
//!   evaluation.
//! - `linear`: random linear forms of two sides, scanned, against the evaluation of every pair; catches
//!   rounding, infinities, and overflow that is not noticed.

mod linear;
mod oracle;
mod rows;
mod text;
