//! The rows in an epoch, which are joined together.

use crate::rows::{NO_KEY, Side};

/// Rows in merged order.
#[derive(Clone, Debug, Default)]
pub struct KeyedEpoch {
    /// The time of each row.
    pub ts: Vec<i64>,
    /// The side of each row.
    pub sides: Vec<Side>,
    /// The key of each row, or [`NO_KEY`](crate::rows::NO_KEY).
    pub keys: Vec<u32>,
    /// The low bits of each row's number. Rows are numbered separately for each side.
    pub numbers: Vec<u32>,
    /// The route of each row. A route determines which replicas search for the row's matches.
    pub routes: Vec<u16>,
}

impl KeyedEpoch {
    /// Returns the number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.ts.len()
    }

    /// Returns whether the epoch is empty.
    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }

    /// Stores the keys and routes of all rows in merged order. The caller passes the number of the
    /// first row on each side.
    pub fn interleave(
        &mut self,
        sides: &[Side],
        keys: [&[u32]; 2],
        firsts: [u32; 2],
        route: impl Fn(usize, u32) -> u16,
    ) {
        self.clear();
        self.keys.resize(sides.len(), NO_KEY);
        self.numbers.resize(sides.len(), 0);
        let mut next = [0; 2];
        for ((&side, key), number) in sides.iter().zip(&mut self.keys).zip(&mut self.numbers) {
            let side = side as usize;
            let nth = next[side];
            *key = keys[side][nth];
            *number = firsts[side].wrapping_add(nth as u32);
            next[side] = nth + 1;
        }
        self.routes.extend(self.keys.iter().enumerate().map(|(row, &key)| route(row, key)));
    }

    fn clear(&mut self) {
        self.ts.clear();
        self.sides.clear();
        self.keys.clear();
        self.numbers.clear();
        self.routes.clear();
    }
}
