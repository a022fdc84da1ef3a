//! The rows that functions have chosen, and the candidates for further choices.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_structures::memory;

use crate::Result;
use crate::columns::dictionary::interleave_batches;
use crate::results::gather::Column;
use crate::stream::memory::Charge;

/// Chosen rows are gathered once `rows > 2 * gathered + SPARE_ROWS`.
const SPARE_ROWS: usize = 1 << 16;

/// Rows that are identified by numbers. All rows in an epoch are kept in order of arrival until
/// they greatly outnumber the chosen rows.
#[derive(Debug)]
pub(crate) struct ChosenRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// The memory charged for the batches.
    charges: Vec<Arc<Charge>>,
    rows: usize,
    /// The number of chosen rows that remained when they were last gathered.
    gathered: usize,
}

impl ChosenRows {
    pub(crate) fn new(schema: SchemaRef) -> Self {
        ChosenRows { schema, batches: Vec::new(), charges: Vec::new(), rows: 0, gathered: 0 }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether there are no columns to choose from.
    pub(crate) fn is_needless(&self) -> bool {
        self.schema.fields().is_empty()
    }

    /// Adds rows, and returns the number of the first added row.
    pub(crate) fn push(&mut self, rows: RecordBatch) -> u32 {
        let first = self.rows as u32;
        self.rows += rows.num_rows();
        self.batches.push(rows);
        first
    }

    /// Holds these memory charges for as long as the rows are held.
    pub(crate) fn hold(&mut self, charges: impl IntoIterator<Item = Arc<Charge>>) {
        self.charges.extend(charges);
    }

    /// Returns whether the chosen rows should be gathered now.
    pub(crate) fn is_due(&self) -> bool {
        self.rows > 2 * self.gathered + SPARE_ROWS
    }

    /// Returns the rows with these numbers.
    pub(crate) fn table(&self, numbers: &[u32]) -> Result<RecordBatch> {
        if self.batches.is_empty() {
            return Ok(RecordBatch::new_empty(self.schema.clone()));
        }
        let mut starts = Vec::with_capacity(self.batches.len());
        let mut rows = 0;
        for batch in &self.batches {
            starts.push(rows);
            rows += batch.num_rows();
        }
        let place = |&number: &u32| {
            let batch = starts.partition_point(|&start| start <= number as usize) - 1;
            (batch, number as usize - starts[batch])
        };
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        interleave_batches(&batches, &memory::collect(numbers.iter().map(place)))
    }

    /// Keeps only these rows and renumbers them from 0.
    pub(crate) fn keep(&mut self, rows: RecordBatch) {
        self.charges.clear();
        self.rows = rows.num_rows();
        self.gathered = self.rows;
        self.batches = vec![rows];
    }

    /// Returns a column with the values of all rows.
    pub(crate) fn column(&self, at: usize) -> Column {
        let chunks = self.batches.iter().map(|batch| batch.column(at).clone()).collect();
        Column::of_chunks(self.schema.field(at).data_type().clone(), chunks)
    }

    /// Returns how many of the rows' bytes are not charged elsewhere.
    pub(crate) fn memory(&self) -> usize {
        match &self.batches[..] {
            [rows, ..] if self.gathered > 0 => crate::columns::table::batch_bytes(rows),
            _ => 0,
        }
    }
}
