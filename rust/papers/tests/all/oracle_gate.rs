//! Compares the row gate with an obviously correct model (`gate_model.rs` in the structures crate).
//! The tests run on one thread, with plain, shared and keyed readers. These tests do not detect
//! races (see `loom_gate.rs` and `stress_gate.rs`).

use proptest::prelude::*;
use tidegate_papers::row_gate::{Reader, ScaleGate, Source};
use tidegate_structures::gate::{Next, Rejection, Tier};

use crate::gate_model::{Gate, Model, Row, run, step};

struct Rows;

impl Gate for Rows {
    type Source = Source<Row>;
    type Reader = Reader<Row>;

    const READS: usize = 20;

    fn new(sources: usize) -> (Vec<Source<Row>>, Reader<Row>) {
        let (sources, mut readers) = ScaleGate::new(sources, 1).unwrap();
        (sources, readers.pop().unwrap())
    }

    fn push(source: &mut Source<Row>, rows: &[Row]) -> Result<(), TestCaseError> {
        for &row in rows {
            prop_assert!(source.push(row.0, row).is_ok());
        }
        Ok(())
    }

    fn push_late(source: &mut Source<Row>, ts: i64) -> Result<(), TestCaseError> {
        let late = (ts, (Tier::First, 0), 0);
        prop_assert_eq!(source.push(ts, late).map_err(Rejection::into_inner), Err(late));
        Ok(())
    }

    fn advance(source: &mut Source<Row>, ts: i64) {
        source.advance(ts);
    }

    fn close(source: Source<Row>) {
        source.close();
    }

    fn fork(source: &mut Source<Row>) -> (Source<Row>, u16, i64) {
        let fork = source.fork().unwrap();
        let (number, promised) = (fork.number(), fork.promised());
        (fork, number, promised)
    }

    fn fork_reader(reader: &Reader<Row>) -> Reader<Row> {
        reader.fork()
    }

    fn read(
        reader: &mut Reader<Row>,
        at: &mut Option<Row>,
        model: &Model,
    ) -> Result<bool, TestCaseError> {
        let found = match reader.next_ready() {
            Next::Ready(row) => {
                let rank = (Tier::First, row.id.source());
                prop_assert_eq!(*row.payload, (row.ts, rank, row.id.position()));
                Next::Ready(*row.payload)
            }
            Next::NotYet => Next::NotYet,
            Next::End => Next::End,
        };
        prop_assert_eq!(found, model.next(*at));
        *at = found.ready().or(*at);
        Ok(found.ready().is_some())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn oracle_rows_are_the_model(sources in 0..6usize, steps in prop::collection::vec(step(), 0..80)) {
        run::<Rows>(sources, steps)?;
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
