//! Aggregates of many tables: plan, one table of all, keys as ranks, plain numbers, pages, record
//! batches.

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use tidegate_operators::aggregate::{
    Page, WindowRows, WindowValues, aggregate, aggregate_sessions,
};
use tidegate_operators::driver::Driver;
use tidegate_sync::{Counter, Stop};

use crate::aggregate::columns::{Columns, Extent};
use crate::aggregate::groups::Groups;
use crate::aggregate::output::Output;
use crate::aggregate::streams::Streams;
use crate::aggregate::values::FunctionValues;
use crate::columns::table::Table;
use crate::query::aggregate::Aggregation;
use crate::query::aggregate::plan::{AggregatePlan, Span};
use crate::query::published::{aggregate_by, multiway_design};
use crate::{Error, Result};

impl Aggregation {
    /// Aggregates the rows of all tables.
    pub fn run(&self, tables: Vec<Table>, stop: Stop) -> Result<Vec<RecordBatch>> {
        let driver = Driver::new(self.threads, stop);
        let schemas: Vec<(String, &Schema)> =
            tables.iter().map(|table| (table.name().to_owned(), &**table.schema())).collect();
        let plan = AggregatePlan::new(self, &schemas)?;
        let streams = Streams::new(&tables, &plan, &driver)?;
        drop(tables);
        if streams.table.rows() == 0 {
            return Ok(Vec::new());
        }
        streams.check_windows(&plan)?;
        let groups = (!plan.by.is_empty())
            .then(|| Groups::new(&streams.table, &plan.by, &driver))
            .transpose()?;
        let columns = Columns::new(&streams, &plan.functions, Extent::Whole, &driver)?;
        let sources = streams.sources(groups.as_ref().map(|groups| &groups.numbers[..]));
        let key_count = groups.as_ref().map_or(1, |groups| groups.count);
        let values = FunctionValues::of_tables(&plan.functions, &streams, &columns);
        let output = Output::new(&plan, groups.as_ref(), values);
        let rows = Counter::new(0);
        let announce = |more: usize| {
            driver.check()?;
            let most = self.max_rows.unwrap_or(u64::MAX);
            match (rows.add(more) + more) as u64 > most {
                false => Ok(()),
                true => Err(Error::memory(format!(
                    "the result has more rows than max_rows = {most}; raise it, or choose a larger \
                     advance"
                ))),
            }
        };
        let all_values = columns.all_values();
        let in_order = (!all_values.is_empty())
            .then(|| WindowRows::new(&sources, key_count, &driver))
            .transpose()?;
        let of_window = |(rows, function)| WindowValues::new(rows, function, &driver);
        let of_windows: Vec<WindowValues<'_>> =
            in_order.iter().cycle().zip(all_values).map(of_window).collect::<Result<_, _>>()?;
        let take = |mut page: Page| {
            let all_values = of_windows.iter().map(|function| function.of(&page, &driver));
            let all_values = all_values.collect::<Result<_, _>>()?;
            page.columns = columns.put_together(page.columns, all_values);
            output.batch(page)
        };
        let aggregates = columns.aggregates();
        match (&plan.span, self.algorithm.and_then(multiway_design)) {
            (Span::Sessions(gap), _) => {
                aggregate_sessions(&sources, key_count, *gap, &aggregates, &driver, announce, take)
            }
            (Span::Windows(windows), None) => {
                aggregate(&sources, key_count, windows, &aggregates, &driver, announce, take)
            }
            (Span::Windows(windows), Some(design)) => aggregate_by(
                design,
                &sources,
                key_count,
                windows,
                &aggregates,
                &driver,
                announce,
                take,
            ),
        }
    }
}
