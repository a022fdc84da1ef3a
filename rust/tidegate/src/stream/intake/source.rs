//! A source checks the rows that are pushed, puts them in time order as far as the lateness asks
//! for, and feeds the gate.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::take::take_record_batch;
use parking_lot::{Mutex, MutexGuard};
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_operators::rows::{Draft, LateRow, Released, Reorder, Timed};
use tidegate_structures::gate::{BlockSource, Run, Tier};
use tidegate_structures::memory;
use tidegate_sync::Stop;

use super::arrivals::Arrivals;
use super::late::{Late, LateRows, TOO_WIDE};
use super::news::News;
use super::watermarks::Watermarks;
use crate::columns::dictionary::{concat_batches, of_column};
use crate::columns::expression::{Origin, Predicate};
use crate::columns::fit::{Extra, fit};
use crate::columns::metadata::check_extensions;
use crate::columns::roomy::with_indices;
use crate::columns::row_ends::Width;
use crate::columns::table::Table;
use crate::columns::table::batch_bytes;
use crate::columns::time::{self, Unit};
use crate::columns::type_name::TypeName;
use crate::query::aggregate::plan::Span;
use crate::results::interleave::{Place, in_pieces, interleave};
use crate::stream::memory::{Charge, Memory};
use crate::stream::state::snapshot::{Reader, Writer, damaged};
use crate::stream::times::{Lead, Led, ResultTime, ResultTimes, led};
use crate::{Error, Result, shown};

/// Bytes an operator takes for a row beside the row: its place in the gate and in the state, if
/// that is no more.
pub(crate) const ROW_BYTES: usize = 40;

/// Rows of one source in time order, in the gate.
#[derive(Clone, Debug)]
pub(crate) struct SourceRun {
    pub(crate) ts: ScalarBuffer<i64>,
    pub(crate) batch: RecordBatch,
    /// When the newest of the rows was pushed.
    pub(crate) pushed: Instant,
    /// Holds the memory's place in the limit for as long as the rows are held.
    pub(crate) charge: Arc<Charge>,
}

impl Run for SourceRun {
    fn ts(&self) -> &[i64] {
        &self.ts
    }
}

/// Rows as they were pushed.
#[derive(Clone, Debug)]
struct Push {
    ts: ScalarBuffer<i64>,
    batch: RecordBatch,
    pushed: Instant,
}

impl Timed for Push {
    fn ts(&self) -> &[i64] {
        &self.ts
    }
}

/// The description that the sources of one stream share.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) schema: SchemaRef,
    /// The schema of pushed rows, if its dictionary indices are narrower than those of the stored
    /// rows.
    pub(crate) given: Option<SchemaRef>,
    /// The time column.
    pub(crate) on: usize,
    /// The unit in which times are compared: the column's or a finer one.
    pub(crate) unit: Unit,
    /// Steps of the unit. None for a source whose rows promise nothing, as an operator that it follows
    /// does.
    pub(crate) lateness: Option<i64>,
    /// How far ends of intervals may be from the times of their rows, if ends are computed from rows.
    pub(crate) width: Option<Arc<Width>>,
    /// The windows that rows are assigned to, if any.
    pub(crate) counted: Option<Counted>,
}

/// An aggregation's windows, and the condition that selects their rows.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) span: Span,
    pub(crate) rows: Option<Predicate>,
}

impl Counted {
    /// Returns whether a row belongs to a window. A row for which the condition cannot be computed
    /// does not belong to one.
    fn counts(&self, batch: &RecordBatch, row: usize) -> bool {
        let Some(rows) = &self.rows else { return true };
        let columns: Vec<ArrayRef> = rows
            .columns(Origin::Row)
            .iter()
            .map(|&column| batch.column(column).slice(row, 1))
            .collect();
        rows.evaluate(&columns, &[], 1).is_ok_and(|holds| holds.value(0))
    }
}

impl Stream {
    /// Returns the schema of pushed rows.
    fn given(&self) -> &SchemaRef {
        self.given.as_ref().unwrap_or(&self.schema)
    }

    /// Rejects rows whose windows start or end outside the 64-bit range, because no result could
    /// represent such bounds. `first` is the position of the batch's first row in its source.
    fn check_windows(&self, name: &str, batch: &RecordBatch, ts: &[i64], first: u64) -> Result<()> {
        let Some(counted) = &self.counted else { return Ok(()) };
        let is_beyond = |row: &usize| !counted.span.fits(ts[*row]) && counted.counts(batch, *row);
        match (0..ts.len()).find(is_beyond) {
            None => Ok(()),
            Some(row) => Err(Error::data(format!(
                "{name}: row {}: the time {} ({}) falls in a window that begins or ends beyond 64 \
                 bits; leave out such rows or choose smaller windows",
                first + row as u64,
                ts[row],
                self.unit.name()
            ))),
        }
    }
}

/// Rejects rows whose columns differ from those of the first stream.
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

/// The parts that all sources of an operator share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) late: LateRows,
    pub(crate) news: Arc<News>,
    pub(crate) memory: Memory,
    /// Bytes that are charged for a row beside the row.
    pub(crate) row_bytes: usize,
    /// Why nothing more becomes final: the first source that was abandoned, or the failure of the
    /// operator.
    pub(crate) broken: Arc<OnceLock<Error>>,
    /// The reason the operator rejects rows, if it is halted or has failed.
    pub(crate) standing: Arc<Mutex<Option<Error>>>,
    /// The watermarks of all sources.
    pub(crate) watermarks: Watermarks,
    /// The way of rows that are wanted as they are pushed; others go through the gate.
    pub(crate) arrivals: Option<Arrivals>,
}

/// A feeder of an operator.
#[derive(Debug)]
pub struct Source {
    name: Arc<str>,
    stream: Stream,
    shared: Shared,
    /// Until it is closed.
    gate: Option<BlockSource<SourceRun>>,
    number: u16,
    reorder: Reorder<Push>,
    /// The charge of the rows held back.
    held: Option<Charge>,
    rows_in: u64,
    rows_late: u64,
    /// Why no more rows come, though it was not closed.
    abandoned: Option<String>,
    /// Whether the last push was refused for lack of room that there may be later.
    is_full: bool,
    /// Whether a push was refused since rows were taken last.
    was_refused: bool,
    /// Whether the others go on without it until rows come.
    is_idle: bool,
    /// When rows or a promise came last.
    told: Instant,
    /// The operator whose results are pushed, if one's are.
    lead: Option<Lead>,
}

/// The part of a snapshot that has a source.
#[derive(Debug)]
pub(crate) struct Restored {
    watermark: i64,
    closed: bool,
    /// The watermark that an idle source has promised itself.
    idle: Option<i64>,
    rows_in: u64,
    rows_late: u64,
    /// Rows that no reader had taken.
    ts: ScalarBuffer<i64>,
    batch: RecordBatch,
    /// The bytes that those rows are charged.
    pub(crate) bytes: usize,
}

impl Restored {
    /// No row that is not read yet is before it; none if there is none and comes none.
    pub(crate) fn next(&self) -> Option<i64> {
        let promised = (!self.closed).then_some(self.watermark);
        self.ts.first().copied().into_iter().chain(promised).min()
    }

    /// The number of rows that have come, and of late rows among them.
    pub(crate) fn rows(&self) -> (u64, u64) {
        (self.rows_in, self.rows_late)
    }

    /// The rows that were at work.
    pub(crate) fn begun(&self) -> u64 {
        self.rows_in - self.rows_late - self.ts.len() as u64
    }
}

/// Numbers that describe a source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceStats {
    /// The name of the source in messages.
    pub name: Arc<str>,
    /// Rows pushed.
    pub rows_in: u64,
    /// Rows of them that were set aside: late ones, and rows whose intervals are too wide.
    pub rows_late: u64,
    /// No row below it is taken any more; none before the first promise.
    pub watermark: Option<i64>,
    /// Whether there are no more rows.
    pub closed: bool,
    /// Whether the others go on without it until rows come.
    pub idle: bool,
    /// Why no more rows come, though the source was not closed.
    pub abandoned: Option<String>,
    /// Bytes that are held of its rows.
    pub memory: usize,
    /// Seconds since rows or a promise came.
    pub silent: f64,
}

impl Source {
    pub(crate) fn new(
        name: String,
        stream: Stream,
        shared: Shared,
        gate: BlockSource<SourceRun>,
    ) -> Self {
        Source {
            name: name.into(),
            number: gate.number(),
            reorder: Reorder::new(stream.lateness),
            stream,
            shared,
            gate: Some(gate),
            held: None,
            rows_in: 0,
            rows_late: 0,
            abandoned: None,
            is_full: false,
            was_refused: false,
            is_idle: false,
            told: Instant::now(),
            lead: None,
        }
    }

    /// The schema that pushed rows must have.
    pub fn schema(&self) -> &SchemaRef {
        self.stream.given()
    }

    /// Returns the schema of the stored rows.
    pub(crate) fn kept_schema(&self) -> &SchemaRef {
        &self.stream.schema
    }

    /// Switches to accepting rows with the schema of another source, which differs only in its
    /// dictionary indices.
    pub(crate) fn take_rows_of(&mut self, other: &Source) {
        self.stream.given = Some(other.stream.schema.clone());
    }

    /// The time column's field; times and promises are steps of its unit.
    pub fn time_field(&self) -> &Field {
        self.stream.schema.field(self.stream.on)
    }

    /// Returns the source's number, which orders rows with equal times on the same side.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// How far rows may be out of order, in steps of the stream's unit.
    pub(crate) fn lateness(&self) -> Option<i64> {
        self.stream.lateness
    }

    /// The signal that wakes a caller who waits for the operator's sources.
    pub fn news(&self) -> Arc<News> {
        self.shared.news.clone()
    }

    /// Whether the last push was refused by the memory limit, and may fit once polls have let go of
    /// rows.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Numbers that describe the source.
    pub fn stats(&self) -> SourceStats {
        SourceStats {
            name: self.name.clone(),
            rows_in: self.rows_in,
            rows_late: self.rows_late,
            watermark: Some(self.reorder.watermark()).filter(|&watermark| watermark > i64::MIN),
            closed: self.gate.is_none(),
            idle: self.is_idle && self.gate.is_some(),
            abandoned: self.abandoned.clone(),
            memory: self.shared.memory.held_by(self.number),
            silent: self.told.elapsed().as_secs_f64(),
        }
    }

    /// Refuses a source that is closed or abandoned.
    fn check_open(&self) -> Result<()> {
        if let Some(reason) = &self.abandoned {
            return Err(Error::closed(format!(
                "{} was abandoned ({reason}); make a new operator, and restore a snapshot into it",
                self.name
            )));
        }
        if self.gate.is_none() {
            return Err(Error::closed(format!(
                "{} is closed: rows cannot follow its end; make a new operator for more",
                self.name
            )));
        }
        Ok(())
    }

    /// Rejects rows while the operator is halted or has failed, because they would only pile up.
    fn check_goes_on(&self) -> Result<()> {
        let standing = self.shared.standing.lock().clone();
        match standing {
            None => Ok(()),
            Some(error) => Err(error.within(&format!(
                "{}: no rows are accepted while the operator is halted",
                self.name
            ))),
        }
    }

    /// Says that rows are missing that will not come, for a reason. Rows that are final without them
    /// are handed out, and then a poll of the operator is an error. Nothing happens to a source that
    /// is closed or abandoned already.
    pub fn abandon(&mut self, reason: &str) {
        if self.gate.is_none() || self.abandoned.is_some() {
            return;
        }
        let reason = match reason.trim() {
            "" => "no reason was given".to_owned(),
            reason => shown(reason).into_owned(),
        };
        // Of several, the first one is told.
        self.shared.broken.get_or_init(|| {
            Error::data(format!(
                "{} was abandoned before its end ({reason}): rows are missing, so nothing more is \
                 final; make a new operator, and restore a snapshot into it",
                self.name
            ))
        });
        self.abandoned = Some(reason);
        self.shared.news.tell();
    }

    /// Rows that were set aside so far.
    pub fn rows_late(&self) -> u64 {
        self.rows_late
    }

    /// Rows that wait until their source can bring none before them.
    pub fn rows_held(&self) -> usize {
        self.reorder.rows()
    }

    /// Adds rows. All of them are taken, or none when this fails, or when `stop` is requested
    /// before the first is taken.
    ///
    /// Columns may be in another order, and of other types that hold the same values.
    pub fn push(&mut self, schema: &Schema, batches: Vec<RecordBatch>, stop: &Stop) -> Result<()> {
        self.push_fitting(schema, batches, Extra::Refuse, stop)
    }

    /// As [`push`](Self::push), of rows that may have more columns.
    pub fn push_fitting(
        &mut self,
        schema: &Schema,
        batches: Vec<RecordBatch>,
        extra: Extra,
        stop: &Stop,
    ) -> Result<()> {
        self.is_full = false;
        self.check_open()?;
        self.check_goes_on()?;
        // 1. Whatever can be wrong with the rows is found before the first of them counts. Values are
        //    converted once they are known to be well formed.
        let driver = Driver::new(1, stop.clone());
        let given = Table::new(self.name.clone(), Arc::new(schema.clone()), batches, &driver)?;
        let batches = given.batches().to_vec();
        let given = self.stream.given();
        let mut batches = fit(&self.name, given, schema, batches, self.rows_in, extra)?;
        if self.stream.given.is_some() {
            for batch in &mut batches {
                *batch = with_indices(batch, &self.stream.schema)?;
            }
        }
        let table = Table::of_valid(self.name.clone(), self.stream.schema.clone(), batches)?;
        let mut first = self.rows_in;
        let mut times = Vec::with_capacity(table.batches().len());
        for batch in table.batches() {
            let column = batch.column(self.stream.on);
            let ts =
                time::chunk_times(&self.name, self.time_field(), column, self.stream.unit, first)?;
            self.stream.check_windows(&self.name, batch, &ts, first)?;
            let wide = match &self.stream.width {
                None => Vec::new(),
                Some(width) => {
                    width.too_wide(batch, &ts).map_err(|error| error.within(&self.name))?
                }
            };
            times.push((ts, wide));
            first += batch.num_rows() as u64;
        }
        if stop.is_requested() {
            return Err(Stopped.into());
        }
        // 2. Nor is memory taken beyond the limit.
        let bytes = table.bytes() + table.rows() * self.shared.row_bytes;
        let charge = self.charge(table.rows(), bytes)?;
        // 3. Prepare the change before modifying anything, because memory may run out.
        let resumed =
            (self.is_idle && table.rows() > 0).then(|| self.shared.watermarks.resume(self.number));
        let row_bytes = bytes / table.rows().max(1);
        let made = Error::catch(|| {
            self.push_of(table.batches(), times, row_bytes, resumed.map(|resumed| resumed.floor))
        });
        let change = made.inspect_err(|_| {
            if let Some(resumed) = resumed {
                self.shared.watermarks.take_back(self.number, resumed);
            }
        })?;
        // 4. Nothing can fail from here on.
        self.is_idle &= resumed.is_none();
        self.hold(charge);
        self.rows_in += table.rows() as u64;
        self.make(change);
        self.shared.news.tell();
        Ok(())
    }

    /// Prepares a change that adds pushed batches. Each batch is paired with its times and the rows
    /// whose intervals are too wide.
    fn push_of(
        &self,
        batches: &[RecordBatch],
        times: Vec<(ScalarBuffer<i64>, Vec<u32>)>,
        row_bytes: usize,
        floor: Option<i64>,
    ) -> Result<Change> {
        memory::check();
        let mut change = Change::of(&self.reorder);
        floor.into_iter().for_each(|floor| change.draft.advance(floor));
        let mut first = self.rows_in;
        let pushed = Instant::now();
        for (batch, (ts, wide)) in batches.iter().zip(times) {
            let push = Push { ts, batch: batch.clone(), pushed };
            let late = self.take_in(&mut change, push, &wide)?;
            if !late.is_empty() {
                change.late.push(aside(batch, &late, first, late.len() * row_bytes)?);
            }
            first += batch.num_rows() as u64;
        }
        self.release(&mut change)?;
        Ok(change)
    }

    fn hold(&mut self, charge: Charge) {
        match &mut self.held {
            None => self.held = Some(charge),
            Some(held) => held.merge(charge),
        }
    }

    /// The part of what is held that stands for `bytes`.
    fn let_go(&mut self, bytes: usize) -> Charge {
        self.held.as_mut().expect("rows were charged before they were taken").split(bytes)
    }

    /// Adds rows to the change, except late rows and rows whose intervals are too wide (`wide`).
    /// Returns the excluded rows.
    fn take_in(&self, change: &mut Change, push: Push, wide: &[u32]) -> Result<Vec<LateRow>> {
        if wide.is_empty() {
            return self.take_all_in(change, push);
        }
        let mut is_kept = memory::filled(push.ts.len(), true);
        wide.iter().for_each(|&row| is_kept[row as usize] = false);
        let mut kept = memory::vec(push.ts.len());
        kept.extend((0..push.ts.len() as u32).filter(|&row| is_kept[row as usize]));
        let kept = UInt32Array::from(kept);
        let mut aside: Vec<LateRow> = memory::vec(push.ts.len());
        aside.extend(wide.iter().map(|&row| LateRow { row, watermark: TOO_WIDE }));
        if !kept.is_empty() {
            let late = self.take_all_in(change, push.rows(&kept)?)?;
            let in_batch = |late: LateRow| LateRow { row: kept.value(late.row as usize), ..late };
            aside.extend(late.into_iter().map(in_batch));
            aside.sort_unstable_by_key(|aside| aside.row);
        }
        Ok(aside)
    }

    /// Adds rows to the change, either as rows to be sorted or as rows that bypass the gate.
    /// Returns the late rows.
    fn take_all_in(&self, change: &mut Change, push: Push) -> Result<Vec<LateRow>> {
        if self.shared.arrivals.is_none() {
            return Ok(change.draft.push(push));
        }
        let late = change.draft.pass(&push.ts);
        if late.len() < push.ts.len() {
            change.runs.push(without(push, &late)?);
        }
        Ok(late)
    }

    /// Rows with what is held for them.
    fn charged(&mut self, push: Push) -> SourceRun {
        let Push { ts, batch, pushed } = push;
        let bytes = batch_bytes(&batch) + ts.len() * self.shared.row_bytes;
        SourceRun { charge: Arc::new(self.let_go(bytes)), ts, batch, pushed }
    }

    /// Releases, in order, all rows that no future row can precede.
    fn release(&self, change: &mut Change) -> Result<()> {
        let released = self.reorder.release(&mut change.draft);
        self.put_in_order(change, released)
    }

    fn put_in_order(&self, change: &mut Change, released: Vec<Released<Push>>) -> Result<()> {
        for released in released {
            self.in_order(released, &mut change.runs)?;
        }
        Ok(())
    }

    /// Applies a prepared change and publishes the promise. This cannot fail.
    fn make(&mut self, change: Change) {
        self.told = Instant::now();
        if !self.is_idle {
            self.shared.watermarks.rise(self.number, change.draft.watermark());
        }
        self.pass(change);
    }

    /// Like [`make`](Self::make), but without publishing the promise to other sources.
    fn pass(&mut self, change: Change) {
        let Change { draft, runs, late } = change;
        self.reorder.commit(draft);
        for Aside { rows, positions, watermarks, bytes } in late {
            self.rows_late += positions.len() as u64;
            let charge = self.let_go(bytes);
            let late = Late { source: self.number, rows, positions, watermarks, charge };
            self.shared.late.add(late);
        }
        runs.into_iter().for_each(|run| self.feed(run));
        if self.reorder.is_empty() {
            self.held = None;
        }
        let watermark = self.reorder.watermark();
        if let Some(arrivals) = &self.shared.arrivals {
            arrivals.promise(self.number, Some(watermark));
        }
        let gate = self.gate.as_mut().expect("rows are released while the source is open");
        gate.advance(watermark);
        gate.let_go();
    }

    fn feed(&mut self, push: Push) {
        let run = self.charged(push);
        if let Some(arrivals) = &self.shared.arrivals {
            return arrivals.push(self.number, run);
        }
        let gate = self.gate.as_mut().expect("rows are fed while the source is open");
        gate.push(run).expect("released rows are in order and above what was promised");
    }

    /// Appends released rows to `runs`, in order: as one run, or as several if a single array
    /// cannot hold all their values.
    fn in_order(&self, released: Released<Push>, runs: &mut Vec<Push>) -> Result<()> {
        match released {
            Released::Slice(push, Range { start, end }) => runs.push(Push {
                ts: push.ts.slice(start, end - start),
                batch: push.batch.slice(start, end - start),
                pushed: push.pushed,
            }),
            Released::Rows { ts, payloads, places } => {
                let pushed = payloads.last().expect("rows are of a push").pushed;
                let batches: Vec<&RecordBatch> = payloads.iter().map(|push| &push.batch).collect();
                let ts = ScalarBuffer::from(ts);
                in_pieces(0..places.len(), &mut |rows: Range<usize>| {
                    let ts = ts.slice(rows.start, rows.len());
                    let batch = gather_timed(&self.stream, &ts, &batches, &places[rows])?;
                    runs.push(Push { ts, batch, pushed });
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// The rows of pushes in time order, as one batch.
    pub(crate) fn sorted(&self, runs: &[SourceRun]) -> Result<RecordBatch> {
        let mut rows: Vec<(i64, Place)> = memory::vec(runs.iter().map(|run| run.ts.len()).sum());
        for (push, run) in runs.iter().enumerate() {
            let places = (0..run.ts.len() as u32).map(|row| (push as u32, row));
            rows.extend(run.ts.iter().copied().zip(places));
        }
        // Sorting by time and then by place preserves the order of arrival.
        rows.sort_unstable();
        let places: Vec<Place> = memory::collect(rows.iter().map(|&(_, place)| place));
        let batches: Vec<&RecordBatch> = runs.iter().map(|run| &run.batch).collect();
        match batches.is_empty() {
            true => Ok(RecordBatch::new_empty(self.stream.schema.clone())),
            false => gather_batch(&self.stream.schema, &batches, &places),
        }
    }

    /// Writes what the source has come to, with the rows that it has given the gate and no reader
    /// has taken yet.
    pub(crate) fn write(&self, unread: Vec<RecordBatch>, writer: &mut Writer) -> Result<()> {
        let mut held = Change::of(&self.reorder);
        let released = self.reorder.release_all(&mut held.draft);
        self.put_in_order(&mut held, released)?;
        let mut rows = unread;
        rows.extend(held.runs.into_iter().map(|run| run.batch));
        writer.time(self.reorder.watermark());
        writer.flag(self.gate.is_none());
        if writer.is_extended() {
            let own = self.shared.watermarks.own_of_idle(self.number);
            writer.flag(own.is_some());
            own.into_iter().for_each(|own| writer.time(own));
        }
        writer.number(self.rows_in);
        writer.number(self.rows_late);
        memory::demand(rows.iter().map(batch_bytes).sum());
        writer.table(&concat_batches(&self.stream.schema, &rows)?)
    }

    /// Reads what [`write`](Self::write) wrote.
    pub(crate) fn read(&self, reader: &mut Reader<'_>) -> Result<Restored> {
        self.stream.read(&self.name, self.shared.row_bytes, reader)
    }
}

impl Stream {
    /// Reads what a source of the stream [has written](Source::write).
    pub(crate) fn read(
        &self,
        name: &Arc<str>,
        row_bytes: usize,
        reader: &mut Reader<'_>,
    ) -> Result<Restored> {
        let (watermark, closed) = (reader.time()?, reader.flag()?);
        let is_idle = reader.is_extended() && reader.flag()?;
        let idle = is_idle.then(|| reader.time()).transpose()?;
        let (rows_in, rows_late) = (reader.rows()?, reader.rows()?);
        let batch = reader.table(&self.schema)?;
        let rows = batch.num_rows();
        let table = Table::trusted(name.clone(), batch.clone());
        let ts = time::times(&table, self.on, self.unit)
            .map_err(|error| damaged(error.message()))?
            .into_buffer();
        if !ts.is_sorted() || rows_late > rows_in || rows as u64 > rows_in - rows_late {
            return Err(damaged("rows of a source are out of order, or more than have come"));
        }
        if ts.last().is_some_and(|last| Reorder::<Push>::promise(self.lateness, *last) > watermark)
        {
            return Err(damaged("a source has promised less than its rows do"));
        }
        let bytes = batch_bytes(&batch) + rows * row_bytes;
        Ok(Restored { watermark, closed, idle, rows_in, rows_late, ts, batch, bytes })
    }
}

impl Source {
    /// Goes on from what was read; this source must not have been used. The charge is for its rows.
    pub(crate) fn restore(&mut self, restored: Restored, charge: Charge) -> Result<()> {
        let Restored { watermark, closed, idle, rows_in, rows_late, ts, batch, .. } = restored;
        (self.rows_in, self.rows_late) = (rows_in, rows_late);
        self.hold(charge);
        let push = (batch.num_rows() > 0).then_some(Push { ts, batch, pushed: Instant::now() });
        let (arrived, held) = match &self.shared.arrivals {
            Some(_) => (push, None),
            None => (None, push),
        };
        self.reorder = Reorder::restore(self.stream.lateness, watermark, held);
        if let (Some(arrivals), Some(push)) = (self.shared.arrivals.clone(), arrived) {
            arrivals.push(self.number, self.charged(push));
        }
        if let Some(own) = idle {
            self.shared.watermarks.rise(self.number, own);
            self.shared.watermarks.idle(self.number);
            self.is_idle = true;
        }
        let change = self.promise_of(watermark)?;
        self.make(change);
        if closed {
            self.close();
        }
        self.shared.news.tell();
        Ok(())
    }

    /// Takes memory for rows, if the limit has room.
    fn charge(&mut self, rows: usize, bytes: usize) -> Result<Charge> {
        let Shared { news, memory, broken, late, watermarks, .. } = &self.shared;
        // 1. Asked before memory is: from then on the operator lets go of nothing before there is
        //    news, unless there are late rows that its driver fetches.
        let is_fetched = news.driven().is_some_and(|driven| driven.fetches_late);
        let is_settled =
            self.was_refused && news.is_settled() && (!is_fetched || late.bytes() == 0);
        let refused = match memory.charge(self.number, bytes) {
            Ok(charge) => {
                self.was_refused = false;
                return Ok(charge);
            }
            Err(refused) => refused,
        };
        if let Some(error) = broken.get() {
            return Err(error.clone());
        }
        let rows = format!("{}: {rows} rows", self.name);
        if news.is_left() {
            return Err(Error::memory(refused.say_left(&rows)));
        }
        // 2. Late rows stay until somebody fetches them.
        let late = if is_fetched { 0 } else { late.bytes() };
        if is_settled && news.is_settled() && watermarks.wait_for(self.number) {
            return Err(Error::memory(refused.say_for_ever(&rows, late)));
        }
        // 3. The operator looks whether it can do without rows that it keeps. Then it is settled.
        if !std::mem::replace(&mut self.was_refused, true) {
            news.tell();
        }
        self.is_full = refused.asked.saturating_add(late) <= refused.most;
        Err(Error::memory(refused.say(&rows)))
    }

    /// Promises that no later row is below `ts`, a number of steps of the time column's unit.
    pub fn advance(&mut self, ts: i64) -> Result<()> {
        self.check_open()?;
        self.check_goes_on()?;
        memory::check();
        let scale = time::scale(self.time_field(), self.stream.unit);
        self.promise(ts.saturating_mul(scale))
    }

    /// From now on the rows are the results of an operator with these times, and its promises are the
    /// source's. Returns the columns of which the source's time is to be made, by `of`; none if its
    /// time is one of them.
    pub fn follow(
        &mut self,
        times: &ResultTimes,
        schema: &Schema,
        of: Option<ResultTime>,
    ) -> Result<Vec<String>> {
        self.check_open()?;
        let named = |text: &str| format!("{}: {text}", self.name);
        if self.lead.is_some() || self.rows_in > 0 || self.reorder.watermark() > i64::MIN {
            return Err(Error::argument(named(
                "the source is in use; an operator is put in front of a new one",
            )));
        }
        let Led { lead, lateness, columns } =
            led(times, schema, (self.time_field(), self.stream.unit), of)
                .map_err(|error| error.within(&self.name))?;
        if lateness.is_none() && self.shared.memory.limit().is_some() {
            return Err(Error::argument(named(
                "memory_limit: results with ordered=False wait here until the operator before promises \
                 a time, so a limit could be full for ever; leave it out, or write ordered=True there",
            )));
        }
        self.stream.lateness = lateness;
        self.reorder = Reorder::new(self.stream.lateness);
        self.lead = Some(lead);
        Ok(columns)
    }

    /// The operator before has no result to come whose place is below `place`, in its unit.
    pub fn promise_of_results(&mut self, place: i64) -> Result<()> {
        self.check_open()?;
        let lead = self.lead.ok_or_else(|| Error::bug("the source follows an operator"))?;
        match lead.promise(place, self.stream.unit) {
            Some(ts) if ts > self.reorder.watermark() => {
                memory::check();
                self.promise(ts)
            }
            _ => Ok(()),
        }
    }

    /// As [`advance`](Self::advance), in steps of the stream's unit.
    pub(crate) fn promise(&mut self, ts: i64) -> Result<()> {
        let change = self.promise_of(ts)?;
        if self.is_idle {
            self.shared.watermarks.rise(self.number, ts);
        }
        self.make(change);
        self.shared.news.tell();
        Ok(())
    }

    /// Prepares a change that raises the source's promise.
    fn promise_of(&self, ts: i64) -> Result<Change> {
        let mut change = Change::of(&self.reorder);
        change.draft.advance(ts);
        self.release(&mut change)?;
        Ok(change)
    }

    /// Says that nothing is promised to come until the next push of rows: the others go on without
    /// the source. Rows that come later and are before what they have come to are late.
    pub fn idle(&mut self) -> Result<()> {
        self.check_open()?;
        if !self.is_idle {
            self.is_idle = true;
            self.shared.watermarks.idle(self.number);
            self.shared.news.tell();
        }
        Ok(())
    }

    /// Goes with the others as far as `ts`, unless the source has gone on itself.
    pub(crate) fn go_with(&mut self, ts: i64) -> Result<()> {
        if self.is_idle && self.gate.is_some() && ts > self.reorder.watermark() {
            let change = self.promise_of(ts)?;
            self.pass(change);
        }
        Ok(())
    }

    /// Adds a source to the gate. Its rows must not be earlier than `since`. Returns `None` if this
    /// source is closed.
    pub(crate) fn fork(&mut self, tier: Tier, since: i64) -> Option<BlockSource<SourceRun>> {
        self.gate.as_mut()?.fork_at(tier, since).ok()
    }

    /// Promises that no more rows will follow. This does nothing if the source was already closed
    /// or abandoned. If memory runs out, this call unwinds before changing anything.
    pub fn close(&mut self) {
        if self.abandoned.is_none() {
            memory::check();
            self.end();
        }
    }

    fn end(&mut self) {
        if self.gate.is_none() {
            return;
        }
        let change = self.end_of().unwrap_or_else(|error| panic!("{error}"));
        self.pass(change);
        self.leave();
    }

    /// Leaves the gate. Takes no memory.
    fn leave(&mut self) {
        self.gate = None;
        self.held = None;
        if let Some(arrivals) = &self.shared.arrivals {
            arrivals.promise(self.number, None);
        }
        self.shared.watermarks.close(self.number);
        self.shared.memory.close(self.number);
        self.shared.news.tell();
    }

    /// Prepares a change that ends the source and releases all rows that are held back.
    fn end_of(&self) -> Result<Change> {
        let mut change = Change::of(&self.reorder);
        let released = self.reorder.release_all(&mut change.draft);
        self.put_in_order(&mut change, released)?;
        Ok(change)
    }

    /// Closes the source and drops what it holds back.
    pub(crate) fn drop_rows(&mut self) {
        self.reorder = Reorder::new(Some(0));
        if self.gate.is_some() {
            self.leave();
        }
    }
}

/// A prepared change to a source. All the memory it needs is allocated before it is applied.
#[derive(Debug)]
struct Change {
    draft: Draft<Push>,
    /// Rows for the gate, or for its replacement, in order.
    runs: Vec<Push>,
    late: Vec<Aside>,
}

/// Rows of a batch that are set aside because they are late or have intervals that are too wide.
#[derive(Debug)]
struct Aside {
    rows: RecordBatch,
    positions: Vec<u64>,
    watermarks: Vec<i64>,
    /// The number of bytes charged for the rows.
    bytes: usize,
}

impl Change {
    /// Creates an empty change.
    fn of(reorder: &Reorder<Push>) -> Self {
        Change { draft: reorder.draft(), runs: Vec::new(), late: Vec::new() }
    }
}

/// Sets aside some rows of a batch. `first` is the position of the batch's first row in its source.
fn aside(batch: &RecordBatch, late: &[LateRow], first: u64, bytes: usize) -> Result<Aside> {
    let rows: UInt32Array = memory::collect(late.iter().map(|late| late.row)).into();
    Ok(Aside {
        rows: take_rows(batch, &rows)?,
        positions: memory::collect(late.iter().map(|late| first + u64::from(late.row))),
        watermarks: memory::collect(late.iter().map(|late| late.watermark)),
        bytes,
    })
}

/// Selects rows of a batch, each at most once.
fn take_rows(batch: &RecordBatch, rows: &UInt32Array) -> Result<RecordBatch> {
    memory::demand(batch_bytes(batch));
    Ok(take_record_batch(batch, rows)?)
}

impl Push {
    /// Returns a push that contains only these rows.
    fn rows(&self, rows: &UInt32Array) -> Result<Push> {
        let ts = memory::collect(rows.values().iter().map(|&row| self.ts[row as usize]));
        Ok(Push { ts: ts.into(), batch: take_rows(&self.batch, rows)?, pushed: self.pushed })
    }
}

/// The rows of a push without the late ones.
fn without(push: Push, late: &[LateRow]) -> Result<Push> {
    if late.is_empty() {
        return Ok(push);
    }
    let mut late = late.iter().map(|late| late.row).peekable();
    let is_used = |row: &u32| late.next_if_eq(row).is_none();
    let mut used = memory::vec(push.ts.len());
    used.extend((0..push.ts.len() as u32).filter(is_used));
    push.rows(&used.into())
}

/// A source, which stays whole if a call panics.
pub fn lock(source: &Mutex<Source>) -> MutexGuard<'_, Source> {
    source.lock()
}

/// Rows of several batches as one batch.
pub(crate) fn gather_batch(
    schema: &SchemaRef,
    batches: &[&RecordBatch],
    places: &[Place],
) -> Result<RecordBatch> {
    gather(schema, batches, places, |_| None)
}

/// Rows of several batches of a stream as one batch, of which the times are known already.
fn gather_timed(
    stream: &Stream,
    ts: &ScalarBuffer<i64>,
    batches: &[&RecordBatch],
    places: &[Place],
) -> Result<RecordBatch> {
    let times = time::from_int64(stream.schema.field(stream.on), stream.unit, ts);
    gather(&stream.schema, batches, places, |column| times.clone().filter(|_| column == stream.on))
}

fn gather(
    schema: &SchemaRef,
    batches: &[&RecordBatch],
    places: &[Place],
    known: impl Fn(usize) -> Option<ArrayRef>,
) -> Result<RecordBatch> {
    let column = |at: usize| match known(at) {
        Some(column) => Ok(column),
        None => {
            let chunks: Vec<ArrayRef> =
                batches.iter().map(|batch| batch.column(at).clone()).collect();
            let field = schema.field(at);
            interleave(field.data_type(), &chunks, places)
                .map_err(|error| of_column(field.name(), error))
        }
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>>>()?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(places.len()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// The columns of a schema with their types, for messages.
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
