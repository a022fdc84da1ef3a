//! Compares the block gate with an obviously correct model (`gate_model.rs`) on one thread. Some
//! tests have sources in two tiers. These tests do not detect races (see `loom_gate.rs` and
//! `stress_gate.rs`).

use proptest::prelude::*;
use tidegate_structures::gate::{BlockGate, BlockReader, BlockSource, Next, Rejection, Tier};

use crate::gate_model::{Gate, Model, Row, run, step};

type Source = BlockSource<Vec<i64>>;
type Reader = BlockReader<Vec<i64>>;

struct Blocks;

impl Gate for Blocks {
    type Source = Source;
    type Reader = Reader;

    const READS: usize = 1;

    fn new(sources: usize) -> (Vec<Source>, Reader) {
        let (sources, mut readers) = BlockGate::new(sources, 1).unwrap();
        (sources, readers.pop().unwrap())
    }

    fn push(source: &mut Source, rows: &[Row]) -> Result<(), TestCaseError> {
        prop_assert!(source.push(rows.iter().map(|row| row.0).collect()).is_ok());
        Ok(())
    }

    fn push_late(source: &mut Source, ts: i64) -> Result<(), TestCaseError> {
        prop_assert_eq!(source.push(vec![ts]).map_err(Rejection::into_inner), Err(vec![ts]));
        Ok(())
    }

    fn advance(source: &mut Source, ts: i64) {
        source.advance(ts);
    }

    fn close(source: Source) {
        source.close();
    }

    fn fork(source: &mut Source) -> (Source, u16, i64) {
        let fork = source.fork().unwrap();
        let (number, promised) = (fork.number(), fork.promised());
        (fork, number, promised)
    }

    fn fork_reader(reader: &Reader) -> Reader {
        reader.fork()
    }

    fn read(
        reader: &mut Reader,
        at: &mut Option<Row>,
        model: &Model,
    ) -> Result<bool, TestCaseError> {
        read_block(reader, at, model)
    }
}

/// Reads a block and returns whether there was one.
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
        prop_assert_eq!(found, [ts], "the block contains the row's run once");
        *at = Some(row);
    }
    Ok(true)
}

/// A step of a history in which a gate has sources in two tiers. The source is chosen at random.
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

/// Runs a history on a block gate that has sources in two tiers and two readers, and on the model.
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
    fn oracle_blocks_are_the_model(sources in 0..6usize, steps in prop::collection::vec(step(), 0..80)) {
        run::<Blocks>(sources, steps)?;
    }

    #[test]
    fn oracle_blocks_of_two_tiers_are_the_model(
        are_last in prop::collection::vec(any::<bool>(), 1..5),
        steps in prop::collection::vec(tier_step(), 0..80),
    ) {
        run_tiers(are_last, steps)?;
    }
}
