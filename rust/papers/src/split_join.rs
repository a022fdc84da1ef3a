//! SplitJoin: every thread stores and compares rows independently. One tree distributes rows to the
//! threads, and another tree collects their results.
//!
//! ```text
//!               distribution tree                                  storage tree
//!                    ┌─▶ join core 0: its share of the windows ─┐
//!             ┌─ o ──┤                                          ├── o ─┐
//!             │      └─▶ join core 1                           ─┘      │
//! rows, marks ┤                                                        ├─▶ sorted from mark to mark
//!             │      ┌─▶ join core 2                           ─┐      │
//!             └─ o ──┤                                          ├── o ─┘
//!                    └─▶ join core 3                           ─┘
//! ```
//!
//! The algorithm is from Najafi, Sadoghi and Jacobsen, "SplitJoin: A Scalable, Low-latency Stream
//! Join Architecture with Adjustable Ordering Precision" (USENIX ATC 2016). Storing is separate
//! from comparing. Each join core receives every row, and compares the row with the core's share of
//! the other side's window. A core stores the row if the core's own counters show that it is the
//! core's turn. No core waits for another. Each tree node has a queue to each of its neighbours and
//! is independent of all other nodes.
//!
//! A *precision* limits how far out of order results can be. The distribution tree sends a
//! *punctuation* through all join cores after every [`PRECISION`] rows. A node of the storage tree
//! passes on its children's results as they arrive. When a punctuation arrives from one child, the
//! node waits for the other child's punctuation, and then passes on a single punctuation. Results
//! between two punctuations can therefore be in any order, but no result crosses a punctuation.
//!
//! # Departures
//!
//! 1. All rows arrive through one queue, in merged order, as SplitJoin's strict order requires. The
//!    operator's own gate has already merged several physical streams.
//!
//! 2. Results have to be in the same order as the rows. At the end of the storage tree, the results
//!    between two punctuations are sorted by row. The precision therefore determines how many
//!    results are sorted together.
//!
//! 3. The rows in an epoch pass through both trees, and all threads stop when the last row has
//!    passed.
//!
//! 4. If there are more tree nodes and join cores than threads, several of them share a thread.
//!
//! 5. A pair is compared if its rows are within the window, as in
//!    [`window::scale`](tidegate_operators::window::scale).
//!
//! # Trade-offs
//!
//! Each row passes through every node of the distribution tree, and each punctuation passes through
//! both trees. In return, only one thread uses each end of a queue.

use std::collections::VecDeque;
use std::ops::Range;

use tidegate_structures::gate::Next;
use tidegate_sync::{Receiver, Sender, ring};

use super::stages::{Did, Stage, run, taking};
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_operators::predicate::Term;
use tidegate_operators::rows::{How, Retention, Side};
use tidegate_operators::window::scale::{
    CompareRows, MatchedRow, Processor, ScaleAlgorithm, ScaleJoin,
};

/// The number of rows between two punctuations.
const PRECISION: usize = if cfg!(test) { 3 } else { 64 };

/// The capacity of a queue between two nodes.
const QUEUE: usize = if cfg!(test) { 2 } else { 256 };

/// The maximum number of messages that a tree node passes on per turn.
const BATCH: usize = if cfg!(test) { 2 } else { 64 };

/// A message that passes through a tree.
#[derive(Debug)]
enum TreeMessage<T> {
    Item(T),
    /// All items before this punctuation have been passed on.
    Punctuation,
    /// No message follows.
    End,
}

type In<T> = Receiver<TreeMessage<T>>;
type Out<T> = Sender<TreeMessage<T>>;

/// Creates an empty window join that uses SplitJoin with the given number of join cores; see
/// [`ScaleJoin::new`].
///
/// ```
/// use tidegate_operators::driver::Driver;
/// use tidegate_papers::split_join::split_join;
/// use tidegate_operators::rows::{How, Retention, RowJoin, Side};
/// use tidegate_sync::Stop;
///
/// let window = Retention::Time { left: 10, right: 10 };
/// let mut join = split_join(window, How::Inner, 3, true, Vec::new());
/// let driver = Driver::new(2, Stop::default());
/// join.begin(&driver, vec![1, 2, 30], vec![Side::Left, Side::Right, Side::Left], Some(&[]));
/// let pairs = join.advance(&driver, None)?.into_results();
/// assert_eq!((pairs.left, pairs.right), (vec![0], vec![0]));
/// # Ok::<(), tidegate_operators::rows::JoinError>(())
/// ```
pub fn split_join(
    retention: Retention,
    how: How,
    threads: usize,
    ordered: bool,
    terms: Vec<Term>,
) -> ScaleJoin {
    ScaleJoin::new(retention, how, ScaleAlgorithm::ScaleJoin, threads, ordered, terms)
        .comparing_by(Box::new(SplitTrees))
}

struct SplitTrees;

impl CompareRows for SplitTrees {
    fn compare(
        &self,
        rows: Range<usize>,
        _: &[Side],
        processors: Vec<Processor<'_>>,
        driver: &Driver,
    ) -> Result<Vec<MatchedRow>, Stopped> {
        let (mut matches, mut sorted) = (Vec::new(), 0);
        let mut nodes: Vec<Stage<'_>> = Vec::new();
        let (to_cores, from_root) = distribution(processors.len(), &mut nodes);
        let (from_cores, results) = storage(processors.len(), &mut nodes);
        // 1. Join cores are the first stages, so each stays on its thread.
        let cores = processors.into_iter().zip(to_cores).zip(from_cores);
        let mut stages: Vec<Stage<'_>> = cores
            .map(|((mut processor, rows), out)| {
                core(rows, out, move |row| {
                    let offsets = processor.process(row as usize);
                    (!offsets.is_empty()).then_some(MatchedRow { row: row as usize, offsets })
                })
            })
            .collect();
        stages.extend(nodes);
        // 2. The rows, with their punctuations.
        stages.push(feed(rows, from_root));
        // 3. The results, from punctuation to punctuation.
        stages.push(taking(outcome(results), |found| match found {
            Some(found) => matches.push(found),
            None => {
                matches[sorted..].sort_by_key(|found: &MatchedRow| found.row);
                sorted = matches.len();
            }
        }));
        run(driver, Vec::new(), stages)?;
        Ok(matches)
    }
}

/// Creates a tree that sends everything to the given number of leaves. Returns the leaves' queues
/// and the queue into the root.
fn distribution<'a, T: Copy + Send + 'a>(
    leaves: usize,
    nodes: &mut Vec<Stage<'a>>,
) -> (Vec<In<T>>, Out<T>) {
    let (root, mut level) = ring(QUEUE);
    let mut queues = VecDeque::from([level]);
    while queues.len() < leaves {
        // The node of the leaf nearest to the root is given two children.
        level = queues.pop_front().expect("there is a root");
        let (left, right) = (ring(QUEUE), ring(QUEUE));
        nodes.push(split(level, [left.0, right.0]));
        queues.extend([left.1, right.1]);
    }
    (queues.into(), root)
}

/// Creates a tree that collects everything from the given number of leaves. Returns the leaves'
/// queues and the queue out of the root.
fn storage<'a, T: Send + 'a>(leaves: usize, nodes: &mut Vec<Stage<'a>>) -> (Vec<Out<T>>, In<T>) {
    let (mut level, root) = ring(QUEUE);
    let mut queues = VecDeque::from([level]);
    while queues.len() < leaves {
        level = queues.pop_front().expect("there is a root");
        let (left, right) = (ring(QUEUE), ring(QUEUE));
        nodes.push(gather([left.1, right.1], level));
        queues.extend([left.0, right.0]);
    }
    (queues.into(), root)
}

/// Sends the rows, with a punctuation after every few rows, and then an end message.
fn feed<'a>(rows: Range<usize>, out: Out<u32>) -> Stage<'a> {
    let last = rows.end;
    let sent = rows.clone().flat_map(move |row| {
        let is_due = (row + 1 - rows.start).is_multiple_of(PRECISION) || row + 1 == last;
        [Some(TreeMessage::Item(row as u32)), is_due.then_some(TreeMessage::Punctuation)]
    });
    let mut sent = sent.flatten().chain([TreeMessage::End]);
    let mut out = NeighbourOutlet::new(out);
    Box::new(move || out.turn(|| sent.next()))
}

/// Creates a node of the distribution tree, which sends everything to both children.
fn split<'a, T: Copy + Send + 'a>(mut from: In<T>, to: [Out<T>; 2]) -> Stage<'a> {
    let [left, right] = to;
    let (mut left, mut right) = (NeighbourOutlet::new(left), NeighbourOutlet::new(right));
    Box::new(move || {
        let mut did = Did::Nothing;
        for _ in 0..BATCH {
            // If one child has no room for a message, the message and the node wait.
            if !(left.is_free() & right.is_free()) {
                return did;
            }
            if left.has_ended {
                return Did::Last;
            }
            let Some(sent) = from.receive() else { return did };
            left.put(match sent {
                TreeMessage::Item(item) => TreeMessage::Item(item),
                TreeMessage::Punctuation => TreeMessage::Punctuation,
                TreeMessage::End => TreeMessage::End,
            });
            right.put(sent);
            did = Did::Some;
        }
        did
    })
}

/// Creates a join core. It sends the matches of each row, and passes on each punctuation after the
/// matches of the rows before it.
fn core<'a, T: Copy + Send + 'a, F: Send + 'a>(
    mut rows: In<T>,
    out: Out<F>,
    mut compare: impl FnMut(T) -> Option<F> + Send + 'a,
) -> Stage<'a> {
    let mut out = NeighbourOutlet::new(out);
    Box::new(move || {
        let mut did = Did::Nothing;
        for _ in 0..BATCH {
            if !out.is_free() {
                return did;
            }
            if out.has_ended {
                return Did::Last;
            }
            let Some(sent) = rows.receive() else { return did };
            did = Did::Some;
            match sent {
                TreeMessage::Item(row) => {
                    compare(row).into_iter().for_each(|it| out.put(TreeMessage::Item(it)))
                }
                TreeMessage::Punctuation => out.put(TreeMessage::Punctuation),
                TreeMessage::End => out.put(TreeMessage::End),
            }
        }
        did
    })
}

/// Creates a node of the storage tree, which passes on the messages from both children. Messages
/// from a child that is one punctuation ahead of the other are held back.
fn gather<'a, T: Send + 'a>(from: [In<T>; 2], to: Out<T>) -> Stage<'a> {
    let mut children = from.map(|from| (from, Lead::No));
    let mut out = NeighbourOutlet::new(to);
    Box::new(move || {
        let mut did = Did::Nothing;
        for nth in 0..2 * BATCH {
            if !out.is_free() {
                return did;
            }
            if out.has_ended {
                return Did::Last;
            }
            let (from, ahead) = &mut children[nth % 2];
            if *ahead == Lead::No
                && let Some(sent) = from.receive()
            {
                did = Did::Some;
                match sent {
                    TreeMessage::Item(item) => out.put(TreeMessage::Item(item)),
                    TreeMessage::Punctuation => *ahead = Lead::Punctuation,
                    TreeMessage::End => *ahead = Lead::End,
                }
            }
            let is_ahead = |by: Lead| children.iter().all(|child| child.1 == by);
            if is_ahead(Lead::Punctuation) {
                children.iter_mut().for_each(|child| child.1 = Lead::No);
                out.put(TreeMessage::Punctuation);
            } else if is_ahead(Lead::End) {
                out.put(TreeMessage::End);
            }
        }
        did
    })
}

/// Returns the messages from the storage tree, where `None` means a punctuation.
fn outcome<T>(mut root: In<T>) -> impl FnMut() -> Next<Option<T>> {
    move || match root.receive() {
        Some(TreeMessage::Item(item)) => Next::Ready(Some(item)),
        Some(TreeMessage::Punctuation) => Next::Ready(None),
        Some(TreeMessage::End) => Next::End,
        None => Next::NotYet,
    }
}

/// One child's lead over the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    No,
    Punctuation,
    End,
}

/// A queue to a neighbour, and a message that is waiting for room in the queue.
#[derive(Debug)]
struct NeighbourOutlet<T> {
    queue: Out<T>,
    waiting: Option<TreeMessage<T>>,
    /// True if the end message has been sent.
    has_ended: bool,
}

impl<T> NeighbourOutlet<T> {
    fn new(queue: Out<T>) -> Self {
        NeighbourOutlet { queue, waiting: None, has_ended: false }
    }

    /// Returns whether a message can be sent. A message can be sent if no other message is waiting
    /// for room.
    fn is_free(&mut self) -> bool {
        if let Some(waiting) = self.waiting.take() {
            self.waiting = self.queue.send(waiting).err();
        }
        self.waiting.is_none()
    }

    fn put(&mut self, sent: TreeMessage<T>) {
        debug_assert!(self.waiting.is_none(), "no message waits for room");
        self.has_ended |= matches!(sent, TreeMessage::End);
        self.waiting = self.queue.send(sent).err();
    }

    /// Sends the next messages as long as there is room.
    fn turn(&mut self, mut next: impl FnMut() -> Option<TreeMessage<T>>) -> Did {
        let mut did = Did::Nothing;
        for _ in 0..BATCH {
            if !self.is_free() {
                return did;
            }
            let Some(sent) = next() else { return Did::Last };
            self.put(sent);
            did = Did::Some;
        }
        did
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tidegate_sync::Stop;

    use super::*;

    /// Sends all rows through both trees. Each core responds with the results of `answer`. Returns
    /// the output, split at punctuations.
    fn through(
        rows: usize,
        cores: usize,
        threads: usize,
        answer: impl Fn(usize, u32) -> Option<(usize, u32)> + Sync,
    ) -> Vec<Vec<(usize, u32)>> {
        let groups = Mutex::new(vec![Vec::new()]);
        let mut stages: Vec<Stage<'_>> = Vec::new();
        let (to_cores, root) = distribution(cores, &mut stages);
        let (from_cores, results) = storage(cores, &mut stages);
        assert_eq!(stages.len(), 2 * (cores - 1), "binary trees");
        let answer = &answer;
        for (nth, (rows, out)) in to_cores.into_iter().zip(from_cores).enumerate() {
            stages.push(core(rows, out, move |row| answer(nth, row)));
        }
        stages.push(feed(0..rows, root));
        stages.push(taking(outcome(results), |found| {
            let mut groups = groups.lock().unwrap();
            match found {
                Some(found) => groups.last_mut().unwrap().push(found),
                None => groups.push(Vec::new()),
            }
        }));
        run(&Driver::new(threads, Stop::default()), Vec::new(), stages).unwrap();
        groups.into_inner().unwrap()
    }

    #[test]
    fn every_core_gets_every_row_in_order_and_nothing_crosses_a_punctuation() {
        for (cores, threads) in [(1, 1), (2, 1), (3, 2), (5, 3), (8, 4)] {
            for rows in [0, 1, PRECISION, 5 * PRECISION + 1] {
                let groups = through(rows, cores, threads, |core, row| Some((core, row)));
                // The last group follows the last punctuation.
                assert_eq!(groups.len(), rows.div_ceil(PRECISION) + 1, "{cores} cores");
                for (nth, group) in groups.iter().enumerate() {
                    for core in 0..cores {
                        let own = group.iter().filter(|found| found.0 == core);
                        let own: Vec<u32> = own.map(|found| found.1).collect();
                        let from = (nth * PRECISION).min(rows);
                        let upto = ((nth + 1) * PRECISION).min(rows);
                        let expected: Vec<u32> = (from as u32..upto as u32).collect();
                        assert_eq!(own, expected, "core {core} of {cores}, group {nth}");
                    }
                }
            }
        }
    }

    #[test]
    fn cores_that_find_nothing_hold_nobody_up() {
        for cores in [2, 7] {
            let found = through(100, cores, 3, |core, row| (core == 1).then_some((core, row)));
            let rows: Vec<u32> = found.concat().into_iter().map(|found| found.1).collect();
            assert_eq!(rows, (0..100).collect::<Vec<u32>>());
        }
    }
}
