//! Time columns as 64-bit integers in a common unit, and durations in that unit.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `unit.rs` | the units of columns, and the finest of several units |
//! | `values.rs` | columns as 64-bit integers |
//! | `bounds.rs` | durations in whole units |
//! | `length.rs` | lengths with calendar units |
//! | `zone.rs` | the rules of time zones |

mod bounds;
mod length;
mod unit;
mod values;
pub(crate) mod zone;

pub use bounds::Bound;
pub(crate) use bounds::{
    amount, check_has_unit, interval, lateness, least_length, length, steps, time_unit,
};
pub use length::Length;
pub(crate) use unit::{DAY, Unit, common_unit, finest_unit, nanoseconds};
pub(crate) use values::{
    Int64s, as_int64, both_times, chunk_times, from_int64, is_int64, scale, times, times_in_order,
    times_or_nulls,
};
pub use zone::instants_of;
