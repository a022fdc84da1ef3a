//! Tables whose rows have been prepared for many joins as their right side.
//!
//! The rows are grouped by key and sorted by time once. A join then looks up the keys of its left
//! rows, and searches for their positions, so its work does not depend on the number of right rows.
//!
//! An index consists of parts. Rows that are appended form a new part, which is merged with earlier
//! parts that are not much larger. A row is therefore merged a few times for each tenfold growth of
//! the index, and there are few parts to search. Rows that expire at the start of a part are only
//! hidden until they outnumber the others.

mod saved;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use tidegate_operators::driver::Driver;
use tidegate_operators::order::{IndexPart, IndexedRows, JoinColumns, SideIndex};
use tidegate_structures::memory::pages::Pages;

use crate::columns::keys::{KeyColumn, KeyLookup};
use crate::columns::table::{Table, column};
use crate::columns::time::{self, Unit};
use crate::columns::type_name::TypeName;
use crate::{Error, Result, shown};
use saved::Unverified;
pub use saved::open_index;

/// A part is merged with the rows after it if it has fewer than this many times as many rows.
const MERGED: usize = 3;

/// Adjacent batches are merged into batches of up to this many rows.
const BATCH_ROWS: usize = 1 << 16;

/// The rows of a table, grouped by key and sorted by time.
#[derive(Debug)]
pub(crate) struct TableIndex {
    columns: IndexColumns,
    parts: Vec<Part>,
}

/// The columns by which rows are indexed.
#[derive(Clone, Debug, PartialEq)]
struct IndexColumns {
    on: usize,
    unit: Unit,
    by: Vec<usize>,
}

/// Adjacent rows of a table.
#[derive(Clone, Debug)]
struct Part {
    /// The rows that have not expired.
    batches: Vec<RecordBatch>,
    rows: Arc<SideIndex>,
    keys: Option<Arc<KeyLookup>>,
    /// The number of rows that have expired. In the index, they precede the others.
    expired: usize,
    /// The time before which rows have expired.
    earliest: i64,
    /// The parts of a file that are checked before they are used.
    unverified: Option<Arc<Unverified>>,
}

impl Part {
    fn new(table: &Table, columns: &IndexColumns, driver: &Driver) -> Result<Self> {
        let ts = time::times(table, columns.on, columns.unit)?;
        let (keys, rows) = if columns.by.is_empty() {
            (None, SideIndex::new(JoinColumns { ts: &ts, keys: None }, 1, driver)?)
        } else {
            let (keys, numbers) = KeyLookup::new(table, &columns.by, driver)?;
            let side = JoinColumns { ts: &ts, keys: Some(&numbers) };
            let rows = SideIndex::new(side, keys.count(), driver)?;
            (Some(Arc::new(keys)), rows)
        };
        let batches = table.batches().to_vec();
        let rows = Arc::new(rows);
        Ok(Part { batches, rows, keys, expired: 0, earliest: i64::MIN, unverified: None })
    }

    /// Checks the rows' order and numbers if they come from a file and have not been checked yet.
    fn verify(&self, driver: &Driver) -> Result<()> {
        self.unverified.as_ref().map_or(Ok(()), |unverified| unverified.verify(driver))
    }

    /// The number of rows that have not expired.
    fn len(&self) -> usize {
        self.rows.rows() - self.expired
    }

    /// Returns the part without the rows before a time, or `None` if no rows remain.
    fn without(
        &self,
        before: i64,
        (columns, schema): (&IndexColumns, &SchemaRef),
        driver: &Driver,
    ) -> Result<Option<Part>> {
        let table = Table::of_valid("rows", schema.clone(), self.batches.clone())?;
        let ts = time::times(&table, columns.on, columns.unit)?;
        let rest: Vec<u32> = if !self.rows.is_sorted() {
            if ts.iter().all(|&ts| ts >= before) {
                return Ok(Some(self.clone()));
            }
            (0..).zip(&ts[..]).filter(|(_, ts)| **ts >= before).map(|(row, _)| row).collect()
        } else {
            let expired = ts.partition_point(|&ts| ts < before);
            let (all, rest) = (self.expired + expired, ts.len() - expired);
            if expired == 0 || rest >= all {
                let batches = without_first(&self.batches, expired);
                let earliest = if expired == 0 { self.earliest } else { before };
                return Ok(Some(Part { batches, expired: all, earliest, ..self.clone() }));
            }
            (expired as u32..ts.len() as u32).collect()
        };
        if rest.is_empty() {
            return Ok(None);
        }
        // The rows are copied, since slices would keep the memory of expired rows.
        Part::new(&table.taken(&rest)?, columns, driver).map(Some)
    }
}

/// Returns the rows of some batches after the first `rows` rows.
fn without_first(batches: &[RecordBatch], rows: usize) -> Vec<RecordBatch> {
    let mut rest = rows;
    let remaining = batches.iter().filter_map(|batch| {
        let skipped = rest.min(batch.num_rows());
        rest -= skipped;
        let left = batch.num_rows() - skipped;
        (left > 0).then(|| batch.slice(skipped, left))
    });
    remaining.collect()
}

/// Concatenates small adjacent batches.
fn compacted(schema: &SchemaRef, batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    let mut compact = Vec::new();
    let mut some: Vec<RecordBatch> = Vec::new();
    let mut rows = 0;
    let mut flush = |some: &mut Vec<RecordBatch>| {
        // Dictionaries that do not fit into one cannot be concatenated.
        match some.len() > 1 && concat_batches(schema, &*some).map(|one| compact.push(one)).is_ok()
        {
            true => some.clear(),
            false => compact.append(some),
        }
    };
    for batch in batches {
        if rows + batch.num_rows() > BATCH_ROWS {
            flush(&mut some);
            rows = 0;
        }
        rows += batch.num_rows();
        some.push(batch);
    }
    flush(&mut some);
    compact
}

impl Table {
    /// Returns the table with an index of its rows, by time and by keys.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use arrow_array::{Int64Array, RecordBatch};
    /// use tidegate::{Driver, Stop, Table};
    ///
    /// let column = Arc::new(Int64Array::from(vec![20, 10])) as _;
    /// let rows = RecordBatch::try_from_iter([("ts", column)])?;
    /// let driver = Driver::new(1, Stop::default());
    /// let table = Table::new("rows".to_owned(), rows.schema(), vec![rows], &driver)?;
    /// assert_eq!(table.with_index("ts", &[], &driver)?.index_bytes(), Some(32));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_index(self, on: &str, by: &[String], driver: &Driver) -> Result<Table> {
        let schema = self.schema();
        let at = column(self.name(), schema, on, "on")?;
        let unit = Unit::of(self.name(), schema.field(at))?;
        let by = by.iter().map(|name| column(self.name(), schema, name, "by"));
        let columns = IndexColumns { on: at, unit, by: by.collect::<Result<_>>()? };
        let part = Part::new(&self, &columns, driver)?;
        Ok(self.with_prepared(Some(Arc::new(TableIndex { columns, parts: vec![part] }))))
    }

    /// Returns an indexed table with more rows, whose schema must be the same.
    ///
    /// # Panics
    ///
    /// Panics if the table has no index.
    pub fn appended(&self, rows: &Table, driver: &Driver) -> Result<Table> {
        let index = self.index().expect("the table has an index");
        let rows = index.fitting(self.schema(), rows)?;
        if rows.rows() == 0 {
            return Ok(self.clone());
        }
        let mut parts = index.parts.clone();
        let mut count = rows.rows();
        let mut merged = Vec::new();
        while let Some(part) = parts.pop_if(|part| part.len() < MERGED * count) {
            count += part.len();
            merged.push(part.batches);
        }
        if merged.is_empty() {
            parts.push(Part::new(&rows, &index.columns, driver)?);
        } else {
            // Times are checked in the new rows first, whose row numbers an error message states.
            time::times(&rows, index.columns.on, index.columns.unit)?;
            let batches = merged.into_iter().rev().flatten().chain(rows.batches().iter().cloned());
            let batches = compacted(self.schema(), batches.collect());
            let table = Table::of_valid(rows.name(), self.schema().clone(), batches)?;
            parts.push(Part::new(&table, &index.columns, driver)?);
        }
        self.with_parts(index.columns.clone(), parts)
    }

    /// Returns an indexed table without the rows before a time. The time has the unit of the
    /// index's times.
    ///
    /// # Panics
    ///
    /// Panics if the table has no index.
    pub fn without_rows_before(&self, before: i64, driver: &Driver) -> Result<Table> {
        let index = self.index().expect("the table has an index");
        let mut parts = Vec::new();
        for part in &index.parts {
            parts.extend(part.without(before, (&index.columns, self.schema()), driver)?);
        }
        self.with_parts(index.columns.clone(), parts)
    }

    fn with_parts(&self, columns: IndexColumns, parts: Vec<Part>) -> Result<Table> {
        let batches = parts.iter().flat_map(|part| part.batches.iter().cloned());
        let table = Table::of_valid(self.name(), self.schema().clone(), batches.collect())?;
        Ok(table.with_prepared(Some(Arc::new(TableIndex { columns, parts }))))
    }

    /// Returns the index of the rows, if there is one.
    pub(crate) fn index(&self) -> Option<&TableIndex> {
        self.prepared()?.downcast_ref()
    }

    /// Returns the names of the time column and the key columns of the table's index.
    ///
    /// # Panics
    ///
    /// Panics if the table has no index.
    pub fn index_columns(&self) -> (String, Vec<String>) {
        let columns = &self.index().expect("the table has an index").columns;
        let name = |at: usize| self.schema().field(at).name().clone();
        (name(columns.on), columns.by.iter().map(|&at| name(at)).collect())
    }

    /// Returns the number of bytes in the table's index, if it has one.
    pub fn index_bytes(&self) -> Option<usize> {
        Some(self.index()?.parts.iter().map(|part| part.rows.bytes()).sum())
    }
}

/// An index that fits a join, with the left rows' keys.
pub(crate) struct IndexFit<'a> {
    parts: Vec<(&'a Part, Option<Pages<u32>>)>,
    /// The number of units of the join's times per unit of the index.
    pub(crate) factor: i64,
}

impl IndexFit<'_> {
    /// The rows of the index.
    pub(crate) fn rows(&self) -> IndexedRows<'_> {
        IndexedRows::new(self.parts.iter().map(|(part, left_keys)| IndexPart {
            rows: &part.rows,
            expired: part.expired,
            earliest: part.earliest,
            left_keys: left_keys.as_deref(),
        }))
    }
}

impl TableIndex {
    /// Looks up the keys of the left table for a join on the right column `on`, whose times are
    /// compared in `unit`.
    pub(crate) fn fit(
        &self,
        (left, right): (&Table, &Table),
        (on, unit): (usize, Unit),
        keys: &[KeyColumn],
        driver: &Driver,
    ) -> Result<IndexFit<'_>> {
        let is_keyed = keys.iter().map(|key| key.right).eq(self.columns.by.iter().copied());
        let fits = |part: &Part| part.keys.as_ref().is_none_or(|own| own.fits(keys));
        if on != self.columns.on || !is_keyed || !self.parts.iter().all(fits) {
            return Err(self.misfit(right, on, keys));
        }
        let parts = self.parts.iter().map(|part| {
            part.verify(driver)?;
            let of_left = |own: &Arc<KeyLookup>| own.left_numbers(left, keys, driver);
            Ok((part, part.keys.as_ref().map(of_left).transpose()?))
        });
        let factor = match (self.columns.unit, unit) {
            (Unit::Nanoseconds(coarse), Unit::Nanoseconds(fine)) => coarse / fine,
            _ => 1,
        };
        Ok(IndexFit { parts: parts.collect::<Result<_>>()?, factor })
    }

    /// Returns rows with the columns of the index in their order.
    fn fitting(&self, schema: &SchemaRef, rows: &Table) -> Result<Table> {
        let mut places = Vec::new();
        for field in schema.fields() {
            let at = column(rows.name(), rows.schema(), field.name(), "the index")?;
            let found = rows.schema().field(at).data_type();
            if found != field.data_type() {
                return Err(Error::schema(format!(
                    "{}: column `{}` is {}, but {} in the index; cast it to the type of the index",
                    rows.name(),
                    shown(field.name()),
                    TypeName(found),
                    TypeName(field.data_type())
                )));
            }
            places.push(at);
        }
        if let Some(extra) = (0..rows.schema().fields().len()).find(|at| !places.contains(at)) {
            return Err(Error::schema(format!(
                "{}: the index has no column `{}`; omit it",
                rows.name(),
                shown(rows.schema().field(extra).name())
            )));
        }
        let batches = rows.batches().iter().map(|batch| {
            let columns = places.iter().map(|&at| batch.column(at).clone()).collect();
            RecordBatch::try_new(schema.clone(), columns)
                .map_err(|error| Error::data(format!("{}: {error}", rows.name())))
        });
        Table::of_valid(rows.name(), schema.clone(), batches.collect::<Result<_>>()?)
    }

    /// Returns the error for a join that the index does not fit.
    fn misfit(&self, right: &Table, on: usize, keys: &[KeyColumn]) -> Error {
        let name = |at: usize| format!("`{}`", shown(right.schema().field(at).name()));
        let list = |columns: &[usize]| match columns {
            [] => "no keys".to_owned(),
            columns => columns.iter().map(|&at| name(at)).collect::<Vec<_>>().join(", "),
        };
        let own = &self.columns.by;
        let asked: Vec<usize> = keys.iter().map(|key| key.right).collect();
        if on == self.columns.on && *own == asked {
            return Error::schema(format!(
                "right: the index compares {} in their own types, but the left keys have others; \
                 cast the left keys to the types of the index",
                list(own)
            ));
        }
        Error::schema(format!(
            "right: the index is on {} by {}, but the join is on {} by {}; join on the columns of \
             the index, or make an index on the columns of the join",
            name(self.columns.on),
            list(own),
            name(on),
            list(&asked)
        ))
    }
}
