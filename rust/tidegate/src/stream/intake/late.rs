//! Rows that are set aside and kept until they are fetched: rows below the watermark of their source,
//! and rows whose intervals are too wide. All of them are called late rows here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt16Array, UInt64Array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::stream::Stream;
use crate::Result;
use crate::columns::cast::cast;
use crate::columns::table::batch_bytes;
use crate::stream::memory::Charge;
use crate::stream::state::snapshot::{Reader, Writer, damaged};

/// In place of a watermark: a row whose interval is too wide. No row is below it, hence late.
pub(crate) const TOO_WIDE: i64 = i64::MIN;

/// Late rows of one push.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) source: u16,
    pub(crate) rows: RecordBatch,
    /// Number of each row among all of the source.
    pub(crate) positions: Vec<u64>,
    /// The source's watermark when each row came, or [`TOO_WIDE`].
    pub(crate) watermarks: Vec<i64>,
    pub(crate) charge: Charge,
}

/// Late rows of a snapshot.
#[derive(Debug)]
pub(crate) struct RestoredLate {
    source: u16,
    rows: RecordBatch,
    positions: Vec<u64>,
    watermarks: Vec<i64>,
}

impl RestoredLate {
    /// Reads the next ones; `schema` tells that of a source, if there is such a source.
    pub(crate) fn read(
        reader: &mut Reader<'_>,
        schema: impl Fn(u64) -> Option<SchemaRef>,
    ) -> Result<Self> {
        let source = reader.number()?;
        let schema = schema(source).ok_or_else(|| damaged("a late row is of no source"))?;
        let rows = reader.table(&schema)?;
        let numbers = 0..rows.num_rows();
        let positions = numbers.clone().map(|_| reader.rows()).collect::<Result<_>>()?;
        let watermarks = numbers.map(|_| reader.time()).collect::<Result<_>>()?;
        Ok(RestoredLate { source: source as u16, rows, positions, watermarks })
    }

    pub(crate) fn source(&self) -> u16 {
        self.source
    }

    pub(crate) fn rows(&self) -> u64 {
        self.positions.len() as u64
    }

    pub(crate) fn bytes(&self) -> usize {
        batch_bytes(&self.rows)
    }

    /// The rows as they are kept. The charge is for them.
    pub(crate) fn late(self, charge: Charge) -> Late {
        let RestoredLate { source, rows, positions, watermarks } = self;
        Late { source, rows, positions, watermarks, charge }
    }
}

impl Late {
    /// The missed watermarks, without a value for rows whose intervals are too wide.
    pub(crate) fn missed(&self) -> Int64Array {
        self.watermarks.iter().map(|&missed| (missed != TOO_WIDE).then_some(missed)).collect()
    }

    /// Why each row was set aside.
    pub(crate) fn reasons(&self) -> StringArray {
        let reason = |&missed| Some(if missed == TOO_WIDE { "wide" } else { "late" });
        self.watermarks.iter().map(reason).collect()
    }
}

/// The late rows of an operator.
#[derive(Clone, Debug)]
pub(crate) struct LateRows {
    kept: Arc<Mutex<LateQueue>>,
    /// Whether rows may be set aside for another reason than that they are late.
    has_reasons: bool,
}

/// The late rows that are kept, in the order in which they were pushed.
#[derive(Debug, Default)]
struct LateQueue {
    /// Pushes whose late rows were lent to a function that may fail.
    lent: Vec<Arc<Late>>,
    pushes: Vec<Arc<Late>>,
    /// Changes whenever a different push becomes the first one.
    version: u64,
}

impl LateQueue {
    /// Removes and returns the first `pushes` pushes.
    fn take(&mut self, pushes: usize) -> Vec<Arc<Late>> {
        self.version += 1;
        self.pushes.drain(..pushes).collect()
    }

    /// Puts the lent pushes back.
    fn take_back(&mut self) {
        if self.lent.is_empty() {
            return;
        }
        self.version += 1;
        let later = std::mem::take(&mut self.pushes);
        self.pushes = std::mem::take(&mut self.lent);
        self.pushes.extend(later);
    }
}

impl LateRows {
    pub(crate) fn new(has_reasons: bool) -> Self {
        LateRows { kept: Arc::default(), has_reasons }
    }

    /// Whether rows may be set aside for another reason than that they are late.
    pub(crate) fn has_reasons(&self) -> bool {
        self.has_reasons
    }

    fn lock(&self) -> MutexGuard<'_, LateQueue> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that they are charged until they are forgotten.
    pub(crate) fn bytes(&self) -> usize {
        let kept = self.lock();
        kept.lent.iter().chain(&kept.pushes).map(|late| late.charge.bytes()).sum()
    }

    pub(crate) fn add(&self, late: Late) {
        self.lock().pushes.push(Arc::new(late));
    }

    /// Writes the late rows that were not taken, including any that are currently lent.
    pub(crate) fn write(&self, writer: &mut Writer) -> Result<()> {
        let kept = self.lock();
        let mut late: Vec<Arc<Late>> = kept.lent.iter().chain(&kept.pushes).cloned().collect();
        drop(kept);
        late.sort_by_key(|late| late.source);
        writer.number(late.len() as u64);
        for late in &late {
            let Late { source, rows, positions, watermarks, .. } = &**late;
            writer.number(u64::from(*source));
            writer.table(rows)?;
            positions.iter().for_each(|&position| writer.number(position));
            watermarks.iter().for_each(|&watermark| writer.time(watermark));
        }
        Ok(())
    }

    /// All that have come and were not forgotten, by source and in each as they came: the order in
    /// which sources were fed does not show.
    pub(crate) fn kept(&self) -> Vec<Arc<Late>> {
        let mut late = self.lock().pushes.clone();
        late.sort_by_key(|late| late.source);
        late
    }

    /// Returns a version number. While it is unchanged, [`kept`](Self::kept) starts with the same
    /// pushes.
    pub(crate) fn version(&self) -> u64 {
        self.lock().version
    }

    /// Forgets the late rows of the first pushes.
    pub(crate) fn forget(&self, pushes: usize) {
        self.lock().take(pushes);
    }

    /// Lends the late rows of the first pushes until [`settle`](Self::settle) is called.
    pub(crate) fn lend(&self, pushes: usize) {
        let mut kept = self.lock();
        let lent = kept.take(pushes);
        kept.take_back();
        kept.lent = lent;
    }

    /// Drops the lent rows if they were taken; otherwise, puts them back.
    pub(crate) fn settle(&self, were_taken: bool) {
        let mut kept = self.lock();
        if were_taken {
            kept.lent.clear();
        }
        kept.take_back();
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        let mut kept = self.lock();
        *kept = LateQueue { version: kept.version + 1, ..LateQueue::default() };
    }

    /// As [`kept`](Self::kept), of an operator of which all sources are as `stream`, a batch for
    /// each push: each row with its source, its position and the watermark that it came below.
    pub(crate) fn batches(&self, stream: &Stream) -> Result<Vec<RecordBatch>> {
        let schema = late_schema(stream);
        let batch = |late: &Arc<Late>| {
            let rows = late.rows.num_rows();
            let watermarks = cast(&late.missed(), schema.field(2).data_type())?;
            let mut columns: Vec<ArrayRef> = vec![
                Arc::new(UInt16Array::from(vec![late.source; rows])),
                Arc::new(UInt64Array::from(late.positions.clone())),
                watermarks,
            ];
            columns.extend(late.rows.columns().iter().cloned());
            Ok(RecordBatch::try_new(schema.clone(), columns)?)
        };
        self.kept().iter().map(batch).collect()
    }
}

/// The schema of the late rows of a stream.
pub(crate) fn late_schema(stream: &Stream) -> SchemaRef {
    let on = stream.schema.field(stream.on);
    let of_late = [
        Field::new("late_source", DataType::UInt16, false),
        Field::new("late_position", DataType::UInt64, false),
        Field::new("late_watermark", watermark_type(on.data_type()), true),
    ];
    let fields: Vec<FieldRef> =
        of_late.into_iter().map(Arc::new).chain(stream.schema.fields().iter().cloned()).collect();
    Arc::new(Schema::new(fields))
}

/// The type in which a watermark of a time column is told: its own, or `int64` for integers, since
/// the lateness may take it below what an unsigned or a short integer holds.
fn watermark_type(on: &DataType) -> DataType {
    if on.is_integer() { DataType::Int64 } else { on.clone() }
}
