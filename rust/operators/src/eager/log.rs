//! The rows of a side in the order of their arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::rows::{How, Interval, KeptColumn, NO_KEY, Reach, Results, Side};

/// The least time that a row still to come of each side may have; `None` if none comes.
pub type Next = [Option<i64>; 2];

/// Rows that may be of no use behind one that is, before the state is made anew.
const FEW_ROWS: usize = if cfg!(test) { 8 } else { 1 << 14 };

/// The rows of both sides that are kept: their times and keys, and which have had a match.
#[derive(Debug)]
pub struct Log {
    reach: Reach,
    how: How,
    sides: [SideLog; 2],
}

#[derive(Debug)]
struct SideLog {
    /// The number of the oldest row.
    first: u64,
    ts: KeptColumn<i64>,
    keys: KeptColumn<u32>,
    /// Which rows have had a match, where that matters.
    matched: Option<KeptColumn<bool>>,
    /// The rows that may come out without a match: the last time that matches each, if one does, and
    /// its number. Some may have had a match since.
    alone: BinaryHeap<Reverse<(Option<i64>, u64)>>,
    /// Rows that are worth the look for rows of no use among them.
    worth_a_look: usize,
}

const SIDES: [Side; 2] = [Side::Left, Side::Right];

/// Whether no row from `next` on can match one that the times up to `last` match.
#[inline]
fn is_over(last: Option<i64>, next: Option<i64>) -> bool {
    match (last, next) {
        (None, _) | (_, None) => true,
        (Some(last), Some(next)) => last < next,
    }
}

impl Log {
    /// A log without rows, of a join of this kind whose rows match in this interval.
    pub fn new(interval: &Interval, how: How) -> Self {
        let side = |side| SideLog {
            first: 0,
            ts: KeptColumn::default(),
            keys: KeptColumn::default(),
            matched: how.marks(side).then(KeptColumn::default),
            alone: BinaryHeap::new(),
            worth_a_look: FEW_ROWS,
        };
        Log { reach: Reach::new(interval), how, sides: SIDES.map(side) }
    }

    /// Adds rows of a side, with their keys.
    pub fn push(&mut self, side: Side, ts: &[i64], keys: &[u32]) {
        assert_eq!(ts.len(), keys.len(), "a key a row");
        let (reach, comes_alone) = (self.reach, self.comes_alone(side));
        let log = &mut self.sides[side as usize];
        if comes_alone {
            let numbers = log.first + log.ts.len() as u64..;
            // A row without a key matches nothing, whatever its time.
            let last = |ts: i64, key: u32| (key != NO_KEY).then(|| reach.last(side, ts)).flatten();
            let rows = ts.iter().zip(keys).zip(numbers);
            log.alone.extend(rows.map(|((&ts, &key), number)| Reverse((last(ts, key), number))));
        }
        log.ts.extend(ts.iter().copied());
        log.keys.extend(keys.iter().copied());
        if let Some(matched) = &mut log.matched {
            matched.fill_to(log.ts.len(), false);
        }
    }

    /// Whether rows of a side come out that have had no match.
    fn comes_alone(&self, side: Side) -> bool {
        self.how.marks(side) && self.how != How::Semi
    }

    /// The number of the oldest row of a side that is kept.
    pub fn first(&self, side: Side) -> u64 {
        self.sides[side as usize].first
    }

    /// The rows of a side that are kept.
    pub fn rows(&self, side: Side) -> usize {
        self.sides[side as usize].ts.len()
    }

    /// Their times.
    pub fn ts(&self, side: Side) -> &[i64] {
        self.sides[side as usize].ts.as_slice()
    }

    /// Their keys.
    pub fn keys(&self, side: Side) -> &[u32] {
        self.sides[side as usize].keys.as_slice()
    }

    /// Which of them have had a match, where that matters.
    pub fn matched(&self, side: Side) -> &[bool] {
        self.sides[side as usize].matched.as_ref().map_or(&[], KeptColumn::as_slice)
    }

    /// Notes which rows of a side have had a match; for a log that was given just these rows.
    pub fn set_matched(&mut self, side: Side, flags: &[bool]) {
        if let Some(matched) = &mut self.sides[side as usize].matched {
            matched.as_mut_slice().copy_from_slice(flags);
        }
    }

    /// Whether a left and a right row of these times match.
    pub fn match_in_time(&self, left: i64, right: i64) -> bool {
        self.reached(Side::Left, left).is_some_and(|(first, last)| (first..=last).contains(&right))
    }

    /// The first and the last time of the other side that match a row of `side` at `ts`.
    #[inline]
    pub fn reached(&self, side: Side, ts: i64) -> Option<(i64, i64)> {
        Some((self.reach.first(side, ts), self.reach.last(side, ts)?))
    }

    /// The first time of rows of a side that are of use, when no row before `next` comes.
    pub(crate) fn bound(&self, side: Side, next: Next) -> i64 {
        next[side.other() as usize].map_or(i64::MAX, |next| self.reach.first(side.other(), next))
    }

    /// The results of pairs. Each pair is given once.
    pub fn collect(&mut self, pairs: Results) -> Results {
        if self.how == How::Inner {
            return pairs;
        }
        let Results { left, right } = pairs;
        for (side, offsets) in SIDES.into_iter().zip([&left, &right]) {
            if let Some(matched) = &mut self.sides[side as usize].matched
                && self.how != How::Semi
            {
                let matched = matched.as_mut_slice();
                offsets.iter().for_each(|&offset| matched[offset as usize] = true);
            }
        }
        match self.how {
            How::Semi => {
                let matched = self.sides[0].matched.as_mut().expect("a semi join marks left rows");
                let matched = matched.as_mut_slice();
                let is_first =
                    |&offset: &u32| !std::mem::replace(&mut matched[offset as usize], true);
                Results { left: left.into_iter().filter(is_first).collect(), right: Vec::new() }
            }
            How::Anti => Results::default(),
            _ => Results { left, right },
        }
    }

    /// The rows that have had no match and can have none, when no row before `next` comes.
    pub fn unmatched(&mut self, next: Next) -> Results {
        let mut results = Results::default();
        for side in SIDES {
            let log = &mut self.sides[side as usize];
            let next = next[side.other() as usize];
            while let Some(&Reverse((last, number))) = log.alone.peek()
                && is_over(last, next)
            {
                log.alone.pop();
                let offset = (number - log.first) as u32;
                if log.matched.as_ref().is_some_and(|matched| !matched[offset as usize]) {
                    results.alone(self.how, side, offset);
                }
            }
        }
        results
    }

    /// Whether the row of a side at an offset can match nothing any more.
    #[inline]
    fn is_of_no_use(&self, side: Side, offset: usize, next: Option<i64>) -> bool {
        let log = &self.sides[side as usize];
        log.keys[offset] == NO_KEY || is_over(self.reach.last(side, log.ts[offset]), next)
    }

    /// Lets go of the oldest rows, as many as can match nothing any more; how many they are. Their
    /// keys are given to `leave`. The rows that come alone have done so.
    pub fn drop_front(&mut self, side: Side, next: Next, mut leave: impl FnMut(u32)) -> usize {
        let next = next[side.other() as usize];
        let rows = self.rows(side);
        let over = (0..rows).take_while(|&row| self.is_of_no_use(side, row, next)).count();
        let log = &mut self.sides[side as usize];
        let keys = log.keys.as_slice()[..over].iter();
        keys.filter(|&&key| key != NO_KEY).for_each(|&key| leave(key));
        log.first += over as u64;
        log.ts.drop_front(over);
        log.keys.drop_front(over);
        if let Some(matched) = &mut log.matched {
            matched.drop_front(over);
        }
        over
    }

    /// Whether most rows of a side can match nothing any more, so that the state is to be made anew
    /// of the others. It is looked for when the rows have doubled.
    pub fn is_sparse(&mut self, next: Next) -> bool {
        SIDES.into_iter().fold(false, |sparse, side| {
            let rows = self.rows(side);
            if rows <= self.sides[side as usize].worth_a_look {
                return sparse;
            }
            let kept = self.kept(side, next).len();
            self.sides[side as usize].worth_a_look = FEW_ROWS.max(2 * kept);
            sparse || kept <= rows / 2
        })
    }

    /// The offsets of the rows of a side that may still match.
    pub fn kept(&self, side: Side, next: Next) -> Vec<u32> {
        let next = next[side.other() as usize];
        let is_kept = |&offset: &u32| !self.is_of_no_use(side, offset as usize, next);
        (0..self.rows(side) as u32).filter(is_kept).collect()
    }

    /// Keeps the rows of a side at these offsets, which have the numbers from the first on.
    pub fn retain(&mut self, side: Side, kept: &[u32]) {
        fn of<T: Copy>(column: &KeptColumn<T>, kept: &[u32]) -> KeptColumn<T> {
            let mut retained = KeptColumn::default();
            retained.extend(kept.iter().map(|&offset| column[offset as usize]));
            retained
        }
        let (reach, comes_alone) = (self.reach, self.comes_alone(side));
        let log = &mut self.sides[side as usize];
        (log.ts, log.keys) = (of(&log.ts, kept), of(&log.keys, kept));
        log.matched = log.matched.as_ref().map(|matched| of(matched, kept));
        log.alone.clear();
        if comes_alone && let Some(matched) = &log.matched {
            let rows = log.ts.as_slice().iter().zip(matched.as_slice()).zip(log.first..);
            let alone = rows.filter(|((_, matched), _)| !**matched);
            log.alone
                .extend(alone.map(|((&ts, _), number)| Reverse((reach.last(side, ts), number))));
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let of_side = |log: &SideLog| {
            log.ts.memory()
                + log.keys.memory()
                + log.matched.as_ref().map_or(0, KeptColumn::memory)
                + log.alone.capacity() * size_of::<Reverse<(Option<i64>, u64)>>()
        };
        self.sides.iter().map(of_side).sum()
    }
}
