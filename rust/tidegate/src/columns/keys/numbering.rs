//! Numbers keys in order of first appearance, using a hash table.
//!
//! Each hash table uses a random seed so that an attacker cannot choose keys whose hashes collide.
//! The numbers of keys do not depend on the seed.

use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::NO_KEY;
use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;

use crate::Result;

/// The number of rows that a thread encodes at a time.
pub(super) const PART_ROWS: usize = 1 << 16;

/// The numbers of both sides' keys.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) left: Pages<u32>,
    pub(crate) right: Pages<u32>,
    /// One more than the largest number in use.
    pub(crate) count: usize,
    /// The smallest key, if keys are numbered by their distance from it.
    pub(crate) smallest: Option<i64>,
    /// The method used to compute the numbers, as shown to users.
    pub(crate) method: &'static str,
}

/// Splits `values` into slices, one for each of several consecutive ranges.
pub(crate) fn split<'a, T>(mut values: &'a mut [T], parts: &[Range<usize>]) -> Vec<&'a mut [T]> {
    let cut = |part: &Range<usize>| {
        let (head, rest) = std::mem::take(&mut values).split_at_mut(part.len());
        values = rest;
        head
    };
    parts.iter().map(cut).collect()
}

/// The keys on one side, which are read row by row.
pub(super) trait KeyColumns: Sync {
    type Key: ?Sized;

    fn rows(&self) -> usize;

    /// Calls `each` with the key of each row in a range, in order. A key that contains a null is
    /// passed as `None`.
    fn for_each(&self, rows: Range<usize>, each: impl FnMut(Option<&Self::Key>)) -> Result<()>;

    /// Writes the key number of each row in a range, in order. A key that contains a null gets
    /// [`NO_KEY`]. If several rows are known to have equal keys, `number_of` can be called only
    /// once for all of them.
    fn write_numbers(
        &self,
        rows: Range<usize>,
        mut number_of: impl FnMut(&Self::Key) -> u32,
        out: &mut [Slot<u32>],
    ) -> Result<()> {
        let mut out = out.iter_mut();
        self.for_each(rows, |key| {
            out.next().expect("a place a row").set(key.map_or(NO_KEY, &mut number_of));
        })
    }
}

/// Distinct keys and their numbers, in order of first appearance.
pub(super) trait KeyTable: Default + Send + Sync {
    type Key: ?Sized;

    fn number_of(&self, key: &Self::Key) -> Option<u32>;
    fn insert(&mut self, key: &Self::Key) -> u32;
    fn len(&self) -> usize;
    fn for_each(&self, each: impl FnMut(&Self::Key));
}

/// Numbers the right keys with a hash table, and looks up the left keys in it.
pub(super) fn number<T, S>(
    left: &S,
    right: &S,
    method: &'static str,
    driver: &Driver,
) -> Result<Keys>
where
    T: KeyTable,
    S: KeyColumns<Key = T::Key>,
{
    let (right, table) = number_side::<T, S>(right, driver)?;
    let left = look_up(left, &table, driver)?;
    Ok(Keys { left, right, count: table.len(), smallest: None, method })
}

/// Numbers the keys on one side. Returns the numbers and a hash table of the keys.
pub(super) fn number_side<T, S>(right: &S, driver: &Driver) -> Result<(Pages<u32>, T)>
where
    T: KeyTable,
    S: KeyColumns<Key = T::Key>,
{
    // 1. Each thread numbers the keys of its part of the side.
    let parts = ranges(right.rows(), driver.parts(right.rows(), PART_ROWS));
    let mut numbers = Pages::unwritten(right.rows());
    let slices = split(&mut numbers, &parts);
    let tables = driver.map(parts.iter().cloned().zip(slices).collect(), |(rows, out)| {
        let mut table = T::default();
        right.write_numbers(rows, |key| table.insert(key), out)?;
        Ok(table)
    })?;
    let mut tables = tables.into_iter().collect::<Result<Vec<T>>>()?.into_iter();
    let mut numbers = numbers.written();
    // 2. The numbers of the first part stay, and those of all other parts are translated.
    let mut all = tables.next().unwrap_or_default();
    let translations: Vec<Vec<u32>> = tables
        .map(|table| {
            let mut translation = memory::vec(table.len());
            table.for_each(|key| translation.push(all.insert(key)));
            translation
        })
        .collect();
    let later = split(&mut numbers, &parts).into_iter().skip(1).zip(&translations).collect();
    driver.map(later, |(part, translation): (&mut [u32], &Vec<u32>)| {
        part.iter_mut()
            .filter(|number| **number != NO_KEY)
            .for_each(|number| *number = translation[*number as usize]);
    })?;
    Ok((numbers, all))
}

/// Looks up the keys on one side in a hash table.
pub(super) fn look_up<T, S>(left: &S, table: &T, driver: &Driver) -> Result<Pages<u32>>
where
    T: KeyTable,
    S: KeyColumns<Key = T::Key>,
{
    let parts = ranges(left.rows(), left.rows().div_ceil(PART_ROWS));
    let mut found = Pages::unwritten(left.rows());
    let slices = split(&mut found, &parts);
    let looked_up = driver.map(parts.into_iter().zip(slices).collect(), |(rows, out)| {
        left.write_numbers(rows, |key| table.number_of(key).unwrap_or(NO_KEY), out)
    })?;
    looked_up.into_iter().collect::<Result<()>>()?;
    Ok(found.written())
}

/// Makes room for one more key if the table is full.
#[inline]
pub(crate) fn grow<N, K>(numbers: &mut HashTable<N>, keys: &mut Vec<K>) {
    if numbers.len() == numbers.capacity() {
        // The table grows to twice as many slots, an eighth of which remain empty. Each slot takes
        // up an additional byte.
        memory::demand_values::<(N, [u8; 2])>(numbers.capacity().saturating_mul(2));
    }
    memory::reserve(keys, 1);
}

#[derive(Debug, Default)]
pub(super) struct IntegerTable {
    hasher: RandomState,
    numbers: HashTable<u32>,
    keys: Vec<i64>,
}

impl KeyTable for IntegerTable {
    type Key = i64;

    fn number_of(&self, key: &i64) -> Option<u32> {
        self.numbers
            .find(self.hasher.hash_one(key), |&number| self.keys[number as usize] == *key)
            .copied()
    }

    fn insert(&mut self, key: &i64) -> u32 {
        let IntegerTable { hasher, numbers, keys } = self;
        let hash = hasher.hash_one(key);
        let same = |&number: &u32| keys[number as usize] == *key;
        match numbers.find(hash, same) {
            Some(&number) => number,
            None => {
                let number = keys.len() as u32;
                grow(numbers, keys);
                keys.push(*key);
                numbers
                    .insert_unique(hash, number, |&number| hasher.hash_one(keys[number as usize]));
                number
            }
        }
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    fn for_each(&self, each: impl FnMut(&i64)) {
        self.keys.iter().for_each(each);
    }
}

#[derive(Debug, Default)]
pub(super) struct ByteTable {
    hasher: RandomState,
    numbers: HashTable<(u64, u32)>,
    /// The distinct keys, one after another.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteTable {
    fn key(bytes: &[u8], ends: &[usize], number: u32) -> std::ops::Range<usize> {
        debug_assert!(ends[number as usize] <= bytes.len());
        let start = if number == 0 { 0 } else { ends[number as usize - 1] };
        start..ends[number as usize]
    }
}

impl KeyTable for ByteTable {
    type Key = [u8];

    fn number_of(&self, key: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        let same = |&(other, number): &(u64, u32)| {
            other == hash && &self.bytes[Self::key(&self.bytes, &self.ends, number)] == key
        };
        self.numbers.find(hash, same).map(|&(_, number)| number)
    }

    fn insert(&mut self, key: &[u8]) -> u32 {
        if let Some(number) = self.number_of(key) {
            return number;
        }
        let (hash, number) = (self.hasher.hash_one(key), self.ends.len() as u32);
        memory::reserve(&mut self.bytes, key.len());
        grow(&mut self.numbers, &mut self.ends);
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.numbers.insert_unique(hash, (hash, number), |&(hash, _)| hash);
        number
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn for_each(&self, mut each: impl FnMut(&[u8])) {
        (0..self.ends.len() as u32)
            .for_each(|number| each(&self.bytes[Self::key(&self.bytes, &self.ends, number)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attacker who knows the hashes of one table can choose keys that collide in that table.
    /// Keys that collide in one table must not collide in any other table.
    #[test]
    fn each_table_has_hashes_of_its_own() {
        let words = [(); 2].map(|()| IntegerTable::default().hasher.hash_one(7_i64));
        let bytes = [(); 2].map(|()| ByteTable::default().hasher.hash_one(&b"seven"[..]));
        assert_ne!(words[0], words[1]);
        assert_ne!(bytes[0], bytes[1]);
    }
}
