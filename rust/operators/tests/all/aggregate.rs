//! Checks aggregates over sliding windows against windows that are recomputed one by one.
//!
//! `oracle_*` compares the results for small random data with those of code that visits every row
//! for every window. `differential_*` compares the results for different thread counts. The data is
//! large enough to be divided into many parts. `streaming_*` compares the results for rows that
//! arrive epoch by epoch with those for whole tables.

mod cases;
mod user;

use std::collections::{BTreeMap, BTreeSet};

use cases::{
    Between, KEYS, Place, ResultRow, Row, Shape, ends_and_rows, epochs, float, go_streaming, many,
    run, run_streaming, shapes, sources, with_input,
};
use proptest::prelude::*;
use tidegate_operators::aggregate::{
    Aggregate, Page, SessionGaps, StateBounds, Stream, StreamingAggregate, StreamingSessions,
    StreamingWindows, Window, Windows, aggregate, aggregate_sessions,
};
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_sync::{Counter, Stop};

/// Computes the same results, window by window and row by row.
fn oracle(sources: &[Vec<Row>], shape: Shape) -> Vec<ResultRow> {
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

/// Returns the values for a window's rows, which must be in merged order.
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
        optional(rises(rows.iter().map(value)).map(|rises| rises.to_string())),
        optional(rises(counted.iter().map(value)).map(|rises| rises.to_string())),
        optional(spread(counted.iter().map(value)).map(|spread| spread.to_string())),
        number(rows.first().unwrap()).to_string(),
        optional(counted.last().map(|found| number(found).to_string())),
    ]
}

/// Returns the expected result of [`Rises`](user::Rises).
fn rises(values: impl Iterator<Item = i64>) -> Option<i64> {
    let values: Vec<i64> = values.collect();
    let rises = values.windows(2).filter(|pair| pair[1] > pair[0]).count() as i64;
    (!values.is_empty()).then_some(rises)
}

/// Returns the expected result of [`Spread`](user::Spread).
fn spread(values: impl Iterator<Item = i64>) -> Option<i64> {
    let values: Vec<i64> = values.collect();
    Some(values.iter().max()? - values.iter().min()?)
}

/// Folds rows in the documented order: in each slice, each source's rows form one state, and
/// these states are combined in source order. Slices before the next multiple of the window's
/// length are combined backwards, and the slices after it are combined forwards.
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

/// Returns the end of each session, and the session's result row.
fn run_sessions(sources: &[Vec<Row>], gap: i64, threads: usize) -> Vec<(i64, ResultRow)> {
    let driver = Driver::new(threads, Stop::default());
    let take = |page: Page| Ok::<_, Stopped>(ends_and_rows(page));
    with_input(sources, |streams, aggregates| {
        let gaps = SessionGaps::Fixed(gap);
        aggregate_sessions(streams, KEYS, gaps, aggregates, &driver, |_| Ok(()), take)
            .unwrap()
            .concat()
    })
}

/// Returns the sessions of one source, key by key.
fn oracle_sessions(rows: &[Row], gap: i64) -> Vec<(i64, ResultRow)> {
    let mut found = Vec::new();
    for key in 0..KEYS as u32 {
        let places: Vec<Place> = rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.1 == key)
            .map(|(at, row)| (row.0, 0, at))
            .collect();
        for session in places.chunk_by(|a, b| b.0 - a.0 < gap) {
            // A single slice contains all rows, so they are added one after the other.
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
        // The last two functions choose rows, which have different numbers if there are several
        // sources.
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
        let new = |aggregates: &[Aggregate]| StreamingSessions::new(Some(gap), aggregates);
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
    // A window of 2^62 steps that advances by one step: its results would take forever.
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

/// A state that no rows can produce is rejected, no matter what is wrong with it.
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
    let damages: [fn(&mut tidegate_operators::aggregate::WindowsState); 11] = [
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
    // The chosen row is the second-to-last word of a state.
    let mut beyond = saved.clone();
    let last = beyond.words.len() - 2;
    beyond.words[last] = 4;
    assert!(!new().restore(beyond, &bounds));
}
