//! The rows of all sources in merged order, each source having put in its own.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_structures::papers::row_gate::{Reader, Row, ScaleGate, Source};
use tidegate_sync::OnceLink;
use tidegate_sync::atomic::Arc;

use crate::aggregate::{Epoch, Stream};
use crate::driver::{Driver, Stopped};

/// One of the two ends of a queue of times and row numbers, each of which one thread has.
pub(super) trait Queue: Send + Sized {
    fn ends() -> (Self, Self);
    fn push(&mut self, row: (i64, usize));
    fn first(&self) -> Option<(i64, usize)>;
    fn pop(&mut self);
}

/// The rows of all sources in merged order: each source puts its own into a queue, from which the
/// first of all are taken.
pub(super) fn queued<Q: Queue>(
    epoch: &Epoch<'_>,
    driver: &Driver,
) -> Result<impl Iterator<Item = (usize, usize)>, Stopped> {
    let (inputs, mut outputs): (Vec<Q>, Vec<Q>) = epoch.rows.iter().map(|_| Q::ends()).unzip();
    driver.map(
        inputs.into_iter().zip(epoch.rows).collect(),
        |(mut input, rows): (Q, &Stream<'_>)| {
            rows.ts.iter().zip(0..).for_each(|(&ts, row)| input.push((ts, row)));
        },
    )?;
    Ok(std::iter::from_fn(move || {
        let firsts =
            outputs.iter().enumerate().filter_map(|(source, queue)| Some((queue.first()?, source)));
        let ((_, row), source) = firsts.min_by_key(|&((ts, _), source)| (ts, source))?;
        outputs[source].pop();
        Some((source, row))
    }))
}

/// A queue with a lock.
pub(super) struct Locked(Arc<Mutex<VecDeque<(i64, usize)>>>);

impl Locked {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(i64, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue for Locked {
    fn ends() -> (Self, Self) {
        let queue = Arc::default();
        (Locked(Arc::clone(&queue)), Locked(queue))
    }

    fn push(&mut self, row: (i64, usize)) {
        self.lock().push_back(row);
    }

    fn first(&self) -> Option<(i64, usize)> {
        self.lock().front().copied()
    }

    fn pop(&mut self) {
        self.lock().pop_front();
    }
}

/// A list that one thread lengthens and one shortens, neither waiting for the other: the queue of
/// Michael and Scott, "Simple, fast, and practical non-blocking and blocking concurrent queue
/// algorithms" (1996), with one thread at each end. The end stands at the row that was put or taken
/// last.
pub(super) struct End(Arc<Link>);

#[derive(Default)]
struct Link {
    row: (i64, usize),
    next: OnceLink<Link>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.next.unchain(|link| &mut link.next);
    }
}

impl Queue for End {
    fn ends() -> (Self, Self) {
        let link = Arc::default();
        (End(Arc::clone(&link)), End(link))
    }

    fn push(&mut self, row: (i64, usize)) {
        let link = Arc::new(Link { row, next: OnceLink::default() });
        let put = self.0.next.set(link.clone());
        debug_assert!(put.is_ok(), "one thread puts rows in");
        self.0 = link;
    }

    fn first(&self) -> Option<(i64, usize)> {
        self.0.next.peek().map(|link| link.row)
    }

    fn pop(&mut self) {
        if let Some(next) = self.0.next.get() {
            self.0 = next;
        }
    }
}

/// A reader of all rows in merged order, each source having put its own in.
pub(super) fn merged(epoch: &Epoch<'_>, driver: &Driver) -> Result<Reader<u32>, Stopped> {
    let (sources, mut readers) =
        ScaleGate::new(epoch.rows.len(), 1).expect("as many sources as an operator may have");
    driver.map(
        sources.into_iter().zip(epoch.rows).collect(),
        |(mut source, rows): (Source<u32>, &Stream<'_>)| {
            for (&ts, row) in rows.ts.iter().zip(0..) {
                source.push(ts, row).expect("rows are in order, and nothing limits the gate");
            }
        },
    )?;
    Ok(readers.pop().expect("there is one"))
}

/// A row of the gate as its source and its number there.
#[inline]
pub(super) fn numbered(row: Row<'_, u32>) -> (usize, usize) {
    (usize::from(row.id.source()), *row.payload as usize)
}
