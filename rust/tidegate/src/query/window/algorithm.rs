//! Algorithms that compare each row with the rows in the other side's window.

use tidegate_operators::predicate::{Constraint, Numbers, Operand, Order, Relation, Term};
use tidegate_operators::rows::{How, NO_KEY, Retention};
use tidegate_operators::window::SlidingJoin;
use tidegate_operators::window::scale::{ScaleAlgorithm, ScaleJoin};

use crate::Result;
use crate::query::published::{self, HandshakeAlgorithm};

/// An algorithm that compares each row with the rows in the other side's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// One thread compares each row with the other side's window.
    ThreeStep,
    /// Each row's window is divided among the threads.
    Cell,
    /// The rows in the windows are divided among the threads.
    ScaleJoin,
    /// The same as `ScaleJoin`, but rows are processed one at a time. The threads run between
    /// two gates, and keep running between polls.
    ScaleGates,
    /// The same as `ScaleJoin`, but rows are processed one at a time. The threads are connected by
    /// two trees: one distributes the rows, and the other collects the results.
    SplitJoin,
    /// The new rows are divided among the threads. New rows are looked up by value if this is
    /// faster.
    Indexed,
    /// The windows flow past each other through a chain of threads.
    Handshake,
    /// Rows pass quickly through the chain, and each row is stored by one thread.
    LowLatencyHandshake,
}

impl Algorithm {
    /// Returns a description for users.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Algorithm::ThreeStep => {
                "three-step procedure (Kang et al.): one thread compares each row with the other window"
            }
            Algorithm::Cell => "CellJoin: each row's window is divided into one piece per thread",
            Algorithm::ScaleJoin => {
                "ScaleJoin: rows are stored on the threads round robin, and each thread compares every row with its share"
            }
            Algorithm::ScaleGates => {
                "ScaleJoin over ScaleGates, as published: each thread reads all rows from a gate, \
                 compares each row with its share, and adds matches to another gate; threads keep \
                 running between polls"
            }
            Algorithm::SplitJoin => {
                "SplitJoin: a tree sends each row to all threads, which store their share and \
                 compare each row with it; another tree collects the matches"
            }
            Algorithm::Indexed => {
                "shared rows (auto): each thread compares a share of the new rows with the other \
                 window, or uses an index by value if a sample of pairs shows that this is faster"
            }
            Algorithm::Handshake => {
                "handshake join: both windows flow past each other through a chain of threads, which \
                 keep running between polls; results are delayed"
            }
            Algorithm::LowLatencyHandshake => {
                "low-latency handshake join: rows pass quickly through a chain of threads, which \
                 keep running between polls, and one thread keeps each row"
            }
        }
    }

    /// Returns the number of bytes kept per row in addition to the row itself. The result assumes
    /// that the compared columns have grown by at most half since rows were last removed from them.
    pub(crate) fn row_bytes(self, terms: &[Term]) -> usize {
        let rank = if terms.iter().all(Term::is_narrow) { 4 } else { 8 };
        let bitmaps = 16 * terms.len().min(2);
        2 * match self {
            // A number, its presence, its rank and its code, and the position of the row.
            Algorithm::ThreeStep
            | Algorithm::Cell
            | Algorithm::ScaleJoin
            | Algorithm::SplitJoin => (2 * rank + 3) * terms.len() + bitmaps + 4,
            // The time of the row, in addition.
            Algorithm::ScaleGates => (2 * rank + 3) * terms.len() + bitmaps + 8,
            // In addition, an entry in a block: a number, its position, and the rank of a second
            // column.
            Algorithm::Indexed => (2 * rank + 3) * terms.len() + bitmaps + 4 + 12 + rank,
            // A rank and a range of others, as well as a position, a key, and the data about a
            // waiting row.
            Algorithm::Handshake => 3 * rank * terms.len() + 24 + 8 + 17,
            // In addition, an entry in an index.
            Algorithm::LowLatencyHandshake => {
                3 * rank * terms.len() + 24 + 8 + 17 + if terms.is_empty() { 0 } else { 32 }
            }
        }
    }

    /// Returns the name of the index that finds rows, as shown to users.
    pub(crate) fn index(self, has_equality: bool) -> &'static str {
        match self {
            Algorithm::LowLatencyHandshake if has_equality => {
                "a hash table on each thread, keyed by numbers that must be equal"
            }
            Algorithm::LowLatencyHandshake => {
                "each thread's rows, sorted by a number, as long as new rows reach few of them; \
                 otherwise none"
            }
            Algorithm::Indexed => {
                "rows in blocks by value, if few pairs of a sample match; otherwise none"
            }
            _ => "none: every pair in the windows is compared",
        }
    }
}

/// The parts of a sliding-window join other than its algorithm.
#[derive(Clone, Debug)]
pub(crate) struct SlidingJoinParts {
    pub(crate) retention: Retention,
    pub(crate) how: How,
    pub(crate) threads: usize,
    pub(crate) ordered: bool,
    /// The conditions tested by scans, without any rows.
    pub(crate) terms: Vec<Term>,
    /// True if each thread that the join starts is pinned to a processor.
    pub(crate) pin: bool,
}

impl SlidingJoinParts {
    /// Creates a join without rows. Returns an error if the join needs threads and the system
    /// refuses to start one.
    pub(crate) fn join(self, algorithm: Algorithm) -> Result<Box<SlidingJoin>> {
        Ok(match algorithm {
            Algorithm::ThreeStep => {
                let SlidingJoinParts { retention, how, ordered, terms, .. } = self;
                published::three_step_join(retention, how, ordered, terms)
            }
            Algorithm::Cell => {
                let SlidingJoinParts { retention, how, threads, ordered, terms, .. } = self;
                published::cell_join(retention, how, threads, ordered, terms)
            }
            Algorithm::ScaleJoin => self.scale(ScaleAlgorithm::ScaleJoin),
            Algorithm::ScaleGates => {
                let SlidingJoinParts { retention, how, threads, ordered, terms, pin } = self;
                published::scale_gates(retention, how, threads, ordered, terms, pin)?
            }
            Algorithm::SplitJoin => {
                let SlidingJoinParts { retention, how, threads, ordered, terms, .. } = self;
                published::split_join(retention, how, threads, ordered, terms)
            }
            Algorithm::Indexed => self.scale(ScaleAlgorithm::Indexed),
            Algorithm::Handshake => self.handshake(HandshakeAlgorithm::Original)?,
            Algorithm::LowLatencyHandshake => self.handshake(HandshakeAlgorithm::LowLatency)?,
        })
    }

    fn scale(self, algorithm: ScaleAlgorithm) -> Box<SlidingJoin> {
        let SlidingJoinParts { retention, how, threads, ordered, terms, .. } = self;
        Box::new(ScaleJoin::new(retention, how, algorithm, threads, ordered, terms))
    }

    fn handshake(self, algorithm: HandshakeAlgorithm) -> Result<Box<SlidingJoin>> {
        let SlidingJoinParts { retention, how, threads, terms, pin, .. } = self;
        published::handshake(algorithm, retention, how, threads, terms, pin)
    }
}

/// Returns the condition that keys are equal, as a comparison of their numbers.
pub(crate) fn equal_keys(left: Operand, right: Operand) -> Term {
    let equal = [Order::LessOrEqual, Order::GreaterOrEqual]
        .map(|order| Constraint::Difference { order, than: 0 });
    Term::new(left, right, Relation::Whole(equal.to_vec()))
        .expect("key numbers are far from the limits of their type")
}

/// Converts keys to numbers that are compared only for equality. The order of these numbers has no
/// meaning.
pub(crate) fn numbers_of(keys: &[u32]) -> Operand {
    let missing: Vec<bool> = keys.iter().map(|&key| key == NO_KEY).collect();
    let numbers = Numbers::I32(keys.iter().map(|key| key.cast_signed()).collect());
    Operand::new(numbers, missing.contains(&true).then_some(missing))
}
