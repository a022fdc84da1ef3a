//! Merges the rows from all sources. Each source adds its own rows.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::row_gate::{Reader, Row, ScaleGate};
use tidegate_structures::gate::Next;
use tidegate_sync::OnceLink;
use tidegate_sync::atomic::Arc;

use crate::stages::{Stage, feeding};
use tidegate_operators::aggregate::Epoch;

/// A queue entry: a row's time and number, or the end of the source.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueueEntry {
    Row(i64, usize),
    End,
}

/// An end of a queue. Each of the two ends is used by a single thread.
pub(super) trait QueueEnd: Send + Sized {
    fn ends() -> (Self, Self);
    fn push(&mut self, entry: QueueEntry);
    fn first(&self) -> Option<QueueEntry>;
    fn pop(&mut self);
}

/// The source's end of a queue. Dropping this end also ends the source.
struct Input<Q: QueueEnd>(Q);

impl<Q: QueueEnd> Drop for Input<Q> {
    fn drop(&mut self) {
        self.0.push(QueueEntry::End);
    }
}

/// Returns one stage per source and a function. Each stage adds its source's rows to a queue, and
/// the function returns all rows in merged order. Once every queue contains a row, the next row is
/// chosen from the first rows in all queues.
pub(super) fn queued<'a, Q: QueueEnd + 'a>(
    epoch: &'a Epoch<'_>,
) -> (Vec<Stage<'a>>, impl FnMut() -> Next<(usize, usize)> + Send + 'a) {
    let (inputs, mut outputs): (Vec<Q>, Vec<Q>) = epoch.rows.iter().map(|_| Q::ends()).unzip();
    let stages = inputs.into_iter().zip(epoch.rows).map(|(input, rows)| {
        let mut input = Input(input);
        feeding(rows.ts.iter().zip(0..), move |(&ts, row)| {
            input.0.push(QueueEntry::Row(ts, row));
        })
    });
    let next = move || {
        let mut least: Option<(i64, usize, usize)> = None;
        for (source, queue) in outputs.iter().enumerate() {
            match queue.first() {
                None => return Next::NotYet,
                Some(QueueEntry::End) => {}
                // Among equal times, the first source comes first.
                Some(QueueEntry::Row(ts, row)) => {
                    if least.is_none_or(|(earliest, ..)| ts < earliest) {
                        least = Some((ts, source, row));
                    }
                }
            }
        }
        let Some((_, source, row)) = least else { return Next::End };
        outputs[source].pop();
        Next::Ready((source, row))
    };
    (stages.collect(), next)
}

/// A queue with a lock.
pub(super) struct LockedQueue(Arc<Mutex<VecDeque<QueueEntry>>>);

impl LockedQueue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<QueueEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueEnd for LockedQueue {
    fn ends() -> (Self, Self) {
        let queue = Arc::default();
        (LockedQueue(Arc::clone(&queue)), LockedQueue(queue))
    }

    fn push(&mut self, entry: QueueEntry) {
        self.lock().push_back(entry);
    }

    fn first(&self) -> Option<QueueEntry> {
        self.lock().front().copied()
    }

    fn pop(&mut self) {
        self.lock().pop_front();
    }
}

/// A list with one appending thread and one removing thread. Neither thread waits for the other.
/// The list is the queue from Michael and Scott, "Simple, fast, and practical non-blocking and
/// blocking concurrent queue algorithms" (1996), with one thread at each end. Each end refers to
/// the entry that was added or removed last.
pub(super) struct End(Arc<QueueLink>);

struct QueueLink {
    entry: QueueEntry,
    next: OnceLink<QueueLink>,
}

impl Drop for QueueLink {
    fn drop(&mut self) {
        self.next.unchain(|link| &mut link.next);
    }
}

impl QueueEnd for End {
    fn ends() -> (Self, Self) {
        // The position before the first entry.
        let link = Arc::new(QueueLink { entry: QueueEntry::End, next: OnceLink::default() });
        (End(Arc::clone(&link)), End(link))
    }

    fn push(&mut self, entry: QueueEntry) {
        let link = Arc::new(QueueLink { entry, next: OnceLink::default() });
        let put = self.0.next.set(link.clone());
        debug_assert!(put.is_ok(), "only one thread adds entries");
        self.0 = link;
    }

    fn first(&self) -> Option<QueueEntry> {
        self.0.next.peek().map(|link| link.entry)
    }

    fn pop(&mut self) {
        if let Some(next) = self.0.next.get() {
            self.0 = next;
        }
    }
}

/// Returns one stage per source and a reader. Each stage pushes its source's rows to a gate, and
/// the reader receives all rows in merged order.
pub(super) fn merged<'a>(epoch: &'a Epoch<'_>) -> (Vec<Stage<'a>>, Reader<u32>) {
    let (sources, mut readers) = ScaleGate::new(epoch.rows.len(), 1)
        .expect("there are no more sources than an operator can have");
    let stages = sources.into_iter().zip(epoch.rows).map(|(mut source, rows)| {
        feeding(rows.ts.iter().zip(0..), move |(&ts, row)| {
            source.push(ts, row).expect("rows are in order, and nothing limits the gate");
        })
    });
    (stages.collect(), readers.pop().expect("there is one"))
}

/// Converts a row from the gate to the row's source and its number within that source.
#[inline]
pub(super) fn numbered(next: Next<Row<'_, u32>>) -> Next<(usize, usize)> {
    match next {
        Next::Ready(row) => Next::Ready((usize::from(row.id.source()), *row.payload as usize)),
        Next::NotYet => Next::NotYet,
        Next::End => Next::End,
    }
}
