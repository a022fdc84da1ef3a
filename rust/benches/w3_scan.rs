//! Measures only the inner loop of W3: the pairs compared per second while the window's columns are
//! in a cache.
//!
//! Each of the two bands contains 21 of 10 000 numbers, so one pair in 230 000 is within both
//! bands. With 8-bit codes, one pair in 28 000 satisfies both bands. With bitmaps of 128 buckets,
//! one pair in 10 000 does.

use std::array;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tidegate_structures::instructions::{available, instructions};
use tidegate_structures::simd::bitmaps::{BUCKETS, Bitmaps};
use tidegate_structures::simd::scan::{Lane, Span, scan, scan_two_by};

/// The number of rows in the window.
const ROWS: usize = 8192;

/// The number of new rows. Four new rows are compared at a time.
const NEW_ROWS: usize = 256;

/// Numbers from 0 to 9 999. Every run generates the same sequence.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % 10_000
    }
}

/// Returns a column of numbers, and one band around a number per new row. Numbers are divided by
/// `unit`.
fn band<T: Lane + TryFrom<u64>>(numbers: &mut Numbers, unit: u64) -> (Vec<T>, Vec<Span<T>>) {
    let value = |number: u64| T::try_from(number).unwrap_or_default();
    let column = (0..ROWS).map(|_| value(numbers.next() / unit)).collect();
    let spans = (0..NEW_ROWS).map(|_| {
        let middle = numbers.next();
        let (low, high) = (middle.saturating_sub(10) / unit, (middle + 10) / unit);
        Span { low: value(low), width: value(high - low) }
    });
    (column, spans.collect())
}

fn two<A: Lane + TryFrom<u64>, B: Lane + TryFrom<u64>>(
    criterion: &mut Criterion,
    name: &str,
    unit: u64,
) {
    let mut numbers = Numbers(42);
    let (first, first_spans) = band::<A>(&mut numbers, unit);
    let (second, second_spans) = band::<B>(&mut numbers, unit);
    let mut found: [Vec<u32>; 4] = Default::default();
    for &by in available() {
        let mut group = criterion.benchmark_group(format!("two bands, {by}"));
        group.throughput(Throughput::Elements((ROWS * NEW_ROWS) as u64));
        group.bench_function(name, |bench| {
            bench.iter(|| {
                for (a, b) in first_spans.chunks_exact(4).zip(second_spans.chunks_exact(4)) {
                    let (a, b) = (array::from_fn(|row| a[row]), array::from_fn(|row| b[row]));
                    scan_two_by::<A, B, 4>(
                        by,
                        black_box(&first),
                        black_box(&second),
                        &a,
                        &b,
                        0,
                        &mut found,
                    );
                    found.iter_mut().for_each(|found| black_box(found).clear());
                }
            });
        });
        group.finish();
    }
}

fn one<A: Lane + TryFrom<u64>>(criterion: &mut Criterion, name: &str) {
    let (column, spans) = band::<A>(&mut Numbers(42), 1);
    let mut found: [Vec<u32>; 4] = Default::default();
    let mut group = criterion.benchmark_group(format!("one band, {}", instructions()));
    group.throughput(Throughput::Elements((ROWS * NEW_ROWS) as u64));
    group.bench_function(name, |bench| {
        bench.iter(|| {
            for spans in spans.chunks_exact(4) {
                scan(black_box(&column), &array::from_fn(|row| spans[row]), 0, &mut found);
                found.iter_mut().for_each(|found| black_box(found).clear());
            }
        });
    });
    group.finish();
}

fn by_bitmaps(criterion: &mut Criterion) {
    let mut numbers = Numbers(42);
    let unit = 10_000_u64.div_ceil(BUCKETS as u64);
    let [(a, of_a), (b, of_b)] = array::from_fn(|_| {
        let (buckets, spans) = band::<u8>(&mut numbers, unit);
        let mut bitmaps = Bitmaps::default();
        bitmaps.extend(buckets.into_iter());
        (bitmaps, spans)
    });
    let mut found = Vec::new();
    let mut group = criterion.benchmark_group("two bands");
    group.throughput(Throughput::Elements((ROWS * NEW_ROWS) as u64));
    group.bench_function("bitmaps", |bench| {
        bench.iter(|| {
            for (&a_span, &b_span) in of_a.iter().zip(&of_b) {
                black_box(&a).scan_two(black_box(&b), [a_span, b_span], 0..ROWS, &mut found);
                black_box(&mut found).clear();
            }
        });
    });
    group.finish();
}

fn benches(criterion: &mut Criterion) {
    by_bitmaps(criterion);
    two::<u8, u8>(criterion, "8-bit codes", 40);
    two::<u16, u16>(criterion, "16-bit codes", 1);
    two::<u32, u32>(criterion, "32-bit numbers", 1);
    two::<u32, u64>(criterion, "32-bit and 64-bit numbers", 1);
    two::<u64, u64>(criterion, "64-bit numbers", 1);
    one::<u32>(criterion, "32-bit numbers");
}

criterion_group!(w3_scan, benches);
criterion_main!(w3_scan);
