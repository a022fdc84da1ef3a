//! T-Gate: readers that share the stream, each row given to one of them.
//!
//! Algorithm 4 of the multiway aggregation paper is ScaleGate's list with one change: a row is
//! returned once and only once. Two ways to say to whom:
//!
//! - [`SharedReader`]: to the reader that asks first. The readers of a group have one place in the
//!   list and move it with a compare-and-swap.
//! - [`KeyedReader`]: to the reader that its key belongs to, as TuMLMC needs for functions that
//!   depend on the order of a key's rows. Each reader walks the whole list and passes over the
//!   rows of the others.

use std::fmt;

use tidegate_sync::atomic::Arc;

use super::list::Row;
use super::node::SharedPlace;
use super::reader::Reader;
use tidegate_structures::gate::Key;
use tidegate_structures::gate::Next;

/// A consumer that shares the stream with the other readers of its group.
///
/// Each row of the stream goes to one of them; the rows that one of them gets are in merged order.
pub struct SharedReader<T: Send + Sync> {
    /// Stands at the row won last, or at a later place where the group was.
    reader: Reader<T>,
    group: Arc<SharedPlace<T>>,
}

impl<T: Send + Sync> Reader<T> {
    /// Makes this reader the first of a group that shares the rows after the one it was given last.
    pub fn share(self) -> SharedReader<T> {
        SharedReader { group: Arc::new(SharedPlace::at(self.at)), reader: self }
    }

    /// Keeps of the stream the rows whose key belongs to part `part` of `parts`.
    ///
    /// `hash` gives a row's key as 64 well-mixed bits, the same for every reader of the gate.
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
    /// The next row that no reader of the group has been given, if it is ready.
    pub fn next_ready(&mut self) -> Next<Row<'_, T>> {
        loop {
            let ended = self.reader.frontier.is_end();
            let at = self.group.get();
            // SAFETY: the reader stands at a place where the group was once, and the group only
            // moves forward, so the hold is at `at` or before it.
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
                    // Ready, but perhaps no longer the next one (R1).
                    continue;
                }
                self.reader.stand(at);
                return Next::NotYet;
            }
            if self.group.win(at, next) {
                self.reader.won(next);
                // SAFETY: the row is not the head, it was linked behind a node; and the hold stands
                // at it while the reader is borrowed.
                return Next::Ready(unsafe { self.reader.row() });
            }
        }
    }

    /// One more reader of the group.
    pub fn fork(&self) -> SharedReader<T> {
        SharedReader { reader: self.reader.fork(), group: self.group.clone() }
    }
}

impl<T: Send + Sync> fmt::Debug for SharedReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReader").field("reader", &self.reader).finish_non_exhaustive()
    }
}

/// A consumer that gets the rows of some keys.
pub struct KeyedReader<T: Send + Sync, H> {
    reader: Reader<T>,
    part: usize,
    parts: usize,
    hash: H,
}

impl<T: Send + Sync, H: Fn(&Row<'_, T>) -> u64> KeyedReader<T, H> {
    /// The next row whose key belongs to this reader, if it is ready.
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

/// The part of `parts` to which a hash belongs: Lemire's reduction, by the upper bits.
fn part_of(hash: u64, parts: usize) -> usize {
    ((u128::from(hash) * parts as u128) >> 64) as usize
}
