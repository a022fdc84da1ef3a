//! Tests joins whose engine fails and joins that run out of memory.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{
    Filter, How, JoinError, Progress, Results, RowJoin, SavedRows, Side, SideWatermarks,
};
use tidegate_sync::Stop;

use super::engine::{Engine, Prepare};
use super::{Query, operator, window_join};
use crate::columns::time::Unit;
use crate::query::identity::Identity;
use crate::query::options::JoinOptions;
use crate::stream::explanation::Explanation;
use crate::stream::intake::Order;
use crate::stream::operator::Operator;
use crate::stream::options::StreamOptions;
use crate::{Algorithm, Result, Window, WindowJoin};

/// A row join that panics when it receives its first rows.
#[derive(Debug)]
struct Broken;

impl Prepare for Broken {
    type Values<'a> = ();
    type Join = Broken;

    fn prepare(
        &mut self,
        join: &mut Broken,
        _: &Driver,
        _: [&RecordBatch; 2],
        then: impl FnOnce(&mut Broken, ()),
    ) -> Result<()> {
        then(join, ());
        Ok(())
    }

    fn release(&mut self, _: &mut Broken) {}
}

impl RowJoin<()> for Broken {
    fn begin(&mut self, _: &Driver, _: Vec<i64>, _: Vec<Side>, (): ()) {
        panic!("a broken engine")
    }

    fn epoch_rows(&self) -> usize {
        0
    }

    fn is_done(&self) -> bool {
        true
    }

    fn advance(&mut self, _: &Driver, _: Option<&Filter<'_>>) -> Result<Progress, JoinError> {
        unreachable!("no epoch has begun")
    }

    fn unmatched(&mut self, _: SideWatermarks) -> Results {
        Results::default()
    }

    fn purge(&mut self, _: SideWatermarks) {}

    fn first(&self, _: Side) -> u64 {
        0
    }

    fn rows(&self, _: Side) -> usize {
        0
    }

    fn matched(&self, _: Side) -> (Vec<bool>, usize) {
        (Vec::new(), 0)
    }

    fn comparisons(&self) -> Vec<u64> {
        Vec::new()
    }

    fn memory(&self) -> usize {
        0
    }

    fn restore(&mut self, _: &[SavedRows; 2], (): ()) {
        panic!("a broken engine")
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("t", DataType::Int64, false)]))
}

fn rows(times: Vec<i64>) -> RecordBatch {
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(times))]).expect("rows")
}

fn options() -> JoinOptions {
    JoinOptions {
        by: Vec::new(),
        predicate: None,
        how: How::Inner,
        suffix: "_right".to_owned(),
        columns: None,
        threads: 2,
        max_rows: None,
        batch_rows: None,
    }
}

fn join() -> Operator {
    let (schema, options) = (schema(), options());
    let plan = options.plan(&schema, &schema).expect("the schemas fit");
    let explanation = Explanation { lines: Vec::new(), output: String::new() };
    let query = Query {
        identity: Identity::of("broken"),
        options: &options,
        times: (0, 0),
        unit: Unit::Integer,
        plan,
        explanation,
        widths: [None, None],
        within: None,
        faults: Default::default(),
        of_one_stream: false,
        order: Order::Merged,
    };
    let streams = StreamOptions {
        sources: (1, 1),
        lateness: (None.into(), None.into()),
        memory_limit: None,
        ordered: true,
        pin: false,
    };
    let engine = Engine { prepare: Broken, join: Box::new(Broken) };
    operator(query, engine, schema.clone(), schema, &streams).expect("a join")
}

#[test]
fn a_panic_is_an_error_and_stays_one() {
    let mut join = join();
    let schema = join.sources()[0].lock().schema().clone();
    for source in join.sources() {
        let mut source = source.lock();
        source.push(&schema, vec![rows(vec![1, 2])], &Stop::default()).expect("rows in order");
        source.close();
    }
    let first = join.poll().expect_err("the engine is broken");
    assert!(first.is_bug(), "{first}");
    assert!(first.message().contains("a broken engine"), "{first}");
    let second = join.poll().expect_err("rows would be missing");
    assert_eq!(first, second);
}

/// Checks that a poll returns even if a push is retried repeatedly for lack of memory.
#[test]
fn a_push_that_is_refused_after_each_step_does_not_keep_a_poll() {
    let (algorithm, window) = (Some(Algorithm::Handshake), Window::Rows(100));
    let on = ("t".to_owned(), "t".to_owned());
    let query = WindowJoin { on, window: (window, window), algorithm, options: options() };
    let streams = StreamOptions {
        sources: (1, 1),
        lateness: (None.into(), None.into()),
        memory_limit: Some(2_000),
        ordered: true,
        pin: false,
    };
    let mut join = window_join(&query, schema(), schema(), &streams).expect("a join");
    // The rows wait for the right source.
    let push = |join: &Operator, ts: i64| {
        join.sources()[0].lock().push(&schema(), vec![rows(vec![ts])], &Stop::default())
    };
    let refused = (0..).find(|&ts| push(&join, ts).is_err()).expect("a limit");
    let step = (0..1_000).find(|_| {
        push(&join, refused).expect_err("nothing is let go of");
        join.work_shortly(None).expect("a step").is_some()
    });
    assert!(step.is_some(), "the chain is emptied again and again");
}

#[test]
fn a_join_whose_restore_failed_half_way_is_closed() {
    let snapshot = join().snapshot(&Stop::default()).expect("no rows");
    let mut other = join();
    let error = other.restore(&snapshot, &Stop::default()).expect_err("the engine is broken");
    assert!(error.is_bug(), "{error}");
    assert!(other.poll().expect_err("it is closed").is_closed());
    assert!(other.restore(&snapshot, &Stop::default()).expect_err("it is closed").is_closed());
    assert_eq!(other.memory().held(), 0);
}

#[test]
fn a_join_that_refused_a_snapshot_is_as_it_was() {
    let mut snapshot = join().snapshot(&Stop::default()).expect("no rows");
    let content = snapshot.len() - 4;
    // The number of results that have not been returned.
    snapshot[content - 1] = 0xff;
    let checksum = crc32fast::hash(&snapshot[..content]);
    snapshot[content..].copy_from_slice(&checksum.to_le_bytes());
    let mut other = join();
    let error =
        other.restore(&snapshot, &Stop::default()).expect_err("no snapshot has as many results");
    assert!(error.is_state(), "{error}");
    assert!(matches!(other.poll(), Ok(crate::stream::Poll::NotYet)));
}
