//! Assigns numbers to the keys of rows that are added and removed. A number becomes free once no
//! row has its key.

use std::hash::BuildHasher;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{NO_KEY, Side};
use tidegate_structures::memory;

use crate::Result;
use crate::columns::keys::{KeyColumn, SideKeys, grow};
use crate::columns::table::Table;

/// Marks a key that has not been numbered yet.
const UNKNOWN: u32 = NO_KEY - 1;

/// The numbers of the keys that occur in rows.
#[derive(Debug)]
pub(crate) struct KeyNumbers {
    columns: Vec<KeyColumn>,
    /// The hasher has a random seed so that an attacker cannot choose keys with colliding hashes.
    /// The numbers of keys do not depend on the seed.
    hasher: RandomState,
    numbers: Numbers,
    /// Free numbers, which are not assigned to any key.
    free: Vec<u32>,
    nulls: KeyNulls,
}

/// Specifies how nulls in a key are treated.
#[derive(Debug)]
enum KeyNulls {
    /// A key that contains a null matches nothing.
    NoKey,
    /// A null is a value like any other. If a row's key consists of a single null, the number of
    /// that key.
    Group(Option<u32>),
}

#[derive(Debug)]
enum Numbers {
    /// There are no key columns, so all rows have the same key.
    One,
    /// Keys that consist of a single 64-bit word, with the word for each number.
    Words(HashTable<(i64, u32)>, Vec<i64>),
    /// All other keys, with the bytes and the hash for each number.
    Bytes(HashTable<u32>, Vec<(u64, Box<[u8]>)>),
}

impl KeyNumbers {
    pub(crate) fn new(columns: Vec<KeyColumn>) -> Self {
        let numbers = match &columns[..] {
            [] => Numbers::One,
            columns if SideKeys::are_words(columns) => Numbers::Words(HashTable::new(), Vec::new()),
            _ => Numbers::Bytes(HashTable::new(), Vec::new()),
        };
        KeyNumbers {
            columns,
            hasher: RandomState::default(),
            numbers,
            free: Vec::new(),
            nulls: KeyNulls::NoKey,
        }
    }

    /// Assigns numbers to groups. Keys that contain a null also form groups. The key columns are
    /// those of the left side.
    pub(crate) fn of_groups(columns: Vec<KeyColumn>) -> Self {
        KeyNumbers { nulls: KeyNulls::Group(None), ..Self::new(columns) }
    }

    /// Returns the number of each row's key, or [`NO_KEY`] for a key that contains a null. New keys
    /// get numbers.
    pub(crate) fn of(&mut self, side: Side, batch: &RecordBatch) -> Result<Vec<u32>> {
        let (table, columns) = (Table::trusted(name(side), batch.clone()), self.columns.clone());
        let keys = self.side_keys(side, &table, &columns)?;
        let found = self.numbers.find(&self.hasher, &keys, batch.num_rows())?;
        self.complete(&keys, found)
    }

    /// Assigns numbers to the keys in several batches from one side. For each batch, returns
    /// whether it may contain new keys. Known keys are looked up by several threads.
    pub(crate) fn of_each(
        &mut self,
        side: Side,
        driver: &Driver,
        batches: &[RecordBatch],
    ) -> Result<Vec<(Vec<u32>, bool)>> {
        let columns = self.columns.clone();
        let tables: Vec<Table> =
            batches.iter().map(|batch| Table::trusted(name(side), batch.clone())).collect();
        let keys = tables
            .iter()
            .map(|table| self.side_keys(side, table, &columns))
            .collect::<Result<Vec<_>>>()?;
        let (numbers, hasher) = (&self.numbers, &self.hasher);
        let found = driver.map(keys.iter().zip(&tables).collect(), |(keys, table)| {
            let found = numbers.find(hasher, keys, table.rows())?;
            let may_be_new = found.iter().any(|number| [UNKNOWN, NO_KEY].contains(number));
            Ok((found, may_be_new))
        })?;
        let complete = |(keys, found): (&SideKeys<'_>, Result<(Vec<u32>, bool)>)| match found? {
            (found, true) => Ok((self.complete(keys, found)?, true)),
            (found, false) => Ok((found, false)),
        };
        keys.iter().zip(found).map(complete).collect()
    }

    /// Numbers the keys of both sides. Known keys, which are the majority, are looked up by several
    /// threads in parallel.
    pub(crate) fn of_both(
        &mut self,
        driver: &Driver,
        batches: [&RecordBatch; 2],
    ) -> Result<[Vec<u32>; 2]> {
        let table = |side: Side| Table::trusted(name(side), batches[side as usize].clone());
        let (left, right, columns) = (table(Side::Left), table(Side::Right), self.columns.clone());
        let of_left = self.side_keys(Side::Left, &left, &columns)?;
        let of_right = self.side_keys(Side::Right, &right, &columns)?;
        let (numbers, hasher) = (&self.numbers, &self.hasher);
        let (in_left, in_right) = driver.both(
            || numbers.find(hasher, &of_left, left.rows()),
            || numbers.find(hasher, &of_right, right.rows()),
        );
        Ok([self.complete(&of_left, in_left?)?, self.complete(&of_right, in_right?)?])
    }

    /// Returns the keys of the rows on a side.
    fn side_keys<'a>(
        &self,
        side: Side,
        table: &'a Table,
        columns: &'a [KeyColumn],
    ) -> Result<SideKeys<'a>> {
        let of_side = |column: &KeyColumn| match side {
            Side::Left => column.left,
            Side::Right => column.right,
        };
        let columns: Vec<(usize, &DataType)> =
            columns.iter().map(|column| (of_side(column), column.common_type())).collect();
        let keys = SideKeys::new(table, &columns)?;
        let with_nulls = columns.len() > 1 && matches!(self.nulls, KeyNulls::Group(_));
        Ok(if with_nulls { keys.with_nulls() } else { keys })
    }

    /// Assigns a number to each key that has none.
    fn complete(&mut self, keys: &SideKeys<'_>, mut found: Vec<u32>) -> Result<Vec<u32>> {
        if found.contains(&UNKNOWN) {
            self.numbers.give(&self.hasher, &mut self.free, keys, &mut found)?;
        }
        if let KeyNulls::Group(null) = &mut self.nulls
            && found.contains(&NO_KEY)
        {
            let free = &mut self.free;
            let null = *null.get_or_insert_with(|| match &mut self.numbers {
                Numbers::One => unreachable!("there is no column that could be null"),
                Numbers::Words(_, keys) => place(free, keys, 0),
                Numbers::Bytes(_, keys) => place(free, keys, (0, Box::default())),
            });
            found.iter_mut().filter(|number| **number == NO_KEY).for_each(|number| *number = null);
        }
        Ok(found)
    }

    /// Returns the number of bytes held.
    pub(crate) fn memory(&self) -> usize {
        let of_numbers = match &self.numbers {
            Numbers::One => 0,
            Numbers::Words(table, keys) => table_bytes(table) + keys.capacity() * size_of::<i64>(),
            Numbers::Bytes(table, keys) => {
                let of_keys: usize = keys.iter().map(|(_, bytes)| bytes.len()).sum();
                table_bytes(table) + keys.capacity() * size_of::<(u64, Box<[u8]>)>() + of_keys
            }
        };
        of_numbers + self.free.capacity() * size_of::<u32>()
    }

    /// Removes keys that no longer occur in any row.
    pub(crate) fn release(&mut self, silent: &[u32]) {
        match &mut self.numbers {
            Numbers::One => return,
            Numbers::Words(table, keys) => silent.iter().for_each(|&number| {
                let hash = self.hasher.hash_one(keys[number as usize]);
                if let Ok(entry) = table.find_entry(hash, |&(_, other)| other == number) {
                    entry.remove();
                }
            }),
            Numbers::Bytes(table, keys) => silent.iter().for_each(|&number| {
                let (hash, bytes) = std::mem::take(&mut keys[number as usize]);
                drop(bytes);
                if let Ok(entry) = table.find_entry(hash, |&other| other == number) {
                    entry.remove();
                }
            }),
        }
        if let KeyNulls::Group(null) = &mut self.nulls {
            *null = null.filter(|null| !silent.contains(null));
        }
        self.free.extend_from_slice(silent);
    }
}

impl Numbers {
    /// Returns the number of each row's key, or [`UNKNOWN`] if the key has no number.
    fn find(&self, hasher: &RandomState, keys: &SideKeys<'_>, rows: usize) -> Result<Vec<u32>> {
        let mut found = memory::vec(rows);
        match self {
            Numbers::One => found.resize(rows, 0),
            Numbers::Words(table, _) => keys.for_each_word(|key| {
                let number = |key| find_word(table, hasher.hash_one(key), key).unwrap_or(UNKNOWN);
                found.push(key.map_or(NO_KEY, number));
            })?,
            Numbers::Bytes(table, known) => keys.for_each_bytes(|key| {
                let number =
                    |key| find_bytes(table, known, hasher.hash_one(key), key).unwrap_or(UNKNOWN);
                found.push(key.map_or(NO_KEY, number));
            })?,
        }
        Ok(found)
    }

    /// Assigns numbers to keys that have none. `found` contains the number that was found for each
    /// row.
    fn give(
        &mut self,
        hasher: &RandomState,
        free: &mut Vec<u32>,
        keys: &SideKeys<'_>,
        found: &mut [u32],
    ) -> Result<()> {
        let mut rows = found.iter_mut();
        // The position for the number of the next row, if that row has no number.
        let mut next = || rows.next().filter(|number| **number == UNKNOWN);
        match self {
            Numbers::One => Ok(()),
            Numbers::Words(table, known) => keys.for_each_word(|key| {
                if let (Some(number), Some(key)) = (next(), key) {
                    let hash = hasher.hash_one(key);
                    // An earlier row may have added the key.
                    *number = find_word(table, hash, key).unwrap_or_else(|| {
                        grow(table, known);
                        let number = place(free, known, key);
                        table.insert_unique(hash, (key, number), |&(key, _)| hasher.hash_one(key));
                        number
                    });
                }
            }),
            Numbers::Bytes(table, known) => keys.for_each_bytes(|key| {
                if let (Some(number), Some(key)) = (next(), key) {
                    let hash = hasher.hash_one(key);
                    *number = find_bytes(table, known, hash, key).unwrap_or_else(|| {
                        grow(table, known);
                        let number = place(free, known, (hash, copied(key)));
                        table.insert_unique(hash, number, |&number| known[number as usize].0);
                        number
                    });
                }
            }),
        }
    }
}

#[inline]
fn find_word(table: &HashTable<(i64, u32)>, hash: u64, key: i64) -> Option<u32> {
    table.find(hash, |&(other, _)| other == key).map(|&(_, number)| number)
}

#[inline]
fn find_bytes(
    table: &HashTable<u32>,
    known: &[(u64, Box<[u8]>)],
    hash: u64,
    key: &[u8],
) -> Option<u32> {
    let same = |&number: &u32| {
        let (other, bytes) = &known[number as usize];
        *other == hash && **bytes == *key
    };
    table.find(hash, same).copied()
}

/// Returns the name of a side, for messages.
fn name(side: Side) -> &'static str {
    match side {
        Side::Left => "left",
        Side::Right => "right",
    }
}

/// Returns the number of bytes that a hash table takes up. A table uses at most seven of every
/// eight slots, and each slot takes up one byte in addition to its value.
fn table_bytes<T>(table: &HashTable<T>) -> usize {
    table.capacity() / 7 * 8 * (size_of::<T>() + 1)
}

/// Returns a copy of a key. If memory is short, many small allocations are served from the reserve.
/// Each allocation therefore checks whether the reserve is intact.
pub(crate) fn copied(key: &[u8]) -> Box<[u8]> {
    memory::check();
    memory::demand(key.len());
    key.into()
}

/// Stores a new key at a free number or at the end, and returns the key's number.
fn place<K>(free: &mut Vec<u32>, keys: &mut Vec<K>, key: K) -> u32 {
    match free.pop() {
        Some(number) => {
            keys[number as usize] = key;
            number
        }
        None => {
            keys.push(key);
            (keys.len() - 1) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use arrow_schema::Field;

    use super::*;

    fn batch(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([("k", column, true)]).unwrap()
    }

    fn numbers(data_type: DataType) -> KeyNumbers {
        let field = Field::new("k", data_type, true);
        KeyNumbers::new(vec![KeyColumn::new(0, &field, 0, &field).unwrap()])
    }

    #[test]
    fn numbers_are_given_again_once_their_key_is_gone() {
        let words = |keys: &[Option<i64>]| batch(Arc::new(Int64Array::from(keys.to_vec())));
        let mut keys = numbers(DataType::Int64);
        assert_eq!(
            keys.of(Side::Left, &words(&[Some(7), None, Some(9), Some(7)])).unwrap(),
            [0, NO_KEY, 1, 0]
        );
        keys.release(&[0]);
        assert_eq!(keys.of(Side::Right, &words(&[Some(9), Some(5), Some(7)])).unwrap(), [1, 0, 2]);
    }

    #[test]
    fn each_operator_has_hashes_of_its_own() {
        let hashes = [(); 2].map(|()| numbers(DataType::Int64).hasher.hash_one(7_i64));
        assert_ne!(hashes[0], hashes[1]);
    }

    #[test]
    fn strings_and_no_columns() {
        let words = |keys: &[&str]| batch(Arc::new(StringArray::from(keys.to_vec())));
        let mut keys = numbers(DataType::Utf8);
        assert_eq!(keys.of(Side::Left, &words(&["a", "b", "a"])).unwrap(), [0, 1, 0]);
        keys.release(&[1]);
        assert_eq!(keys.of(Side::Left, &words(&["c", "b", "a"])).unwrap(), [1, 2, 0]);
        let mut one = KeyNumbers::new(Vec::new());
        assert_eq!(one.of(Side::Left, &words(&["a", "b"])).unwrap(), [0, 0]);
        one.release(&[0]);
        assert_eq!(one.of(Side::Left, &words(&["a"])).unwrap(), [0]);
    }

    #[test]
    fn a_null_is_a_group() {
        let field = Field::new("k", DataType::Int64, true);
        let mut keys = KeyNumbers::of_groups(vec![KeyColumn::new(0, &field, 0, &field).unwrap()]);
        let words = |keys: &[Option<i64>]| batch(Arc::new(Int64Array::from(keys.to_vec())));
        assert_eq!(
            keys.of(Side::Left, &words(&[Some(0), None, Some(9), None])).unwrap(),
            [0, 2, 1, 2]
        );
        keys.release(&[2]);
        assert_eq!(keys.of(Side::Left, &words(&[Some(5), None, Some(0)])).unwrap(), [2, 3, 0]);
    }
}
