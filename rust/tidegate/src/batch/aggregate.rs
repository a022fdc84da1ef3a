//! Aggregates many tables. The steps produce a plan, a combined table, keys as ranks, plain
//! numbers, pages, and record batches.

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::aggregate::{
    Page, SessionGaps, Window, WindowRows, WindowValues, aggregate, aggregate_sessions,
};
use tidegate_operators::driver::Driver;
use tidegate_structures::memory::pages::Pages;
use tidegate_sync::{Counter, Stop};

use super::join::room_for;
use super::listed_windows::listed_windows;
use super::row_windows::{EarlierRows, RowWindows, row_windows};
use crate::aggregate::columns::{Columns, Extent};
use crate::aggregate::fill::WindowFiller;
use crate::aggregate::groups::Groups;
use crate::aggregate::output::Output;
use crate::aggregate::streams::Streams;
use crate::aggregate::values::FunctionValues;
use crate::columns::faults::Faults;
use crate::columns::table::Table;
use crate::query::aggregate::plan::{AggregatePlan, WindowSpan};
use crate::query::aggregate::session_gaps::SessionGap;
use crate::query::aggregate::{Aggregation, Windows, stream_names};
use crate::query::published::{aggregate_by, multiway_design};
use crate::{Error, Result};

/// A range of window ends, which selects windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// If set, windows must end after this time.
    pub(crate) after: Option<i64>,
    /// If set, windows must end at or before this time.
    pub(crate) upto: Option<i64>,
}

/// The approximate number of window rows that are listed at a time.
const LISTED_ROWS: usize = 1 << 22;

/// The remaining memory is checked each time this many result rows have been built. A single page
/// is too small to be worth a check.
const LOOKED_ROWS: usize = 1 << 22;

impl Ends {
    pub(crate) const ALL: Ends = Ends { after: None, upto: None };

    fn has(self, window: &Window) -> bool {
        self.has_end(window.end)
    }

    /// Returns whether windows that end at this time are selected.
    pub(super) fn has_end(self, end: i64) -> bool {
        self.after.is_none_or(|after| end > after) && self.upto.is_none_or(|upto| end <= upto)
    }
}

/// Some rows of a result.
#[derive(Debug)]
pub(crate) struct ResultPart<N> {
    pub(crate) batch: RecordBatch,
    /// The value that the caller's `note` returned for the page.
    pub(crate) noted: N,
    /// The earliest start among the windows that end later than the limit, if there are any.
    pub(crate) open_from: Option<i64>,
}

impl<N> ResultPart<N> {
    /// Returns rows for windows that are listed in a table. `note` is called with an empty page.
    fn of_list(batch: RecordBatch, note: &impl Fn(&Page) -> N) -> Self {
        let nothing =
            Page { rows: 0, windows: Vec::new(), keys: Pages::default(), columns: Vec::new() };
        ResultPart { batch, noted: note(&nothing), open_from: None }
    }
}

impl Aggregation {
    /// Aggregates the rows in all tables.
    pub fn run(&self, tables: Vec<Table>, stop: Stop) -> Result<Vec<RecordBatch>> {
        let driver = Driver::new(self.threads, stop);
        let names: Vec<(String, SchemaRef)> =
            tables.iter().map(|table| (table.name().to_owned(), table.schema().clone())).collect();
        if matches!(self.windows, Windows::Rows(_)) {
            return Ok(self.run_on_rows(&driver, tables, EarlierRows::None, None)?.batches);
        }
        let parts = self.run_on(&driver, tables, Ends::ALL, None, |_| ())?;
        let batches: Vec<RecordBatch> = parts.into_iter().map(|part| part.batch).collect();
        if self.empty.is_none() || batches.is_empty() {
            return Ok(batches);
        }
        let schemas: Vec<(String, &Schema)> =
            names.iter().map(|(name, schema)| (name.clone(), &**schema)).collect();
        let plan = AggregatePlan::new(self, &schemas)?;
        let Some(filler) = WindowFiller::of_plan(&plan)? else { return Ok(batches) };
        let rows = ResultRows {
            driver: &driver,
            most: self.max_rows.unwrap_or(u64::MAX),
            row_bytes: plan.schema.fields().len() * size_of::<i64>(),
            count: Counter::new(0),
        };
        filler.table(&batches, &driver, &|more| rows.announce(more))
    }

    /// Adds windows without rows to `windows`, which are results of this aggregation without
    /// [`empty`](Self::empty), in any order. `schemas` are those of the streams.
    ///
    /// Returns only windows that start within `range`, an inclusive range of times in the unit of
    /// the streams. Windows outside the range affect the values and the extent of those inside it.
    pub fn filled(
        &self,
        schemas: &[SchemaRef],
        windows: &Table,
        (first, last): (i64, i64),
        stop: Stop,
    ) -> Result<Vec<RecordBatch>> {
        let names = stream_names(schemas.len());
        let named: Vec<(String, &Schema)> =
            names.into_iter().zip(schemas.iter().map(|schema| &**schema)).collect();
        let plan = AggregatePlan::new(self, &named)?;
        let Some(filler) = WindowFiller::of_plan(&plan)? else {
            return Err(Error::argument("empty: expected a value other than \"skip\""));
        };
        let typed = |batch: &RecordBatch| {
            RecordBatch::try_new(plan.schema.clone(), batch.columns().to_vec()).map_err(|_| {
                Error::schema(format!(
                    "{}: expected the columns {:?}, got {:?}",
                    windows.name(),
                    plan.schema.fields(),
                    batch.schema().fields()
                ))
            })
        };
        let batches = windows.batches().iter().map(typed).collect::<Result<Vec<_>>>()?;
        let driver = Driver::new(self.threads, stop);
        let rows = self.result_rows(&plan, &driver);
        filler.within(first, last).table(&batches, &driver, &|more| rows.announce(more))
    }

    /// Aggregates the row-based windows that begin with one of the given rows.
    ///
    /// `ordinals` contains, for each row in merged order, the number of earlier rows with the same
    /// key, including rows that are not given. All rows must satisfy the condition.
    pub fn run_on_part(
        &self,
        tables: Vec<Table>,
        ordinals: &[i64],
        stop: Stop,
    ) -> Result<Vec<RecordBatch>> {
        let rows: usize = tables.iter().map(Table::rows).sum();
        if ordinals.len() != rows {
            return Err(Error::argument(format!(
                "ordinals: expected one number per row, which is {rows} numbers, got {}",
                ordinals.len()
            )));
        }
        let driver = Driver::new(self.threads, stop);
        Ok(self.run_on_rows(&driver, tables, EarlierRows::OfTable(ordinals), None)?.batches)
    }

    /// Like [`run`](Self::run), but for row-based windows. The rows of a stream are one table in
    /// merged order.
    pub(crate) fn run_on_rows(
        &self,
        driver: &Driver,
        tables: Vec<Table>,
        earlier: EarlierRows<'_>,
        faults: Option<&Faults>,
    ) -> Result<RowWindows> {
        let schemas: Vec<(String, &Schema)> =
            tables.iter().map(|table| (table.name().to_owned(), &**table.schema())).collect();
        let plan = AggregatePlan::new(self, &schemas)?;
        let plan = match faults {
            None => plan,
            Some(faults) => plan.noting(faults),
        };
        let WindowSpan::Rows(counts) = plan.span else {
            return Err(Error::bug("these windows do not consist of rows"));
        };
        let streams = Streams::new(&tables, &plan, driver)?;
        drop(tables);
        if streams.table.rows() == 0 {
            return Ok(RowWindows::default());
        }
        let streams = streams.merged(driver)?;
        let results = self.result_rows(&plan, driver);
        row_windows(counts, &plan, &streams, earlier, &results, driver)
    }

    /// Like [`run`](Self::run), but only for windows that end within a given range. `note` is
    /// called with each page before the page becomes a batch.
    #[expect(
        clippy::too_many_lines,
        reason = "a sequence of steps, each of which uses the previous result"
    )]
    pub(crate) fn run_on<N: Send>(
        &self,
        driver: &Driver,
        tables: Vec<Table>,
        ends: Ends,
        faults: Option<&Faults>,
        note: impl Fn(&Page) -> N + Sync,
    ) -> Result<Vec<ResultPart<N>>> {
        let schemas: Vec<(String, &Schema)> =
            tables.iter().map(|table| (table.name().to_owned(), &**table.schema())).collect();
        let plan = AggregatePlan::new(self, &schemas)?;
        let plan = match faults {
            None => plan,
            Some(faults) => plan.noting(faults),
        };
        let streams = Streams::new(&tables, &plan, driver)?;
        drop(tables);
        if streams.table.rows() == 0 {
            return Ok(Vec::new());
        }
        if let WindowSpan::Listed(windows) = &plan.span {
            let streams = streams.merged(driver)?;
            let results = self.result_rows(&plan, driver);
            let order = (ends, faults.is_some());
            let found = listed_windows(windows, &plan, &streams, order, &results, driver)?;
            return Ok(found.into_iter().map(|batch| ResultPart::of_list(batch, &note)).collect());
        }
        streams.check_windows(&plan)?;
        let groups = (!plan.by.is_empty())
            .then(|| Groups::new(&streams.table, &plan.by, driver))
            .transpose()?;
        let columns = Columns::new(&streams, &plan.functions, Extent::Whole, driver)?;
        let sources = streams.sources(groups.as_ref().map(|groups| &groups.numbers[..]));
        let key_count = groups.as_ref().map_or(1, |groups| groups.count);
        let values = FunctionValues::of_tables(&plan.functions, &streams, |at| columns.ranked(at));
        let output = Output::new(&plan, groups.as_ref(), values);
        let rows = self.result_rows(&plan, driver);
        let announce = |more: usize| rows.announce(more);
        let all_values = columns.all_values();
        let in_order = (!all_values.is_empty())
            .then(|| WindowRows::new(&sources, key_count, driver))
            .transpose()?;
        let of_window = |(rows, function)| WindowValues::new(rows, function, driver);
        let of_windows: Vec<WindowValues<'_>> =
            in_order.iter().cycle().zip(all_values).map(of_window).collect::<Result<_, _>>()?;
        let take = |page: Page| {
            let is_open = |window: &&Window| ends.upto.is_some_and(|upto| window.end > upto);
            let open_from = page.windows.iter().filter(is_open).map(|window| window.start).min();
            let page = page.only(|window| ends.has(window));
            let borders = match in_order.as_ref().filter(|_| columns.has_lists()) {
                Some(rows) => rows.borders(&page, LISTED_ROWS),
                None => Vec::new(),
            };
            let part = |mut page: Page| {
                let noted = note(&page);
                let all_values = of_windows.iter().map(|function| function.of(&page, driver));
                let all_values = all_values.collect::<Result<_, _>>()?;
                page.columns = columns.put_together(page.columns, all_values);
                Ok(ResultPart { batch: output.batch(page)?, noted, open_from })
            };
            page.cut(&borders).into_iter().map(part).collect::<Result<Vec<ResultPart<N>>>>()
        };
        let aggregates = columns.aggregates();
        let design = self.algorithm.and_then(multiway_design);
        let parts = match (&plan.span, design) {
            (WindowSpan::Rows(_) | WindowSpan::Listed(_), _) => {
                return Err(Error::bug("windows of rows are not windows of time"));
            }
            (WindowSpan::Sessions(gap), _) => {
                let of_rows = streams.gaps(&plan)?.unwrap_or_default();
                let gaps = match gap {
                    SessionGap::Fixed(gap) => SessionGaps::Fixed(*gap),
                    SessionGap::OfRows(_) => SessionGaps::OfRows(&of_rows),
                };
                aggregate_sessions(&sources, key_count, gaps, &aggregates, driver, announce, take)
            }
            (WindowSpan::Windows(windows), None) => {
                let windows = &windows.clone().that_end(ends.after, ends.upto);
                aggregate(&sources, key_count, windows, &aggregates, driver, announce, take)
            }
            (WindowSpan::Windows(windows), Some(design)) => aggregate_by(
                design,
                &sources,
                key_count,
                windows,
                &aggregates,
                driver,
                announce,
                take,
            ),
        };
        Ok(parts?.into_iter().flatten().collect())
    }
}

impl Aggregation {
    /// Returns a counter for the rows of a result.
    fn result_rows<'a>(&self, plan: &AggregatePlan, driver: &'a Driver) -> ResultRows<'a> {
        ResultRows {
            driver,
            most: self.max_rows.unwrap_or(u64::MAX),
            // The columns of a row, and the memory that threads need to produce it.
            row_bytes: (plan.schema.fields().len() + 3) * size_of::<i64>(),
            count: Counter::new(0),
        }
    }
}

/// Counts a result's rows before they are built.
pub(super) struct ResultRows<'a> {
    driver: &'a Driver,
    most: u64,
    row_bytes: usize,
    count: Counter,
}

impl ResultRows<'_> {
    /// Counts further rows. Fails if there are too many rows or if the rows do not fit in memory.
    pub(super) fn announce(&self, more: usize) -> Result<()> {
        self.driver.check()?;
        let before = self.count.add(more);
        let all = before + more;
        if all as u64 > self.most {
            return Err(Error::memory(format!(
                "the result has more rows than max_rows = {}; raise it, or choose a larger advance",
                self.most
            )));
        }
        match before / LOOKED_ROWS == all / LOOKED_ROWS {
            true => Ok(()),
            false => room_for(more.max(LOOKED_ROWS) as u64, self.row_bytes),
        }
    }
}
