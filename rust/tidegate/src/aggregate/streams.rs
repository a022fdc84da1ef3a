//! Reads tables in time order, and combines all columns that are read into one table.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use tidegate_operators::aggregate::Stream;
use tidegate_operators::driver::Driver;
use tidegate_operators::order::time_order;
use tidegate_structures::memory;
use tidegate_structures::memory::bits::BitSet;
use tidegate_structures::memory::pages::Pages;

use crate::columns::cast::cast;
use crate::columns::expression::{Origin, Predicate};
use crate::columns::table::Table;
use crate::columns::time::{self, Int64s};
use crate::query::aggregate::inputs::InputPlan;
use crate::query::aggregate::plan::{AggregatePlan, FunctionsPlan, TablePlan};
use crate::results::gather::Column;
use crate::{Error, Result};

/// The number of rows for which a predicate is evaluated at a time.
const BLOCK_ROWS: usize = 1 << 14;

/// The rows from all aggregated sources, source by source, each in time order.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) sources: Vec<SortedSource>,
    /// The columns of [`FunctionsPlan::read`], for all sources.
    pub(crate) table: Table,
}

#[derive(Debug)]
pub(crate) struct SortedSource {
    pub(crate) name: String,
    rows: usize,
    /// The times, in row order.
    ts: Int64s,
    /// The batches of `table` that belong to this source.
    pub(crate) batches: std::ops::Range<usize>,
    /// For each aggregate, the rows that satisfy the aggregate's predicate.
    pub(crate) masks: Vec<Option<BitSet>>,
}

impl SortedSource {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }
}

impl Streams {
    pub(crate) fn new(tables: &[Table], plan: &AggregatePlan, driver: &Driver) -> Result<Self> {
        let times = |(table, of): (&Table, &TablePlan)| {
            let ts = time::times(table, of.time, plan.unit)?;
            if let Some(gaps) = of.gap_check(&plan.span) {
                let mut first = 0;
                for batch in table.batches() {
                    let own = &ts[first..first + batch.num_rows()];
                    let checked = gaps.check(batch, own, first as u64);
                    checked.map_err(|error| error.within(table.name()))?;
                    first += batch.num_rows();
                }
            }
            Ok(ts)
        };
        let times = tables.iter().zip(&plan.tables).map(times);
        Self::of_times(
            tables.iter().zip(times.collect::<Result<Vec<_>>>()?),
            plan.tables.iter(),
            plan,
            driver,
        )
    }

    /// Returns the rows in tables, given the times of these rows. All tables have the same schema
    /// as the plan's only table.
    pub(crate) fn alike(
        tables: Vec<(Table, Int64s)>,
        plan: &AggregatePlan,
        driver: &Driver,
    ) -> Result<Self> {
        let (tables, times): (Vec<Table>, Vec<Int64s>) = tables.into_iter().unzip();
        Self::of_times(tables.iter().zip(times), std::iter::repeat(&plan.tables[0]), plan, driver)
    }

    fn of_times<'a>(
        tables: impl Iterator<Item = (&'a Table, Int64s)>,
        plans: impl Iterator<Item = &'a TablePlan>,
        plan: &AggregatePlan,
        driver: &Driver,
    ) -> Result<Self> {
        let (mut sources, mut batches) = (Vec::new(), Vec::new());
        for ((table, ts), of) in tables.zip(plans) {
            let (ts, table) = in_order(table, ts, of, driver)?;
            let ts = match plan.span.behind() {
                0 => ts,
                behind => {
                    Int64s::Own(Pages::collect(ts.iter().map(|ts| ts.saturating_sub(behind))))
                }
            };
            let bits = |predicate: &Option<Predicate>| {
                let mask = |predicate: &Predicate| {
                    mask(&table, &of.inputs.columns(), predicate, Origin::Left, driver)
                };
                predicate.as_ref().map(mask).transpose()
            };
            let masks = of.inputs.predicates.iter().map(bits).collect::<Result<_>>()?;
            let first = batches.len();
            batches.extend(read(&table, &of.inputs, &plan.functions)?);
            sources.push(SortedSource {
                name: table.name().to_owned(),
                rows: table.rows(),
                ts,
                batches: first..batches.len(),
                masks,
            });
        }
        Ok(Streams {
            sources,
            table: Table::of_valid("streams", plan.functions.read.clone(), batches)?,
        })
    }

    /// Returns the rows of all sources as one source, in merged order.
    pub(crate) fn merged(self, driver: &Driver) -> Result<Self> {
        if self.sources.len() == 1 {
            return Ok(self);
        }
        let ts: Pages<i64> = Pages::copied(
            &self.sources.iter().flat_map(|source| source.ts.iter().copied()).collect::<Vec<i64>>(),
        );
        // Rows with equal times stay in the order of their sources and positions.
        let order = time_order(&ts, driver)?;
        let rows: Vec<u32> = match &order {
            None => (0..ts.len() as u32).collect(),
            Some(order) => order.to_vec(),
        };
        let functions = self.sources.first().map_or(0, |source| source.masks.len());
        let mask = |function: usize| {
            let masks = || self.sources.iter().map(|source| (source, &source.masks[function]));
            masks().any(|(_, mask)| mask.is_some()).then(|| {
                let mut counted = Vec::with_capacity(ts.len());
                for (source, mask) in masks() {
                    let is_counted = |row| mask.as_ref().is_none_or(|mask| mask.contains(row));
                    counted.extend((0..source.rows).map(is_counted));
                }
                let mut merged = BitSet::new(ts.len());
                for (place, &row) in rows.iter().enumerate() {
                    if counted[row as usize] {
                        merged.insert(place);
                    }
                }
                merged
            })
        };
        let masks = (0..functions).map(mask).collect();
        let table = match order {
            None => self.table.clone(),
            Some(_) => {
                let every = (0..self.table.schema().fields().len()).collect();
                let gathered =
                    driver.map(every, |at: usize| Column::new(&self.table, at).gather(&rows))?;
                let gathered = gathered.into_iter().collect::<Result<Vec<_>, _>>()?;
                let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
                let schema = self.table.schema().clone();
                let batch = RecordBatch::try_new_with_options(schema.clone(), gathered, &options)?;
                Table::of_valid(self.table.name(), schema, vec![batch])?
            }
        };
        let source = SortedSource {
            name: self.table.name().to_owned(),
            rows: rows.len(),
            ts: Int64s::Own(gather_times(&ts, &rows)),
            batches: 0..table.batches().len(),
            masks,
        };
        Ok(Streams { sources: vec![source], table })
    }

    /// Returns the times of the rows in the single source.
    pub(crate) fn times(&self) -> &[i64] {
        &self.sources[0].ts
    }

    /// Returns the rows in one table, in their original order.
    pub(crate) fn in_row_order(
        table: &Table,
        of: &InputPlan,
        functions: &FunctionsPlan,
        driver: &Driver,
    ) -> Result<Self> {
        let used = of.columns();
        let projected = table.projected(&used)?;
        let bits = |predicate: &Option<Predicate>| {
            let mask =
                |predicate: &Predicate| mask(&projected, &used, predicate, Origin::Left, driver);
            predicate.as_ref().map(mask).transpose()
        };
        let masks = of.predicates.iter().map(bits).collect::<Result<_>>()?;
        let read = read(&projected, of, functions)?;
        let ts = Int64s::Own(Pages::default());
        let batches = 0..read.len();
        let (name, rows) = (table.name().to_owned(), table.rows());
        let source = SortedSource { name, rows, ts, batches, masks };
        let table = Table::of_valid(table.name(), functions.read.clone(), read)?;
        Ok(Streams { sources: vec![source], table })
    }

    /// Returns the sources. If there are keys, `keys` contains the keys of all rows, source by
    /// source.
    pub(crate) fn sources<'a>(&'a self, mut keys: Option<&'a [u32]>) -> Vec<Stream<'a>> {
        let stream = |source: &'a SortedSource| {
            let own = keys.as_mut().map(|keys| {
                let (own, rest) = keys.split_at(source.rows());
                *keys = rest;
                own
            });
            Stream { ts: &source.ts, keys: own }
        };
        self.sources.iter().map(stream).collect()
    }

    /// Returns the gaps of all rows, source by source, if sessions have gaps from a column.
    pub(crate) fn gaps(&self, plan: &AggregatePlan) -> Result<Option<Vec<i64>>> {
        let Some(column) = plan.span.gap_column() else { return Ok(None) };
        let mut gaps = memory::vec(self.table.rows());
        for source in &self.sources {
            let mut first = 0;
            for batch in &self.table.batches()[source.batches.clone()] {
                let ts = &source.ts[first..first + batch.num_rows()];
                gaps.extend(column.gaps(batch.column(column.at), ts, first as u64)?);
                first += batch.num_rows();
            }
        }
        Ok(Some(gaps))
    }

    /// For every aggregate, excludes the rows that are not in `counted`. There must be only one
    /// source.
    pub(crate) fn intersect(&mut self, counted: &BitSet) {
        for mask in self.sources.iter_mut().flat_map(|source| &mut source.masks) {
            match mask {
                Some(mask) => mask.intersect(counted),
                None => *mask = Some(counted.clone()),
            }
        }
    }

    /// Rejects times whose windows begin or end outside the range of 64-bit integers.
    pub(crate) fn check_windows(&self, plan: &AggregatePlan) -> Result<()> {
        for source in &self.sources {
            let (Some(low), Some(high)) = (source.ts.first(), source.ts.last()) else { continue };
            for ts in [low, high] {
                if !plan.span.fits(*ts) {
                    return Err(Error::data(format!(
                        "{}: the time {ts} ({}) falls in a window that begins or ends outside the \
                         64-bit range; exclude such rows, or choose smaller windows",
                        source.name,
                        plan.unit.name()
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Returns the times and the needed columns of a table in time order, without the excluded rows.
fn in_order(table: &Table, ts: Int64s, of: &TablePlan, driver: &Driver) -> Result<(Int64s, Table)> {
    let used = of.inputs.columns();
    let chosen = match &of.rows {
        None => None,
        Some(predicate) => {
            let every: Vec<usize> = (0..table.schema().fields().len()).collect();
            Some(
                mask(table, &every, predicate, Origin::Left, driver)?
                    .present()
                    .map(|row| row as u32)
                    .collect::<Vec<u32>>(),
            )
        }
    };
    let chosen_ts = chosen.as_ref().map(|rows| gather_times(&ts, rows));
    let order = time_order(chosen_ts.as_deref().unwrap_or(&ts), driver)?;
    let rows: Pages<u32> = match (order, chosen) {
        (None, None) => return Ok((ts, table.projected(&used)?)),
        (None, Some(rows)) => pages(rows.into_iter()),
        (Some(order), None) => order,
        (Some(order), Some(rows)) => pages(order.iter().map(|place| rows[*place as usize])),
    };
    let gathered = driver.map(used.clone(), |at| Column::new(table, at).gather(&rows))?;
    let gathered = gathered.into_iter().collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(table.schema().project(&used)?);
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let batch = RecordBatch::try_new_with_options(schema.clone(), gathered, &options)?;
    Ok((Int64s::Own(gather_times(&ts, &rows)), Table::of_valid(table.name(), schema, vec![batch])?))
}

fn gather_times(ts: &[i64], rows: &[u32]) -> Pages<i64> {
    Pages::collect(rows.iter().map(|row| ts[*row as usize]))
}

fn pages(rows: impl ExactSizeIterator<Item = u32>) -> Pages<u32> {
    Pages::collect(rows)
}

/// Returns the columns of [`FunctionsPlan::read`], with their types.
fn read(table: &Table, of: &InputPlan, plan: &FunctionsPlan) -> Result<Vec<RecordBatch>> {
    let used = of.columns();
    let batch = |batch: &RecordBatch| {
        let columns = of.read.iter().zip(plan.read.fields()).map(|(column, field)| {
            cast(&column.values(batch, &used)?, field.data_type()).map_err(|error| {
                Error::data(format!("{}: column `{}`: {error}", table.name(), field.name()))
            })
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            plan.read.clone(),
            columns.collect::<Result<_>>()?,
            &options,
        )?)
    };
    table.batches().iter().map(batch).collect()
}

/// Returns the rows that satisfy a predicate over columns of one side. The predicate was bound to
/// columns of a table. `columns` maps the table's columns to those that are passed here.
pub(crate) fn mask(
    table: &Table,
    columns: &[usize],
    predicate: &Predicate,
    side: Origin,
    driver: &Driver,
) -> Result<BitSet> {
    let places: Vec<usize> = predicate
        .columns(side)
        .iter()
        .map(|at| columns.binary_search(at).expect("all columns of the predicate are in use"))
        .collect();
    let mut blocks = Vec::new();
    for batch in table.batches() {
        for start in (0..batch.num_rows()).step_by(BLOCK_ROWS) {
            blocks.push(batch.slice(start, BLOCK_ROWS.min(batch.num_rows() - start)));
        }
    }
    let found: Vec<Result<BooleanBuffer>> = driver.map(blocks, |block: RecordBatch| {
        let columns: Vec<ArrayRef> =
            places.iter().map(|place| block.column(*place).clone()).collect();
        match side {
            Origin::Right => predicate.evaluate(&[], &columns, block.num_rows()),
            Origin::Left | Origin::Row => predicate.evaluate(&columns, &[], block.num_rows()),
        }
    })?;
    let mut mask = BitSet::new(table.rows());
    let mut first = 0;
    for found in found {
        let found = found?;
        found.set_slices().for_each(|(start, end)| mask.insert_range(first + start, first + end));
        first += found.len();
    }
    Ok(mask)
}
