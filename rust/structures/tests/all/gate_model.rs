//! An obviously correct, single-threaded model of a gate. Random histories are run both on the
//! model and on a gate.
//!
//! Every result must equal that of the model: a row, "nothing is ready", or the end. The comparison
//! detects rows that are out of order, lost, duplicated, or returned too early or too late. It does
//! not detect races. The crate with the published algorithms also uses this file.

use std::collections::BTreeSet;
use std::ops::Bound;

use proptest::prelude::*;
use tidegate_structures::gate::{Next, Tier};

/// `(ts, rank, position)`
pub(crate) type Row = (i64, Rank, u64);

/// A source's tier and number.
pub(crate) type Rank = (Tier, u16);

/// The contract of a gate, implemented literally with sets.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) rows: BTreeSet<Row>,
    /// Each source's promise and the number of rows that it has pushed. The promise is `None` if
    /// the source is closed.
    pub(crate) sources: Vec<(Option<i64>, u64)>,
    /// The sources in the last tier.
    pub(crate) last: BTreeSet<usize>,
}

impl Model {
    pub(crate) fn rank(&self, source: usize) -> Rank {
        let tier = if self.last.contains(&source) { Tier::Last } else { Tier::First };
        (tier, source as u16)
    }

    pub(crate) fn push(&mut self, source: usize, ts: i64) -> Row {
        let rank = self.rank(source);
        let (promise, pushed) = &mut self.sources[source];
        let row = (ts, rank, *pushed);
        *promise = Some(ts);
        *pushed += 1;
        self.rows.insert(row);
        row
    }

    /// Returns whether the row is ready. Every other source `j` must have `watermark(j) > ts`, or
    /// `watermark(j) == ts` if `j` sorts after the row's source.
    fn is_ready(&self, row: Row) -> bool {
        self.sources.iter().enumerate().all(|(other, &(promise, _))| {
            let rank = self.rank(other);
            rank == row.1 || promise.is_none_or(|promise| (promise, rank) > (row.0, row.1))
        })
    }

    pub(crate) fn next(&self, after: Option<Row>) -> Next<Row> {
        let next = match after {
            Some(after) => self.rows.range((Bound::Excluded(after), Bound::Unbounded)).next(),
            None => self.rows.first(),
        };
        match next {
            Some(&row) if self.is_ready(row) => Next::Ready(row),
            None if self.sources.iter().all(|(promise, _)| promise.is_none()) => Next::End,
            _ => Next::NotYet,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Push { source: usize, rises: Vec<u8> },
    Advance { source: usize, rise: u8 },
    Close { source: usize },
    ForkSource { source: usize },
    ForkReader { reader: usize },
    DropReader { reader: usize },
    Read { reader: usize, times: usize },
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let which = || 0..usize::MAX;
    // A rise of 0 produces ties. An occasional large rise lets sources overtake each other.
    let rise = || prop_oneof![3 => Just(0u8), 4 => 1..4u8, 1 => 20..60u8];
    let rises = prop::collection::vec(rise(), 1..12);
    prop_oneof![
        8 => (which(), rises).prop_map(|(source, rises)| Step::Push { source, rises }),
        3 => (which(), rise()).prop_map(|(source, rise)| Step::Advance { source, rise }),
        1 => which().prop_map(|source| Step::Close { source }),
        1 => which().prop_map(|source| Step::ForkSource { source }),
        1 => which().prop_map(|reader| Step::ForkReader { reader }),
        1 => which().prop_map(|reader| Step::DropReader { reader }),
        8 => (which(), 1..20usize).prop_map(|(reader, times)| Step::Read { reader, times }),
    ]
}

/// A gate on which histories can be run.
pub(crate) trait Gate {
    type Source;
    type Reader;

    /// The maximum number of reads per step.
    const READS: usize;

    /// Creates a gate with the given number of sources and one reader.
    fn new(sources: usize) -> (Vec<Self::Source>, Self::Reader);

    /// Pushes rows, which the gate must accept.
    fn push(source: &mut Self::Source, rows: &[Row]) -> Result<(), TestCaseError>;

    /// Pushes a late row, which the gate must return.
    fn push_late(source: &mut Self::Source, ts: i64) -> Result<(), TestCaseError>;

    fn advance(source: &mut Self::Source, ts: i64);

    fn close(source: Self::Source);

    /// Forks a source. Returns the new source, its number and its promise.
    fn fork(source: &mut Self::Source) -> (Self::Source, u16, i64);

    fn fork_reader(reader: &Self::Reader) -> Self::Reader;

    /// Reads once and returns whether anything was ready. The result must be what the model returns
    /// from row `at` onwards. Advances `at`.
    fn read(
        reader: &mut Self::Reader,
        at: &mut Option<Row>,
        model: &Model,
    ) -> Result<bool, TestCaseError>;
}

/// A source, its number, and the event time of its last row or promise.
struct Feeder<S> {
    number: usize,
    ts: i64,
    source: S,
}

/// A reader and its position.
struct Consumer<R> {
    reader: R,
    at: Option<Row>,
}

/// Runs a history on a gate and on the model.
pub(crate) fn run<G: Gate>(sources: usize, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut model = Model { sources: vec![(Some(i64::MIN), 0); sources], ..Model::default() };
    let (made, reader) = G::new(sources);
    let feeder = |(number, source)| Feeder { number, ts: -100, source };
    let mut feeders: Vec<Feeder<G::Source>> = made.into_iter().enumerate().map(feeder).collect();
    let mut consumers = vec![Consumer { reader, at: None }];
    for step in steps {
        match step {
            Step::Push { source, rises } if !feeders.is_empty() => {
                let which = source % feeders.len();
                let feeder = &mut feeders[which];
                let mut rows = Vec::new();
                for rise in rises {
                    feeder.ts += i64::from(rise);
                    rows.push(model.push(feeder.number, feeder.ts));
                }
                G::push(&mut feeder.source, &rows)?;
            }
            Step::Advance { source, rise } if !feeders.is_empty() => {
                let which = source % feeders.len();
                let feeder = &mut feeders[which];
                feeder.ts += i64::from(rise);
                model.sources[feeder.number].0 = Some(feeder.ts);
                G::advance(&mut feeder.source, feeder.ts);
                G::push_late(&mut feeder.source, feeder.ts - 1)?;
            }
            Step::Close { source } if !feeders.is_empty() => {
                let feeder = feeders.swap_remove(source % feeders.len());
                model.sources[feeder.number].0 = None;
                G::close(feeder.source);
            }
            Step::ForkSource { source } if !feeders.is_empty() && model.sources.len() < 12 => {
                let which = source % feeders.len();
                let feeder = &mut feeders[which];
                let (source, number, promised) = G::fork(&mut feeder.source);
                let number = usize::from(number);
                prop_assert_eq!(number, model.sources.len());
                let (promise, _) = model.sources[feeder.number];
                prop_assert_eq!(Some(promised), promise);
                let ts = feeder.ts;
                model.sources.push((promise, 0));
                feeders.push(Feeder { number, ts, source });
            }
            Step::ForkReader { reader } if consumers.len() < 4 => {
                let which = reader % consumers.len();
                let Consumer { reader, at } = &consumers[which];
                let fork = Consumer { reader: G::fork_reader(reader), at: *at };
                consumers.push(fork);
            }
            Step::DropReader { reader } if consumers.len() > 1 => {
                consumers.swap_remove(reader % consumers.len());
            }
            Step::Read { reader, times } => {
                let which = reader % consumers.len();
                let Consumer { reader, at } = &mut consumers[which];
                for _ in 0..times.min(G::READS) {
                    if !G::read(reader, at, &model)? {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    for feeder in feeders {
        model.sources[feeder.number].0 = None;
    }
    for Consumer { mut reader, mut at } in consumers {
        while G::read(&mut reader, &mut at, &model)? {}
        prop_assert_eq!(at, model.rows.last().copied());
    }
    Ok(())
}
