//! Limits the partners of each left row to the nearest few.
//!
//! The candidates of a left row are a run in time order, so the nearest few are part of the run:
//!
//! ```text
//!              left row
//!                 ┊
//!   run   ●  ●  ● ┊ ●     ●  ●
//!               └─┊─┘                 the two nearest
//!         └──┘    ┊                   the first two
//!                 ┊       └──┘        the last two
//! ```
//!
//! Candidates that are not selected are never listed. With a predicate, candidates are tested in
//! [`Rounds`] until a left row has enough partners.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;

use super::{AsOf, Rounds, Strategy, Toward};
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::{Matches, RowLists, Run};
use crate::rows::{Closed, Interval};

/// The candidates that are selected if a left row has too many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The candidates that are first in time order.
    First,
    /// The candidates that are last in time order.
    Last,
    /// The candidates that are nearest in time. In a tie, the earlier candidate is selected.
    Nearest,
}

/// The number of partners that each left row can have, and how they are selected.
///
/// Candidates with equal times are in row order. Among the candidates at or before the time of the
/// left row, the last one is the nearest. Among those after it, the first one is the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearness {
    /// The candidates that are selected.
    pub preference: Preference,
    /// The maximum number of partners per left row.
    pub limit: u32,
    /// `true` if a right row with the same time as the left row can be its partner. Only
    /// [`Preference::Nearest`] uses this value. Otherwise, the candidates do not include such rows.
    pub exact: bool,
}

impl AsOf {
    /// Returns the rule that selects up to `limit` of a left row's candidates.
    pub fn nearness(&self, limit: u32) -> Nearness {
        let preference = match self.strategy {
            Strategy::Backward => Preference::Last,
            Strategy::Forward => Preference::First,
            Strategy::Nearest => Preference::Nearest,
        };
        Nearness { preference, limit, exact: self.exact }
    }

    /// Returns the times, relative to a left row, at which right rows can be its partners.
    pub fn candidate_interval(&self) -> Interval {
        match self.strategy {
            Strategy::Backward => self.interval(Toward::Past),
            Strategy::Forward => self.interval(Toward::Future),
            Strategy::Nearest => Interval {
                lower: self.tolerance.map(|most| -most),
                upper: self.tolerance,
                closed: Closed::Both,
            },
        }
    }
}

/// Selects the partners of each left row from its candidates, which must be in time order. The
/// matches are in time order, too. Returns `None` if there are 2^32 partners or more and they have
/// to be listed.
///
/// ```
/// use tidegate_operators::asof::{Nearness, Preference, nearest_few};
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::interval::interval_join;
/// use tidegate_operators::order::JoinColumns;
/// use tidegate_operators::rows::{Closed, Interval};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let (left, right) = ([10, 20], [8, 9, 11, 30]);
/// let [of_left, of_right] = [&left[..], &right[..]].map(|ts| JoinColumns { ts, keys: None });
/// let all = Interval { lower: None, upper: None, closed: Closed::Both };
/// let candidates = interval_join(of_left, of_right, 1, &all, &driver)?;
/// let two = Nearness { preference: Preference::Nearest, limit: 2, exact: true };
/// let found = nearest_few(candidates, two, (&left, &right), &driver)?.expect("few partners");
/// let rows = |left| found.rows_of(left).collect::<Vec<_>>();
/// assert_eq!((rows(0), rows(1)), (vec![1, 2], vec![2, 3]));
/// # Ok::<(), Stopped>(())
/// ```
pub fn nearest_few(
    mut candidates: Matches,
    nearness: Nearness,
    (left_ts, right_ts): (&[i64], &[i64]),
    driver: &Driver,
) -> Result<Option<Matches>, Stopped> {
    let Nearness { preference, limit, exact } = nearness;
    if preference == Preference::Nearest && !exact {
        let [past, future] = split(candidates, exact, (left_ts, right_ts), driver)?;
        return merged([&past, &future], limit, (left_ts, right_ts), driver);
    }
    let mut runs = candidates.take_runs();
    let time = |place: u32| right_ts[candidates.row(place) as usize];
    driver.map(parts_of(&mut runs, driver), |(first, runs): (usize, &mut [Run])| {
        for (run, &ts) in runs.iter_mut().zip(&left_ts[first..]) {
            if run.len() <= limit as usize {
                continue;
            }
            *run = match preference {
                Preference::First => Run { end: run.start + limit, ..*run },
                Preference::Last => Run { start: run.end - limit, ..*run },
                Preference::Nearest => {
                    let place = partition(*run, |place| time(place) <= ts);
                    let (past, future) = (Run { end: place, ..*run }, Run { start: place, ..*run });
                    let (before, after) = share((past, time), (future, time), limit, ts);
                    Run { start: place - before, end: place + after }
                }
            };
        }
    })?;
    Ok(Some(candidates.with_runs(runs)))
}

/// Returns the rounds in which candidates are tested with a predicate. The candidates must be in
/// time order.
pub fn rounds_of(
    candidates: Matches,
    nearness: Nearness,
    times: (&[i64], &[i64]),
    driver: &Driver,
) -> Result<Vec<Rounds>, Stopped> {
    let Nearness { preference, limit, exact } = nearness;
    Ok(match preference {
        Preference::First => vec![Rounds::of_several(candidates, Toward::Future, limit)],
        Preference::Last => vec![Rounds::of_several(candidates, Toward::Past, limit)],
        Preference::Nearest => {
            let [past, future] = split(candidates, exact, times, driver)?;
            vec![
                Rounds::of_several(past, Toward::Past, limit),
                Rounds::of_several(future, Toward::Future, limit),
            ]
        }
    })
}

/// Returns the partners found in all rounds, in time order. Returns `None` if there are 2^32
/// partners or more.
pub fn nearest_few_chosen(
    rounds: Vec<Rounds>,
    limit: u32,
    times: (&[i64], &[i64]),
    driver: &Driver,
) -> Result<Option<Matches>, Stopped> {
    let found: Option<Vec<Matches>> = rounds.into_iter().map(Rounds::into_several).collect();
    match found.as_deref() {
        None => Ok(None),
        Some([past, future]) => merged([past, future], limit, times, driver),
        Some(_) => Ok(found.and_then(|mut found| found.pop())),
    }
}

/// Returns mutable parts of the runs, each with the number of its first left row.
fn parts_of<'a>(runs: &'a mut [Run], driver: &Driver) -> Vec<(usize, &'a mut [Run])> {
    let rows = runs.len().div_ceil(driver.parts(runs.len(), PART_ROWS)).max(1);
    runs.chunks_mut(rows).enumerate().map(|(part, runs)| (part * rows, runs)).collect()
}

/// Returns the first position in a run for which a predicate is false. The predicate must not be
/// true for any later position.
fn partition(run: Run, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (run.start, run.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Returns how many of the last rows of `past` and of the first rows of `future` are the nearest to
/// `ts`. Each run comes with the function that returns the time at a position.
fn share(
    (past, past_time): (Run, impl Fn(u32) -> i64),
    (future, future_time): (Run, impl Fn(u32) -> i64),
    limit: u32,
    ts: i64,
) -> (u32, u32) {
    let (most_before, most_after) = (past.len() as u32, future.len() as u32);
    let (mut before, mut after) = (0, 0);
    while before + after < limit && (before < most_before || after < most_after) {
        let is_past = after == most_after
            || before < most_before
                && past_time(past.end - 1 - before).abs_diff(ts)
                    <= future_time(future.start + after).abs_diff(ts);
        before += u32::from(is_past);
        after += u32::from(!is_past);
    }
    (before, after)
}

/// Splits the candidates of each left row into those before and those after its time. Candidates at
/// the same time belong to those before it, or to neither if `exact` is `false`.
fn split(
    mut candidates: Matches,
    exact: bool,
    (left_ts, right_ts): (&[i64], &[i64]),
    driver: &Driver,
) -> Result<[Matches; 2], Stopped> {
    let mut past = candidates.take_runs();
    let mut future = Pages::<Run>::unwritten(past.len());
    let mut rest = &mut future[..];
    let mut work = Vec::new();
    for (first, past) in parts_of(&mut past, driver) {
        let (future, others) = std::mem::take(&mut rest).split_at_mut(past.len());
        rest = others;
        work.push((first, past, future));
    }
    driver.map(work, |(first, past, future): (usize, &mut [Run], &mut [Slot<Run>])| {
        for ((run, future), &ts) in past.iter_mut().zip(future).zip(&left_ts[first..]) {
            let time = |place: u32| right_ts[candidates.row(place) as usize];
            let after = partition(*run, |place| time(place) <= ts);
            future.set(Run { start: after, end: run.end });
            run.end = match exact {
                true => after,
                false => partition(*run, |place| time(place) < ts),
            };
        }
    })?;
    let of_future = candidates.with_same_rows(future.written());
    Ok([candidates.with_runs(past), of_future])
}

/// Lists the nearest few of the rows before and after each left row, in time order. Returns `None`
/// if there are 2^32 rows or more.
fn merged(
    [past, future]: [&Matches; 2],
    limit: u32,
    (left_ts, right_ts): (&[i64], &[i64]),
    driver: &Driver,
) -> Result<Option<Matches>, Stopped> {
    let parts = ranges(left_ts.len(), driver.parts(left_ts.len(), PART_ROWS));
    let pieces = driver.map(parts, |part: Range<usize>| {
        let mut lists = RowLists { lengths: memory::vec(part.len()), rows: Vec::new() };
        for left in part {
            let (before, after, ts) = (past.runs()[left], future.runs()[left], left_ts[left]);
            let time = |matches: &Matches, place| right_ts[matches.row(place) as usize];
            let (of_past, of_future) = share(
                (before, |place| time(past, place)),
                (after, |place| time(future, place)),
                limit,
                ts,
            );
            memory::reserve(&mut lists.rows, (of_past + of_future) as usize);
            lists.rows.extend((before.end - of_past..before.end).map(|place| past.row(place)));
            let places = after.start..after.start + of_future;
            lists.rows.extend(places.map(|place| future.row(place)));
            lists.lengths.push(of_past + of_future);
        }
        lists
    })?;
    let total: usize = pieces.iter().map(|piece| piece.rows.len()).sum();
    if u32::try_from(total).is_err() {
        return Ok(None);
    }
    let found = Matches::of_pieces(pieces, 0, left_ts.len(), past.right_rows(), driver)?;
    Ok(Some(found.in_time_order()))
}
