//! The threads of published algorithms: tasks that take turns, and threads that keep running
//! between calls.
//!
//! The operators' driver starts all of these threads. tidegate's own operators use none of this,
//! because their threads work on independent parts of a call.
//!
//! | file | contents |
//! | --- | --- |
//! | `turns.rs` | tasks of a call that wait for each other, on any number of threads |
//! | `workers.rs` | threads that keep running between calls, until their owner ends them |
//! | `crew.rs` | signals that tell these threads when to wait and when to end |

mod crew;
mod turns;
mod workers;

pub use crew::{Crew, Patience};
pub use turns::{Turn, take_turns};
pub(crate) use workers::Workers;
