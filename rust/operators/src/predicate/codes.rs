//! Codes for the values of a column. The codes divide the span from the smallest to the largest
//! value into equal steps.

use tidegate_structures::simd::bitmaps::{BUCKETS, Bitmaps};
use tidegate_structures::simd::scan::Span;

use super::column::RankColumn;
use super::numbers::{Number, Numbers, Operand, with_values};

/// The form in which codes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One bitmap of rows per code, used if there are only a few codes.
    Bitmaps,
    /// Numbers of 16 bits.
    Words,
}

/// A column's codes. Larger numbers never have smaller codes, so a range of numbers corresponds to
/// a range of codes.
#[derive(Debug)]
pub(super) struct Codes {
    pub(super) values: Values,
    low: f64,
    scale: f64,
    largest: u16,
    /// An empty column of the same type as the coded numbers.
    like: Numbers,
}

#[derive(Debug)]
pub(super) enum Values {
    Bitmaps(Bitmaps),
    Words(Vec<u16>),
}

impl Codes {
    /// Creates codes for the rows of an operand, in the order given by `order`.
    pub(super) fn new(
        operand: &Operand,
        order: &dyn Fn(usize) -> usize,
        rows: usize,
        form: Form,
    ) -> Self {
        let largest = match form {
            Form::Bitmaps => BUCKETS as u16 - 1,
            Form::Words => u16::MAX,
        };
        with_values!(&operand.numbers, values => {
            let finite = (0..values.len()).map(|row| values[row].float()).filter(|value| value.is_finite());
            let (low, high) = finite.fold((f64::MAX, f64::MIN), |ends, value| (value.min(ends.0), value.max(ends.1)));
            let scale = if low < high { (f64::from(largest) + 1.0) / (high - low) } else { 0.0 };
            let code = |nth: usize| code(values[order(nth)].float(), low, scale);
            let values = match form {
                Form::Bitmaps => {
                    let mut bitmaps = Bitmaps::default();
                    bitmaps.extend((0..rows).map(|nth| bucket(code(nth))));
                    Values::Bitmaps(bitmaps)
                }
                Form::Words => Values::Words((0..rows).map(|nth| code(nth) as u16).collect()),
            };
            Codes { values, low, scale, largest, like: kind(&operand.numbers) }
        })
    }

    /// Appends codes for rows of the operand. Numbers outside the range for which the codes were
    /// created are assigned the first or last code.
    pub(super) fn append(&mut self, operand: &Operand, rows: &[u32]) {
        with_values!(&operand.numbers, values => {
            let codes = rows.iter().map(|&row| code(values[row as usize].float(), self.low, self.scale));
            match &mut self.values {
                Values::Bitmaps(all) => all.extend(codes.map(bucket)),
                Values::Words(all) => all.extend(codes.map(|code| code as u16)),
            }
        });
    }

    /// Returns the memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        match &self.values {
            Values::Bitmaps(bitmaps) => bitmaps.memory(),
            Values::Words(values) => size_of::<u16>() * values.len(),
        }
    }

    /// Returns the codes that the numbers in a range of the column can have.
    pub(super) fn span(&self, column: &RankColumn, span: Span<u64>) -> Span<u16> {
        fn float<T: Number>(_: &[T], rank: u64) -> f64 {
            T::of_rank(rank).float()
        }
        let of = |rank: u64| {
            let number = with_values!(&self.like, values => float(values, rank));
            // A cast to an integer saturates.
            (code(number, self.low, self.scale) as u16).min(self.largest)
        };
        let (low, high) = (of(column.base + span.low), of(column.base + span.low + span.width));
        Span { low, width: high - low }
    }
}

/// The code increases with the number, because each rounding preserves order.
fn code(number: f64, low: f64, scale: f64) -> f64 {
    (number - low) * scale
}

/// Returns the bucket of a code. Codes beyond the last bucket are assigned to that bucket.
fn bucket(code: f64) -> u8 {
    (code as u8).min(BUCKETS as u8 - 1)
}

fn kind(numbers: &Numbers) -> Numbers {
    match numbers {
        Numbers::I32(_) => Numbers::I32(Vec::new()),
        Numbers::I64(_) => Numbers::I64(Vec::new()),
        Numbers::F32(_) => Numbers::F32(Vec::new()),
        Numbers::F64(_) => Numbers::F64(Vec::new()),
    }
}
