//! Explores all interleavings that loom can model in small handshake chains with one thread per
//! node.
//!
//! `make loom` runs these tests. The models detect two errors. A neighbour may see a row before the
//! row is written, and a mark may be raised before the corresponding pairs are visible.
//! `schedules.rs` uses much longer histories to test which pairs are found for each order of the
//! nodes' steps. The number of preemptions is limited to 2, because a full search would take hours.

use std::ops::Range;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{Retention, Side};
use tidegate_papers::handshake::{
    Burst, Chain, Columns, Feed, HandshakeAlgorithm, HandshakeJoin, Node, Pair, Predicate, Seat,
};
use tidegate_papers::threads::Turn;
use tidegate_sync::{Stop, explore};

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

/// A predicate that accepts all pairs.
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

/// Feeds one row per side and a punctuation to a chain. Node 0 runs on this thread, and the other
/// node runs on a separate thread.
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

/// Adds epochs of these rows one by one to a chain in which each node runs on its own thread.
/// Afterwards, takes the pairs that were found and stops the threads.
///
/// Loom rejects a model if a node waits forever for a message or for room, or if this thread waits
/// forever for pairs. Loom also rejects a model in which no thread feeds the waiting rows.
fn free(
    preemptions: usize,
    algorithm: HandshakeAlgorithm,
    nodes: usize,
    epochs: &'static [&'static [Side]],
    pairs: usize,
) {
    explore(Some(preemptions), move || {
        let window = Retention::Rows { left: 100, right: 100 };
        let predicate = std::sync::Arc::new(Any);
        let (mut join, seats) =
            HandshakeJoin::with_seats(predicate, window, algorithm, nodes, true);
        let run = |seat: Seat<Any>| thread::spawn(move || seat.run());
        let threads: Vec<_> = seats.into_iter().map(run).collect();
        let driver = Driver::new(1, Stop::default());
        for sides in epochs {
            let count = |side| Count(sides.iter().filter(|other| **other == side).count());
            let ts = vec![0; sides.len()];
            join.begin(ts, sides.to_vec(), count(Side::Left), count(Side::Right));
        }
        let mut found = 0;
        let mut take = |join: &mut HandshakeJoin<Any>| {
            while !join.is_done() {
                found += join.advance(&driver).expect("the driver is not stopped").left.len();
            }
        };
        take(&mut join);
        if algorithm == HandshakeAlgorithm::Original {
            join.end();
            take(&mut join);
        }
        assert_eq!(found, pairs);
        join.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn loom_free_chain_of_one_node() {
    free(2, HandshakeAlgorithm::LowLatency, 1, &[&[Side::Left, Side::Right]], 1);
}

#[test]
fn loom_free_chain_rows_follow_while_others_are_on_their_way() {
    // More messages than can be in transit at the same time.
    let one: &[Side] = &[Side::Left, Side::Right];
    free(1, HandshakeAlgorithm::LowLatency, 1, Box::leak(Box::new([one, &[Side::Right], one])), 6);
}

#[test]
fn loom_free_chain_room_for_results() {
    // A node waits after it has found 8 pairs that have not been taken.
    let sides: &[Side] = &[Side::Left, Side::Left, Side::Left];
    let others: &[Side] = &[Side::Right, Side::Right, Side::Right];
    free(
        1,
        HandshakeAlgorithm::LowLatency,
        1,
        Box::leak(Box::new([sides, others, &others[..1]])),
        12,
    );
}

#[test]
fn loom_free_chain_of_two_nodes() {
    free(1, HandshakeAlgorithm::LowLatency, 2, &[&[Side::Left, Side::Right]], 1);
}

#[test]
fn loom_free_original_chain() {
    free(1, HandshakeAlgorithm::Original, 1, &[&[Side::Left, Side::Right]], 1);
}
