//! The threads of published algorithms: tasks that take turns, and threads that keep running
//! between calls.
//!
//! The driver of the operators starts all of these threads. The threads of tidegate's own operators
//! need none of this, because they work on independent parts of a call.
//!
//! | file | contents |
//! | --- | --- |
//! | `turns.rs` | tasks of a call that wait for each other, on any number of threads |
//! | `workers.rs` | threads that keep running between calls, until their owner ends them |
//! | `crew.rs` | signals between these threads, which say when to wait and when to end |

mod crew;
mod turns;
mod workers;

pub use crew::{Crew, Patience};
pub use turns::{Turn, take_turns};
pub(crate) use workers::Workers;
