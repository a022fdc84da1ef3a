//! The threads of published algorithms: tasks that take turns, and threads that go on between
//! calls.
//!
//! The driver of the operators starts all of them. tidegate's own operators need none of this:
//! their threads share independent parts of a call.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `turns.rs` | tasks of a call that wait for each other, on as many threads as there are |
//! | `workers.rs` | threads that go on between calls, until their owner ends them |
//! | `crew.rs` | what these threads tell each other: when to wait, and when to end |

mod crew;
mod turns;
mod workers;

pub use crew::{Crew, Patience};
pub use turns::{Turn, take_turns};
pub(crate) use workers::Workers;
