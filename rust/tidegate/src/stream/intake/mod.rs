//! An operator's sources and the gate through which their rows pass.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `source/` | a source, which accepts pushed rows and feeds them to the gate |
//! | `stream.rs`, `rows.rs` | the description of a stream; rows of a source in the gate |
//! | `sides.rs` | the side of each source of a join |
//! | `ready.rs` | the rows that have left the gate |
//! | `arrivals.rs` | rows that bypass the gate, for operators that do not need merged order |
//! | `watermarks.rs` | the watermarks of all sources, some of which may be idle |
//! | `late.rs` | late rows |
//! | `news.rs`, `latency.rs` | whether there is work for a poll; the latency of rows |

pub(crate) mod arrivals;
pub(crate) mod late;
pub(crate) mod latency;
pub(crate) mod news;
pub(crate) mod ready;
pub(crate) mod rows;
pub(super) mod sides;
pub(crate) mod source;
pub(crate) mod stream;
pub(crate) mod watermarks;

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_operators::rows::Side;
use tidegate_structures::gate::{BlockGate, BlockReader, MAX_SOURCES, Tier};
use tidegate_structures::memory;

use super::memory::{Charge, Holder, Memory};
use super::state::snapshot::{Reader, TABLE_BYTES, Writer, damaged};
use crate::columns::time::{self, Bound};
use crate::{Error, Result};
use arrivals::Arrivals;
use late::{LateRows, RestoredLate};
use news::News;
use rows::SourceRun;
use sides::{SourceSides, tier};
use source::{IntakeState, RestoredSource, Source, SourceStats, lock};
use stream::Stream;
use watermarks::Watermarks;

/// The value stored in a snapshot for a source without a lateness.
const NO_LATENESS: i64 = -1;

/// The order in which an operator processes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Rows are sorted by time, source and position. A row is processed as soon as no earlier row
    /// can arrive.
    Merged,
    /// Rows are processed in the order in which they are pushed.
    Arrival,
}

/// Connects pushes with an operator.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) sources: Vec<Arc<Mutex<Source>>>,
    pub(super) shared: IntakeState,
    /// The side of each source, if the operator has sides.
    pub(super) sides: Option<SourceSides>,
    /// The kinds of sources that can be added.
    kinds: Vec<SideKind>,
    /// The number of sources that existed at the beginning.
    first: usize,
    /// The gate's reader, or `None` once the operator has been closed.
    reader: Option<BlockReader<SourceRun>>,
}

/// The properties that all sources on a side share.
#[derive(Debug)]
struct SideKind {
    side: Option<Side>,
    stream: Stream,
    /// True if all sources on the side have the same lateness, which is that of `stream`.
    is_alike: bool,
}

/// The part of a snapshot that contains the sources and the late rows.
#[derive(Debug)]
pub(super) struct RestoredIntake {
    /// The sources that were added after the operator was created.
    added: Vec<(Option<Side>, Stream)>,
    /// The times that the sources have reached, if some sources were idle or were added later.
    reached: Option<[(i64, u16); 3]>,
    sources: Vec<RestoredSource>,
    late: Vec<RestoredLate>,
}

impl RestoredIntake {
    /// Returns the number of rows whose processing had started.
    pub(super) fn begun(&self) -> u64 {
        self.sources.iter().map(RestoredSource::begun).sum()
    }

    /// Returns the time before which there can be no unread rows, or `None` if there are no unread
    /// rows and all sources are closed.
    pub(super) fn next(&self) -> Option<i64> {
        self.sources.iter().filter_map(RestoredSource::next).min()
    }

    /// Returns the total number of rows that have arrived from the sources.
    pub(super) fn rows(&self) -> u64 {
        self.sources.iter().map(|source| source.rows().0).fold(0, u64::saturating_add)
    }
}

/// The memory charged for a restored operator.
#[derive(Debug)]
pub(super) struct Charges {
    sources: Vec<Charge>,
    late: Vec<Charge>,
    /// The charge for the operator's state, which the operator takes over later.
    kept: Option<Charge>,
}

impl Charges {
    /// Takes the charge for the operator's state.
    pub(super) fn take_kept(&mut self) -> Charge {
        self.kept.take().expect("it is taken once")
    }
}

impl Intake {
    /// Creates sources with these names and streams. If there are sides, the first `left` sources
    /// are on the left side. Each row is charged `row_bytes` bytes in addition to its own size.
    /// Rows bypass the gate unless merged order is required.
    pub(super) fn new(
        streams: Vec<(String, Stream)>,
        memory: Memory,
        row_bytes: usize,
        order: Order,
        left: Option<usize>,
    ) -> Result<Self> {
        let first = streams.len();
        let sides = left.map(|left| SourceSides::new(left, first));
        let side_of = |number: u16| sides.as_ref().map(|sides| sides.of(number));
        let numbers = (0..=u16::MAX).take(first);
        let kinds =
            kinds(numbers.clone().zip(&streams).map(|(at, (_, stream))| (side_of(at), stream)));
        let shared = IntakeState {
            row_bytes,
            late: LateRows::new(streams.iter().any(|(_, stream)| stream.width.is_some())),
            news: Arc::new(News::default()),
            memory,
            broken: Arc::default(),
            standing: Arc::default(),
            watermarks: Watermarks::new(numbers.map(side_of)),
            arrivals: match order {
                Order::Merged => None,
                Order::Arrival => Some(Arrivals::new(streams.len())),
            },
        };
        let tiers = (0..first).map(|number| match left {
            Some(left) if number >= left => tier(Some(Side::Right)),
            _ => Tier::First,
        });
        let (gates, mut readers) = BlockGate::tiered(tiers, 1)
            .map_err(|error| Error::argument(format!("sources: {error}")))?;
        let source = |((name, stream), gate)| {
            Arc::new(Mutex::new(Source::new(name, stream, shared.clone(), gate)))
        };
        let sources = streams.into_iter().zip(gates).map(source).collect();
        Ok(Intake { sources, reader: readers.pop(), shared, sides, kinds, first })
    }

    /// Adds a source. The source starts at the watermark `since`, in the unit of its time column,
    /// or at the lowest possible watermark. If `lateness` is `None`, the new source gets the
    /// lateness that the other sources share. It is an error if their latenesses differ.
    pub(super) fn add(
        &mut self,
        side: Option<Side>,
        since: Option<i64>,
        lateness: Option<Bound>,
    ) -> Result<Arc<Mutex<Source>>> {
        let kind = self.kinds.iter().find(|kind| kind.side == side);
        let Some(kind) = kind else {
            return Err(Error::argument(
                "side: a join of one stream with itself has only left sources; write \
                 add_source(side=\"left\")",
            ));
        };
        let mut stream = kind.stream.clone();
        match lateness {
            Some(_) => stream.lateness = Some(time::lateness(lateness, stream.unit)?),
            None if kind.is_alike => {}
            None => {
                return Err(Error::argument(
                    "lateness: the sources have different values, so the new source needs its own; \
                     write add_source(lateness=...)",
                ));
            }
        }
        if self.sources.len() >= MAX_SOURCES {
            return Err(Error::argument(format!(
                "add_source: an operator has at most {MAX_SOURCES} sources, closed ones included; \
                 restart it from new sources"
            )));
        }
        let scale = time::scale(stream.schema.field(stream.on), stream.unit);
        let source = self.begin(side, stream, since.map(|since| since.saturating_mul(scale)))?;
        self.shared.memory.add_source();
        Ok(source)
    }

    /// Creates a source for this stream. The caller is responsible for the source's memory account.
    fn begin(
        &mut self,
        side: Option<Side>,
        stream: Stream,
        since: Option<i64>,
    ) -> Result<Arc<Mutex<Source>>> {
        let watermarks = &self.shared.watermarks;
        let ended = || {
            let whose = match side {
                None => "all sources are",
                Some(Side::Left) => "all left sources are",
                Some(Side::Right) => "all right sources are",
            };
            Error::closed(format!(
                "add_source: {whose} closed, and rows cannot follow their end; add a source before \
                 the last one is closed"
            ))
        };
        // 1. Fork the gate's slowest source: no row that sorts after its promise has been emitted
        //    yet.
        let mut parent = loop {
            let slowest = watermarks.slowest().filter(|_| watermarks.is_open(side));
            let slowest = slowest.ok_or_else(ended)?;
            let parent = lock(&self.sources[usize::from(slowest)]);
            if watermarks.slowest() == Some(slowest) {
                break parent;
            }
        };
        memory::check();
        let unit = stream.unit.name();
        let since = watermarks.add(side, since).map_err(|floor| {
            Error::order(format!(
                "since: rows before {floor} ({unit}) may already have been returned, got {}; leave \
                 `since` out, or add the source earlier",
                since.unwrap_or(floor)
            ))
        })?;
        let gate = parent
            .fork(tier(side), since)
            .ok_or_else(|| Error::bug("the parent of a source is open"))?;
        drop(parent);
        // 2. Nothing can fail from here on.
        self.shared.arrivals.iter().for_each(|arrivals| arrivals.add_source(since));
        let name = self.name_of_next(side);
        if let (Some(sides), Some(side)) = (&mut self.sides, side) {
            sides.add(side);
        }
        let mut source = Source::new(name, stream, self.shared.clone(), gate);
        source.promise(since)?;
        let source = Arc::new(Mutex::new(source));
        self.sources.push(source.clone());
        Ok(source)
    }

    /// Switches to the schemas of another intake's sources, which differ only in the types of their
    /// dictionary indices.
    pub(super) fn take_rows_of(&mut self, other: &Intake) {
        for (source, other) in self.sources.iter().zip(&other.sources) {
            lock(source).take_rows_of(&lock(other));
        }
        for (kind, other) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.stream.given = Some(other.stream.schema.clone());
        }
    }

    fn name_of_next(&self, side: Option<Side>) -> String {
        let within = |side| self.sides.as_ref().map_or(0, |sides| sides.count(side));
        match side {
            None => format!("source {}", self.sources.len()),
            Some(Side::Left) => format!("left source {}", within(Side::Left)),
            Some(Side::Right) => format!("right source {}", within(Side::Right)),
        }
    }

    /// Returns the side of each source in a join.
    pub(super) fn sides(&self) -> &SourceSides {
        self.sides.as_ref().expect("a join's sources have sides")
    }

    /// Returns whether any sources were added.
    pub(super) fn has_added(&self) -> bool {
        self.sources.len() > self.first
    }

    /// Raises the promises of idle sources to the time that the other sources have reached. A
    /// source that is currently in use raises its promise itself.
    pub(super) fn carry_idle(&self) -> Result<()> {
        for (source, floor) in self.shared.watermarks.idle_sources() {
            if let Some(mut source) = self.sources[usize::from(source)].try_lock() {
                source.go_with(floor)?;
            }
        }
        Ok(())
    }

    /// Returns the gate's reader, or `None` if the operator has been closed.
    pub(super) fn reader(&mut self) -> Option<&mut BlockReader<SourceRun>> {
        self.reader.as_mut()
    }

    /// Returns the time before which there can be no unread rows, or `None` if all sources have
    /// been closed.
    pub(super) fn watermark(&self) -> Option<i64> {
        self.reader.as_ref()?.watermark()
    }

    pub(super) fn stats(&self) -> Vec<SourceStats> {
        self.sources.iter().map(|source| lock(source).stats()).collect()
    }

    /// Like [`stats`](Self::stats), but sorts the sources in the same way as rows with equal times.
    pub(super) fn stats_by_rank(&self) -> Vec<SourceStats> {
        let side = |number: u16| self.sides.as_ref().map(|sides| sides.of(number));
        let mut stats: Vec<_> = self.stats().into_iter().zip(0..).collect();
        stats.sort_by_key(|&(_, number)| tier(side(number)));
        stats.into_iter().map(|(stats, _)| stats).collect()
    }

    /// Writes the sources and the unread rows.
    pub(super) fn write(&mut self, writer: &mut Writer) -> Result<()> {
        // Lock all sources together so that they are written in a consistent state.
        let sources: Vec<_> = self.sources.iter().map(|source| lock(source)).collect();
        let watermarks = &self.shared.watermarks;
        if self.sources.len() > self.first || sources.iter().any(|source| source.stats().idle) {
            writer.extend();
            writer.number((sources.len() - self.first) as u64);
            for source in &sources[self.first..] {
                let side = self.sides.as_ref().map(|sides| sides.of(source.number()));
                writer.flag(side == Some(Side::Right));
                writer.time(source.lateness().unwrap_or(NO_LATENESS));
            }
            for (ts, source) in watermarks.reached() {
                writer.time(ts);
                writer.number(u64::from(source));
            }
        }
        let mut unread = vec![Vec::new(); sources.len()];
        let reader = self
            .reader
            .as_mut()
            .ok_or_else(|| Error::closed("the operator is closed; create a new one"))?;
        for (pushed, Range { start, end }) in reader.unread() {
            unread[usize::from(pushed.first.source())]
                .push(pushed.run.batch.slice(start, end - start));
        }
        for (source, mut unread) in sources.iter().zip(unread) {
            if let Some(arrivals) = &self.shared.arrivals {
                unread.push(source.sorted(&arrivals.of(source.number()))?);
            }
            source.write(unread, writer)?;
        }
        Ok(())
    }

    /// Reads the output of [`write`](Self::write), followed by the late rows.
    pub(super) fn read(&self, reader: &mut Reader<'_>) -> Result<RestoredIntake> {
        let mut added = Vec::new();
        let mut reached = None;
        if reader.is_extended() {
            // A flag and a time.
            for _ in 0..reader.count(size_of::<u8>() + size_of::<u64>())? {
                added.push(self.read_added(reader)?);
            }
            if self.sources.len() + added.len() > MAX_SOURCES {
                return Err(damaged("it has more sources than an operator can have"));
            }
            let sources = self.sources.len() + added.len();
            let mut one = || match (reader.time()?, reader.number()?) {
                (ts, source) if source < sources as u64 => Ok((ts, source as u16)),
                _ => Err(damaged("it names a source that it does not have")),
            };
            reached = Some([one()?, one()?, one()?]);
        }
        let name: Arc<str> = "an added source".into();
        let row_bytes = self.shared.row_bytes;
        let first = self.sources.iter().map(|source| lock(source).read(reader));
        let mut sources = first.collect::<Result<Vec<_>>>()?;
        for (_, stream) in &added {
            sources.push(stream.read(&name, row_bytes, reader)?);
        }
        let schema = |source: u64| {
            let number = usize::try_from(source).ok()?;
            match number.checked_sub(self.sources.len()) {
                None => Some(lock(&self.sources[number]).kept_schema().clone()),
                Some(number) => Some(added.get(number)?.1.schema.clone()),
            }
        };
        // A source, and a table.
        let late = (0..reader.count(size_of::<u64>() + TABLE_BYTES)?)
            .map(|_| RestoredLate::read(reader, schema));
        let late = late.collect::<Result<Vec<_>>>()?;
        let mut kept = vec![0; sources.len()];
        late.iter().for_each(|late| kept[usize::from(late.source())] += late.rows());
        if sources.iter().zip(&kept).any(|(source, &kept)| kept > source.rows().1) {
            return Err(damaged("it has more late rows than have arrived"));
        }
        Ok(RestoredIntake { added, reached, sources, late })
    }

    /// Reads the stream of an added source.
    fn read_added(&self, reader: &mut Reader<'_>) -> Result<(Option<Side>, Stream)> {
        let (is_right, lateness) = (reader.flag()?, reader.time()?);
        let side = match (&self.sides, is_right) {
            (None, _) => None,
            (Some(_), false) => Some(Side::Left),
            (Some(_), true) => Some(Side::Right),
        };
        let kind = self.kinds.iter().find(|kind| kind.side == side);
        let Some(kind) = kind else {
            return Err(damaged("a source is on a side that the operator does not have"));
        };
        let stream = kind.stream.clone();
        if lateness < NO_LATENESS {
            return Err(damaged("the lateness of a source is negative"));
        }
        let lateness = (lateness != NO_LATENESS).then_some(lateness);
        Ok((side, Stream { lateness, ..stream }))
    }

    /// Charges the memory for the restored state, including `kept` bytes for the operator's state.
    pub(super) fn charge(&self, restored: &RestoredIntake, kept: usize) -> Result<Charges> {
        let memory = &self.shared.memory;
        restored.added.iter().for_each(|_| memory.add_source());
        let charges = self.charge_all(restored, kept);
        // Added sources have their own accounts, which include the bytes that they hold.
        if charges.is_err() {
            memory.keep_sources(self.sources.len());
        }
        charges
    }

    fn charge_all(&self, restored: &RestoredIntake, kept: usize) -> Result<Charges> {
        let charge = |holder: Holder, bytes: usize| {
            let charge = self.shared.memory.charge_restored(holder, bytes);
            charge.map_err(|refused| Error::memory(refused.say("the snapshot's rows and state")))
        };
        let sources = (0..)
            .zip(&restored.sources)
            .map(|(at, source)| charge(Holder::Source(at), source.bytes));
        let late =
            restored.late.iter().map(|late| charge(Holder::Source(late.source()), late.bytes()));
        Ok(Charges {
            sources: sources.collect::<Result<_>>()?,
            late: late.collect::<Result<_>>()?,
            kept: Some(charge(Holder::State, kept)?),
        })
    }

    /// Restores the state. The sources must be unused.
    pub(super) fn restore(&mut self, restored: RestoredIntake, charges: Charges) -> Result<()> {
        for (side, stream) in restored.added {
            self.begin(side, stream, None)?;
        }
        for (late, charge) in restored.late.into_iter().zip(charges.late) {
            self.shared.late.add(late.late(charge));
        }
        for ((source, restored), charge) in
            self.sources.iter().zip(restored.sources).zip(charges.sources)
        {
            lock(source).restore(restored, charge)?;
        }
        if let Some(reached) = restored.reached {
            self.shared.watermarks.restore(reached);
        }
        Ok(())
    }

    /// Closes the sources and drops their rows.
    pub(super) fn close(&mut self) {
        // Dropping the reader drops the rows in the gate.
        self.reader = None;
        self.sources.iter().for_each(|source| lock(source).drop_rows());
        self.shared.arrivals.iter().for_each(Arrivals::clear);
        self.shared.late.clear();
    }
}

/// Returns the properties that the sources on each side share.
fn kinds<'a>(streams: impl Iterator<Item = (Option<Side>, &'a Stream)>) -> Vec<SideKind> {
    let mut kinds: Vec<SideKind> = Vec::new();
    for (side, stream) in streams {
        match kinds.iter_mut().find(|kind| kind.side == side) {
            Some(kind) => kind.is_alike &= kind.stream.lateness == stream.lateness,
            None => kinds.push(SideKind { side, stream: stream.clone(), is_alike: true }),
        }
    }
    kinds
}
