//! The results of joins, computed in the simplest way: a loop visits all pairs and sorts them as
//! documented.

use arrow_array::{ArrayRef, RecordBatch};
use tidegate::{Closed, How, Result};

use crate::query::{Query, Relation, Windows};
use crate::rows::{Rows, batch_of, pick};

/// The sort key of a row: its time, its source, and its position in the source.
pub(crate) type Place = (i128, usize, usize);

/// The row numbers of a result row; `None` for a side without a row.
pub(crate) type Pair = (Option<usize>, Option<usize>);

/// The rows of a side, and their places in merged order.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) rows: Rows,
    pub(crate) places: Vec<Place>,
    /// The times of all rows in merged order.
    sorted: Vec<i128>,
    /// The position of each row in merged order.
    ranks: Vec<usize>,
}

impl Side {
    pub(crate) fn new(rows: Rows, places: Vec<Place>) -> Self {
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|&row| places[row]);
        let mut ranks = vec![0; places.len()];
        order.iter().enumerate().for_each(|(rank, &row)| ranks[row] = rank);
        let sorted = order.iter().map(|&row| places[row].0).collect();
        Side { rows, places, sorted, ranks }
    }

    /// Creates a side from a whole table, which is one source.
    pub(crate) fn of_table(rows: Rows, source: usize) -> Self {
        let places = rows.ts.iter().enumerate().map(|(row, &ts)| (ts, source, row)).collect();
        Side::new(rows, places)
    }

    /// Returns, for each row of the other side, the number of rows that precede it in merged order.
    fn before(&self, other: &Side) -> Vec<usize> {
        let mut places = self.places.clone();
        places.sort_unstable();
        other.places.iter().map(|place| places.partition_point(|own| own < place)).collect()
    }
}

/// Returns the right rows that each left row matches, in order of their row numbers.
pub(crate) fn matches(query: &Query, left: &Side, right: &Side) -> Result<Vec<Vec<usize>>> {
    // Each row of a pair has a number of earlier rows on the other side; the later row decides.
    let (lefts_before, rights_before) = (left.before(right), right.before(left));
    let are_near = |windows: Windows, l: usize, r: usize| match windows {
        Windows::Time(of_left, of_right) => {
            let difference = right.places[r].0 - left.places[l].0;
            -of_right <= difference && difference <= of_left
        }
        Windows::Rows(of_left, _) if left.places[l] < right.places[r] => {
            lefts_before[r] - left.ranks[l] <= of_left
        }
        Windows::Rows(_, of_right) => rights_before[l] - right.ranks[r] <= of_right,
    };
    let are_in_time = |l: usize, r: usize| match query.relation {
        Relation::Interval { lower, upper, closed } => {
            is_within(right.places[r].0 - left.places[l].0, lower, upper, closed)
        }
        Relation::Window(windows) | Relation::Band { windows: Some(windows), .. } => {
            are_near(windows, l, r)
        }
        Relation::Band { windows: None, .. } => true,
        Relation::Overlap { closed, least } => {
            overlap(left.rows.spans[l], right.rows.spans[r], closed, least)
        }
    };
    let mut pairs = Vec::new();
    for l in 0..left.rows.len() {
        let of_left = (0..right.rows.len())
            .filter(|&r| are_in_time(l, r) && query.are_equal(&left.rows, l, &right.rows, r));
        pairs.extend(of_left.map(|r| (l, r)));
    }
    let kept = query.keep(&left.rows, &right.rows, &pairs)?;
    let mut matches = vec![Vec::new(); left.rows.len()];
    pairs
        .into_iter()
        .zip(kept)
        .filter(|(_, kept)| *kept)
        .for_each(|((l, r), _)| matches[l].push(r));
    Ok(matches)
}

/// Returns whether two intervals overlap by at least `least`; either end may be missing.
fn overlap(
    left: [Option<i128>; 2],
    right: [Option<i128>; 2],
    closed: Closed,
    least: Option<i128>,
) -> bool {
    let ([Some(left_from), Some(left_to)], [Some(right_from), Some(right_to)]) = (left, right)
    else {
        return false;
    };
    let meet = match closed {
        Closed::Both => left_from <= right_to && right_from <= left_to,
        _ => {
            let are_empty = left_from == left_to || right_from == right_to;
            !are_empty && left_from < right_to && right_from < left_to
        }
    };
    let common = left_to.min(right_to) - left_from.max(right_from);
    meet && least.is_none_or(|least| common >= least)
}

fn is_within(difference: i128, lower: Option<i128>, upper: Option<i128>, closed: Closed) -> bool {
    let (of_lower, of_upper) = (
        matches!(closed, Closed::Both | Closed::Left),
        matches!(closed, Closed::Both | Closed::Right),
    );
    lower.is_none_or(|lower| difference > lower || (of_lower && difference == lower))
        && upper.is_none_or(|upper| difference < upper || (of_upper && difference == upper))
}

/// Returns the result of a join of tables, in row order.
pub(crate) fn in_row_order(how: How, matches: &[Vec<usize>], right_rows: usize) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut is_matched = vec![false; right_rows];
    for (l, found) in matches.iter().enumerate() {
        found.iter().for_each(|&r| is_matched[r] = true);
        match how {
            How::Semi => pairs.extend((!found.is_empty()).then_some((Some(l), None))),
            How::Anti => pairs.extend(found.is_empty().then_some((Some(l), None))),
            _ => {
                pairs.extend(found.iter().map(|&r| (Some(l), Some(r))));
                pairs.extend((found.is_empty() && how.keeps_left()).then_some((Some(l), None)));
            }
        }
    }
    if how.keeps_right() {
        pairs.extend((0..right_rows).filter(|&r| !is_matched[r]).map(|r| (None, Some(r))));
    }
    pairs
}

/// Returns the result of a join of streams, in order. A pair is at its later row's place, and an
/// unmatched row at the place of the last row that could match it.
pub(crate) fn in_stream_order(
    query: &Query,
    left: &Side,
    right: &Side,
    matches: &[Vec<usize>],
) -> Vec<Pair> {
    let mut pairs: Vec<(Place, Place, Pair)> = Vec::new();
    let mut is_matched = vec![false; right.rows.len()];
    for (l, found) in matches.iter().enumerate() {
        for &r in found {
            is_matched[r] = true;
            let (a, b) = (left.places[l], right.places[r]);
            pairs.push((a.max(b), a.min(b), (Some(l), Some(r))));
        }
    }
    pairs.sort_unstable();
    if query.how == How::Semi {
        let mut seen = vec![false; left.rows.len()];
        let mut is_first = |pair: &Pair| {
            !std::mem::replace(&mut seen[pair.0.expect("a pair has a left row")], true)
        };
        return pairs
            .into_iter()
            .map(|(.., pair)| pair)
            .filter(&mut is_first)
            .map(|(l, _)| (l, None))
            .collect();
    }
    // Unmatched rows follow all pairs with the same time.
    let mut events: Vec<(i128, bool, Place, Place, Pair)> = Vec::new();
    if query.how != How::Anti {
        events.extend(
            pairs.into_iter().map(|(later, earlier, pair)| (later.0, false, later, earlier, pair)),
        );
    }
    if query.how.keeps_left() || query.how == How::Anti {
        for (l, _) in matches.iter().enumerate().filter(|(_, found)| found.is_empty()) {
            events.push((
                last_match(query, left, l, true),
                true,
                left.places[l],
                left.places[l],
                (Some(l), None),
            ));
        }
    }
    if query.how.keeps_right() {
        for r in (0..right.rows.len()).filter(|&r| !is_matched[r]) {
            events.push((
                last_match(query, right, r, false),
                true,
                right.places[r],
                right.places[r],
                (None, Some(r)),
            ));
        }
    }
    events.sort_unstable();
    events.into_iter().map(|(.., pair)| pair).collect()
}

/// Returns the last time at which a matching row can arrive, or the row's own time if that is
/// later. If there is no last time, returns the largest one.
fn last_match(query: &Query, side: &Side, row: usize, is_left: bool) -> i128 {
    let ts = side.places[row].0;
    let latest = if query.layout.is_whole() { i128::from(i64::MAX) } else { i128::MAX };
    let windows = match query.relation {
        Relation::Interval { lower, upper, closed } => {
            return last_in_interval(query, ts, lower, upper, closed, is_left)
                .map_or(latest, |last| last.min(latest));
        }
        Relation::Window(windows) | Relation::Band { windows: Some(windows), .. } => windows,
        Relation::Band { windows: None, .. } | Relation::Overlap { .. } => {
            unreachable!("a join of tables only")
        }
    };
    match windows {
        Windows::Time(left, right) => (ts + if is_left { left } else { right }).min(latest),
        Windows::Rows(left, right) => {
            let stays = if is_left { left } else { right };
            side.sorted.get(side.ranks[row] + stays).copied().unwrap_or(i128::MAX)
        }
    }
}

fn last_in_interval(
    query: &Query,
    ts: i128,
    lower: Option<i128>,
    upper: Option<i128>,
    closed: Closed,
    is_left: bool,
) -> Option<i128> {
    // The difference right - left is at most `upper`, and left - right is at most `-lower`.
    let (furthest, is_open) = match is_left {
        true => (upper?, matches!(closed, Closed::Left | Closed::Neither)),
        false => (-lower?, matches!(closed, Closed::Right | Closed::Neither)),
    };
    let [left, right] = query.layout.steps();
    let step = left.min(right);
    let mut later = furthest.div_euclid(step) * step;
    if later == furthest && is_open {
        later -= step;
    }
    let matches = is_within(if is_left { later } else { -later }, lower, upper, closed);
    Some(if matches { ts + later.max(0) } else { ts })
}

/// Returns the columns of the result with their documented names and order.
pub(crate) fn result(query: &Query, left: &Rows, right: &Rows, pairs: &[Pair]) -> RecordBatch {
    let (lefts, rights) = (left.batch.schema(), right.batch.schema());
    let keys = ["k", "g"].into_iter().take(query.keys).collect::<Vec<_>>();
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for (field, column) in lefts.fields().iter().zip(left.batch.columns()) {
        let of_left = pick(column, pairs.iter().map(|pair| pair.0));
        let either = query.how.keeps_right() && keys.contains(&field.name().as_str());
        let values = match either {
            true => {
                either_side(column, right.batch.column_by_name(field.name()).expect("a key"), pairs)
            }
            false => of_left,
        };
        columns.push((field.name().clone(), values));
    }
    if query.how.pairs() {
        for (field, column) in rights.fields().iter().zip(right.batch.columns()) {
            if !keys.contains(&field.name().as_str()) {
                let suffix =
                    if lefts.column_with_name(field.name()).is_some() { "_right" } else { "" };
                columns.push((
                    format!("{}{suffix}", field.name()),
                    pick(column, pairs.iter().map(|pair| pair.1)),
                ));
            }
        }
    }
    if query.is_narrow {
        columns.retain(|(name, _)| matches!(name.as_str(), "id" | "id_right"));
    }
    batch_of(columns, pairs.len())
}

/// Returns the left key if there is a left row, else the right key.
fn either_side(left: &ArrayRef, right: &ArrayRef, pairs: &[Pair]) -> ArrayRef {
    let common = match left.data_type() {
        t if t == right.data_type() => t.clone(),
        t if t.is_integer() => arrow_schema::DataType::Int64,
        t if t.is_floating() => arrow_schema::DataType::Float64,
        _ => arrow_schema::DataType::LargeUtf8,
    };
    let cast =
        |column: &ArrayRef| arrow_cast::cast(column, &common).expect("a type that holds both");
    let (left, right) = (cast(left), cast(right));
    let places: Vec<(usize, usize)> = pairs
        .iter()
        .map(|pair| {
            pair.0.map_or_else(|| (1, pair.1.expect("a row of either side")), |row| (0, row))
        })
        .collect();
    arrow_select::interleave::interleave(&[&*left, &*right], &places).expect("columns of one type")
}
