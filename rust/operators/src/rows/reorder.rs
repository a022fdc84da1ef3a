//! Sorts one source's rows by time, within the source's lateness.
//!
//! ```text
//! lateness 5    pushed    10  14  12  21   9   18
//!               watermark  5   9   9  16  16   16      largest time so far, less the lateness
//!                                          late        9 is below 16
//!               released   -   -  -   10 12 14         rows that no later row can precede
//! ```
//!
//! Whether a row is late depends only on its source's rows, never on batch boundaries.

use tidegate_structures::memory;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Rows with event times, in push order.
pub trait PushedRows: Clone {
    /// Event times.
    fn ts(&self) -> &[i64];
}

/// A row that was before its source's watermark when it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateRow {
    /// The position of the row in its push.
    pub row: u32,
    /// The watermark when the row arrived.
    pub watermark: i64,
}

/// Rows in time order. No later row from the source can precede these rows.
#[derive(Debug)]
pub enum ReleasedRows<P> {
    /// Adjacent rows of one push.
    Slice(P, Range<usize>),
    /// Rows from several pushes, or rows whose order has changed.
    Rows {
        /// Event times.
        ts: Vec<i64>,
        /// The payloads that contain the rows.
        payloads: Vec<P>,
        /// For each row, the index of its payload and the row number within that payload.
        places: Vec<(u32, u32)>,
    },
}

/// Holds back a source's rows until they are in time order.
///
/// Every change is first prepared as a draft. Preparing a draft determines which rows are late and
/// which rows are released. Preparation can fail if memory runs out. [`commit`](Self::commit) then
/// applies the draft. A dropped draft has no effect.
#[derive(Debug)]
pub struct Reorder<P> {
    lateness: Option<i64>,
    watermark: i64,
    /// Pushes with rows that have not been released, indexed by push number.
    pending: BTreeMap<u64, PendingPush<P>>,
    /// For each pending push, the time of its next row and the number of the push. With this index,
    /// a release visits only the pushes that have rows to release.
    next: BTreeSet<(i64, u64)>,
    pushes: u64,
    rows: usize,
}

/// A change to a [`Reorder`] that has not been applied yet.
#[derive(Debug)]
pub struct Draft<P> {
    lateness: Option<i64>,
    watermark: i64,
    /// The pushes to add, in order.
    pushes: Vec<PendingPush<P>>,
    /// For each push that releases rows, the number of the push, and the total number of its rows
    /// that are released once the draft is committed.
    released: Vec<(u64, usize)>,
}

/// The rows from a push, which are kept until all of them have been released.
#[derive(Debug)]
struct PendingPush<P> {
    payload: P,
    /// The rows that were not late, in time order. `None` if no row was late and the rows were
    /// already in order.
    order: Option<Vec<u32>>,
    /// The number of rows that have been released.
    released: usize,
}

/// A range of rows from one push, in time order.
struct PushPart<'a, P> {
    push: &'a PendingPush<P>,
    rows: Range<usize>,
}

impl<P: PushedRows> PendingPush<P> {
    fn len(&self) -> usize {
        self.order.as_ref().map_or_else(|| self.payload.ts().len(), Vec::len)
    }

    fn row(&self, nth: usize) -> usize {
        self.order.as_ref().map_or(nth, |order| order[nth] as usize)
    }

    /// Returns the time of the next row that has not been released.
    fn next(&self) -> Option<i64> {
        (self.released < self.len()).then(|| self.payload.ts()[self.row(self.released)])
    }

    /// Returns the number of rows at or before `watermark`, including rows that have already been
    /// released.
    fn upto(&self, watermark: i64) -> usize {
        let ts = self.payload.ts();
        match &self.order {
            None => self.released + ts[self.released..].partition_point(|&ts| ts <= watermark),
            Some(order) => {
                self.released
                    + order[self.released..].partition_point(|&row| ts[row as usize] <= watermark)
            }
        }
    }
}

impl<P: PushedRows> PushPart<'_, P> {
    /// Returns the rows as a slice if they are already in order. Otherwise, sorts them.
    fn released(&self) -> ReleasedRows<P> {
        match self.push.order {
            None => ReleasedRows::Slice(self.push.payload.clone(), self.rows.clone()),
            Some(_) => merged(std::slice::from_ref(self)),
        }
    }

    /// Returns the time and row number of each row.
    fn rows(&self) -> impl Iterator<Item = (i64, u32)> {
        let ts = self.push.payload.ts();
        self.rows.clone().map(move |nth| {
            let row = self.push.row(nth);
            (ts[row], row as u32)
        })
    }
}

/// Merges the rows from several pushes by time. Rows with equal times stay in push order.
fn merged<P: PushedRows>(parts: &[PushPart<'_, P>]) -> ReleasedRows<P> {
    let mut rows: Vec<(i64, (u32, u32))> =
        memory::vec(parts.iter().map(|part| part.rows.len()).sum());
    for (payload, part) in (0..).zip(parts) {
        rows.extend(part.rows().map(|(ts, row)| (ts, (payload, row))));
    }
    // The sort is stable, and fast on the few sorted runs that it receives here.
    sort_by_key(&mut rows, |&(ts, _)| ts);
    ReleasedRows::Rows {
        ts: memory::collect(rows.iter().map(|&(ts, _)| ts)),
        payloads: parts.iter().map(|part| part.push.payload.clone()).collect(),
        places: memory::collect(rows.iter().map(|&(_, place)| place)),
    }
}

/// Sorts rows stably, after accounting for the memory that the sort needs.
fn sort_by_key<T, K: Ord>(rows: &mut [T], key: impl FnMut(&T) -> K) {
    memory::demand_values::<T>(rows.len());
    rows.sort_by_key(key);
}

impl<P> Reorder<P> {
    /// Returns the promise implied by a row at `ts`: the earliest possible time of any later row.
    /// If no lateness is set, rows imply no promise, and only [`advance`](Draft::advance) raises
    /// the watermark.
    pub fn promise(lateness: Option<i64>, ts: i64) -> i64 {
        lateness.map_or(i64::MIN, |lateness| ts.saturating_sub(lateness))
    }
}

impl<P: PushedRows> Draft<P> {
    /// Returns the draft's watermark. Rows before the watermark are no longer accepted.
    pub fn watermark(&self) -> i64 {
        self.watermark
    }

    /// Promises that all subsequent rows are at or after `ts`. A row that breaks this promise is
    /// late.
    pub fn advance(&mut self, ts: i64) {
        self.watermark = self.watermark.max(ts);
    }

    /// Checks rows without holding them back, and returns the late ones.
    pub fn pass(&mut self, ts: &[i64]) -> Vec<LateRow> {
        self.sort_out(ts).0
    }

    /// Finds the late rows, and checks whether the other rows are in time order.
    fn sort_out(&mut self, ts: &[i64]) -> (Vec<LateRow>, bool) {
        let mut late = Vec::new();
        let (mut sorted, mut last) = (true, i64::MIN);
        for (row, &ts) in ts.iter().enumerate() {
            if ts < self.watermark {
                memory::reserve(&mut late, 1);
                late.push(LateRow { row: row as u32, watermark: self.watermark });
                continue;
            }
            sorted &= ts >= last;
            last = ts;
            self.watermark = self.watermark.max(Reorder::<P>::promise(self.lateness, ts));
        }
        (late, sorted)
    }

    /// Accepts the rows from a push that are not late, and returns the late ones.
    pub fn push(&mut self, payload: P) -> Vec<LateRow> {
        let ts = payload.ts();
        let (Some(&first), Some(&last)) = (ts.first(), ts.last()) else { return Vec::new() };
        if first >= self.watermark && ts.is_sorted() {
            self.watermark = self.watermark.max(Reorder::<P>::promise(self.lateness, last));
            self.pushes.push(PendingPush { payload, order: None, released: 0 });
            return Vec::new();
        }
        let (late, sorted) = self.sort_out(ts);
        if late.len() == ts.len() {
            return late;
        }
        let order = (!sorted || !late.is_empty()).then(|| {
            let mut is_late = late.iter().map(|late| late.row).peekable();
            let used = |row: &u32| is_late.next_if_eq(row).is_none();
            let mut order = memory::vec(ts.len() - late.len());
            order.extend((0..ts.len() as u32).filter(used));
            if !sorted {
                sort_by_key(&mut order, |&row| ts[row as usize]);
            }
            order
        });
        self.pushes.push(PendingPush { payload, order, released: 0 });
        late
    }
}

impl<P: PushedRows> Reorder<P> {
    /// Creates the state for a source whose rows may be up to `lateness` behind the latest time so
    /// far. If `lateness` is `None`, rows may arrive in any order.
    pub fn new(lateness: Option<i64>) -> Self {
        let (pending, next) = (BTreeMap::new(), BTreeSet::new());
        Reorder { lateness, watermark: i64::MIN, pending, next, pushes: 0, rows: 0 }
    }

    /// Restores the state of a source that had reached `watermark`. `rows` contains the rows that
    /// had not been released yet, in time order.
    pub fn restore(lateness: Option<i64>, watermark: i64, rows: Option<P>) -> Self {
        let mut reorder = Reorder { watermark, ..Self::new(lateness) };
        rows.into_iter()
            .for_each(|payload| reorder.hold(PendingPush { payload, order: None, released: 0 }));
        reorder
    }

    /// Returns the number of rows that are held back.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns whether no rows are held back.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the watermark. Rows before the watermark are no longer accepted.
    pub fn watermark(&self) -> i64 {
        self.watermark
    }

    /// Returns an empty draft.
    pub fn draft(&self) -> Draft<P> {
        let Reorder { lateness, watermark, .. } = *self;
        Draft { lateness, watermark, pushes: Vec::new(), released: Vec::new() }
    }

    /// Applies a draft, which must have been created from the current state.
    pub fn commit(&mut self, draft: Draft<P>) {
        self.watermark = draft.watermark;
        draft.pushes.into_iter().for_each(|push| self.hold(push));
        for (at, upto) in draft.released {
            let pending = self.pending.get_mut(&at).expect("pushes with rows are kept");
            self.rows -= upto - pending.released;
            self.next.remove(&(pending.next().expect("it has rows"), at));
            pending.released = upto;
            match pending.next() {
                Some(next) => drop(self.next.insert((next, at))),
                None => drop(self.pending.remove(&at)),
            }
        }
    }

    fn hold(&mut self, pending: PendingPush<P>) {
        if let Some(next) = pending.next() {
            self.rows += pending.len();
            self.next.insert((next, self.pushes));
            self.pending.insert(self.pushes, pending);
        }
        self.pushes += 1;
    }

    /// Returns the rows at or before the draft's watermark, as consecutive runs. These rows count
    /// as released once the draft is committed.
    pub fn release(&self, draft: &mut Draft<P>) -> Vec<ReleasedRows<P>> {
        self.release_upto(draft, draft.watermark)
    }

    /// Returns all remaining rows. The rows count as released once the draft is committed.
    pub fn release_all(&self, draft: &mut Draft<P>) -> Vec<ReleasedRows<P>> {
        self.release_upto(draft, i64::MAX)
    }

    fn release_upto(&self, draft: &mut Draft<P>, watermark: i64) -> Vec<ReleasedRows<P>> {
        // 1. Find the pushes with rows to release, in order.
        let due = || self.next.range(..=(watermark, u64::MAX)).map(|&(_, at)| at);
        let has_any = |push: &PendingPush<P>| push.next().is_some_and(|next| next <= watermark);
        let mut found: Vec<(u64, &PendingPush<P>)> =
            memory::vec(due().count() + draft.pushes.len());
        found.extend(due().map(|at| (at, &self.pending[&at])));
        found.sort_unstable_by_key(|&(at, _)| at);
        found.extend((self.pushes..).zip(&draft.pushes).filter(|(_, push)| has_any(push)));
        // 2. Collect the rows of these pushes.
        let mut parts: Vec<PushPart<'_, P>> = memory::vec(found.len());
        draft.released = memory::vec(found.len());
        for (at, push) in found {
            let upto = push.upto(watermark);
            draft.released.push((at, upto));
            parts.push(PushPart { push, rows: push.released..upto });
        }
        // With a lateness of zero, no row of a push precedes a row of an earlier push.
        if self.lateness == Some(0) || parts.len() <= 1 {
            return parts.iter().map(PushPart::released).collect();
        }
        vec![merged(&parts)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl PushedRows for Vec<i64> {
        fn ts(&self) -> &[i64] {
            self
        }
    }

    /// Pushes the rows, and releases rows after each push and at the end. Returns the times of
    /// released rows, the times of late rows, and the number of remaining entries.
    fn run(pushes: &[Vec<i64>], lateness: i64) -> (Vec<i64>, Vec<i64>, usize) {
        let (mut released, mut late) = (Vec::new(), Vec::new());
        let mut reorder = Reorder::new(Some(lateness));
        let mut take = |found: Vec<ReleasedRows<Vec<i64>>>| {
            for found in found {
                match found {
                    ReleasedRows::Slice(payload, rows) => {
                        released.extend_from_slice(&payload[rows]);
                    }
                    ReleasedRows::Rows { ts, payloads, places } => {
                        for (&ts, &(payload, row)) in ts.iter().zip(&places) {
                            assert_eq!(payloads[payload as usize][row as usize], ts);
                        }
                        released.extend(ts);
                    }
                }
            }
        };
        for push in pushes {
            // A dropped draft has no effect.
            let mut dropped = reorder.draft();
            dropped.push(push.clone());
            reorder.release(&mut dropped);
            let mut draft = reorder.draft();
            late.extend(draft.push(push.clone()).iter().map(|late| push[late.row as usize]));
            take(reorder.release(&mut draft));
            reorder.commit(draft);
        }
        let mut draft = reorder.draft();
        take(reorder.release_all(&mut draft));
        reorder.commit(draft);
        let left = reorder.pending.len() + reorder.next.len() + reorder.rows();
        (released, late, left)
    }

    #[test]
    fn the_example_above() {
        let (released, late, _) = run(&[vec![10, 14, 12, 21, 9, 18]], 5);
        assert_eq!((released, late), (vec![10, 12, 14, 18, 21], vec![9]));
    }

    #[test]
    fn rows_of_one_time_stay_in_order_of_arrival() {
        let reorder = Reorder::new(Some(10));
        let mut draft = reorder.draft();
        draft.push(vec![5, 3]);
        draft.push(vec![3, 5]);
        let [ReleasedRows::Rows { places, .. }] = &reorder.release_all(&mut draft)[..] else {
            panic!("rows of two pushes")
        };
        assert_eq!(places[..], [(0, 1), (1, 0), (0, 0), (1, 1)]);
    }

    #[test]
    fn an_advance_releases_and_makes_late() {
        let mut reorder = Reorder::new(Some(100));
        let mut draft = reorder.draft();
        draft.push(vec![10, 20]);
        assert!(reorder.release(&mut draft).is_empty());
        draft.advance(10);
        let released = reorder.release(&mut draft);
        assert!(matches!(&released[..], [ReleasedRows::Slice(_, rows)] if *rows == (0..1)));
        reorder.commit(draft);
        assert_eq!((reorder.rows(), reorder.watermark()), (1, 10));
        assert_eq!(reorder.draft().push(vec![9, 10]), [LateRow { row: 0, watermark: 10 }]);
    }

    #[test]
    fn lateness_at_the_ends_of_time() {
        let (released, late, _) = run(&[vec![i64::MIN, i64::MAX, i64::MIN]], i64::MAX);
        assert_eq!((released, late), (vec![i64::MIN, i64::MAX], vec![i64::MIN]));
    }

    #[test]
    fn a_push_looks_at_no_push_that_has_nothing_to_release() {
        // With a hundred times as many pushes held back, each push takes about as long.
        let time = |pushes: i64| {
            let mut reorder = Reorder::new(Some(i64::MAX));
            let start = std::time::Instant::now();
            for ts in 0..pushes {
                let mut draft = reorder.draft();
                draft.push(vec![ts]);
                assert!(reorder.release(&mut draft).is_empty());
                reorder.commit(draft);
            }
            assert_eq!(reorder.rows(), pushes as usize);
            start.elapsed() / pushes as u32
        };
        let few = time(2_000);
        assert!(time(200_000) < few * 25 + std::time::Duration::from_micros(2));
    }

    proptest! {
        /// The released and late rows do not depend on how rows are divided into pushes. A
        /// row-by-row loop finds the same rows.
        #[test]
        fn cuts_do_not_show(
            ts in prop::collection::vec(-20_i64..20, 0..60),
            cuts in prop::collection::vec(1_usize..9, 1..20),
            lateness in 0_i64..30,
        ) {
            let (mut watermark, mut used, mut late) = (i64::MIN, Vec::new(), Vec::new());
            for &ts in &ts {
                if ts < watermark { late.push(ts) } else { used.push(ts) }
                watermark = watermark.max(ts - lateness);
            }
            used.sort_unstable();
            let (mut pushes, mut rest) = (Vec::new(), &ts[..]);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (head, tail) = rest.split_at(rest.len().min(*cut));
                pushes.push(head.to_vec());
                rest = tail;
            }
            prop_assert_eq!(run(&pushes, lateness), (used, late, 0));
        }
    }
}
