//! Tests small chains with every order in which the nodes can handle their messages.
//!
//! A step of a node receives one message, changes state that only this node uses, and sends
//! messages. Other nodes notice the step only through their queues. So if the queues are correct,
//! testing all orders of whole steps covers all cases. `loom_sync.rs` tests the queues, and
//! `loom_handshake.rs` tests the chain on threads. All rows are fed before the first step, because
//! the feeding time of a row only affects how early a step can take place.

use std::sync::Arc;

use proptest::prelude::*;

use super::local::Chunk;
use super::tests::{Near, Row, three_steps};
use super::{Chain, HandshakeAlgorithm, ResultPair};
use tidegate_operators::rows::{Retention, Side};

/// A step in which a node receives the next message with left rows or right rows.
type Step = (usize, Side);

/// Calls `each` with every order of steps for the given numbers of messages from the left and
/// right.
fn for_each_schedule(nodes: usize, messages: [usize; 2], each: &mut impl FnMut(&[Step])) {
    struct Search<'a, F> {
        nodes: usize,
        messages: [usize; 2],
        done: [Vec<usize>; 2],
        steps: Vec<Step>,
        each: &'a mut F,
    }
    impl<F: FnMut(&[Step])> Search<'_, F> {
        fn go(&mut self) {
            if self.steps.len() == self.nodes * (self.messages[0] + self.messages[1]) {
                return (self.each)(&self.steps);
            }
            for step in enabled(self.nodes, self.messages, &self.done) {
                self.done[step.1 as usize][step.0] += 1;
                self.steps.push(step);
                self.go();
                self.steps.pop();
                self.done[step.1 as usize][step.0] -= 1;
            }
        }
    }
    Search { nodes, messages, done: [vec![0; nodes], vec![0; nodes]], steps: Vec::new(), each }
        .go();
}

/// Returns the possible steps after each node has handled `done` messages from each side.
fn enabled(nodes: usize, messages: [usize; 2], done: &[Vec<usize>; 2]) -> Vec<Step> {
    let left =
        |node: usize| done[0][node] < if node == 0 { messages[0] } else { done[0][node - 1] };
    let right = |node: usize| {
        done[1][node] < if node + 1 == nodes { messages[1] } else { done[1][node + 1] }
    };
    let lefts = (0..nodes).filter(|&node| left(node)).map(|node| (node, Side::Left));
    let rights = (0..nodes).filter(|&node| right(node)).map(|node| (node, Side::Right));
    lefts.chain(rights).collect()
}

/// Returns the order of steps that results from `choices`, which contains one number per choice.
fn chosen_schedule(nodes: usize, messages: [usize; 2], choices: &[u8]) -> Vec<Step> {
    let mut done = [vec![0; nodes], vec![0; nodes]];
    let mut steps = Vec::new();
    for &choice in choices {
        let enabled = enabled(nodes, messages, &done);
        if enabled.is_empty() {
            break;
        }
        let step = enabled[usize::from(choice) % enabled.len()];
        done[step.1 as usize][step.0] += 1;
        steps.push(step);
    }
    steps
}

const ANY: Near = Near { within: 100, kind: None };

/// Feeds rows to a chain, with one row and its home per message. The final messages declare all
/// rows expired.
fn feed(rows: &[Row], homes: &[usize], expiries: usize, mut chain: Chain<Near>) -> Chain<Near> {
    for (row, &home) in rows.iter().zip(homes) {
        let feed = &mut chain.feed;
        let place = feed.tracker.place(row.side, row.ts);
        feed.rows += 1;
        let chunk = Arc::new(Chunk { home, places: vec![place], columns: vec![row.value] });
        match row.side {
            Side::Left => feed.send_right(Some(chunk)),
            Side::Right => feed.send_left(Some(chunk)),
        }
    }
    for _ in 0..expiries {
        chain.feed.end();
        chain.feed.punctuate();
    }
    chain
}

/// Performs steps in this order. The marks are read after every step. The test fails if a mark
/// passes a pair before the pair is found.
fn take(chain: &mut Chain<Near>, steps: &[Step], results: &mut Vec<ResultPair>) {
    for &(node, side) in steps {
        let node = &mut chain.nodes[node];
        let worked = match side {
            Side::Left => node.step_left(),
            Side::Right => node.step_right(),
        };
        assert!(worked, "the step has a message");
        chain.collector.collect(results);
    }
}

/// Sends a punctuation and performs the remaining steps.
fn drain(chain: &mut Chain<Near>, results: &mut Vec<ResultPair>) {
    chain.feed.punctuate();
    while !chain.feed.is_through() {
        chain.nodes.iter_mut().for_each(|node| {
            node.step();
        });
        chain.collector.collect(results);
    }
}

/// Returns the results of performing the steps in this order, followed by the remaining steps.
fn results(
    (rows, homes, expiries): (&[Row], &[usize], usize),
    (window, algorithm, nodes): (Retention, HandshakeAlgorithm, usize),
    steps: &[Step],
) -> Vec<(u64, u64)> {
    let mut chain =
        feed(rows, homes, expiries, Chain::new(Arc::new(ANY), window, algorithm, nodes, true));
    let mut results = Vec::new();
    take(&mut chain, steps, &mut results);
    drain(&mut chain, &mut results);
    if algorithm == HandshakeAlgorithm::Original {
        chain.feed.end();
        drain(&mut chain, &mut results);
        drain(&mut chain, &mut results);
        chain.collector.rest(chain.feed.rows(), &mut results);
    }
    results.iter().map(|found| (found.left, found.right)).collect()
}

/// Returns every way to assign one value to each of `rows` rows. There are `of` possible values.
fn every(rows: usize, of: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..of.pow(rows as u32))
        .map(move |nth| (0..rows).map(|row| nth / of.pow(row as u32) % of).collect())
}

/// Returns rows on these sides, one per time step.
fn rows_of(sides: &[usize]) -> Vec<Row> {
    let side = |nth: usize| if nth == 0 { Side::Left } else { Side::Right };
    (0..).zip(sides).map(|(ts, &nth)| Row { ts, side: side(nth), value: 0 }).collect()
}

fn messages(rows: &[Row], expiries: usize) -> [usize; 2] {
    [Side::Left, Side::Right]
        .map(|side| rows.iter().filter(|row| row.side == side).count() + expiries)
}

const WINDOWS: [Retention; 5] = [
    Retention::Time { left: u64::MAX, right: u64::MAX },
    Retention::Time { left: 1, right: 2 },
    Retention::Time { left: 0, right: 1 },
    Retention::Rows { left: 1, right: 1 },
    Retention::Rows { left: 2, right: 1 },
];

/// Returns the results of the three-step procedure for these rows.
fn expected(rows: &[Row], window: Retention) -> Vec<(u64, u64)> {
    three_steps(rows, window, |_, _| true)
}

/// Tests every schedule for every case with these parameters. Returns the number of schedules.
fn try_all(algorithm: HandshakeAlgorithm, nodes: usize, rows: usize, expiries: usize) -> usize {
    let mut schedules = 0;
    // In the original algorithm, rows have no home.
    let homes = if algorithm == HandshakeAlgorithm::LowLatency { nodes } else { 1 };
    for sides in every(rows, 2) {
        let rows = rows_of(&sides);
        for window in WINDOWS {
            let expected = expected(&rows, window);
            for homes in every(rows.len(), homes) {
                for_each_schedule(nodes, messages(&rows, expiries), &mut |steps| {
                    schedules += 1;
                    let found =
                        results((&rows, &homes, expiries), (window, algorithm, nodes), steps);
                    assert_eq!(
                        found, expected,
                        "{algorithm:?} {sides:?} {window:?} {homes:?} {steps:?}"
                    );
                });
            }
        }
    }
    schedules
}

#[test]
fn every_low_latency_schedule_finds_each_pair_once() {
    let cases = [(1, 4, 1), (2, 4, 0), (3, 3, 0), (4, 2, 0), (2, 2, 1)];
    let schedules: usize = cases
        .iter()
        .map(|&(nodes, rows, ends)| try_all(HandshakeAlgorithm::LowLatency, nodes, rows, ends))
        .sum();
    assert!(schedules > 100_000, "{schedules} schedules");
}

#[test]
fn every_original_schedule_finds_each_pair_once() {
    // Rows move on only when other rows arrive, or when all rows have expired.
    let cases = [(1, 4, 1), (2, 4, 0), (3, 3, 0), (3, 2, 1), (2, 2, 2)];
    let schedules: usize = cases
        .iter()
        .map(|&(nodes, rows, ends)| try_all(HandshakeAlgorithm::Original, nodes, rows, ends))
        .sum();
    assert!(schedules > 100_000, "{schedules} schedules");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_schedules_find_each_pair_once(
        nodes in 2usize..=5,
        rows in prop::collection::vec((0usize..2, 0usize..5), 8),
        window in prop::sample::select(&WINDOWS[..]),
        expiries in 0usize..4,
        choices in prop::collection::vec(any::<u8>(), 80),
    ) {
        let (sides, homes): (Vec<_>, Vec<_>) = rows.into_iter().map(|(side, home)| (side, home % nodes)).unzip();
        let rows = rows_of(&sides);
        let steps = chosen_schedule(nodes, messages(&rows, expiries), &choices);
        for algorithm in [HandshakeAlgorithm::LowLatency, HandshakeAlgorithm::Original] {
            let found = results((&rows, &homes, expiries), (window, algorithm, nodes), &steps);
            prop_assert_eq!(found, expected(&rows, window), "{:?} {:?}", algorithm, steps);
        }
    }
}

/// The cases in Table 1, which describe how a left row and a right row meet. Each row is either
/// fresh (it has not reached its home yet) or stored (it has passed its home).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Case {
    Met {
        left_stored: bool,
        right_stored: bool,
    },
    /// The left row had passed through the chain before the right row arrived.
    LeftThrough,
    RightThrough,
}

/// For a schedule with one row per side, returns the case in Table 1 and the step that finds the
/// pair.
fn table_1(nodes: usize, homes: &[usize], steps: &[Step]) -> (Case, Step) {
    let at = |step: Step| steps.iter().position(|&taken| taken == step).expect("every step occurs");
    // The left row reaches the nodes before `met` first, and the right row reaches the others
    // first.
    let met = (0..nodes).filter(|&node| at((node, Side::Left)) < at((node, Side::Right))).count();
    match met {
        0 => (Case::RightThrough, (homes[1], Side::Left)),
        _ if met == nodes => (Case::LeftThrough, (homes[0], Side::Right)),
        _ => {
            let (left_stored, right_stored) = (homes[0] < met, homes[1] >= met);
            // A stored right row waits at its home. A fresh right row is met at the node that
            // passed it on last.
            let finder = if right_stored { homes[1] } else { met };
            (Case::Met { left_stored, right_stored }, (finder, Side::Left))
        }
    }
}

#[test]
fn a_pair_is_found_where_table_1_says() {
    let mut cases = std::collections::BTreeSet::new();
    let window = WINDOWS[0];
    for nodes in 2..=4 {
        for sides in [[0, 1], [1, 0]] {
            let rows = rows_of(&sides);
            for homes in every(2, nodes) {
                for_each_schedule(nodes, [1, 1], &mut |steps| {
                    let fed =
                        if sides == [0, 1] { homes.clone() } else { vec![homes[1], homes[0]] };
                    let (case, expected) = table_1(nodes, &homes, steps);
                    cases.insert(case);
                    let chain = Chain::new(
                        Arc::new(ANY),
                        window,
                        HandshakeAlgorithm::LowLatency,
                        nodes,
                        false,
                    );
                    let mut chain = feed(&rows, &fed, 0, chain);
                    let mut found = Vec::new();
                    let mut finds = |step: &Step| {
                        let before = found.len();
                        take(&mut chain, &[*step], &mut found);
                        found.len() > before
                    };
                    let found_in: Vec<Step> =
                        steps.iter().copied().filter(|step| finds(step)).collect();
                    assert_eq!(found_in, [expected], "{case:?} {homes:?} {steps:?}");
                });
            }
        }
    }
    assert_eq!(cases.len(), 6, "{cases:?}");
}
