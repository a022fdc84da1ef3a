//! Test data: rows, windows, results computed from whole tables and epoch by epoch, and the input
//! columns of each function. This file is also included in the tests of the published designs,
//! which are in another crate.

use proptest::prelude::*;
use tidegate_operators::aggregate::{
    Aggregate, Column, KeyOrder, NumberColumns, OutputValues, Page, StateBounds, Stream,
    StreamingAggregate, StreamingWindows, Windows, aggregate,
};
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_structures::memory::bits::BitSet;
use tidegate_sync::Stop;

use super::user::{Rises, Spread};

/// A row: its time, its key, its value, and a flag that is `true` if masked functions count the
/// row.
pub(crate) type Row = (i64, u32, i64, bool);

/// A row's position in merged order: its time, its source, and its position within the source.
pub(crate) type Place = (i64, usize, usize);

pub(crate) const KEYS: usize = 5;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) size: i64,
    pub(crate) advance: i64,
    pub(crate) offset: i64,
}

/// A result row: its window, its key, and its values as text. Floats are represented by their bit
/// patterns.
pub(crate) type ResultRow = ((i64, u32), Vec<String>);

/// Builds the inputs for all tested functions from each source's columns. Passes these inputs to
/// `use_it`.
pub(crate) fn with_input<R>(
    sources: &[Vec<Row>],
    use_it: impl FnOnce(&[Stream], &[Aggregate]) -> R,
) -> R {
    let ts: Vec<Vec<i64>> =
        sources.iter().map(|rows| rows.iter().map(|row| row.0).collect()).collect();
    let keys: Vec<Vec<u32>> =
        sources.iter().map(|rows| rows.iter().map(|row| row.1).collect()).collect();
    let whole: Vec<Vec<i64>> =
        sources.iter().map(|rows| rows.iter().map(|row| row.2).collect()).collect();
    let wide: Vec<Vec<i128>> =
        whole.iter().map(|values| values.iter().map(|v| i128::from(*v) << 70).collect()).collect();
    let floats: Vec<Vec<f64>> =
        whole.iter().map(|values| values.iter().copied().map(float).collect()).collect();
    let masks: Vec<BitSet> = sources
        .iter()
        .map(|rows| {
            let mut mask = BitSet::new(rows.len());
            rows.iter().enumerate().filter(|(_, row)| row.3).for_each(|(at, _)| mask.insert(at));
            mask
        })
        .collect();
    let streams: Vec<Stream> =
        ts.iter().zip(&keys).map(|(ts, keys)| Stream { ts, keys: Some(keys) }).collect();
    let some_masks: Vec<_> = masks.iter().map(Some).collect();
    let integers: Vec<_> =
        whole.iter().map(|values| Column { values: &values[..], mask: None }).collect();
    let masked: Vec<_> = floats
        .iter()
        .zip(&masks)
        .map(|(values, mask)| Column { values: &values[..], mask: Some(mask) })
        .collect();
    let unmasked: Vec<_> =
        floats.iter().map(|values| Column { values: &values[..], mask: None }).collect();
    let wide: Vec<_> =
        wide.iter().map(|values| Column { values: &values[..], mask: None }).collect();
    let some: Vec<_> = whole
        .iter()
        .zip(&masks)
        .map(|(values, mask)| Column { values: &values[..], mask: Some(mask) })
        .collect();
    let aggregates = [
        Aggregate::Count(vec![None; sources.len()]),
        Aggregate::Count(some_masks.clone()),
        Aggregate::Sum(NumberColumns::Integers(integers.clone())),
        Aggregate::Sum(NumberColumns::Wide(wide)),
        Aggregate::Sum(NumberColumns::Floats(unmasked.clone())),
        Aggregate::Mean(NumberColumns::Floats(masked.clone())),
        Aggregate::Min(integers.clone()),
        Aggregate::Max(integers.clone()),
        Aggregate::Variance(unmasked),
        Aggregate::Deviation(masked),
        Aggregate::user::<Rises>(integers),
        Aggregate::user::<Rises>(some.clone()),
        Aggregate::user::<Spread>(some),
        Aggregate::First(vec![None; sources.len()]),
        Aggregate::Last(some_masks),
    ];
    use_it(&streams, &aggregates)
}

pub(crate) fn run(sources: &[Vec<Row>], shape: Shape, threads: usize) -> Vec<ResultRow> {
    let windows = Windows::new(shape.size, shape.advance, shape.offset);
    let driver = Driver::new(threads, Stop::default());
    let take = |page: Page| Ok::<_, Stopped>(rows_of(page));
    with_input(sources, |streams, aggregates| {
        aggregate(streams, KEYS, &windows, aggregates, &driver, |_| Ok(()), take).unwrap().concat()
    })
}

/// The action between two epochs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Between {
    Nothing,
    /// Computes the complete windows.
    Pages,
    /// Promises that every source has reached the time of the next row.
    Promise,
    /// Moves the state to another operator.
    Restore,
}

/// Like [`run`], but passes the rows in epochs. Each epoch contains the given number of rows in
/// merged order.
pub(crate) fn run_streaming(
    sources: &[Vec<Row>],
    shape: Shape,
    threads: usize,
    epochs: &[(usize, Between)],
) -> Vec<ResultRow> {
    let windows = Windows::new(shape.size, shape.advance, shape.offset);
    let new = |aggregates: &[Aggregate]| {
        StreamingAggregate::new(windows.clone(), sources.len(), aggregates)
    };
    go_streaming(sources, new, threads, epochs).into_iter().map(|(_, found)| found).collect()
}

/// Returns the window ends and the result rows of an operator created by `new`.
pub(crate) fn go_streaming<O: StreamingWindows>(
    sources: &[Vec<Row>],
    mut new: impl FnMut(&[Aggregate]) -> O,
    threads: usize,
    epochs: &[(usize, Between)],
) -> Vec<(i64, ResultRow)> {
    let driver = Driver::new(threads, Stop::default());
    let none = vec![Vec::new(); sources.len()];
    let mut new = || with_input(&none, |_, aggregates| new(aggregates));
    // The numbers of keys do not reflect the order of keys.
    let (order, ranks): (Vec<u32>, Vec<u32>) =
        (0..KEYS as u32).map(|at| (KEYS as u32 - 1 - at, KEYS as u32 - 1 - at)).unzip();
    let order = KeyOrder { keys: &order, ranks: &ranks };
    let starts: Vec<usize> =
        sources.iter().scan(0, |sum, of| Some(std::mem::replace(sum, *sum + of.len()))).collect();
    let mut places: Vec<Place> = Vec::new();
    for (source, rows) in sources.iter().enumerate() {
        places.extend(rows.iter().enumerate().map(|(at, row)| (row.0, source, at)));
    }
    places.sort_unstable();
    let (mut streaming, mut found, mut taken) = (new(), Vec::new(), vec![0; sources.len()]);
    let pages = |streaming: &mut O, found: &mut Vec<(i64, ResultRow)>| loop {
        let made = streaming.pages(2, order, &driver).unwrap();
        if made.is_empty() {
            break;
        }
        found.extend(made.into_iter().flat_map(ends_and_rows));
    };
    let mut rest = &places[..];
    for &(rows, between) in
        epochs.iter().cycle().take(if epochs.is_empty() { 0 } else { usize::MAX })
    {
        let (epoch, others) = rest.split_at(rows.min(rest.len()));
        rest = others;
        let first_rows: Vec<u32> =
            starts.iter().zip(&taken).map(|(start, taken)| (start + taken) as u32).collect();
        let mut of_sources = none.clone();
        for &(_, source, at) in epoch {
            let (ts, key, value, counts) = sources[source][at];
            of_sources[source].push((ts, KEYS as u32 - 1 - key, value, counts));
            taken[source] += 1;
        }
        with_input(&of_sources, |streams, aggregates| {
            streaming.add(streams, KEYS, &first_rows, aggregates, &driver).unwrap();
        });
        match (between, rest.first()) {
            (_, None) => break,
            (Between::Nothing, _) => {}
            (Between::Pages, _) => pages(&mut streaming, &mut found),
            (Between::Promise, Some(next)) => streaming.advance(next.0, &driver).unwrap(),
            (Between::Restore, _) => {
                pages(&mut streaming, &mut found);
                let saved = streaming.save();
                streaming = new();
                let bounds = StateBounds {
                    rows: places.len() as u64,
                    chosen: places.len() as u32,
                    next: rest.first().map(|next| next.0),
                };
                assert!(streaming.restore(saved.clone(), &bounds));
                assert_eq!(streaming.save(), saved);
            }
        }
    }
    streaming.finish(&driver).unwrap();
    pages(&mut streaming, &mut found);
    assert!(
        !streaming.is_used().contains(&true),
        "nothing is kept once all windows have been computed"
    );
    found
}

pub(crate) fn ends_and_rows(page: Page) -> Vec<(i64, ResultRow)> {
    let ends: Vec<i64> = page
        .windows
        .iter()
        .flat_map(|window| std::iter::repeat_n(window.end, window.rows))
        .collect();
    ends.into_iter().zip(rows_of(page)).collect()
}

/// Returns values for which the sum depends on the order of the additions.
pub(crate) fn float(value: i64) -> f64 {
    if value == 0 { -0.0 } else { 1.0 / value as f64 * 10_f64.powi((value % 17) as i32) }
}

pub(crate) fn rows_of(page: Page) -> Vec<ResultRow> {
    let windows =
        page.windows.iter().flat_map(|window| std::iter::repeat_n(window.start, window.rows));
    let text = |at: usize| {
        let column = |column: &tidegate_operators::aggregate::OutputColumn| match &column.values {
            _ if column.missing.contains(&at) => "none".to_owned(),
            OutputValues::Integers(values) => values[at].to_string(),
            OutputValues::Wide(values) => values[at].to_string(),
            OutputValues::Floats(values) => format!("{:?} {:x}", values[at], values[at].to_bits()),
            OutputValues::Rows(values) => values[at].to_string(),
            OutputValues::Held(values) => format!("{:?}", values[at]),
            OutputValues::Lists { .. } => unreachable!("no aggregate with states returns lists"),
        };
        page.columns.iter().map(column).collect()
    };
    let rows: Vec<ResultRow> =
        windows.enumerate().map(|(at, start)| ((start, page.keys[at]), text(at))).collect();
    assert_eq!(rows.len(), page.rows);
    rows
}

pub(crate) fn sources(most: usize, span: i64) -> impl Strategy<Value = Vec<Vec<Row>>> {
    let row = (0..span, 0..KEYS as u32, -20_i64..20, any::<bool>());
    let source = prop::collection::vec(row, 0..most).prop_map(move |mut rows| {
        rows.iter_mut().for_each(|row| row.0 -= span / 2);
        rows.sort_by_key(|row| row.0);
        rows
    });
    prop::collection::vec(source, 1..4)
}

pub(crate) fn shapes() -> impl Strategy<Value = Shape> {
    (1_i64..40, 1_i64..25, -30_i64..30).prop_map(|(size, advance, offset)| Shape {
        size,
        advance,
        offset,
    })
}

pub(crate) fn epochs() -> impl Strategy<Value = Vec<(usize, Between)>> {
    let between = prop_oneof![
        Just(Between::Nothing),
        Just(Between::Pages),
        Just(Between::Promise),
        Just(Between::Restore)
    ];
    prop::collection::vec((1_usize..20, between), 1..6)
}

/// Returns enough rows for many parts and tasks.
pub(crate) fn many(rows: i64, sources: u64) -> Vec<Vec<Row>> {
    (0..sources)
        .map(|source| {
            let mut state = source + 1;
            let mut random = move || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as i64
            };
            (0..rows)
                .map(|ts| (ts, (random() % KEYS as i64) as u32, random() % 1000, random() % 3 > 0))
                .collect()
        })
        .collect()
}
