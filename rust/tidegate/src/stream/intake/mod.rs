//! The sources of an operator, and the gate through which their rows come.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `source.rs` | a source's rows into the gate |
//! | `ready.rs` | the rows that the gate gives |
//! | `arrivals.rs` | rows that pass by the gate, for operators that wait for no merged order |
//! | `late.rs` | late rows |
//! | `news.rs`, `latency.rs` | whether there is anything to poll; how long rows took |

pub(crate) mod arrivals;
pub(crate) mod late;
pub(crate) mod latency;
pub(crate) mod news;
pub(crate) mod ready;
pub(crate) mod source;

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_structures::gate::{BlockGate, BlockReader};

use super::lock;
use super::memory::{Charge, Holder, Memory};
use super::state::snapshot::{Reader, TABLE_BYTES, Writer, damaged};
use crate::{Error, Result};
use arrivals::Arrivals;
use late::{LateRows, RestoredLate};
use news::News;
use source::{Restored, Shared, Source, SourceRun, SourceStats, Stream};

/// The order in which an operator takes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// By time, source and position, when no earlier row can come.
    Merged,
    /// As they are pushed.
    Arrival,
}

/// The part between pushes and an operator.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) sources: Vec<Arc<Mutex<Source>>>,
    pub(super) shared: Shared,
    /// Until the operator is closed.
    reader: Option<BlockReader<SourceRun>>,
}

/// The part of a snapshot that has the sources and late rows.
#[derive(Debug)]
pub(super) struct RestoredIntake {
    sources: Vec<Restored>,
    late: Vec<RestoredLate>,
}

impl RestoredIntake {
    /// The rows that were at work.
    pub(super) fn begun(&self) -> u64 {
        self.sources.iter().map(Restored::begun).sum()
    }

    /// No row that was not read yet is before it; none if there is none and comes none.
    pub(super) fn next(&self) -> Option<i64> {
        self.sources.iter().filter_map(Restored::next).min()
    }

    /// Rows that have come of all sources.
    pub(super) fn rows(&self) -> u64 {
        self.sources.iter().map(|source| source.rows().0).fold(0, u64::saturating_add)
    }
}

/// The charges of a restored operator.
#[derive(Debug)]
pub(super) struct Charges {
    sources: Vec<Charge>,
    late: Vec<Charge>,
    /// The charge for an operator's state, until the operator takes it.
    kept: Option<Charge>,
}

impl Charges {
    /// The charge for the state that an operator keeps.
    pub(super) fn take_kept(&mut self) -> Charge {
        self.kept.take().expect("it is taken once")
    }
}

impl Intake {
    /// Sources of these names and streams. Each of their rows is charged `row_bytes` bytes beside
    /// its own. Rows pass by the gate unless they are to be in merged order.
    pub(super) fn new(
        streams: Vec<(String, Stream)>,
        memory: Memory,
        row_bytes: usize,
        order: Order,
    ) -> Result<Self> {
        let shared = Shared {
            row_bytes,
            late: LateRows::new(streams.iter().any(|(_, stream)| stream.width.is_some())),
            news: Arc::new(News::default()),
            memory,
            abandoned: Arc::default(),
            arrivals: match order {
                Order::Merged => None,
                Order::Arrival => Some(Arrivals::new(streams.len())),
            },
        };
        let (gates, mut readers) = BlockGate::new(streams.len(), 1)
            .map_err(|error| Error::argument(format!("sources: {error}")))?;
        let source = |((name, stream), gate)| {
            Arc::new(Mutex::new(Source::new(name, stream, shared.clone(), gate)))
        };
        let sources = streams.into_iter().zip(gates).map(source).collect();
        Ok(Intake { sources, reader: readers.pop(), shared })
    }

    /// Whoever reads the gate; nobody once the operator is closed.
    pub(super) fn reader(&mut self) -> Option<&mut BlockReader<SourceRun>> {
        self.reader.as_mut()
    }

    /// No row that was not read yet is below it; `None` once all sources have closed.
    pub(super) fn watermark(&self) -> Option<i64> {
        self.reader.as_ref()?.watermark()
    }

    pub(super) fn stats(&self) -> Vec<SourceStats> {
        self.sources.iter().map(|source| lock(source).stats()).collect()
    }

    /// Writes the sources and the rows that were not read.
    pub(super) fn write(&mut self, writer: &mut Writer) -> Result<()> {
        // Held together, so that the sources are written as they were at one moment.
        let sources: Vec<_> = self.sources.iter().map(|source| lock(source)).collect();
        let mut unread = vec![Vec::new(); sources.len()];
        let reader = self
            .reader
            .as_mut()
            .ok_or_else(|| Error::closed("the operator is closed; make a new one"))?;
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

    /// Reads what [`write`](Self::write) wrote, and the late rows behind it.
    pub(super) fn read(&self, reader: &mut Reader<'_>) -> Result<RestoredIntake> {
        let sources = self
            .sources
            .iter()
            .map(|source| lock(source).read(reader))
            .collect::<Result<Vec<_>>>()?;
        let schema = |source: u64| {
            let source = self.sources.get(usize::try_from(source).ok()?)?;
            Some(lock(source).schema().clone())
        };
        // A source, and a table.
        let late = (0..reader.count(size_of::<u64>() + TABLE_BYTES)?)
            .map(|_| RestoredLate::read(reader, schema));
        let late = late.collect::<Result<Vec<_>>>()?;
        let mut kept = vec![0; sources.len()];
        late.iter().for_each(|late| kept[usize::from(late.source())] += late.rows());
        if sources.iter().zip(&kept).any(|(source, &kept)| kept > source.rows().1) {
            return Err(damaged("it has more late rows than have come"));
        }
        Ok(RestoredIntake { sources, late })
    }

    /// Takes memory for what was read, and for `kept` bytes of an operator beside it.
    pub(super) fn charge(&self, restored: &RestoredIntake, kept: usize) -> Result<Charges> {
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

    /// Goes on from what was read; the sources must not have been used.
    pub(super) fn restore(&mut self, restored: RestoredIntake, charges: Charges) {
        for (late, charge) in restored.late.into_iter().zip(charges.late) {
            self.shared.late.add(late.late(charge));
        }
        for ((source, restored), charge) in
            self.sources.iter().zip(restored.sources).zip(charges.sources)
        {
            lock(source).restore(restored, charge);
        }
    }

    /// Closes the sources and drops what they have brought.
    pub(super) fn close(&mut self) {
        // What is in the gate goes with its reader.
        self.reader = None;
        self.sources.iter().for_each(|source| lock(source).drop_rows());
        self.shared.arrivals.iter().for_each(Arrivals::clear);
        self.shared.late.clear();
    }
}
