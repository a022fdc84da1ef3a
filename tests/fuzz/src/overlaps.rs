//! Overlap joins: their rows, and the aggregates of each left row's partners, must agree with a
//! loop over all pairs.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use tidegate::query::aggregate::{Aggregate, Function};
use tidegate::{Driver, How, PartnerAggregation, PartnerJoin, Stop};

use crate::draw::Draw;
use crate::joins::{agree, table, tables_agree};
use crate::oracle::{self, Side};
use crate::query::Query;
use crate::rows::{Rows, batch_of, concat, pick};

/// Draws an overlap join and two tables, joins them in several ways and compares the results.
pub(crate) fn overlap(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let query = Query::draw_overlap(&mut draw);
    let tables = [0, 1].map(|side| rows(&query, &mut draw, side));
    let wrong_rows = ["left", "right"].into_iter().zip(&tables);
    let mut wrong_rows = wrong_rows.filter_map(|(name, rows)| Some((name, wrong_row(rows)?)));
    match wrong_rows.next() {
        Some(wrong) => refuses(&query, &tables, wrong, &mut draw),
        None => {
            tables_agree(&query, &tables, &mut draw);
            partners_agree(&query, &tables, &mut draw);
        }
    }
}

/// Draws a few rows byte by byte, or sometimes enough rows that threads share them. Even more rows
/// would form millions of pairs.
fn rows(query: &Query, draw: &mut Draw<'_>, side: usize) -> Rows {
    if draw.once_in(24) {
        let count = draw.pick(&[70, 300, 900]);
        return query.layout.rows(&mut draw.seeded(), side, count);
    }
    let count = draw.number(0, 12) as usize;
    query.layout.rows(draw, side, count)
}

/// Returns the first row whose interval ends before it starts.
fn wrong_row(rows: &Rows) -> Option<usize> {
    rows.spans.iter().position(|span| matches!(span, [Some(from), Some(to)] if to < from))
}

fn refuses(query: &Query, [left, right]: &[Rows; 2], wrong: (&str, usize), draw: &mut Draw<'_>) {
    let driver = Driver::new(draw.pick(&[1, 2]), Stop::default());
    let (left, right) = (table("left", left, &driver, draw), table("right", right, &driver, draw));
    let found = query.start(&left, &right, 2, draw).and_then(|join| join.read_all());
    let error = found.expect_err("an interval that ends before it starts");
    let (name, row) = wrong;
    assert!(error.message().starts_with(&format!("{name}: row {row}: ")), "{error:?}; {query:#?}");
}

fn partners_agree(query: &Query, [left, right]: &[Rows; 2], draw: &mut Draw<'_>) {
    let (of_left, of_right) = (Side::of_table(left.clone(), 0), Side::of_table(right.clone(), 1));
    let keeps_all = draw.flip();
    // An aggregation that only counts partners evaluates no pair.
    let count = if draw.flip() { 1 } else { 3 };
    let wanted = oracle::matches(query, &of_left, &of_right).map(|mut partners| {
        partners.iter_mut().for_each(|rows| rows.sort_by_key(|&r| (right.spans[r][0], r)));
        let kept = (0..left.len()).filter(|&l| keeps_all || !partners[l].is_empty());
        let kept: Vec<usize> = kept.collect();
        let of_kept = || kept.iter().map(|&l| &partners[l]);
        let id = |rows: &Rows| rows.batch.column_by_name("id").expect("a column").clone();
        let counts: Int64Array = of_kept().map(|rows| Some(rows.len() as i64)).collect();
        let columns: Vec<(String, ArrayRef)> = [
            ("id", pick(&id(left), kept.iter().copied().map(Some))),
            ("n", Arc::new(counts) as ArrayRef),
            ("first", pick(&id(right), of_kept().map(|rows| rows.first().copied()))),
            ("last", pick(&id(right), of_kept().map(|rows| rows.last().copied()))),
        ]
        .map(|(name, column)| (name.to_owned(), column))
        .into();
        batch_of(columns.into_iter().take(1 + count).collect(), kept.len())
    });

    let threads = draw.pick(&[1, 2, 3]);
    let mut options = query.options(threads, draw.once_in(3).then(|| draw.number(1, 9) as usize));
    options.columns = Some(vec!["id".to_owned()]);
    let functions = [
        ("n", Function::Count, None),
        ("first", Function::First, Some("id")),
        ("last", Function::Last, Some("id")),
    ];
    let functions = functions.into_iter().take(count).map(|(name, function, column)| Aggregate {
        name: name.to_owned(),
        function,
        columns: column.into_iter().map(str::to_owned).collect(),
        predicate: None,
        interval: None,
    });
    let join = PartnerJoin::Overlap(query.overlap_join(options));
    let how = if keeps_all { How::Left } else { How::Inner };
    let driver = Driver::new(threads, Stop::default());
    let (left, right) = (table("left", left, &driver, draw), table("right", right, &driver, draw));
    let found = PartnerAggregation::new(join, functions.collect(), how)
        .and_then(|asked| asked.start(&left, &right, Stop::default()))
        .and_then(|join| {
            let schema = join.schema().clone();
            Ok(concat(&schema, &join.read_all()?))
        });
    agree(found, &wanted, query);
}
