//! Checks index-based joins against a loop over all pairs. This file is also included by the tests
//! of the published joins, which are in another crate. The enclosing module imports the names that
//! this file uses.

use proptest::prelude::*;

use super::{
    Bands, Driver, Filter, FilterError, Find, How, IndexJoin, JoinError, NO_ROW, Progress, Results,
    Retention, RowJoin, SavedRows, Side, Stop,
};

/// A row: its time, its side, and its values in two columns. Each value can be missing.
pub(crate) type Row = (i64, Side, [Option<i64>; 2]);

/// The sort key of result rows: first by time, then pairs before unmatched rows, then by row
/// position.
type Order = (i64, u8, usize, usize);

/// For each column, the lower and upper bounds on the right value minus the left value.
pub(crate) type Within = [(i64, i64); 2];

pub(crate) const NUMBERS: [Side; 2] = [Side::Left, Side::Right];

/// Returns whether the values of two rows match.
fn close(l: &Row, r: &Row, within: &Within, columns: usize) -> bool {
    (0..columns).all(|column| {
        let (Some(l), Some(r)) = (l.2[column], r.2[column]) else { return false };
        let difference = i128::from(r) - i128::from(l);
        (i128::from(within[column].0)..=i128::from(within[column].1)).contains(&difference)
    })
}

/// Returns whether an earlier row is still in the window of a row at `ts`. The earlier row is the
/// `nth` on its side, and `came` rows on that side precede the row at `ts`.
fn meets(
    window: Retention,
    side: Side,
    (nth, earlier): (usize, i64),
    came: usize,
    ts: i64,
) -> bool {
    match window {
        Retention::Time { .. } => {
            i128::from(ts) - i128::from(earlier) <= i128::from(window.length(side))
        }
        Retention::Rows { .. } => (came - nth) as u64 <= window.length(side),
    }
}

/// Returns the result rows in the specified order, as pairs of a left and a right row number.
fn oracle(
    rows: &[Row],
    window: Retention,
    within: &Within,
    columns: usize,
    how: How,
    keep: &dyn Fn(u32, u32) -> bool,
) -> Vec<(u32, u32)> {
    let mut found: Vec<(Order, (u32, u32))> = Vec::new();
    // The number of each row within its side, and the number of rows on each side before it.
    let mut came = [0; 2];
    let before: Vec<[usize; 2]> = rows
        .iter()
        .map(|row| {
            let before = came;
            came[row.1 as usize] += 1;
            before
        })
        .collect();
    let number = |at: usize| before[at][rows[at].1 as usize];
    let mut matched = vec![false; rows.len()];
    for (later, row) in rows.iter().enumerate() {
        for (earlier, other) in
            rows[..later].iter().enumerate().filter(|(_, other)| other.1 != row.1)
        {
            let came = before[later][other.1 as usize];
            let (l, r) = if row.1 == Side::Left { (later, earlier) } else { (earlier, later) };
            if meets(window, other.1, (number(earlier), other.0), came, row.0)
                && close(&rows[l], &rows[r], within, columns)
                && keep(number(l) as u32, number(r) as u32)
            {
                (matched[l], matched[r]) = (true, true);
                found.push(((row.0, 0, later, earlier), (number(l) as u32, number(r) as u32)));
            }
        }
    }
    for (at, &(ts, side, _)) in rows.iter().enumerate().filter(|&(at, _)| !matched[at]) {
        let wanted = match side {
            Side::Left => how.keeps_left() || how == How::Anti,
            Side::Right => how.keeps_right(),
        };
        let length = window.length(side);
        let last = match window {
            Retention::Time { .. } => i64::try_from(i128::from(ts) + i128::from(length)).ok(),
            Retention::Rows { .. } => {
                let successor = rows.iter().enumerate().filter(|(_, row)| row.1 == side);
                successor.map(|(_, row)| row.0).nth(number(at) + length as usize)
            }
        };
        let row = if side == Side::Left {
            (number(at) as u32, NO_ROW)
        } else {
            (NO_ROW, number(at) as u32)
        };
        if wanted {
            found.push(((last.unwrap_or(i64::MAX), 1, at, 0), row));
        }
    }
    found.sort();
    let mut rows: Vec<(u32, u32)> = found.into_iter().map(|(_, row)| row).collect();
    match how {
        How::Semi => {
            let mut seen = std::collections::HashSet::new();
            rows.retain(|row| seen.insert(row.0));
            rows.iter_mut().for_each(|row| row.1 = NO_ROW);
        }
        How::Anti => rows.retain(|row| row.1 == NO_ROW),
        _ => {}
    }
    rows
}

/// The columns of some rows on each side, as codes and ranges.
pub(crate) struct Columns([[Vec<i64>; 3]; 2]);

impl Columns {
    pub(crate) fn new<'a>(rows: impl Iterator<Item = &'a Row>, within: &Within) -> Self {
        let mut columns = Columns(Default::default());
        for (_, side, values) in rows {
            for ((column, value), &(below, above)) in columns.0.iter_mut().zip(values).zip(within) {
                // A right row searches for left rows with the bounds reversed.
                let (below, above) =
                    if *side == Side::Left { (below, above) } else { (-above, -below) };
                let (code, low, high) = match value {
                    Some(value) => {
                        (*value, value.saturating_add(below), value.saturating_add(above))
                    }
                    None => (7, 1, 0),
                };
                let overflows = value.is_some_and(|value| {
                    i128::from(value) + i128::from(above) < i128::from(i64::MIN)
                        || i128::from(value) + i128::from(below) > i128::from(i64::MAX)
                });
                let (low, high) = if overflows { (1, 0) } else { (low, high) };
                column
                    .iter_mut()
                    .zip([code, low, high])
                    .for_each(|(values, value)| values.push(value));
            }
        }
        columns
    }

    pub(crate) fn bands(&self, columns: usize) -> Vec<Bands<'_>> {
        self.0[..columns].iter().map(|[codes, low, high]| Bands { codes, low, high }).collect()
    }
}

/// The division of the rows into epochs, and the joins that process them.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    epochs: Vec<usize>,
    pub(crate) threads: usize,
    ordered: bool,
    /// The number of epochs after which another join takes over the rows kept by this one.
    restores: usize,
    /// The number of epochs after which the join indexes the other column instead.
    exchanges: usize,
}

pub(crate) fn manner() -> impl Strategy<Value = Manner> {
    let epochs = prop::collection::vec(1_usize..80, 1..8);
    let after = || 1_usize..9;
    (epochs, 1_usize..4, any::<bool>(), after(), after()).prop_map(
        |(epochs, threads, ordered, restores, exchanges)| Manner {
            epochs,
            threads,
            ordered,
            restores,
            exchanges,
        },
    )
}

/// Creates the index that finds matches for a join with this many sides.
pub(crate) type Finder<'a> = &'a dyn Fn(usize) -> Box<dyn Find>;

type Join = IndexJoin<Box<dyn Find>>;
type Keep<'a> = Option<&'a (dyn Fn(u32, u32) -> bool + Sync)>;

/// Joins an epoch, and returns its results as row numbers. The numbers of each side's rows are
/// offset by the side's entry in `base`.
pub(crate) fn epoch<F: Find>(
    join: &mut IndexJoin<F>,
    rows: &[Row],
    (within, columns): (&Within, usize),
    driver: &Driver,
    base: [u64; 2],
    keep: Keep<'_>,
    is_self_join: bool,
) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    let number = |join: &IndexJoin<F>, side: Side, offset| match offset {
        NO_ROW => NO_ROW,
        _ => (base[side as usize] + join.first(side)) as u32 + offset,
    };
    let right_side = if is_self_join { Side::Left } else { Side::Right };
    let mut add = |join: &IndexJoin<F>, results: Results| {
        let right = results.right.iter().copied().chain(std::iter::repeat(NO_ROW));
        found.extend(
            results
                .left
                .iter()
                .zip(right)
                .map(|(&l, r)| (number(join, Side::Left, l), number(join, right_side, r))),
        );
    };
    let of_sides =
        NUMBERS.map(|side| Columns::new(rows.iter().filter(|row| row.1 == side), within));
    let bands = [of_sides[0].bands(columns), of_sides[1].bands(columns)];
    let (ts, sides) = rows.iter().map(|&(ts, side, _)| (ts, side)).unzip();
    join.begin(driver, ts, sides, [&bands[0], &bands[1]]);
    while !join.is_done() {
        let filter = |left: &[u32], right: &[u32]| -> Result<Vec<bool>, FilterError> {
            let keep = keep.expect("there is a filter");
            let moved = |numbers: &[u32], side: usize| {
                numbers.iter().map(|&n| n + base[side] as u32).collect::<Vec<_>>()
            };
            Ok(moved(left, 0).into_iter().zip(moved(right, 1)).map(|(l, r)| keep(l, r)).collect())
        };
        let filter: Option<&Filter<'_>> = if keep.is_some() { Some(&filter) } else { None };
        match join.advance(driver, filter).unwrap() {
            Progress::Results(results) => add(join, results),
            Progress::Pieces(pieces) => {
                pieces.into_iter().for_each(|rows| add(join, join.assemble(rows)))
            }
        }
    }
    let now = rows.last().map(|row| row.0);
    let results = join.unmatched([now; 2]);
    add(join, results);
    join.purge([now; 2]);
    found
}

fn run(
    rows: &[Row],
    window: Retention,
    within: &Within,
    columns: usize,
    how: How,
    (manner, finder): (&Manner, Finder<'_>),
    keep: Keep<'_>,
) -> Vec<(u32, u32)> {
    let make = || IndexJoin::of_two_streams(window, how, columns, manner.ordered, finder(2));
    let driver = Driver::new(manner.threads, Stop::default());
    let (mut join, mut base) = (make(), [0; 2]);
    let mut found = Vec::new();
    let (mut rows, mut within) = (rows.to_vec(), *within);
    let (mut done, mut epochs) = (0, 0);
    let mut lengths = manner.epochs.iter().cycle();
    while done < rows.len() {
        let head = &rows[done..rows.len().min(done + lengths.next().expect("a cycle"))];
        done += head.len();
        found.extend(epoch(&mut join, head, (&within, columns), &driver, base, keep, false));
        epochs += 1;
        if epochs == manner.restores {
            join = restored(&join, &rows[..done], &within, columns, make(), &mut base);
        }
        if epochs == manner.exchanges && columns == 2 {
            join.index_by(1);
            rows.iter_mut().for_each(|row| row.2.swap(0, 1));
            within.swap(0, 1);
        }
    }
    let results = join.unmatched([None; 2]);
    let right = results.right.iter().copied().chain(std::iter::repeat(NO_ROW));
    let number = |side: Side, offset| {
        if offset == NO_ROW {
            NO_ROW
        } else {
            (base[side as usize] + join.first(side)) as u32 + offset
        }
    };
    found.extend(
        results
            .left
            .iter()
            .zip(right)
            .map(|(&l, r)| (number(Side::Left, l), number(Side::Right, r))),
    );
    join.purge([None; 2]);
    assert_eq!(
        (join.rows(Side::Left), join.rows(Side::Right)),
        (0, 0),
        "nothing is kept at the end"
    );
    found
}

/// Returns another join with the rows that `join` has kept. The number of the first kept row on
/// each side is added to `base`.
fn restored(
    join: &Join,
    came: &[Row],
    within: &Within,
    columns: usize,
    mut other: Join,
    base: &mut [u64; 2],
) -> Join {
    let of_side = |side: Side| -> Vec<Row> {
        let rows: Vec<Row> = came.iter().filter(|row| row.1 == side).copied().collect();
        rows[rows.len() - join.rows(side)..].to_vec()
    };
    let rows = NUMBERS.map(of_side);
    let of_sides = [0, 1].map(|side: usize| Columns::new(rows[side].iter(), within));
    let bands = [of_sides[0].bands(columns), of_sides[1].bands(columns)];
    let kept = [0, 1].map(|side: usize| {
        let (matched, settled) = join.matched(NUMBERS[side]);
        SavedRows { ts: rows[side].iter().map(|row| row.0).collect(), matched, settled }
    });
    other.restore(&kept, [&bands[0], &bands[1]]);
    for (base, side) in base.iter_mut().zip(NUMBERS) {
        *base += join.first(side);
    }
    other
}

pub(crate) const HOWS: [How; 6] =
    [How::Inner, How::Left, How::Right, How::Full, How::Semi, How::Anti];

pub(crate) fn rows() -> impl Strategy<Value = Vec<Row>> {
    let value = || {
        prop::option::weighted(
            0.95,
            prop_oneof![-20_i64..20, Just(0), Just(i64::MIN), Just(i64::MAX)],
        )
    };
    let row = (0_i64..60, any::<bool>(), value(), value());
    prop::collection::vec(row, 0..250).prop_map(|rows| {
        let side = |left| if left { Side::Left } else { Side::Right };
        let mut rows: Vec<Row> =
            rows.into_iter().map(|(ts, left, x, y)| (ts, side(left), [x, y])).collect();
        // In merged order, left rows precede right rows with the same time.
        rows.sort_by_key(|&(ts, side, _)| (ts, side as usize));
        rows
    })
}

pub(crate) fn window() -> impl Strategy<Value = Retention> {
    let length = || prop_oneof![0_u64..20, 0_u64..60, Just(1 << 40)];
    (any::<bool>(), length(), length()).prop_map(|(time, left, right)| match time {
        true => Retention::Time { left, right },
        false => Retention::Rows { left, right },
    })
}

pub(crate) fn within() -> impl Strategy<Value = Within> {
    let band = || (-9_i64..5, 0_i64..12).prop_map(|(below, width)| (below, below + width));
    (band(), band()).prop_map(|(one, other)| [one, other])
}

/// Asserts that a join of two streams returns the same rows as the loop. If the join is not
/// ordered, the rows can be in any order.
pub(crate) fn assert_right(
    rows: &[Row],
    window: Retention,
    (within, columns): (&Within, usize),
    how: How,
    (manner, finder): (&Manner, Finder<'_>),
    filters: bool,
) -> Result<(), TestCaseError> {
    let keep = |l: u32, r: u32| !(l.wrapping_mul(7) ^ r.wrapping_mul(13)).is_multiple_of(3);
    let keep_all = |_: u32, _: u32| true;
    let kept: &dyn Fn(u32, u32) -> bool = if filters { &keep } else { &keep_all };
    let mut expected = oracle(rows, window, within, columns, how, kept);
    let keep: Keep<'_> = if filters { Some(&keep) } else { None };
    let mut found = run(rows, window, within, columns, how, (manner, finder), keep);
    if !manner.ordered {
        expected.sort_unstable();
        found.sort_unstable();
    }
    prop_assert_eq!(found, expected);
    Ok(())
}

/// Asserts that the join of a stream with itself returns the same rows as a loop.
pub(crate) fn assert_self_join_right(
    mut rows: Vec<Row>,
    window: Retention,
    within: i64,
    columns: usize,
    (manner, finder): (&Manner, Finder<'_>),
) -> Result<(), TestCaseError> {
    rows.iter_mut().for_each(|row| row.1 = Side::Left);
    rows.sort_by_key(|row| row.0);
    let within = [(-within, within); 2];
    let mut expected: Vec<(u32, u32)> = Vec::new();
    for (later, row) in rows.iter().enumerate() {
        for (earlier, other) in rows[..later].iter().enumerate() {
            let in_window = meets(window, Side::Left, (earlier, other.0), later, row.0);
            if in_window && close(row, other, &within, columns) {
                expected.push((later as u32, earlier as u32));
            }
        }
    }
    let mut join: Join = IndexJoin::of_one_stream(window, columns, true, finder(1));
    let driver = Driver::new(manner.threads, Stop::default());
    let (mut found, mut rest) = (Vec::new(), &rows[..]);
    for &len in manner.epochs.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (head, tail) = rest.split_at(len.min(rest.len()));
        rest = tail;
        found.extend(epoch(&mut join, head, (&within, columns), &driver, [0; 2], None, true));
    }
    prop_assert_eq!(found, expected);
    Ok(())
}

/// Asserts that a join returns `Stopped` after a stop request.
pub(crate) fn assert_stops(finder: Box<dyn Find>) {
    let rows: Vec<Row> = (0..300).map(|n| (n, NUMBERS[n as usize % 2], [Some(1), None])).collect();
    let window = Retention::Rows { left: 10, right: 10 };
    let columns =
        NUMBERS.map(|side| Columns::new(rows.iter().filter(|row| row.1 == side), &[(0, 0); 2]));
    let bands = [columns[0].bands(1), columns[1].bands(1)];
    let mut join = IndexJoin::of_two_streams(window, How::Inner, 1, true, finder);
    let driver = Driver::new(2, Stop::default());
    let (ts, sides) = rows.iter().map(|&(ts, side, _)| (ts, side)).unzip();
    join.begin(&driver, ts, sides, [&bands[0], &bands[1]]);
    driver.stop().request();
    assert!(matches!(join.advance(&driver, None), Err(JoinError::Stopped(_))));
}
