//! Aggregates over sliding windows against windows that are recomputed one by one.
//!
//! `oracle_*` compares small random data with code that visits every row for every window;
//! `differential_*` compares thread counts on data of many parts, which small data never reaches;
//! `streaming_*` compares rows that come epoch by epoch with rows that are there, `designs` the same
//! by the designs of a paper.

mod designs;
mod user;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidegate_operators::aggregate::{
    Aggregate, Column, KeyOrder, NumberColumns, OutputValues, Page, StateBounds, Stream,
    StreamingAggregate, StreamingSessions, StreamingWindows, Window, Windows, aggregate,
    aggregate_sessions,
};
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_structures::memory::bits::BitSet;
use tidegate_sync::{Counter, Stop};
use user::{Rises, Spread};

/// A row: time, key, value, whether it counts for the masked functions.
type Row = (i64, u32, i64, bool);

/// A row by its time, source and position.
type Place = (i64, usize, usize);

const KEYS: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Shape {
    size: i64,
    advance: i64,
    offset: i64,
}

/// A result row: window, key, and the values as text, floats by their bits.
type Found = ((i64, u32), Vec<String>);

/// Hands what the test asks for, of the columns of each source, to `use_it`.
fn with_input<R>(sources: &[Vec<Row>], use_it: impl FnOnce(&[Stream], &[Aggregate]) -> R) -> R {
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

fn run(sources: &[Vec<Row>], shape: Shape, threads: usize) -> Vec<Found> {
    let windows = Windows::new(shape.size, shape.advance, shape.offset);
    let driver = Driver::new(threads, Stop::default());
    let take = |page: Page| Ok::<_, Stopped>(rows_of(page));
    with_input(sources, |streams, aggregates| {
        aggregate(streams, KEYS, &windows, aggregates, &driver, |_| Ok(()), take).unwrap().concat()
    })
}

/// What happens between two epochs.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    /// The windows that are complete are made.
    Pages,
    /// All sources promise that they have come to the next row.
    Promise,
    /// The state goes to another operator.
    Restore,
}

/// As [`run`], in epochs of so many rows in merged order.
fn run_streaming(
    sources: &[Vec<Row>],
    shape: Shape,
    threads: usize,
    epochs: &[(usize, Between)],
) -> Vec<Found> {
    let windows = Windows::new(shape.size, shape.advance, shape.offset);
    let new =
        |aggregates: &[Aggregate]| StreamingAggregate::new(windows, sources.len(), aggregates);
    go_streaming(sources, new, threads, epochs).into_iter().map(|(_, found)| found).collect()
}

/// The ends of windows of an operator that `new` makes, and their rows.
fn go_streaming<O: StreamingWindows>(
    sources: &[Vec<Row>],
    mut new: impl FnMut(&[Aggregate]) -> O,
    threads: usize,
    epochs: &[(usize, Between)],
) -> Vec<(i64, Found)> {
    let driver = Driver::new(threads, Stop::default());
    let none = vec![Vec::new(); sources.len()];
    let mut new = || with_input(&none, |_, aggregates| new(aggregates));
    // NumberColumns of keys are not their order.
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
    let pages = |streaming: &mut O, found: &mut Vec<(i64, Found)>| loop {
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
    assert!(!streaming.is_used().contains(&true), "nothing is kept once all windows are made");
    found
}

fn ends_and_rows(page: Page) -> Vec<(i64, Found)> {
    let ends: Vec<i64> = page
        .windows
        .iter()
        .flat_map(|window| std::iter::repeat_n(window.end, window.rows))
        .collect();
    ends.into_iter().zip(rows_of(page)).collect()
}

/// OutputValues whose sums depend on the order in which they are added.
fn float(value: i64) -> f64 {
    if value == 0 { -0.0 } else { 1.0 / value as f64 * 10_f64.powi((value % 17) as i32) }
}

fn rows_of(page: Page) -> Vec<Found> {
    let windows =
        page.windows.iter().flat_map(|window| std::iter::repeat_n(window.start, window.rows));
    let text = |at: usize| {
        let column = |column: &tidegate_operators::aggregate::OutputColumn| match &column.values {
            _ if column.missing.contains(&at) => "none".to_owned(),
            OutputValues::Integers(values) => values[at].to_string(),
            OutputValues::Wide(values) => values[at].to_string(),
            OutputValues::Floats(values) => format!("{:?} {:x}", values[at], values[at].to_bits()),
            OutputValues::Rows(values) => values[at].to_string(),
            OutputValues::Lists { .. } => unreachable!("no aggregate of states makes lists"),
        };
        page.columns.iter().map(column).collect()
    };
    let rows: Vec<Found> =
        windows.enumerate().map(|(at, start)| ((start, page.keys[at]), text(at))).collect();
    assert_eq!(rows.len(), page.rows);
    rows
}

/// The same, window by window and row by row.
fn oracle(sources: &[Vec<Row>], shape: Shape) -> Vec<Found> {
    let Shape { size, advance, offset } = shape;
    let times = || sources.iter().flatten().map(|row| row.0);
    let (Some(low), Some(high)) = (times().min(), times().max()) else { return Vec::new() };
    let mut found = Vec::new();
    let first = (low - size - offset).div_euclid(advance) - 1;
    for k in first..=(high - offset).div_euclid(advance) {
        let start = k * advance + offset;
        let within = start..start + size;
        let keys: BTreeSet<u32> = sources
            .iter()
            .flatten()
            .filter(|row| within.contains(&row.0))
            .map(|row| row.1)
            .collect();
        for key in keys {
            let mut rows: Vec<Place> = Vec::new();
            for (source, of) in sources.iter().enumerate() {
                let here = of
                    .iter()
                    .enumerate()
                    .filter(|(_, row)| within.contains(&row.0) && row.1 == key);
                rows.extend(here.map(|(at, row)| (row.0, source, at)));
            }
            rows.sort_unstable();
            found.push(((start, key), values(sources, &rows, shape, k)));
        }
    }
    found
}

/// The values of a window's rows, which are in merged order.
fn values(sources: &[Vec<Row>], rows: &[Place], shape: Shape, k: i64) -> Vec<String> {
    let number = |row: &Place| sources[..row.1].iter().map(Vec::len).sum::<usize>() + row.2;
    let row = |row: &Place| sources[row.1][row.2];
    let value = |found: &Place| row(found).2;
    let counted = || rows.iter().filter(|found| row(found).3);
    let show = |value: f64| {
        format!("{value:?} {:x}", if value.is_nan() { f64::NAN } else { value }.to_bits())
    };
    let optional = |value: Option<String>| value.unwrap_or_else(|| "none".into());
    let sum = |rows: &[Place]| {
        fold(
            rows,
            shape,
            k,
            |rows| rows.iter().map(|r| float(value(r))).fold(0.0, |a, b| a + b),
            |a, b| a + b,
        )
    };
    let counted: Vec<_> = counted().copied().collect();
    vec![
        rows.len().to_string(),
        counted.len().to_string(),
        rows.iter().map(value).sum::<i64>().to_string(),
        rows.iter().map(|found| i128::from(value(found)) << 70).sum::<i128>().to_string(),
        optional(sum(rows).map(show)),
        optional(sum(&counted).map(|sum| show(sum / counted.len() as f64))),
        rows.iter().map(value).min().unwrap().to_string(),
        rows.iter().map(value).max().unwrap().to_string(),
        optional(variance(sources, rows, shape, k).map(show)),
        optional(variance(sources, &counted, shape, k).map(|variance| show(variance.sqrt()))),
        optional(user::rises(rows.iter().map(value)).map(|rises| rises.to_string())),
        optional(user::rises(counted.iter().map(value)).map(|rises| rises.to_string())),
        optional(user::spread(counted.iter().map(value)).map(|spread| spread.to_string())),
        number(rows.first().unwrap()).to_string(),
        optional(counted.last().map(|found| number(found).to_string())),
    ]
}

/// A function of rows in the order that is promised: a source's rows of a slice are one state,
/// sources combine in order, slices before the next multiple of the window's slices backwards,
/// slices after it forwards.
fn fold<S: Copy>(
    rows: &[Place],
    shape: Shape,
    k: i64,
    state: impl Fn(&[Place]) -> S,
    combine: impl Fn(S, S) -> S,
) -> Option<S> {
    let Shape { size, advance, offset } = shape;
    let (whole, rest) = (size / advance, size % advance);
    let (length, stride) = if rest == 0 { (whole, 1) } else { (2 * whole + 1, 2) };
    let slice = |ts: i64| {
        let (step, within) = (
            (ts - offset.rem_euclid(advance)).div_euclid(advance),
            (ts - offset).rem_euclid(advance),
        );
        if rest == 0 { step } else { 2 * step + i64::from(within >= rest) }
    };
    let mut slices: BTreeMap<i64, BTreeMap<usize, Vec<Place>>> = BTreeMap::new();
    for row in rows {
        slices.entry(slice(row.0)).or_default().entry(row.1).or_default().push(*row);
    }
    let cells = slices.into_iter().map(|(slice, of)| {
        (
            slice,
            of.into_values().map(|rows| state(&rows)).reduce(&combine).expect("a slice has rows"),
        )
    });
    let first = (k + offset.div_euclid(advance)) * stride;
    let border = (first.div_euclid(length) + 1) * length;
    let (before, after): (Vec<_>, Vec<_>) = cells.partition(|(slice, _)| *slice < border);
    let before = before
        .into_iter()
        .map(|(_, state)| state)
        .rev()
        .reduce(|later, earlier| combine(earlier, later));
    let after = after.into_iter().map(|(_, state)| state).reduce(&combine);
    match (before, after) {
        (Some(before), Some(after)) => Some(combine(before, after)),
        (one, other) => one.or(other),
    }
}

fn variance(sources: &[Vec<Row>], rows: &[Place], shape: Shape, k: i64) -> Option<f64> {
    let state = |rows: &[Place]| {
        rows.iter().fold((0.0, 0.0, 0.0), |(count, mean, squares), row| {
            let value = float(sources[row.1][row.2].2);
            let distance = value - mean;
            let new = mean + distance / (count + 1.0);
            (count + 1.0, new, squares + distance * (value - new))
        })
    };
    let combine = |a: (f64, f64, f64), b: (f64, f64, f64)| {
        let (count, distance) = (a.0 + b.0, b.1 - a.1);
        (
            count,
            a.1 + distance * (b.0 / count),
            a.2 + b.2 + distance * distance * (a.0 * b.0 / count),
        )
    };
    let (count, _, squares) = fold(rows, shape, k, state, combine)?;
    (count > 1.0).then(|| squares / (count - 1.0))
}

fn sources(most: usize, span: i64) -> impl Strategy<Value = Vec<Vec<Row>>> {
    let row = (0..span, 0..KEYS as u32, -20_i64..20, any::<bool>());
    let source = prop::collection::vec(row, 0..most).prop_map(move |mut rows| {
        rows.iter_mut().for_each(|row| row.0 -= span / 2);
        rows.sort_by_key(|row| row.0);
        rows
    });
    prop::collection::vec(source, 1..4)
}

fn shapes() -> impl Strategy<Value = Shape> {
    (1_i64..40, 1_i64..25, -30_i64..30).prop_map(|(size, advance, offset)| Shape {
        size,
        advance,
        offset,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn oracle_every_window_from_scratch(sources in sources(30, 60), shape in shapes(), threads in 1_usize..4) {
        prop_assert_eq!(run(&sources, shape, threads), oracle(&sources, shape));
    }

    #[test]
    fn oracle_sparse_times(sources in sources(6, 4000), shape in shapes()) {
        prop_assert_eq!(run(&sources, shape, 2), oracle(&sources, shape));
    }
}

/// The ends of all sessions, and their rows.
fn run_sessions(sources: &[Vec<Row>], gap: i64, threads: usize) -> Vec<(i64, Found)> {
    let driver = Driver::new(threads, Stop::default());
    let take = |page: Page| Ok::<_, Stopped>(ends_and_rows(page));
    with_input(sources, |streams, aggregates| {
        aggregate_sessions(streams, KEYS, gap, aggregates, &driver, |_| Ok(()), take)
            .unwrap()
            .concat()
    })
}

/// The sessions of one source, key by key.
fn oracle_sessions(rows: &[Row], gap: i64) -> Vec<(i64, Found)> {
    let mut found = Vec::new();
    for key in 0..KEYS as u32 {
        let places: Vec<Place> = rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.1 == key)
            .map(|(at, row)| (row.0, 0, at))
            .collect();
        for session in places.chunk_by(|a, b| b.0 - a.0 < gap) {
            // One slice has them all, so that they are added one after the other.
            let whole = Shape { size: 1 << 40, advance: 1 << 40, offset: -(1 << 39) };
            let values = values(&[rows.to_vec()], session, whole, 0);
            found.push((session[session.len() - 1].0 + gap, ((session[0].0, key), values)));
        }
    }
    found.sort_by_key(|(_, (place, _))| *place);
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn oracle_sessions_one_by_one(sources in sources(30, 200), gap in 1_i64..30, threads in 1_usize..4) {
        let mut places: Vec<Place> = Vec::new();
        for (source, rows) in sources.iter().enumerate() {
            places.extend(rows.iter().enumerate().map(|(at, row)| (row.0, source, at)));
        }
        places.sort_unstable();
        let merged: Vec<Row> = places.iter().map(|(_, source, at)| sources[*source][*at]).collect();
        let expected = oracle_sessions(&merged, gap);
        prop_assert_eq!(run_sessions(&[merged], gap, threads), expected.clone());
        // The last two functions choose rows, which have other numbers in several sources.
        let starts: Vec<usize> =
            sources.iter().scan(0, |sum, of| Some(std::mem::replace(sum, *sum + of.len()))).collect();
        let number = |text: &String| match text.parse::<usize>() {
            Ok(at) => (starts[places[at].1] + places[at].2).to_string(),
            Err(_) => text.clone(),
        };
        let renumbered = expected.into_iter().map(|(end, (place, mut values))| {
            let chosen = values.len() - 2;
            values[chosen..].iter_mut().for_each(|text| *text = number(text));
            (end, (place, values))
        });
        prop_assert_eq!(run_sessions(&sources, gap, threads), renumbered.collect::<Vec<_>>());
    }
}

fn epochs() -> impl Strategy<Value = Vec<(usize, Between)>> {
    let between = prop_oneof![
        Just(Between::Nothing),
        Just(Between::Pages),
        Just(Between::Promise),
        Just(Between::Restore)
    ];
    prop::collection::vec((1_usize..20, between), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn streaming_epochs_do_not_show(
        sources in sources(30, 60), shape in shapes(), threads in 1_usize..4, epochs in epochs(),
    ) {
        prop_assert_eq!(run_streaming(&sources, shape, threads, &epochs), run(&sources, shape, 1));
    }

    #[test]
    fn streaming_sparse_times(
        sources in sources(6, 4000), shape in shapes(), epochs in epochs(),
    ) {
        prop_assert_eq!(run_streaming(&sources, shape, 2, &epochs), run(&sources, shape, 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn streaming_sessions_are_those_of_all_rows(
        sources in sources(30, 200), gap in 1_i64..30, threads in 1_usize..4, epochs in epochs(),
    ) {
        let mut expected = run_sessions(&sources, gap, 1);
        expected.sort_by_key(|(end, ((_, key), _))| (*end, *key));
        let new = |aggregates: &[Aggregate]| StreamingSessions::new(gap, aggregates);
        prop_assert_eq!(go_streaming(&sources, new, threads, &epochs), expected);
    }
}

#[test]
fn streaming_many_rows() {
    let sources = many(40_000, 3);
    for (size, advance) in [(1000, 100), (1000, 300), (10, 70), (100_000, 500)] {
        let shape = Shape { size, advance, offset: 3 };
        let epochs = [(10_000, Between::Pages), (30_000, Between::Nothing)];
        let whole = run(&sources, shape, 1);
        assert_eq!(run_streaming(&sources, shape, 3, &epochs), whole, "{shape:?}");
    }
}

/// Enough rows for many parts and tasks.
fn many(rows: i64, sources: u64) -> Vec<Vec<Row>> {
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

#[test]
fn differential_threads_of_many_parts() {
    let sources = many(35_000, 3);
    for (size, advance) in [(1000, 100), (1000, 300), (35_000, 7), (10, 70), (300_000, 20)] {
        let shape = Shape { size, advance, offset: 3 };
        let one = run(&sources, shape, 1);
        assert!(one.is_sorted_by(|a, b| a.0 < b.0), "{shape:?}");
        for threads in [2, 5] {
            assert_eq!(run(&sources, shape, threads), one, "{shape:?}");
        }
    }
}

#[test]
fn oracle_many_parts() {
    let sources = many(70_000, 2);
    let shape = Shape { size: 30_000, advance: 11_000, offset: 0 };
    assert_eq!(run(&sources, shape, 3), oracle(&sources, shape));
}

#[test]
fn a_stop_ends_the_work() {
    let stop = Stop::default();
    stop.request();
    let stream = Stream { ts: &[1, 2], keys: None };
    let aggregates = [Aggregate::Count(vec![None])];
    let found = aggregate::<(), Stopped>(
        &[stream],
        1,
        &Windows::new(1, 1, 0),
        &aggregates,
        &Driver::new(1, stop),
        |_| Ok(()),
        |_| Ok(()),
    );
    assert!(found.is_err());
}

#[test]
fn windows_at_the_ends_of_time() {
    for ts in [i64::MIN, i64::MAX - 1] {
        let windows = Windows::new(1, 1, 0);
        assert!(windows.fit(ts, ts));
        let streams = [Stream { ts: &[ts], keys: None }];
        let driver = Driver::new(1, Stop::default());
        let take = |page: Page| Ok::<_, Stopped>(page.windows);
        let found = aggregate(&streams, 1, &windows, &[], &driver, |_| Ok(()), take).unwrap();
        assert_eq!(found, [[Window { start: ts, end: ts + 1, rows: 1 }]]);
    }
}

#[test]
fn a_result_is_announced_before_it_is_made() {
    // A window of 2^62 steps that advances by one: no one could wait for its results.
    let windows = Windows::new(1 << 62, 1, 0);
    let streams = [Stream { ts: &[0], keys: None }];
    let driver = Driver::new(1, Stop::default());
    let failures = Counter::new(0);
    let announce = |rows: usize| {
        if rows > 1000 {
            failures.add(1);
            return Err(Stopped);
        }
        Ok(())
    };
    let found = aggregate(&streams, 1, &windows, &[], &driver, announce, |_| Ok(()));
    assert_eq!(found, Err(Stopped));
    assert_eq!(failures.get(), 1, "nothing is made after a failure");
}

/// States that no rows can have brought about are refused, whatever is wrong with them.
#[test]
fn a_state_that_no_rows_have_is_refused() {
    let (ts, keys) = ([0_i64, 7, 12, 25], [0_u32, 1, 0, 1]);
    let driver = Driver::new(1, Stop::default());
    let aggregates = [Aggregate::Count(vec![None]), Aggregate::First(vec![None])];
    let new = || StreamingAggregate::new(Windows::new(10, 5, 0), 1, &aggregates);
    let mut streaming = new();
    streaming.add(&[Stream { ts: &ts, keys: Some(&keys) }], 2, &[0], &aggregates, &driver).unwrap();
    let saved = streaming.save();
    let bounds = StateBounds { rows: 4, chosen: 4, next: Some(25) };
    assert!(new().restore(saved.clone(), &bounds));
    assert!(saved.kept.len() > 1 && saved.open[0].is_some());
    let damages: [fn(&mut tidegate_operators::aggregate::Saved); 11] = [
        |saved| saved.closed = i64::MAX,
        |saved| saved.closed = saved.kept[0].0,
        |saved| saved.kept.swap(0, 1),
        |saved| saved.kept[0].0 = i64::MIN,
        |saved| saved.kept[0].1.clear(),
        |saved| saved.kept[0].1 = vec![0, 0],
        |saved| saved.open[0] = Some((i64::MAX, vec![0])),
        |saved| saved.open.push(None),
        |saved| saved.sessions.push((0, 0, 0)),
        |saved| saved.words[0] = 5,
        |saved| saved.words.truncate(3),
    ];
    for (number, damage) in damages.iter().enumerate() {
        let mut damaged = saved.clone();
        damage(&mut damaged);
        assert!(!new().restore(damaged, &bounds), "damage {number}");
    }
    // The chosen row is the last but one of the words of a state.
    let mut beyond = saved.clone();
    let last = beyond.words.len() - 2;
    beyond.words[last] = 4;
    assert!(!new().restore(beyond, &bounds));
}
