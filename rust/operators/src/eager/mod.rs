//! Joins in which a pair comes as soon as both of its rows have come, in whatever order of time.
//!
//! The other joins of rows that come are given rows in merged order, so that a row meets earlier
//! ones only. Here rows are given as they arrive: a row meets all rows of the other side that are
//! kept, earlier and later ones. Promises decide for how long rows are kept, and when a row is
//! certain to have no match; they hold no pair back.
//!
//! ```text
//!              ┌─ left rows look among the right rows of former epochs ─▶ pairs
//! epoch ───────┤  both sides enter
//!              └─ right rows look among all left rows ──────────────────▶ pairs
//! ```
//!
//! So each pair is found once, by the row that came later, or by the right row where both came in
//! one epoch. Nothing is written while threads look, so any thread can look for any row: a key that
//! has most of the rows is shared out like all others.
//!
//! Rows are numbered by side, in the order of their arrival. A row that can match nothing any more
//! leaves with all before it; where one that stays long is in front of many others, these leave from
//! behind it, and the rows that stay are numbered anew ([`RowJoin::pack`](crate::rows::RowJoin::pack)).
//!
//! [`band::index`](crate::band::index) and [`window::scale`](crate::window::scale) take rows in this
//! order, too: they compare times as they do other numbers.
//!
//! # Trade-offs
//!
//! A row is kept until the other side's promise has passed its interval, where a join in merged order
//! has let go of it when the merged order has. Pairs come in an order that is no function of the data.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `lookup.rs` | the join of rows of equal keys, which are found by time |
//! | `keyed_rows.rs` | what is kept of each row |
//! | `timeline.rs` | the rows of one key and side, in time order |

mod keyed_rows;
mod lookup;
#[cfg(test)]
mod tests;
mod timeline;

pub use lookup::TimeJoin;
