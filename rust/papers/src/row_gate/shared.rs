//! The T-Gate. The readers of a T-Gate share the stream, so each row goes to only one reader.
//!
//! Algorithm 4 of the multiway aggregation paper is ScaleGate's list with one change: each row is
//! returned exactly once. There are two ways to choose the reader of a row:
//!
//! - [`SharedReader`]: a row goes to the first reader that requests it. The readers of a group
//!   share one position in the list and advance it with a compare-and-swap.
//! - [`KeyedReader`]: a row goes to the reader that handles the row's key. The TuMLMC design needs
//!   keyed readers for functions that depend on the order of a key's rows. Each reader walks
//!   through the whole list and skips the rows of the other readers.

use std::fmt;

use tidegate_sync::atomic::Arc;

use super::list::Row;
use super::node::SharedPlace;
use super::reader::Reader;
use tidegate_structures::gate::Key;
use tidegate_structures::gate::Next;

/// A consumer that shares the stream with the other readers of its group.
///
/// Each row in the stream goes to only one reader in the group. Each reader receives its rows in
/// merged order.
pub struct SharedReader<T: Send + Sync> {
    /// The underlying reader. The reader's position is the last row that it returned, or a later
    /// position that the group has reached.
    reader: Reader<T>,
    group: Arc<SharedPlace<T>>,
}

impl<T: Send + Sync> Reader<T> {
    /// Makes this reader the first member of a group. The group shares the rows after the last one
    /// that this reader returned.
    pub fn share(self) -> SharedReader<T> {
        SharedReader { group: Arc::new(SharedPlace::at(self.at)), reader: self }
    }

    /// Restricts the stream to the rows whose key belongs to part `part` of `parts`.
    ///
    /// `hash` returns a row's key as 64 well-mixed bits, and must be the same for every reader of
    /// the gate.
    pub fn keyed<H: Fn(&Row<'_, T>) -> u64>(
        self,
        part: usize,
        parts: usize,
        hash: H,
    ) -> KeyedReader<T, H> {
        assert!(part < parts, "part {part} of {parts} does not exist");
        KeyedReader { reader: self, part, parts, hash }
    }
}

impl<T: Send + Sync> SharedReader<T> {
    /// Returns the next row that no reader of the group has received, if it is ready.
    pub fn next_ready(&mut self) -> Next<Row<'_, T>> {
        loop {
            let ended = self.reader.frontier.is_end();
            let at = self.group.get();
            // SAFETY: the reader is at a position that the group has had. The group only moves
            // forward, so the hold is at `at` or before it.
            let Some(next) = unsafe { at.get() }.next(0) else {
                self.reader.stand(at);
                if ended {
                    return Next::End;
                }
                if self.reader.frontier.raise(Key::LAST, &mut self.reader.lanes) {
                    continue;
                }
                return Next::NotYet;
            };
            if next.key() > self.reader.frontier.bound() {
                if self.reader.frontier.raise(next.key(), &mut self.reader.lanes) {
                    // The row is ready, but it may no longer be the next one (R1).
                    continue;
                }
                self.reader.stand(at);
                return Next::NotYet;
            }
            if self.group.win(at, next) {
                self.reader.won(next);
                // SAFETY: the row was linked behind a node, so it is not the head. The hold is at
                // the row while the reader is borrowed.
                return Next::Ready(unsafe { self.reader.row() });
            }
        }
    }

    /// Creates another reader of the group.
    pub fn fork(&self) -> SharedReader<T> {
        SharedReader { reader: self.reader.fork(), group: self.group.clone() }
    }
}

impl<T: Send + Sync> fmt::Debug for SharedReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReader").field("reader", &self.reader).finish_non_exhaustive()
    }
}

/// A consumer that receives only the rows with certain keys.
pub struct KeyedReader<T: Send + Sync, H> {
    reader: Reader<T>,
    part: usize,
    parts: usize,
    hash: H,
}

impl<T: Send + Sync, H: Fn(&Row<'_, T>) -> u64> KeyedReader<T, H> {
    /// Returns the next row whose key belongs to this reader, if that row is ready.
    pub fn next_ready(&mut self) -> Next<Row<'_, T>> {
        loop {
            match self.reader.step() {
                Next::NotYet => return Next::NotYet,
                Next::End => return Next::End,
                Next::Ready(()) => {
                    // SAFETY: a step was made.
                    let row = unsafe { self.reader.row() };
                    if part_of((self.hash)(&row), self.parts) == self.part {
                        break;
                    }
                }
            }
        }
        // SAFETY: a step was made.
        Next::Ready(unsafe { self.reader.row() })
    }
}

impl<T: Send + Sync, H> fmt::Debug for KeyedReader<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedReader")
            .field("part", &self.part)
            .field("parts", &self.parts)
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

/// Returns which of `parts` parts a hash belongs to, using Lemire's reduction on the upper bits.
fn part_of(hash: u64, parts: usize) -> usize {
    ((u128::from(hash) * parts as u128) >> 64) as usize
}
