//! Both gates against a model that is obviously right, on one thread.
//!
//! Random histories of pushes, promises, forks, closes and reads are run on the model, the row gate
//! (plain, shared and keyed readers) and the block gate. Every answer must be the model's: the row,
//! or that nothing is ready, or the end. So these tests catch wrong order, rows lost, doubled or
//! given too early, and readiness that is not exact. They cannot catch races: see `loom_gate.rs`
//! and `stress_gate.rs`.

use std::collections::BTreeSet;
use std::ops::Bound;

use proptest::prelude::*;
use tidegate_structures::gate::{BlockGate, BlockReader, BlockSource, Next, Rejected, Tier};
use tidegate_structures::papers::row_gate::{Reader, ScaleGate, Source};

/// `(ts, rank, position)`
type Row = (i64, Rank, u64);

/// A source's tier and number.
type Rank = (Tier, u16);

/// The contract, word for word, over sets.
#[derive(Default)]
struct Model {
    rows: BTreeSet<Row>,
    /// Promise of each source, `None` when closed, and how many rows it pushed.
    sources: Vec<(Option<i64>, u64)>,
    /// The sources in the last tier.
    last: BTreeSet<usize>,
}

impl Model {
    fn rank(&self, source: usize) -> Rank {
        let tier = if self.last.contains(&source) { Tier::Last } else { Tier::First };
        (tier, source as u16)
    }

    fn push(&mut self, source: usize, ts: i64) -> Row {
        let rank = self.rank(source);
        let (promise, pushed) = &mut self.sources[source];
        let row = (ts, rank, *pushed);
        *promise = Some(ts);
        *pushed += 1;
        self.rows.insert(row);
        row
    }

    /// For every other source j: watermark(j) > ts, or watermark(j) == ts and j sorts after.
    fn is_ready(&self, row: Row) -> bool {
        self.sources.iter().enumerate().all(|(other, &(promise, _))| {
            let rank = self.rank(other);
            rank == row.1 || promise.is_none_or(|promise| (promise, rank) > (row.0, row.1))
        })
    }

    fn next(&self, after: Option<Row>) -> Next<Row> {
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
enum Step {
    Push { source: usize, rises: Vec<u8> },
    Advance { source: usize, rise: u8 },
    Close { source: usize },
    ForkSource { source: usize },
    ForkReader { reader: usize },
    DropReader { reader: usize },
    Read { reader: usize, rows: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let which = || 0..usize::MAX;
    // Rises of 0 are ties; a large rise now and then makes sources overtake one another.
    let rise = || prop_oneof![3 => Just(0u8), 4 => 1..4u8, 1 => 20..60u8];
    let rises = prop::collection::vec(rise(), 1..12);
    prop_oneof![
        8 => (which(), rises).prop_map(|(source, rises)| Step::Push { source, rises }),
        3 => (which(), rise()).prop_map(|(source, rise)| Step::Advance { source, rise }),
        1 => which().prop_map(|source| Step::Close { source }),
        1 => which().prop_map(|source| Step::ForkSource { source }),
        1 => which().prop_map(|reader| Step::ForkReader { reader }),
        1 => which().prop_map(|reader| Step::DropReader { reader }),
        8 => (which(), 1..20usize).prop_map(|(reader, rows)| Step::Read { reader, rows }),
    ]
}

/// A source of both gates.
struct Feeder {
    number: usize,
    /// Event time of its last row or promise.
    ts: i64,
    rows: Source<Row>,
    runs: BlockSource<Vec<i64>>,
}

/// A reader of both gates, with its place in each.
struct Consumer {
    rows: Reader<Row>,
    row_at: Option<Row>,
    blocks: BlockReader<Vec<i64>>,
    block_at: Option<Row>,
}

/// Reads a row; whether there was one.
fn read_row(consumer: &mut Consumer, model: &Model) -> Result<bool, TestCaseError> {
    let found = match consumer.rows.next_ready() {
        Next::Ready(row) => {
            let rank = (Tier::First, row.id.source());
            prop_assert_eq!(*row.payload, (row.ts, rank, row.id.position()));
            Next::Ready(*row.payload)
        }
        Next::NotYet => Next::NotYet,
        Next::End => Next::End,
    };
    prop_assert_eq!(found, model.next(consumer.row_at));
    consumer.row_at = found.ready().or(consumer.row_at);
    Ok(found.ready().is_some())
}

/// Reads a block; whether there was one.
fn read_block(
    reader: &mut BlockReader<Vec<i64>>,
    at: &mut Option<Row>,
    model: &Model,
) -> Result<bool, TestCaseError> {
    let block = match reader.next_block() {
        Next::Ready(block) => block,
        Next::NotYet => {
            prop_assert_eq!(model.next(*at), Next::NotYet);
            return Ok(false);
        }
        Next::End => {
            prop_assert_eq!(model.next(*at), Next::End);
            return Ok(false);
        }
    };
    prop_assert!(block.len() > 0);
    for (&ts, id) in block.ts().iter().zip(block.ids()) {
        let row = (ts, model.rank(id.source().into()), id.position());
        prop_assert_eq!(Next::Ready(row), model.next(*at));
        let of = block.runs().filter(|run| run.first <= *id && *id < run.first.plus(run.run.len()));
        let found: Vec<_> =
            of.map(|run| run.run[(id.position() - run.first.position()) as usize]).collect();
        prop_assert_eq!(found, [ts], "the row's run comes with the block, once");
        *at = Some(row);
    }
    Ok(true)
}

fn run(sources: usize, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut model = Model { sources: vec![(Some(i64::MIN), 0); sources], ..Model::default() };
    let (rows, mut row_readers) = ScaleGate::new(sources, 1).unwrap();
    let (runs, mut block_readers) = BlockGate::new(sources, 1).unwrap();
    let feeder = |(number, (rows, runs))| Feeder { number, ts: -100, rows, runs };
    let mut feeders: Vec<Feeder> = rows.into_iter().zip(runs).enumerate().map(feeder).collect();
    let (rows, blocks) = (row_readers.pop().unwrap(), block_readers.pop().unwrap());
    let mut consumers = vec![Consumer { rows, row_at: None, blocks, block_at: None }];
    for step in steps {
        match step {
            Step::Push { source, rises } if !feeders.is_empty() => {
                let which = source % feeders.len();
                let feeder = &mut feeders[which];
                let mut column = Vec::new();
                for rise in rises {
                    feeder.ts += i64::from(rise);
                    column.push(feeder.ts);
                    let row = model.push(feeder.number, feeder.ts);
                    prop_assert!(feeder.rows.push(feeder.ts, row).is_ok());
                }
                prop_assert!(feeder.runs.push(column).is_ok());
            }
            Step::Advance { source, rise } if !feeders.is_empty() => {
                let which = source % feeders.len();
                let feeder = &mut feeders[which];
                feeder.ts += i64::from(rise);
                let ts = feeder.ts;
                model.sources[feeder.number].0 = Some(ts);
                feeder.rows.advance(ts);
                feeder.runs.advance(ts);
                let late = (ts - 1, (Tier::First, 0), 0);
                prop_assert_eq!(
                    feeder.rows.push(ts - 1, late).map_err(Rejected::into_inner),
                    Err(late)
                );
                prop_assert_eq!(
                    feeder.runs.push(vec![ts - 1]).map_err(Rejected::into_inner),
                    Err(vec![ts - 1])
                );
            }
            Step::Close { source } if !feeders.is_empty() => {
                let feeder = feeders.swap_remove(source % feeders.len());
                model.sources[feeder.number].0 = None;
                feeder.rows.close();
                feeder.runs.close();
            }
            Step::ForkSource { source } if !feeders.is_empty() && model.sources.len() < 12 => {
                let which = source % feeders.len();
                let feeder = &mut feeders[which];
                let (rows, runs) = (feeder.rows.fork().unwrap(), feeder.runs.fork().unwrap());
                prop_assert_eq!((rows.number(), rows.promised()), (runs.number(), runs.promised()));
                let number = usize::from(rows.number());
                prop_assert_eq!(number, model.sources.len());
                let ts = feeder.ts;
                model.sources.push((model.sources[feeder.number].0, 0));
                feeders.push(Feeder { number, ts, rows, runs });
            }
            Step::ForkReader { reader } if consumers.len() < 4 => {
                let which = reader % consumers.len();
                let Consumer { rows, row_at, blocks, block_at } = &consumers[which];
                let fork = Consumer {
                    rows: rows.fork(),
                    row_at: *row_at,
                    blocks: blocks.fork(),
                    block_at: *block_at,
                };
                consumers.push(fork);
            }
            Step::DropReader { reader } if consumers.len() > 1 => {
                consumers.swap_remove(reader % consumers.len());
            }
            Step::Read { reader, rows } => {
                let which = reader % consumers.len();
                let consumer = &mut consumers[which];
                for _ in 0..rows {
                    if !read_row(consumer, &model)? {
                        break;
                    }
                }
                read_block(&mut consumer.blocks, &mut consumer.block_at, &model)?;
            }
            _ => {}
        }
    }
    for feeder in feeders {
        model.sources[feeder.number].0 = None;
    }
    for mut consumer in consumers {
        while read_row(&mut consumer, &model)? {}
        while read_block(&mut consumer.blocks, &mut consumer.block_at, &model)? {}
        prop_assert_eq!(consumer.rows.next_ready(), Next::End);
        prop_assert_eq!(consumer.row_at, model.rows.last().copied());
        prop_assert_eq!(consumer.block_at, model.rows.last().copied());
    }
    Ok(())
}

/// A step of a gate with sources in two tiers; the source is chosen at random.
#[derive(Clone, Debug)]
enum TierStep {
    Push { source: usize, rises: Vec<u8> },
    Advance { source: usize, rise: u8 },
    Close { source: usize },
    Fork { source: usize, is_last: bool, rise: u8 },
    Read { reader: usize },
}

fn tier_step() -> impl Strategy<Value = TierStep> {
    let which = || 0..usize::MAX;
    // Most rows have the same time as another row.
    let rise = || prop_oneof![5 => Just(0u8), 2 => 1..3u8];
    let rises = prop::collection::vec(rise(), 1..6);
    prop_oneof![
        8 => (which(), rises).prop_map(|(source, rises)| TierStep::Push { source, rises }),
        3 => (which(), rise()).prop_map(|(source, rise)| TierStep::Advance { source, rise }),
        1 => which().prop_map(|source| TierStep::Close { source }),
        2 => (which(), any::<bool>(), rise())
            .prop_map(|(source, is_last, rise)| TierStep::Fork { source, is_last, rise }),
        8 => which().prop_map(|reader| TierStep::Read { reader }),
    ]
}

/// Compares a block gate, which has sources in two tiers and two readers, with the model.
fn run_tiers(are_last: Vec<bool>, steps: Vec<TierStep>) -> Result<(), TestCaseError> {
    let mut model =
        Model { sources: vec![(Some(i64::MIN), 0); are_last.len()], ..Model::default() };
    model.last.extend((0..are_last.len()).filter(|&source| are_last[source]));
    let tiers = (0..are_last.len()).map(|source| model.rank(source).0);
    let (mut feeders, mut readers) = BlockGate::tiered(tiers, 2).unwrap();
    let mut at = [None; 2];
    let after = |promised: i64, rise: u8| promised.max(-100) + i64::from(rise);
    for step in steps {
        match step {
            TierStep::Push { source, rises } if !feeders.is_empty() => {
                let which = source % feeders.len();
                let feeder: &mut BlockSource<Vec<i64>> = &mut feeders[which];
                let mut ts = after(feeder.promised(), 0);
                let mut column = Vec::new();
                for rise in rises {
                    ts += i64::from(rise);
                    column.push(ts);
                    model.push(feeder.number().into(), ts);
                }
                prop_assert!(feeder.push(column).is_ok());
            }
            TierStep::Advance { source, rise } if !feeders.is_empty() => {
                let which = source % feeders.len();
                let ts = after(feeders[which].promised(), rise);
                feeders[which].advance(ts);
                model.sources[usize::from(feeders[which].number())].0 = Some(ts);
            }
            TierStep::Close { source } if !feeders.is_empty() => {
                let feeder = feeders.swap_remove(source % feeders.len());
                model.sources[usize::from(feeder.number())].0 = None;
                feeder.close();
            }
            TierStep::Fork { source, is_last, rise }
                if !feeders.is_empty() && model.sources.len() < 12 =>
            {
                let which = source % feeders.len();
                let parent = &mut feeders[which];
                let is_before = model.last.contains(&parent.number().into()) && !is_last;
                let from = after(parent.promised(), rise) + i64::from(is_before);
                let tier = if is_last { Tier::Last } else { Tier::First };
                let fork = parent.fork_at(tier, from).unwrap();
                prop_assert_eq!(usize::from(fork.number()), model.sources.len());
                model.last.extend(is_last.then_some(model.sources.len()));
                model.sources.push((Some(from), 0));
                feeders.push(fork);
            }
            TierStep::Read { reader } => {
                read_block(&mut readers[reader % 2], &mut at[reader % 2], &model)?;
            }
            _ => {}
        }
    }
    drop(feeders);
    model.sources.iter_mut().for_each(|(promise, _)| *promise = None);
    for (reader, at) in readers.iter_mut().zip(&mut at) {
        while read_block(reader, at, &model)? {}
        prop_assert_eq!(*at, model.rows.last().copied());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn oracle_both_gates_are_the_model(sources in 0..6usize, steps in prop::collection::vec(step(), 0..80)) {
        run(sources, steps)?;
    }

    #[test]
    fn oracle_blocks_of_two_tiers_are_the_model(
        are_last in prop::collection::vec(any::<bool>(), 1..5),
        steps in prop::collection::vec(tier_step(), 0..80),
    ) {
        run_tiers(are_last, steps)?;
    }

    #[test]
    fn oracle_shared_readers_take_each_row_once(
        columns in prop::collection::vec(prop::collection::vec(0..50i64, 0..60), 1..5),
        turns in prop::collection::vec(0..3usize, 1..400),
    ) {
        let (sources, mut readers) = ScaleGate::new::<()>(columns.len(), 1).unwrap();
        let first = readers.pop().unwrap().share();
        let mut readers = [first.fork(), first.fork(), first];
        let mut expected = Vec::new();
        for (mut source, mut column) in sources.into_iter().zip(columns) {
            column.sort_unstable();
            for (position, ts) in column.into_iter().enumerate() {
                expected.push((ts, source.number(), position as u64));
                source.push(ts, ()).unwrap();
            }
        }
        expected.sort_unstable();
        let mut taken = Vec::new();
        for reader in turns.into_iter().chain(std::iter::repeat_n(0, expected.len())) {
            if let Next::Ready(row) = readers[reader].next_ready() {
                taken.push((row.ts, row.id.source(), row.id.position()));
            }
        }
        prop_assert_eq!(taken, expected);
        prop_assert!(readers.iter_mut().all(|reader| reader.next_ready() == Next::End));
    }

    #[test]
    fn oracle_keyed_readers_split_the_stream(keys in prop::collection::vec(any::<u64>(), 0..200), parts in 1..5usize) {
        let (mut sources, mut readers) = ScaleGate::new::<u64>(1, parts).unwrap();
        for (ts, key) in keys.iter().enumerate() {
            sources[0].push(ts as i64, *key).unwrap();
        }
        drop(sources);
        let mut taken = Vec::new();
        for part in 0..parts {
            let mut reader = readers.pop().unwrap().keyed(part, parts, |row| *row.payload);
            let before = taken.len();
            while let Next::Ready(row) = reader.next_ready() {
                taken.push((row.ts, *row.payload));
            }
            prop_assert!(taken[before..].is_sorted());
        }
        taken.sort_unstable();
        prop_assert_eq!(taken, (0..).zip(keys).collect::<Vec<(i64, u64)>>());
    }
}
