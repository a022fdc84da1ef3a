//! Merges the nodes' results into one stream in the contract's order (Figures 15 and 16, section
//! 6).

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_structures::memory;
use tidegate_sync::{HighWater, Receiver};

use super::finder::ResultPair;
use super::message::ArrivalMarks;
use super::{Bells, HandshakeAlgorithm};

/// Empties the nodes' result queues.
#[derive(Debug)]
pub struct Collector {
    algorithm: HandshakeAlgorithm,
    /// One inlet per node, in the order of the nodes.
    inlets: Vec<Inlet>,
    bells: Bells,
    arrived: [Arc<ArrivalMarks>; 2],
    /// `None` if results may be returned in any order.
    sorter: Option<Sorter>,
}

/// The connection through which a node's results arrive.
#[derive(Debug)]
pub(super) struct Inlet {
    pub(super) from: Receiver<Vec<ResultPair>>,
    pub(super) taken: u64,
    /// The number of results that the collector has taken, for the node to read.
    pub(super) mark: Arc<HighWater>,
}

impl Collector {
    pub(super) fn new(
        algorithm: HandshakeAlgorithm,
        inlets: Vec<Inlet>,
        bells: Bells,
        arrived: [Arc<ArrivalMarks>; 2],
        ordered: bool,
    ) -> Self {
        Collector { algorithm, inlets, bells, arrived, sorter: ordered.then(Sorter::default) }
    }

    /// Appends the results that are next in order. Returns the punctuation, a position in merged
    /// order. All later results are at or after this position.
    pub fn collect(&mut self, results: &mut Vec<ResultPair>) -> u64 {
        // 1. High-water marks are read before the queues. Pairs found by rows before a mark were
        //    sent before the mark was raised.
        let [left, right] = &self.arrived;
        let upto = match self.algorithm {
            // One of the two rows finds the pair, which does not precede that row.
            HandshakeAlgorithm::LowLatency => left.seq.get().min(right.seq.get()),
            // A pair is found before its left row leaves the chain. Its right row may have left
            // while the left row was between two nodes, because the left row meets it there.
            HandshakeAlgorithm::Original => left.gone.get(),
        };
        // 2. All results so far. 3. Those before the punctuation are complete.
        self.empty_queues(results);
        if let Some(sorter) = &mut self.sorter {
            sorter.release(upto, results);
        }
        upto
    }

    /// Appends all remaining results before position `end`. All messages must have passed through
    /// the chain, and the last ones must have announced that all rows have expired.
    pub fn rest(&mut self, end: u64, results: &mut Vec<ResultPair>) {
        self.empty_queues(results);
        if let Some(sorter) = &mut self.sorter {
            sorter.release(end, results);
        }
    }

    fn empty_queues(&mut self, results: &mut Vec<ResultPair>) {
        for (node, Inlet { from, taken, mark }) in self.inlets.iter_mut().enumerate() {
            let before = *taken;
            while let Some(mut found) = from.receive() {
                *taken += found.len() as u64;
                memory::check();
                match &mut self.sorter {
                    Some(sorter) => sorter.add(&found),
                    None => {
                        memory::reserve(results, found.len());
                        results.append(&mut found);
                    }
                }
            }
            if *taken > before {
                mark.raise(*taken);
                // The node may be waiting for room.
                self.bells.call(node);
            }
        }
    }

    /// Returns the number of results that are waiting for earlier results.
    pub fn buffered(&self) -> usize {
        self.sorter.as_ref().map_or(0, |sorter| sorter.held)
    }

    /// Returns the maximum number of results that have waited at the same time.
    pub fn most_buffered(&self) -> usize {
        self.sorter.as_ref().map_or(0, |sorter| sorter.most)
    }
}

/// The results of 2^SHIFT positions in merged order are sorted together. These results are few
/// enough to be sorted within a cache.
const SHIFT: u32 = if cfg!(test) { 2 } else { 8 };

/// Emits results in order, as soon as no earlier results can be found.
#[derive(Debug, Default)]
struct Sorter {
    /// Results by position, in buckets. The first bucket's number is `first`.
    buckets: VecDeque<Vec<ResultPair>>,
    first: u64,
    held: usize,
    most: usize,
}

impl Sorter {
    fn add(&mut self, found: &[ResultPair]) {
        for &result in found {
            let bucket = (result.seq >> SHIFT)
                .checked_sub(self.first)
                .expect("the punctuation has been stored") as usize;
            if self.buckets.len() <= bucket {
                self.buckets.resize_with(bucket + 1, Vec::new);
            }
            let bucket = &mut self.buckets[bucket];
            memory::reserve(bucket, 1);
            bucket.push(result);
        }
        self.held += found.len();
        self.most = self.most.max(self.held);
    }

    /// Appends the results before position `upto`, in order.
    fn release(&mut self, upto: u64, results: &mut Vec<ResultPair>) {
        let before = results.len();
        while self.first < upto >> SHIFT
            && let Some(mut bucket) = self.buckets.pop_front()
        {
            bucket.sort_unstable();
            memory::reserve(results, bucket.len());
            results.append(&mut bucket);
            self.first += 1;
        }
        self.first = self.first.max(upto >> SHIFT);
        if self.first == upto >> SHIFT
            && let Some(bucket) = self.buckets.front_mut()
        {
            bucket.sort_unstable();
            let ready = bucket.partition_point(|found| found.seq < upto);
            memory::reserve(results, ready);
            results.extend(bucket.drain(..ready));
        }
        self.held -= results.len() - before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_once_nothing_can_precede_them() {
        let mut sorter = Sorter::default();
        let found = |seq| ResultPair { seq, left: seq, right: 100 - seq };
        let mut results = Vec::new();
        sorter.add(&[9, 3, 30, 2].map(found));
        sorter.release(3, &mut results);
        sorter.add(&[4, 3].map(found));
        sorter.release(3, &mut results);
        assert_eq!(results, [found(2)]);
        sorter.release(9, &mut results);
        sorter.release(25, &mut results);
        sorter.add(&[25].map(found));
        assert_eq!((sorter.held, sorter.most), (2, 5));
        sorter.release(1 << 40, &mut results);
        assert_eq!(results, [2, 3, 3, 4, 9, 25, 30].map(found));
        assert_eq!(sorter.held, 0);
    }
}
