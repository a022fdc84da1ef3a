//! Counted payloads for the stress tests of gates. The crate with the published algorithms also
//! uses this file.

use std::sync::Arc;

use tidegate_sync::Counter;

use crate::random::Random;

/// `(ts, source, position)`
pub(crate) type Row = (i64, u16, u64);

/// Returns the amount by which a source's time increases. The amount is often 0 and seldom large.
pub(crate) fn rise(random: &mut Random) -> i64 {
    match random.below(10) {
        0..4 => 0,
        9 => random.below(500) as i64,
        _ => random.below(5) as i64,
    }
}

/// A payload that counts the payloads that exist. The payload owns memory, so that sanitizers can
/// detect misuse.
pub(crate) struct CountedPayload {
    pub(crate) row: Box<Row>,
    alive: Arc<Counter>,
}

impl CountedPayload {
    pub(crate) fn new(row: Row, alive: &Arc<Counter>) -> Self {
        alive.add(1);
        CountedPayload { row: Box::new(row), alive: alive.clone() }
    }
}

impl Drop for CountedPayload {
    fn drop(&mut self) {
        // If the memory has been freed, a sanitizer detects this access.
        std::hint::black_box(*self.row);
        self.alive.subtract(1);
    }
}
