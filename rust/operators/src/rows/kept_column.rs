//! Columns in which a join stores data about its kept rows.

use std::fmt::Debug;
use std::ops::{Index, IndexMut};

/// The columns that a join keeps for its rows. A row is identified by its *offset*, the distance
/// from the oldest kept row.
pub trait KeptColumns: Debug {
    /// Returns the number of kept rows.
    fn len(&self) -> usize;

    /// Returns whether no rows are kept.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the time of the row at an offset, or `None` if there is no such row.
    fn ts(&self, offset: usize) -> Option<i64>;

    /// Returns whether the values of the row at an offset allow a match at any time.
    #[inline]
    fn can_match(&self, _offset: usize) -> bool {
        true
    }

    /// Drops the oldest `rows` rows.
    fn drop_front(&mut self, rows: usize);

    /// Returns the memory held, in bytes.
    fn memory(&self) -> usize;
}

/// One value per kept row, indexed by offset. Values are appended at the end and removed from the
/// front.
#[derive(Debug)]
pub struct KeptColumn<T> {
    values: Vec<T>,
    /// The number of leading values whose rows have been dropped. Such values are removed once
    /// there are many of them.
    gone: usize,
}

impl<T> Default for KeptColumn<T> {
    fn default() -> Self {
        KeptColumn { values: Vec::new(), gone: 0 }
    }
}

impl<T> KeptColumn<T> {
    /// Returns the number of rows that have a value.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len() - self.gone
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value at an offset, if the row is kept.
    #[inline]
    pub fn get(&self, offset: usize) -> Option<&T> {
        self.values.get(self.gone.checked_add(offset)?)
    }

    /// Returns the values, indexed by offset.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        &self.values[self.gone..]
    }

    /// Returns the values as a mutable slice, indexed by offset.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.values[self.gone..]
    }

    /// Appends the values from additional rows.
    pub fn extend(&mut self, values: impl IntoIterator<Item = T>) {
        self.values.extend(values);
    }

    /// Drops the values of the oldest `rows` rows.
    pub fn drop_front(&mut self, rows: usize) {
        self.gone += rows;
        // On average, each value is moved about twice.
        if self.gone > self.values.len() / 3 {
            self.values.drain(..self.gone);
            self.gone = 0;
            // After a burst, its memory is released.
            if self.values.len() < self.values.capacity() / 4 {
                self.values.shrink_to(self.values.capacity() / 2);
            }
        }
    }

    /// Returns the memory held, in bytes.
    pub fn memory(&self) -> usize {
        self.values.capacity() * size_of::<T>()
    }
}

impl<T: Clone> KeptColumn<T> {
    /// Keeps only the values at these offsets.
    pub fn retain(&mut self, offsets: &[u32]) {
        let values = offsets.iter().map(|&offset| self[offset as usize].clone()).collect();
        *self = KeptColumn { values, gone: 0 };
    }

    /// Appends copies of a value until there are `rows` values.
    pub fn fill_to(&mut self, rows: usize, value: T) {
        self.values.resize(self.gone + rows, value);
    }
}

impl<T> Index<usize> for KeptColumn<T> {
    type Output = T;

    #[inline]
    fn index(&self, offset: usize) -> &T {
        &self.values[self.gone + offset]
    }
}

impl<T> IndexMut<usize> for KeptColumn<T> {
    #[inline]
    fn index_mut(&mut self, offset: usize) -> &mut T {
        &mut self.values[self.gone + offset]
    }
}

/// Columns that keep only the times of rows.
impl KeptColumns for KeptColumn<i64> {
    #[inline]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn ts(&self, offset: usize) -> Option<i64> {
        self.get(offset).copied()
    }

    fn drop_front(&mut self, rows: usize) {
        self.drop_front(rows);
    }

    fn memory(&self) -> usize {
        self.memory()
    }
}
