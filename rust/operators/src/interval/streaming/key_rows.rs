//! The number of kept rows per key.

use crate::rows::NO_KEY;

/// The number of kept rows per key, and the keys that have no rows left.
#[derive(Debug, Default)]
pub struct KeyRows {
    /// The number of rows, indexed by key.
    rows: Vec<u32>,
    /// The keys that the last purge left without rows.
    silent: Vec<u32>,
}

impl KeyRows {
    /// Counts rows of these keys.
    pub fn add(&mut self, keys: &[u32]) {
        for &key in keys.iter().filter(|&&key| key != NO_KEY) {
            let place = key as usize;
            if self.rows.len() <= place {
                if self.rows.capacity() <= place {
                    self.rows.reserve_exact(place + 1 + place / 8 - self.rows.len());
                }
                self.rows.resize(place + 1, 0);
            }
            self.rows[place] += 1;
        }
    }

    /// Subtracts dropped rows, given the key of each row.
    pub fn remove(&mut self, keys: &[u32]) {
        for &key in keys.iter().filter(|&&key| key != NO_KEY) {
            let rows = &mut self.rows[key as usize];
            *rows -= 1;
            if *rows == 0 {
                self.silent.push(key);
            }
        }
    }

    /// Returns the keys that have no rows and have not been removed by
    /// [`take_silent`](Self::take_silent).
    pub fn silent(&self) -> &[u32] {
        &self.silent
    }

    /// Removes and returns the keys without rows. The numbers of these keys can be reused for other
    /// keys.
    pub fn take_silent(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.silent)
    }

    /// Clears the list of keys that previous purges have left without rows.
    pub fn begin_purge(&mut self) {
        self.silent.clear();
    }

    /// Returns the keys that have rows.
    pub fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.rows).filter(|&(_, &rows)| rows > 0).map(|(key, _)| key)
    }

    /// Returns the memory held, in bytes.
    pub fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<u32>()
    }
}
