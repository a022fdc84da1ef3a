//! Rows that are set aside until they are fetched: rows earlier than their source's watermark, and
//! rows whose intervals are too wide. In this module, rows of both kinds are called late rows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt16Array, UInt64Array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::stream::Stream;
use crate::Result;
use crate::columns::cast::cast;
use crate::columns::table::batch_bytes;
use crate::stream::memory::Charge;
use crate::stream::state::snapshot::{Reader, Writer, damaged};

/// The value that replaces the watermark of a row whose interval is too wide. No time is earlier
/// than this value, so it cannot be the watermark that a late row missed.
pub(crate) const TOO_WIDE: i64 = i64::MIN;

/// The late rows from one push.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) source: u16,
    pub(crate) rows: RecordBatch,
    /// The position of each row among all rows from its source.
    pub(crate) positions: Vec<u64>,
    /// The source's watermark when each row arrived, or [`TOO_WIDE`].
    pub(crate) watermarks: Vec<i64>,
    pub(crate) charge: Charge,
}

/// The late rows from one push, as read from a snapshot.
#[derive(Debug)]
pub(crate) struct RestoredLate {
    source: u16,
    rows: RecordBatch,
    positions: Vec<u64>,
    watermarks: Vec<i64>,
}

impl RestoredLate {
    /// Reads the late rows from the next push. `schema` returns the schema of a source, or `None`
    /// if there is no such source.
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

    /// Returns the rows in the form in which an operator stores them. The charge covers the rows.
    pub(crate) fn late(self, charge: Charge) -> Late {
        let RestoredLate { source, rows, positions, watermarks } = self;
        Late { source, rows, positions, watermarks, charge }
    }
}

impl Late {
    /// Returns the watermark that each row missed, or null for a row whose interval is too wide.
    pub(crate) fn missed(&self) -> Int64Array {
        self.watermarks.iter().map(|&missed| (missed != TOO_WIDE).then_some(missed)).collect()
    }

    /// Returns the reason why each row was set aside.
    pub(crate) fn reasons(&self) -> StringArray {
        let reason = |&missed| Some(if missed == TOO_WIDE { "wide" } else { "late" });
        self.watermarks.iter().map(reason).collect()
    }
}

/// The late rows of an operator.
#[derive(Clone, Debug)]
pub(crate) struct LateRows {
    kept: Arc<Mutex<LateQueue>>,
    /// True if rows can be set aside for reasons other than being late.
    has_reasons: bool,
}

/// The kept late rows, in the order in which they were pushed.
#[derive(Debug, Default)]
struct LateQueue {
    /// The pushes whose late rows are lent to a function that can fail.
    lent: Vec<Arc<Late>>,
    pushes: Vec<Arc<Late>>,
    /// A version number that changes whenever a different push becomes the first one.
    version: u64,
}

impl LateQueue {
    /// Removes and returns the first `pushes` pushes.
    fn take(&mut self, pushes: usize) -> Vec<Arc<Late>> {
        self.version += 1;
        self.pushes.drain(..pushes).collect()
    }

    /// Puts back the lent pushes.
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

    /// Returns whether rows can be set aside for reasons other than being late.
    pub(crate) fn has_reasons(&self) -> bool {
        self.has_reasons
    }

    fn lock(&self) -> MutexGuard<'_, LateQueue> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of bytes that are charged for the late rows until they are forgotten.
    pub(crate) fn bytes(&self) -> usize {
        let kept = self.lock();
        kept.lent.iter().chain(&kept.pushes).map(|late| late.charge.bytes()).sum()
    }

    pub(crate) fn add(&self, late: Late) {
        self.lock().pushes.push(Arc::new(late));
    }

    /// Writes all late rows that have not been fetched. This includes rows that are currently lent.
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

    /// Returns all late rows that have not been forgotten, grouped by source, in order of arrival
    /// within each source. The result does not depend on the order in which the sources received
    /// their rows.
    pub(crate) fn kept(&self) -> Vec<Arc<Late>> {
        let mut late = self.lock().pushes.clone();
        late.sort_by_key(|late| late.source);
        late
    }

    /// Returns a version number. As long as the version is unchanged, [`kept`](Self::kept) starts
    /// with the same pushes.
    pub(crate) fn version(&self) -> u64 {
        self.lock().version
    }

    /// Forgets the late rows from the first pushes.
    pub(crate) fn forget(&self, pushes: usize) {
        self.lock().take(pushes);
    }

    /// Lends the late rows from the first pushes until [`settle`](Self::settle) is called.
    pub(crate) fn lend(&self, pushes: usize) {
        let mut kept = self.lock();
        let lent = kept.take(pushes);
        kept.take_back();
        kept.lent = lent;
    }

    /// Drops the lent rows if the function accepted them. Otherwise, puts them back.
    pub(crate) fn settle(&self, were_taken: bool) {
        let mut kept = self.lock();
        if were_taken {
            kept.lent.clear();
        }
        kept.take_back();
    }

    /// Forgets all late rows.
    pub(crate) fn clear(&self) {
        let mut kept = self.lock();
        *kept = LateQueue { version: kept.version + 1, ..LateQueue::default() };
    }

    /// Returns the rows of [`kept`](Self::kept) as one batch per push, for an operator whose
    /// sources all have the schema of `stream`. Each row is returned with its source, its position
    /// and the watermark that it missed.
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

/// Returns the schema of a stream's late rows.
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

/// Returns the type in which watermarks of a time column are reported. Usually, this is the
/// column's own type. For integers, the type is `int64`, because `lateness` can lower a watermark
/// below the range of a short or unsigned integer.
fn watermark_type(on: &DataType) -> DataType {
    if on.is_integer() { DataType::Int64 } else { on.clone() }
}
