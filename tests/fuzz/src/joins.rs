//! Joins of tables and of streams must agree with a loop over all pairs.

use arrow_array::RecordBatch;
use tidegate::stream::StreamOptions;
use tidegate::{Driver, Result, Stop, Table};

use crate::draw::Draw;
use crate::oracle::{self, Side};
use crate::play::{self, Feed, Outcome, Way};
use crate::query::{Query, Relation};
use crate::rows::{Rows, assert_same, by_number, concat};

/// Draws a join and two tables, joins them in several ways and compares the results.
pub(crate) fn join(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let query = Query::draw(&mut draw);
    let tables = [0, 1].map(|side| rows(&query, &mut draw, side));
    tables_agree(&query, &tables, &mut draw);
    if !matches!(query.relation, Relation::Band { windows: None, .. }) {
        streams_agree(&query, &tables, &mut draw);
    }
}

/// Draws a few rows byte by byte, or sometimes enough rows that threads share them.
fn rows(query: &Query, draw: &mut Draw<'_>, side: usize) -> Rows {
    if draw.once_in(24) {
        let count = draw.pick(&[70, 300, 2500]);
        return query.layout.rows(&mut draw.seeded(), side, count);
    }
    let count = draw.number(0, 12) as usize;
    query.layout.rows(draw, side, count)
}

pub(crate) fn tables_agree(query: &Query, [left, right]: &[Rows; 2], draw: &mut Draw<'_>) {
    let (of_left, of_right) = (Side::of_table(left.clone(), 0), Side::of_table(right.clone(), 1));
    let wanted = oracle::matches(query, &of_left, &of_right).map(|matches| {
        oracle::result(query, left, right, &oracle::in_row_order(query.how, &matches, right.len()))
    });
    for _ in 0..2 {
        let threads = draw.pick(&[1, 2, 3]);
        let driver = Driver::new(threads, Stop::default());
        let (left, right) =
            (table("left", left, &driver, draw), table("right", right, &driver, draw));
        let found = query.start(&left, &right, threads, draw).and_then(|join| {
            let schema = join.schema().clone();
            Ok(concat(&schema, &join.read_all()?))
        });
        agree(found, &wanted, query);
    }
}

/// Creates a table from pieces of the rows.
pub(crate) fn table(name: &str, rows: &Rows, driver: &Driver, draw: &mut Draw<'_>) -> Table {
    Table::new(name, rows.batch.schema(), rows.chunks(draw), driver).expect("well-formed data")
}

fn streams_agree(query: &Query, tables: &[Rows; 2], draw: &mut Draw<'_>) {
    let (steps, tick) = (query.layout.steps(), query.layout.tick());
    let counts = [draw.number(1, 3) as usize, draw.number(1, 3) as usize];
    let lateness = [0, 1].map(|_| draw.signed(0, 2) * tick);
    let [mut feeds, rights] = [0, 1].map(|side| {
        play::feeds(draw, &tables[side], counts[side], lateness[side], (steps[side], tick))
    });
    feeds.extend(rights);
    let turns = play::turns(draw, &feeds);
    let is_ordered = !draw.once_in(4);
    let in_order = |rows: RecordBatch| if is_ordered { rows } else { by_number(&rows) };

    let (left, right) = (used(&feeds[..counts[0]], 0), used(&feeds[counts[0]..], counts[0]));
    let wanted = oracle::matches(query, &left, &right).map(|matches| {
        let pairs = oracle::in_stream_order(query, &left, &right, &matches);
        in_order(oracle::result(query, &left.rows, &right.rows, &pairs))
    });
    let options = StreamOptions {
        sources: (counts[0], counts[1]),
        lateness: (query.layout.lateness(lateness[0]), query.layout.lateness(lateness[1])),
        memory_limit: None,
        ordered: is_ordered,
        pin: false,
    };
    let mut played = Vec::new();
    for way in Way::all(draw) {
        let mut make = || query.stream(draw.pick(&[1, 1, 2, 3]), &options, draw);
        let found = play::play(&feeds, &turns, way, &mut make);
        agree(
            found.as_ref().map(|played| in_order(played.rows.clone())).map_err(Clone::clone),
            &wanted,
            query,
        );
        if let Ok(found) = &found {
            assert_eq!(found.late, late(&feeds), "{way:?}; {query:#?}");
        }
        played.push(found);
    }
    // If the result has no order, the kept rows need not have one either.
    if let [Ok(one), Ok(other), ..] = &played[..]
        && is_ordered
    {
        alike(one, other, query);
    }
}

/// Panics unless two operators that were fed the same rows in turns had the same state at the first
/// cut.
fn alike(one: &Outcome, other: &Outcome, query: &Query) {
    // The handshake join emits rows later than the others, so its state differs if fewer rows have
    // been taken.
    if let (Some((taken, one)), Some((also_taken, other))) =
        (one.states.first(), other.states.first())
        && taken == also_taken
    {
        let differs = one.iter().zip(other).position(|(one, other)| one != other);
        assert!(
            one == other,
            "states of {} and {} bytes differ at {differs:?}: {query:#?}",
            one.len(),
            other.len()
        );
    }
}

/// Returns the sources and positions of late rows.
pub(crate) fn late(feeds: &[Feed]) -> Vec<(usize, u64)> {
    let of_feed = |(number, feed): (usize, &Feed)| -> Vec<(usize, u64)> {
        feed.sort_out().1.into_iter().map(|row| (number, row as u64)).collect()
    };
    feeds.iter().enumerate().flat_map(of_feed).collect()
}

/// Returns the rows of a side that are not late, source by source.
pub(crate) fn used(feeds: &[Feed], first: usize) -> Side {
    let parts: Vec<Rows> = feeds.iter().map(|feed| feed.rows.take(&feed.sort_out().0)).collect();
    let of_part = |(number, part): (usize, &Rows)| -> Vec<oracle::Place> {
        part.ts.iter().enumerate().map(|(position, &ts)| (ts, first + number, position)).collect()
    };
    let places = parts.iter().enumerate().flat_map(of_part).collect();
    Side::new(Rows::concat(&parts), places)
}

/// Panics unless both results have the same rows, or both fail because of the data.
pub(crate) fn agree(found: Result<RecordBatch>, wanted: &Result<RecordBatch>, query: &Query) {
    match (found, wanted) {
        (Ok(found), Ok(wanted)) => assert_same(&found, wanted, query),
        (Err(found), Err(wanted)) => {
            assert!(found.is_data() && wanted.is_data(), "{found:?}, {wanted:?}; {query:#?}")
        }
        // A condition need not be evaluated on a pair that one of its other parts has ruled out.
        (Ok(_), Err(wanted)) => assert!(wanted.is_data(), "{wanted:?}; {query:#?}"),
        (Err(found), Ok(_)) => panic!("{found:?}; {query:#?}"),
    }
}
