//! The description of a stream, including its columns, times and windows.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use crate::columns::expression::Predicate;
use crate::columns::metadata::check_extensions;
use crate::columns::row_ends::Width;
use crate::columns::time::Unit;
use crate::columns::type_name::TypeName;
use crate::query::aggregate::inputs::ReadColumn;
use crate::query::aggregate::plan::{AggregatePlan, TablePlan, WindowSpan};
use crate::query::aggregate::session_gaps::{GapCheck, is_counted};
use crate::{Error, Result};

/// The description that all sources of a stream share.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) schema: SchemaRef,
    /// The schema of pushed rows, if its dictionary indices are narrower than those of the stored
    /// rows.
    pub(crate) given: Option<SchemaRef>,
    /// The time column.
    pub(crate) on: usize,
    /// The unit in which times are compared, which is the column's unit or a finer one.
    pub(crate) unit: Unit,
    /// The lateness, in steps of the unit. `None` if the source's rows imply no promises, as for a
    /// source that follows an operator.
    pub(crate) lateness: Option<i64>,
    /// The maximum distance between interval ends and the times of their rows, if the ends are
    /// computed from rows.
    pub(crate) width: Option<Arc<Width>>,
    /// The windows to which rows are assigned, if any.
    pub(crate) counted: Option<CountedWindows>,
}

/// The windows of an aggregation, and the condition that selects their rows.
#[derive(Clone, Debug)]
pub(crate) struct CountedWindows {
    span: WindowSpan,
    rows: Option<Predicate>,
    /// The column from which the gaps of sessions are read.
    gaps: Option<ReadColumn>,
}

impl CountedWindows {
    /// Returns the windows of a plan for one stream.
    pub(crate) fn new(plan: AggregatePlan) -> Self {
        let AggregatePlan { span, mut tables, .. } = plan;
        let TablePlan { rows, mut inputs, .. } = tables.swap_remove(0);
        let gaps = span.gap_column().map(|gap| inputs.read.swap_remove(gap.at));
        CountedWindows { span, rows, gaps }
    }

    /// Returns whether a row belongs to a window. A row belongs to no window if the condition
    /// cannot be computed for it.
    fn counts(&self, batch: &RecordBatch, row: usize) -> bool {
        self.rows.as_ref().is_none_or(|rows| is_counted(rows, &batch.slice(row, 1)))
    }

    /// Returns the check of the rows' gaps, if sessions have gaps from a column.
    fn gap_check(&self) -> Option<GapCheck<'_>> {
        let (gap, read) = (self.span.gap_column()?, self.gaps.as_ref()?);
        Some(GapCheck { gap, read, rows: self.rows.as_ref() })
    }
}

impl Stream {
    /// Returns the schema that pushed rows have.
    pub(super) fn given(&self) -> &SchemaRef {
        self.given.as_ref().unwrap_or(&self.schema)
    }

    /// Rejects rows whose windows start or end outside the 64-bit range, because results could not
    /// represent these bounds. Also rejects rows whose gap is not valid. `first` is the position of the batch's first row in its source.
    pub(super) fn check_windows(
        &self,
        name: &str,
        batch: &RecordBatch,
        ts: &[i64],
        first: u64,
    ) -> Result<()> {
        let Some(counted) = &self.counted else { return Ok(()) };
        if let Some(gaps) = counted.gap_check() {
            return gaps.check(batch, ts, first).map_err(|error| error.within(name));
        }
        if counted.span.fits_all(ts) {
            return Ok(());
        }
        let is_beyond = |row: &usize| !counted.span.fits(ts[*row]) && counted.counts(batch, *row);
        match (0..ts.len()).find(is_beyond) {
            None => Ok(()),
            Some(row) => Err(Error::data(format!(
                "{name}: row {}: the time {} ({}) falls in a window that begins or ends outside \
                 the 64-bit range; exclude such rows, or choose smaller windows",
                first + row as u64,
                ts[row],
                self.unit.name()
            ))),
        }
    }
}

/// Rejects rows whose columns differ from the first stream's columns.
pub(crate) fn check_schema(first: &Schema, name: &str, given: &Schema) -> Result<()> {
    let both = || first.fields().iter().zip(given.fields());
    let same = first.fields().len() == given.fields().len()
        && both().all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type());
    if same {
        return both().try_for_each(|(a, b)| check_extensions(a, "the first stream", b, name));
    }
    Err(Error::schema(format!(
        "{name}: expected rows of ({}), got ({}); select, order and cast the columns first",
        columns(first),
        columns(given)
    )))
}

/// Formats the columns of a schema, with their types, for messages.
pub(crate) fn columns(schema: &Schema) -> String {
    const SHOWN: usize = 20;
    let fields = schema.fields();
    let mut shown: Vec<_> = fields
        .iter()
        .take(SHOWN)
        .map(|field| format!("{}: {}", field.name(), TypeName(field.data_type())))
        .collect();
    if fields.len() > SHOWN {
        shown.push(format!("and {} more", fields.len() - SHOWN));
    }
    shown.join(", ")
}
