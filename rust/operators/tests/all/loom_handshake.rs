//! Every interleaving that loom models of small handshake chains on threads.
//!
//! `make loom` runs these. What the models catch: rows that a neighbour sees before they are
//! written, and marks that are raised before the pairs they speak for can be seen. Which pairs are
//! found in which order of the nodes' steps is the matter of `schedules.rs`, which tries far longer
//! histories. Preemptions are bounded by 2: the full search would take hours.

use std::ops::Range;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use tidegate_operators::driver::Turn;
use tidegate_operators::papers::handshake::{
    Burst, Chain, Columns, Feed, HandshakeAlgorithm, Node, Pair, Predicate,
};
use tidegate_operators::rows::{Retention, Side};
use tidegate_sync::explore;

/// Rows without values.
#[derive(Debug, Default)]
struct Count(usize);

impl Columns for Count {
    fn len(&self) -> usize {
        self.0
    }

    fn push_rows(&mut self, _: &Self, rows: Range<usize>) {
        self.0 += rows.len();
    }

    fn drop_first(&mut self, rows: usize) {
        self.0 -= rows;
    }

    fn row_bytes(&self) -> usize {
        0
    }
}

/// All pairs match.
#[derive(Debug)]
struct Any;

impl Predicate for Any {
    type Left = Count;
    type Right = Count;

    fn pairs(
        &self,
        _: &Count,
        left_rows: Range<usize>,
        _: &Count,
        right_rows: Range<usize>,
        pairs: &mut Vec<Pair>,
    ) {
        for left in left_rows {
            pairs.extend(
                right_rows.clone().map(|right| Pair { left: left as u32, right: right as u32 }),
            );
        }
    }
}

/// Feeds a chain one row a side, and a punctuation, and steps node 0 here and the other on a thread
/// of its own.
fn model(algorithm: HandshakeAlgorithm, nodes: usize, sides: [Side; 2]) {
    explore(Some(2), move || {
        let window = Retention::Rows { left: 2, right: 2 };
        let mut chain = Chain::new(std::sync::Arc::new(Any), window, algorithm, nodes, true);
        let over = Arc::new(AtomicBool::new(false));
        let mut mine = chain.nodes.remove(0);
        let others: Vec<_> = chain
            .nodes
            .into_iter()
            .map(|mut node: Node<Any>| {
                let over = over.clone();
                thread::spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        if node.step() == Turn::Waiting {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let (feed, collector) = (&mut chain.feed, &mut chain.collector);
        let rows = Count(1);
        feed.feed(&Burst {
            ts: &[0, 0],
            sides: &sides,
            left: &rows,
            left_rows: 0..1,
            right: &rows,
            right_rows: 0..1,
        });
        let mut found = Vec::new();
        let mut pass = |feed: &mut Feed<Any>| {
            feed.punctuate();
            while !feed.is_through() {
                if mine.step() == Turn::Waiting {
                    thread::yield_now();
                }
                collector.collect(&mut found);
            }
        };
        pass(feed);
        if algorithm == HandshakeAlgorithm::Original {
            feed.end();
            pass(feed);
            pass(feed);
        }
        collector.rest(feed.rows(), &mut found);
        assert_eq!(found.len(), 1, "{found:?}");
        over.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn loom_low_latency_left_row_first() {
    model(HandshakeAlgorithm::LowLatency, 2, [Side::Left, Side::Right]);
}

#[test]
fn loom_low_latency_right_row_first() {
    model(HandshakeAlgorithm::LowLatency, 2, [Side::Right, Side::Left]);
}

#[test]
fn loom_original() {
    model(HandshakeAlgorithm::Original, 2, [Side::Left, Side::Right]);
}
