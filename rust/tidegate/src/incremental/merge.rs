//! Many sources as one stream in merged order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt16Array, UInt64Array};
use arrow_cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use tidegate_operators::driver::Driver;
use tidegate_structures::gate::{BlockGate, BlockReader, BlockSource, Next};
use tidegate_sync::{Budget, Stop};

use super::late::{Late, LateRows};
use super::news::News;
use super::ready::{Ready, Rest};
use super::source::{Shared, Source, SourceRun, SourceStats, Stream, gather_batch};
use super::{Polled, lock};
use crate::table::column;
use crate::time::{self, Bound, Unit};
use crate::{Error, Result};

/// Rows that a poll takes from the gate at most, about.
const POLL_ROWS: usize = 1 << 17;

/// Rows of a batch: a thread's piece of a poll's work.
const BATCH_ROWS: usize = 1 << 15;

/// What a merge is asked for.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// The time column.
    pub on: String,
    /// The number of sources.
    pub sources: usize,
    /// How far the rows of a source may be out of order.
    pub lateness: Option<Bound>,
    /// Bytes that may be held; no limit if none is said.
    pub memory_limit: Option<usize>,
    /// The number of threads.
    pub threads: usize,
}

/// Merges sources into one stream in merged order: by time, then source, then position.
///
/// Each row comes out once no source can bring one that sorts before it.
#[derive(Debug)]
pub struct Merge {
    stream: Stream,
    shared: Shared,
    sources: Vec<Arc<Mutex<Source>>>,
    reader: BlockReader<SourceRun>,
    ready: VecDeque<RecordBatch>,
    driver: Driver,
    rows_out: u64,
    closed: bool,
}

/// Numbers that describe a merge so far.
#[derive(Clone, Debug)]
pub struct MergeStats {
    /// Its sources.
    pub sources: Vec<SourceStats>,
    /// Rows handed out.
    pub rows_out: u64,
    /// No row that is not handed out yet is below it; none before all sources have made a promise, and at the end.
    pub watermark: Option<i64>,
    /// Bytes held.
    pub memory: usize,
}

impl Merge {
    /// A merge of rows of `schema`.
    pub fn new(schema: SchemaRef, options: &MergeOptions) -> Result<Self> {
        let on = column("streams", &schema, &options.on, "on")?;
        let unit = Unit::of("streams", schema.field(on))?;
        let lateness = time::lateness(options.lateness, unit)?;
        let stream = Stream { schema, on, unit, lateness };
        let shared = Shared {
            late: LateRows::default(),
            news: Arc::new(News::default()),
            budget: Budget::new(options.memory_limit.unwrap_or(usize::MAX)),
        };
        let (gates, mut readers) =
            BlockGate::new(options.sources, 1).map_err(|error| Error::argument(format!("sources: {error}")))?;
        let source = |gate: BlockSource<SourceRun>| {
            let name = format!("source {}", gate.number());
            Arc::new(Mutex::new(Source::new(name, stream.clone(), shared.clone(), gate)))
        };
        let sources = gates.into_iter().map(source).collect();
        Ok(Merge {
            sources,
            reader: readers.pop().expect("one reader was asked for"),
            stream,
            shared,
            ready: VecDeque::new(),
            driver: Driver::new(options.threads, Stop::default()),
            rows_out: 0,
            closed: false,
        })
    }

    /// The schema of the sources and of the merged rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.stream.schema
    }

    /// The sources, by number.
    pub fn sources(&self) -> &[Arc<Mutex<Source>>] {
        &self.sources
    }

    /// What wakes whoever waits for a source.
    pub fn news(&self) -> Arc<News> {
        self.shared.news.clone()
    }

    /// Hands out the next rows that are ready.
    pub fn poll(&mut self) -> Result<Polled> {
        if self.closed {
            return Err(Error::closed("the merge is closed"));
        }
        if self.ready.is_empty() {
            let (ready, rest) = Ready::read(&mut self.reader, POLL_ROWS);
            if ready.ts.is_empty() {
                return Ok(if rest == Rest::End { Polled::End } else { Polled::NotYet });
            }
            let batches: Vec<&RecordBatch> = ready.batches.iter().collect();
            let pieces = ready.places.chunks(BATCH_ROWS).collect();
            let made = self.driver.map(pieces, |places| gather_batch(&self.stream.schema, &batches, places))?;
            self.ready = made.into_iter().collect::<Result<_>>()?;
        }
        let batch = self.ready.pop_front().expect("rows are ready");
        self.rows_out += batch.num_rows() as u64;
        Ok(Polled::Batch(batch))
    }

    /// The schema of late rows.
    pub fn late_schema(&self) -> SchemaRef {
        let on = self.stream.schema.field(self.stream.on);
        let of_late = [
            Field::new("late_source", DataType::UInt16, false),
            Field::new("late_position", DataType::UInt64, false),
            Field::new("late_watermark", watermark_type(on.data_type()), true),
        ];
        let fields: Vec<FieldRef> =
            of_late.into_iter().map(Arc::new).chain(self.stream.schema.fields().iter().cloned()).collect();
        Arc::new(Schema::new(fields))
    }

    /// The late rows that were not taken yet, by source and position, each with its source, its position and the
    /// watermark that it came below.
    pub fn late(&self) -> Result<Vec<RecordBatch>> {
        let schema = self.late_schema();
        let batch = |late: Late| {
            let rows = late.rows.num_rows();
            let watermarks = cast(&Int64Array::from(late.watermarks), schema.field(2).data_type())?;
            let mut columns: Vec<ArrayRef> = vec![
                Arc::new(UInt16Array::from(vec![late.source; rows])),
                Arc::new(UInt64Array::from(late.positions)),
                watermarks,
            ];
            columns.extend(late.rows.columns().iter().cloned());
            Ok(RecordBatch::try_new(schema.clone(), columns)?)
        };
        self.shared.late.take().into_iter().map(batch).collect()
    }

    /// The number, the time and the missed watermark of the first late row, the times as they are written.
    pub(super) fn first_late(&self) -> Option<(u64, String, String)> {
        let late = self.late().ok()?;
        let first = late.first()?;
        let written = |column: usize| array_value_to_string(first.column(column), 0).ok();
        let position = first.column(1).as_primitive::<UInt64Type>().value(0);
        Some((position, written(3 + self.stream.on)?, written(2)?))
    }

    /// The name of the time column.
    pub(super) fn time_name(&self) -> &str {
        self.stream.schema.field(self.stream.on).name()
    }

    /// Numbers that describe the merge so far.
    pub fn stats(&self) -> MergeStats {
        MergeStats {
            sources: self.sources.iter().map(|source| lock(source).stats()).collect(),
            rows_out: self.rows_out,
            watermark: self.reader.watermark().filter(|&watermark| watermark > i64::MIN),
            memory: self.shared.budget.used(),
        }
    }

    /// Drops what is held; sources and polls fail from now on. A second call does nothing.
    pub fn close(&mut self) {
        self.closed = true;
        self.sources.iter().for_each(|source| lock(source).abandon());
        self.ready.clear();
        while let Next::Ready(_) = self.reader.next_block() {}
        self.shared.late.take();
    }
}

/// The type in which a watermark of a time column is told: its own, or `int64` for integers, since the lateness may
/// take it below what an unsigned or a short integer holds.
fn watermark_type(on: &DataType) -> DataType {
    if on.is_integer() { DataType::Int64 } else { on.clone() }
}
