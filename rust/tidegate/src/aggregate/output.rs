//! Builds the record batches of an aggregation's result.

use arrow_array::RecordBatch;
use arrow_array::types::Int64Type;
use tidegate_operators::aggregate::{Page, Window};
use tidegate_structures::memory::pages::{Pages, Slot};

use super::groups::Groups;
use super::values::{FunctionValues, primitive, times_as};
use crate::Result;
use crate::query::aggregate::plan::{AggregatePlan, Span};
use crate::results::gather::Column;

/// Builds the batches of a result.
pub(crate) struct Output<'a> {
    pub(crate) plan: &'a AggregatePlan,
    /// The key columns, with a value for each rank.
    pub(crate) keys: &'a [Column],
    pub(crate) values: FunctionValues<'a>,
}

impl<'a> Output<'a> {
    pub(crate) fn new(
        plan: &'a AggregatePlan,
        groups: Option<&'a Groups>,
        values: FunctionValues<'a>,
    ) -> Self {
        Output { plan, keys: groups.map_or(&[], |groups| &groups.columns), values }
    }

    /// Returns the rows in a page.
    pub(crate) fn batch(&self, page: Page) -> Result<RecordBatch> {
        let fields = self.plan.schema.fields();
        let mut columns = Vec::with_capacity(fields.len());
        for end in [false, true] {
            let mut times = Pages::<i64>::unwritten(page.rows);
            let mut rest = &mut times[..];
            for window in &page.windows {
                let (here, others) = std::mem::take(&mut rest).split_at_mut(window.rows);
                Slot::fill(here, if end { window.end } else { window.start });
                rest = others;
            }
            let times = primitive::<Int64Type>(times.written(), page.rows, None);
            columns.push(times_as(times, fields[columns.len()].data_type())?);
        }
        let keys = &page.keys[..page.rows];
        for column in self.keys {
            columns.push(column.gather(keys)?);
        }
        for (at, column) in page.columns.into_iter().enumerate() {
            let field = &fields[columns.len()];
            let place = |row| self.place(row, &page.windows);
            let spans = || spans(&page.windows, self.plan.span.behind());
            let found =
                self.values.column(at, column, page.rows, field.data_type(), &place, &spans)?;
            columns.push(found);
        }
        Ok(RecordBatch::try_new(self.plan.schema.clone(), columns)?)
    }

    /// Describes the window of a page's row, for an error message.
    fn place(&self, row: usize, windows: &[Window]) -> String {
        let mut end = 0;
        let window = windows.iter().find(|window| {
            end += window.rows;
            row < end
        });
        let start = window.map_or(0, |window| window.start);
        format!("in the window that starts at {start} ({})", self.plan.unit.name())
    }
}

/// Returns the window of each row. No row is earlier than its window.
fn spans(windows: &[Window], behind: i64) -> Vec<Span> {
    let span = |window: &Window| Span { start: None, end: window.end - behind };
    windows.iter().flat_map(|window| std::iter::repeat_n(span(window), window.rows)).collect()
}
