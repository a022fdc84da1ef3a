//! Joins that emit each pair as soon as both rows have arrived, regardless of time order.
//!
//! The other streaming joins receive their rows in merged order, so a row is compared only with
//! earlier ones. The joins in this module process rows as they arrive. These joins compare each row
//! with all kept rows on the other side, including those with later times. Watermarks determine how
//! long rows are kept and when a row is certain to stay unmatched. Watermarks never delay a pair.
//!
//! ```text
//!              ┌─ left rows search the right rows of earlier epochs ─▶ pairs
//! epoch ───────┤  the rows on both sides are inserted
//!              └─ right rows search all left rows ───────────────────▶ pairs
//! ```
//!
//! Each pair is therefore found exactly once. The pair is found when the later-arriving row is
//! processed, or when the right row is processed if both rows arrived in the same epoch. Nothing is
//! written during the search, so any thread can search for the matches of any row. Even if most
//! rows have the same key, all threads share the work.
//!
//! Rows are numbered per side, in arrival order. Rows that can no longer be matched are dropped
//! from the front. If a long-lived row precedes many such rows, they are dropped early, and the
//! remaining rows are renumbered ([`RowJoin::pack`](crate::rows::RowJoin::pack)).
//!
//! [`band::index`](crate::band::index) and [`window::scale`](crate::window::scale) also accept rows
//! in arrival order. These two joins compare times in the same way as other numbers.
//!
//! # Trade-offs
//!
//! A row is kept until the other side's watermark has passed the row's interval. A join in merged
//! order can drop the row as soon as the merged order has passed the interval. The order of the
//! pairs does not depend on the data alone.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `lookup.rs` | the join of rows with equal keys, which finds matches by time |
//! | `keyed_rows.rs` | the columns kept for each row |
//! | `timeline.rs` | the rows on one side that have the same key, in time order |

mod keyed_rows;
mod lookup;
#[cfg(test)]
mod tests;
mod timeline;

pub use lookup::TimeJoin;
