//! The block gate: sources push sorted column runs, and readers receive blocks of ready rows.
//!
//! ```text
//! source 0's log   begin ─▶ run 3 7 9 ─▶ advance 12 ─▶ ...        each extended by its source alone
//! source 1's log   begin ─▶ run 4 8 ─▶ ...
//!                                  ╲ merged by whichever reader comes first
//! blocks           (none) ─▶ 3 4 7 8 ─▶ ...                       each published by one compare-and-swap
//! ```
//!
//! Each reader is positioned at a block. If the next block exists, the reader moves to that block.
//! Otherwise, the reader determines how far the sources' promises reach. The reader then plans a
//! block of the ready rows and offers this block as the next one. If another reader was faster, the
//! reader drops its own block and uses the other reader's. The data alone determines which rows are
//! next, so the two blocks can differ only in where they end. The first reader that reaches a block
//! starts to fill it. Meanwhile, other readers that need this block fill later blocks. If the block
//! is still not filled afterwards, they fill it as well, and only the rows written by one reader
//! are used (see `reader.rs`).
//!
//! Readiness is determined per run, and rows are merged in slabs of about a thousand rows (see
//! `scatter.rs`).

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[allow(clippy::module_inception, reason = "the block gate's blocks")]
mod block;
mod lane;
mod log;
mod reader;
mod scatter;

use std::fmt;
use std::marker::PhantomData;

use tidegate_sync::atomic::Arc;
use tidegate_sync::{Budget, Counter};

pub use self::block::{Block, Filler, PlannedBlock};
use self::log::{LogEntry, LogRecord};
pub use self::log::{PushedRun, Run};
pub use self::reader::BlockReader;
pub use self::scatter::Slabs;
use super::key::{Key, MAX_SOURCES, NotSync, Rank, RowId, Tier};
use super::{Handles, Rejection, TooManySources};

/// The number of bytes that a row's time and id take up in a block. The memory for a block is
/// charged when its rows are pushed.
const BLOCK_ROW: usize = size_of::<i64>() + size_of::<RowId>();

/// Creates block gates (see the module documentation).
///
/// ```
/// use tidegate_structures::gate::{BlockGate, Next};
///
/// let (mut sources, mut readers) = BlockGate::new(2, 1)?;
/// sources[0].push(vec![3, 7, 9]).unwrap();
/// sources[1].push(vec![4, 8]).unwrap();
///
/// let Next::Ready(block) = readers[0].next_block() else { unreachable!() };
/// assert_eq!(block.ts(), [3, 4, 7, 8]);
/// assert_eq!(block.ids()[1].source(), 1);
/// # Ok::<(), tidegate_structures::gate::TooManySources>(())
/// ```
#[derive(Debug)]
pub struct BlockGate;

impl BlockGate {
    /// Creates a gate with sources `0..sources` and with `readers` readers, each of which receives
    /// every row.
    #[allow(clippy::new_ret_no_self, reason = "a gate is its handles")]
    pub fn new<R: Run>(sources: usize, readers: usize) -> Handles<BlockSource<R>, BlockReader<R>> {
        Self::with_memory_limit(sources, readers, usize::MAX)
    }

    /// Creates a gate whose runs and blocks use at most `limit` bytes.
    pub fn with_memory_limit<R: Run>(
        sources: usize,
        readers: usize,
        limit: usize,
    ) -> Handles<BlockSource<R>, BlockReader<R>> {
        Self::make(std::iter::repeat_n(Tier::First, sources), readers, limit)
    }

    /// Creates a gate with one source for each tier in `tiers`.
    pub fn tiered<R: Run>(
        tiers: impl ExactSizeIterator<Item = Tier>,
        readers: usize,
    ) -> Handles<BlockSource<R>, BlockReader<R>> {
        Self::make(tiers, readers, usize::MAX)
    }

    fn make<R: Run>(
        tiers: impl ExactSizeIterator<Item = Tier>,
        readers: usize,
        limit: usize,
    ) -> Handles<BlockSource<R>, BlockReader<R>> {
        let sources = tiers.len();
        if sources > MAX_SOURCES {
            return Err(TooManySources);
        }
        let shared =
            Arc::new(GateState { next_source: Counter::new(sources), budget: Budget::new(limit) });
        let ranks = tiers.zip(0..=u16::MAX).map(|(tier, number)| Rank::new(tier, number));
        let logs: Vec<_> = ranks.map(|rank| (rank, LogRecord::new(LogEntry::Begin))).collect();
        let seed = BlockReader::new(&logs, shared.budget.clone());
        let readers = (0..readers).map(|_| seed.fork()).collect();
        let source = |(rank, log)| BlockSource::new(shared.clone(), rank, i64::MIN, log);
        Ok((logs.into_iter().map(source).collect(), readers))
    }
}

/// The state that all sources of a gate share.
#[derive(Debug)]
struct GateState {
    /// The number of the next source. Written by sources.
    next_source: Counter,
    budget: Budget,
}

/// A feeder of the gate. Dropping it closes it.
pub struct BlockSource<R: Run> {
    shared: Arc<GateState>,
    rank: Rank,
    /// The id of the next row.
    next: RowId,
    promised: i64,
    /// The end of the log.
    last: Arc<LogRecord<R>>,
    not_sync: NotSync,
}

impl<R: Run> BlockSource<R> {
    fn new(shared: Arc<GateState>, rank: Rank, promised: i64, log: Arc<LogRecord<R>>) -> Self {
        BlockSource {
            shared,
            rank,
            next: RowId::ranked(rank, 0),
            promised,
            last: log,
            not_sync: PhantomData,
        }
    }

    /// Returns the source's number, which orders rows with equal `ts` within a tier.
    pub fn number(&self) -> u16 {
        self.rank.number()
    }

    /// Returns the time that the source has promised. No subsequent row may be before this time.
    pub fn promised(&self) -> i64 {
        self.promised
    }

    /// Adds a run. The rows in the run must be sorted by time, and none may be before the promised
    /// time. If a run violates these rules or there is no memory for it, it is rejected and
    /// returned.
    pub fn push(&mut self, run: R) -> Result<(), Rejection<R>> {
        let ts = run.ts();
        let (Some(&first), Some(&last)) = (ts.first(), ts.last()) else { return Ok(()) };
        if first < self.promised {
            return Err(Rejection::Late { ts: first, promised: self.promised, row: run });
        }
        let rows = ts.len();
        // Checked before the rows are read, because a source without room tries again repeatedly.
        let charge = match self.shared.budget.charge(run.bytes() + rows * BLOCK_ROW) {
            Ok(charge) => charge,
            Err(overrun) => return Err(Rejection::Full { overrun, row: run }),
        };
        if let Some(at) = first_descent(ts) {
            return Err(Rejection::Late { ts: ts[at], promised: ts[at - 1], row: run });
        }
        self.append(LogEntry::Rows(PushedRun::new(self.next, run, charge)));
        self.next = self.next.plus(rows);
        self.promised = last;
        Ok(())
    }

    /// Promises that no subsequent row will have a smaller `ts`. If an earlier promise was for a
    /// later time, the earlier promise remains in effect.
    pub fn advance(&mut self, ts: i64) {
        if ts > self.promised {
            self.promised = ts;
            self.append(LogEntry::Advance(ts));
        }
    }

    /// Allows the most recently pushed run to be released as soon as all readers have finished with
    /// it. Without this call, the run is kept until the source's next action.
    pub fn let_go(&mut self) {
        if let LogEntry::Rows(_) = self.last.entry {
            self.append(LogEntry::Advance(self.promised));
        }
    }

    /// Promises that there will be no more rows. Dropping the source has the same effect.
    pub fn close(self) {}

    /// Adds a source to this source's tier. The new source starts with this source's promise and
    /// receives the gate's next source number.
    pub fn fork(&mut self) -> Result<BlockSource<R>, TooManySources> {
        self.fork_at(self.rank.tier(), self.promised)
    }

    /// Adds a source to `tier`. The new source promises that all its rows are at or after `from`.
    ///
    /// # Panics
    ///
    /// Panics unless every row from the new source sorts after this source's promise. The time
    /// `from` must therefore be at least [`promised`](Self::promised). If this source is in the
    /// last tier and the new source is in the first, `from` must be greater than the promise.
    pub fn fork_at(&mut self, tier: Tier, from: i64) -> Result<BlockSource<R>, TooManySources> {
        let number = self.shared.next_source.add(1);
        if number >= MAX_SOURCES {
            return Err(TooManySources);
        }
        let rank = Rank::new(tier, number as u16);
        let promised = Key::last_of(self.promised, self.rank);
        assert!(
            promised < Key::first_of(from, rank),
            "a source that begins at {from} could push rows before {promised:?}"
        );
        let log = LogRecord::new(LogEntry::Begin);
        self.append(LogEntry::Fork { rank, from, log: log.clone() });
        Ok(BlockSource::new(self.shared.clone(), rank, from, log))
    }

    fn append(&mut self, entry: LogEntry<R>) {
        let record = LogRecord::new(entry);
        self.last.next.set(record.clone()).ok().expect("only its source extends a log");
        self.last = record;
    }
}

/// Returns the position of the first row that is earlier than the row before it.
fn first_descent(ts: &[i64]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if avx512::is_supported() {
        // SAFETY: the processor has the features.
        return unsafe { first_descent_avx512(ts) };
    }
    first_descent_by_any(ts)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn first_descent_avx512(ts: &[i64]) -> Option<usize> {
    first_descent_by_any(ts)
}

#[inline(always)]
fn first_descent_by_any(ts: &[i64]) -> Option<usize> {
    // In strides, so that the compiler can compare many rows at a time.
    const STRIDE: usize = 1024;
    (0..ts.len()).step_by(STRIDE).find_map(|from| {
        let rows = &ts[from..ts.len().min(from + STRIDE + 1)];
        let pairs = || rows.iter().zip(&rows[1..]);
        let descends = pairs().fold(false, |descends, (before, after)| descends | (after < before));
        descends.then(|| {
            from + 1 + pairs().position(|(before, after)| after < before).expect("one descends")
        })
    })
}

impl<R: Run> Drop for BlockSource<R> {
    fn drop(&mut self) {
        self.append(LogEntry::Close);
    }
}

impl<R: Run> fmt::Debug for BlockSource<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockSource")
            .field("next", &self.next)
            .field("promised", &self.promised)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::gate::Next;

    #[test]
    fn planned_blocks_are_the_blocks() {
        let (mut sources, mut readers) = BlockGate::new(3, 2).unwrap();
        for (number, source) in sources.iter_mut().enumerate() {
            let run: Vec<i64> = (0..30_000).map(|row| row * 5 / 3 + number as i64).collect();
            run.chunks(999).for_each(|run| source.push(run.to_vec()).unwrap());
        }
        drop(sources);
        let mut planned = Vec::new();
        while let Next::Ready(block) = readers[0].next_planned() {
            planned.push(block);
        }
        assert!(planned.len() > 2);
        let mut filler = Filler::default();
        for block in planned {
            let Next::Ready(other) = readers[1].next_block() else { panic!("as many blocks") };
            let (mut ts, mut sources) = (vec![0; block.len()], vec![0; block.len()]);
            block.write(&mut filler, &mut ts, &mut sources);
            assert_eq!(ts, other.ts());
            assert!(
                sources.iter().eq(&other.ids().iter().map(|id| id.source()).collect::<Vec<_>>())
            );
        }
        assert!(matches!(readers[1].next_block(), Next::End));
    }

    #[test]
    fn a_run_that_was_let_go_holds_no_memory() {
        let (mut sources, mut readers) = BlockGate::new(1, 1).unwrap();
        sources[0].push(vec![1, 2]).unwrap();
        assert!(matches!(readers[0].next_block(), Next::Ready(_)));
        assert!(matches!(readers[0].next_block(), Next::NotYet));
        assert!(readers[0].memory() > 0);
        sources[0].let_go();
        assert!(matches!(readers[0].next_block(), Next::NotYet));
        assert_eq!(readers[0].memory(), 0);
        assert!(sources[0].push(vec![1]).is_err(), "the promise is kept");
    }

    #[test]
    fn the_first_descent_is_found_wherever_it_is() {
        let sorted: Vec<i64> = (0..5000).collect();
        assert_eq!(first_descent(&sorted), None);
        assert_eq!(first_descent(&[]), None);
        for at in [1, 2, 1023, 1024, 1025, 2048, 4999] {
            let mut ts = sorted.clone();
            ts[at] = -1;
            assert_eq!(first_descent(&ts), Some(at));
        }
    }
}
