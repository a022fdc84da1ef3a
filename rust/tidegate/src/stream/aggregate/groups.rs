//! The numbers and the order of a streaming aggregation's groups. Numbers are reused.

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{SchemaRef, SortOptions};
use tidegate_operators::aggregate::KeyOrder;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::Side;
use tidegate_structures::memory;

use crate::aggregate::groups::canonical_values;
use crate::columns::cast::cast;
use crate::columns::keys::KeyColumn;
use crate::columns::table::Table;
use crate::query::aggregate::value_types::leaf;
use crate::results::gather::Column;
use crate::stream::state::keys::{KeyNumbers, copied};
use crate::{Error, Result};

/// Nulls sort last.
const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };

/// A search for unused groups starts once `groups > 2 * remaining + NEW_GROUPS`, where `remaining`
/// is the number of groups left after the last search.
const NEW_GROUPS: usize = 1 << 10;

/// The number of bytes per group in addition to its key. These bytes store the group's number, hash
/// table entry and position in the order.
pub(crate) const GROUP_BYTES: usize = 64;

/// The numbers of the keys that occur in rows.
#[derive(Debug)]
pub(crate) struct StreamGroups {
    /// The schema of the key columns.
    schema: SchemaRef,
    numbers: KeyNumbers,
    converter: RowConverter,
    /// The key for each number, as bytes in key order; `None` if the number is unused.
    keys: Vec<Option<Box<[u8]>>>,
    /// The numbers, sorted by their keys.
    order: Vec<u32>,
    /// The position of each number in `order`.
    ranks: Vec<u32>,
    /// The key columns, in key order.
    columns: Option<Vec<Column>>,
    /// The number of groups that remained after the last search.
    swept: usize,
    /// The total size of all keys in bytes.
    bytes: usize,
}

impl StreamGroups {
    /// Creates groups for rows with `schema`, whose columns are all keys.
    pub(crate) fn new(schema: SchemaRef) -> Result<Self> {
        let key = |at: usize| KeyColumn::new(at, schema.field(at), at, schema.field(at));
        let columns = (0..schema.fields().len()).map(key).collect::<Result<Vec<_>>>()?;
        let fields = schema.fields().iter();
        let fields = fields
            .map(|field| SortField::new_with_options(leaf(field.data_type()).clone(), ASCENDING));
        let mut groups = StreamGroups {
            numbers: KeyNumbers::of_groups(columns),
            converter: RowConverter::new(fields.collect())?,
            keys: Vec::new(),
            order: Vec::new(),
            ranks: Vec::new(),
            columns: None,
            swept: 0,
            bytes: 0,
            schema,
        };
        if groups.schema.fields().is_empty() {
            (groups.keys, groups.order, groups.ranks) =
                (vec![Some(Box::default())], vec![0], vec![0]);
        }
        Ok(groups)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the group number of each row, batch by batch.
    pub(crate) fn of(&mut self, batches: &[RecordBatch], driver: &Driver) -> Result<Vec<u32>> {
        let mut all = memory::vec(batches.iter().map(RecordBatch::num_rows).sum());
        let found = self.numbers.of_each(Side::Left, driver, batches)?;
        for ((numbers, may_be_new), rows) in found.into_iter().zip(batches) {
            if may_be_new {
                self.take_in(rows, &numbers)?;
            }
            all.extend(numbers);
        }
        Ok(all)
    }

    /// Adds the keys of rows whose group numbers were unused until now.
    fn take_in(&mut self, rows: &RecordBatch, numbers: &[u32]) -> Result<()> {
        let most = numbers.iter().max().map_or(0, |&number| number as usize + 1);
        self.keys.resize(most.max(self.keys.len()), None);
        let mut fresh: Vec<(u32, u32)> = Vec::new();
        for (row, &number) in (0..).zip(numbers) {
            let key = &mut self.keys[number as usize];
            if key.is_none() {
                *key = Some(Box::default());
                fresh.push((number, row));
            }
        }
        if fresh.is_empty() { Ok(()) } else { self.learn(rows, &fresh) }
    }

    /// Adds the keys of numbers that were unused until now. Each number is paired with a row that
    /// has its key.
    fn learn(&mut self, rows: &RecordBatch, fresh: &[(u32, u32)]) -> Result<()> {
        let table = Table::trusted("keys", rows.clone());
        let places: Vec<u32> = fresh.iter().map(|&(_, row)| row).collect();
        let column = |at: usize| canonical_values(&Column::new(&table, at).gather(&places)?);
        let columns = (0..rows.num_columns()).map(column).collect::<Result<Vec<ArrayRef>>>()?;
        let encoded = self.converter.convert_columns(&columns)?;
        for (&(number, _), key) in fresh.iter().zip(&encoded) {
            self.bytes += key.as_ref().len();
            self.keys[number as usize] = Some(copied(key.as_ref()));
        }
        let mut fresh: Vec<u32> = fresh.iter().map(|&(number, _)| number).collect();
        fresh.sort_unstable_by(|a, b| self.keys[*a as usize].cmp(&self.keys[*b as usize]));
        self.order = merged(&self.order, &fresh, |number| self.keys[number as usize].as_deref());
        self.rank();
        Ok(())
    }

    fn rank(&mut self) {
        self.ranks.resize(self.keys.len(), 0);
        self.order.iter().zip(0..).for_each(|(&number, rank)| self.ranks[number as usize] = rank);
        self.columns = None;
    }

    /// One more than the largest number in use.
    pub(crate) fn count(&self) -> usize {
        self.keys.len()
    }

    /// Returns the number of groups.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns the number of bytes that the groups take up.
    pub(crate) fn memory(&self) -> usize {
        self.bytes + GROUP_BYTES * self.keys.len()
    }

    pub(crate) fn order(&self) -> KeyOrder<'_> {
        KeyOrder { keys: &self.order, ranks: &self.ranks }
    }

    /// Returns the key columns, with one value per group in key order.
    pub(crate) fn columns(&mut self) -> Result<&[Column]> {
        if self.columns.is_none() {
            let column =
                |array: ArrayRef| Column::of_chunks(array.data_type().clone(), vec![array]);
            self.columns =
                Some(self.table(&self.order)?.columns().iter().cloned().map(column).collect());
        }
        self.columns.as_deref().ok_or_else(|| Error::bug("the key columns were made"))
    }

    /// Returns the keys of groups.
    pub(crate) fn table(&self, numbers: &[u32]) -> Result<RecordBatch> {
        let parser = self.converter.parser();
        let keys = numbers.iter().filter_map(|&number| self.keys[number as usize].as_deref());
        let columns = self.converter.convert_rows(keys.map(|key| parser.parse(key)))?;
        let types = self.schema.fields().iter().map(|field| field.data_type());
        let columns = columns.iter().zip(types).map(|(column, data_type)| {
            match column.data_type() == data_type {
                true => Ok(column.clone()),
                false => cast(column, data_type),
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(numbers.len()));
        Ok(RecordBatch::try_new_with_options(
            self.schema.clone(),
            columns.collect::<Result<_, _>>()?,
            &options,
        )?)
    }

    /// Returns whether to search for unused groups now.
    pub(crate) fn is_due(&self) -> bool {
        self.len() > 2 * self.swept + NEW_GROUPS
    }

    /// Removes the groups that are not marked in `used`.
    pub(crate) fn release(&mut self, used: &[bool]) {
        let is_used = |number: u32| used.get(number as usize).copied().unwrap_or(false);
        let silent: Vec<u32> =
            self.order.iter().copied().filter(|&number| !is_used(number)).collect();
        if !silent.is_empty() && !self.schema.fields().is_empty() {
            for &number in &silent {
                let key = self.keys[number as usize].take();
                self.bytes -= key.map_or(0, |key| key.len());
            }
            self.order.retain(|&number| is_used(number));
            self.numbers.release(&silent);
            self.rank();
        }
        self.swept = self.len();
    }
}

/// Merges two lists that are sorted by `key`.
fn merged<'a>(a: &[u32], b: &[u32], key: impl Fn(u32) -> Option<&'a [u8]>) -> Vec<u32> {
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    let mut both = Vec::with_capacity(a.len() + b.len());
    while let (Some(&of_a), Some(&of_b)) = (a.peek(), b.peek()) {
        let next = if key(of_a) <= key(of_b) { a.next() } else { b.next() };
        both.extend(next);
    }
    both.extend(a.chain(b));
    both
}
