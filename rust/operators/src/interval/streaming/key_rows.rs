//! How many rows of each key are kept.

use crate::rows::NO_KEY;

/// The rows of each key that are kept, and the keys that have none left.
#[derive(Debug, Default)]
pub struct KeyRows {
    /// By the key's number.
    rows: Vec<u32>,
    /// The keys that the last purge has left without rows.
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

    /// Counts rows of these keys that are let go of.
    pub fn remove(&mut self, keys: &[u32]) {
        for &key in keys.iter().filter(|&&key| key != NO_KEY) {
            let rows = &mut self.rows[key as usize];
            *rows -= 1;
            if *rows == 0 {
                self.silent.push(key);
            }
        }
    }

    /// The keys without rows, until they are taken.
    pub fn silent(&self) -> &[u32] {
        &self.silent
    }

    /// Takes the keys without rows: their numbers may be given to other keys.
    pub fn take_silent(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.silent)
    }

    /// Forgets which keys were left without rows before.
    pub fn begin_purge(&mut self) {
        self.silent.clear();
    }

    /// The keys that have rows.
    pub fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.rows).filter(|&(_, &rows)| rows > 0).map(|(key, _)| key)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<u32>()
    }
}
