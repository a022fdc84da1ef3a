//! Numeric columns, and the conversion of their values to unsigned integers that sort in the same
//! order.

/// The values of a numeric column.
#[derive(Clone, Debug)]
pub enum Numbers {
    /// 32-bit integers.
    I32(Vec<i32>),
    /// 64-bit integers.
    I64(Vec<i64>),
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
}

/// One side of a comparison. Each row has at most one number. A row without a number matches
/// nothing.
#[derive(Clone, Debug)]
pub struct Operand {
    pub(super) numbers: Numbers,
    /// `true` for each row that has no number. `None` if every row so far has a number.
    missing: Option<Vec<bool>>,
    /// The ranks of the smallest and largest numbers so far, including those from removed rows.
    ends: Option<(u64, u64)>,
}

/// Evaluates an expression with the slice in a [`Numbers`].
macro_rules! with_values {
    ($numbers:expr, $values:ident => $body:expr) => {
        match $numbers {
            Numbers::I32($values) => $body,
            Numbers::I64($values) => $body,
            Numbers::F32($values) => $body,
            Numbers::F64($values) => $body,
        }
    };
}
pub(super) use with_values;

impl Numbers {
    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        with_values!(self, values => values.len())
    }
}

impl Operand {
    /// Creates an operand from the numbers of rows. The rows in `missing` have no number.
    pub fn new(numbers: Numbers, missing: Option<Vec<bool>>) -> Self {
        let mut operand = Operand { numbers, missing, ends: None };
        operand.ends = operand.find_ends();
        operand
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the numbers of the given rows, in the given order.
    pub(crate) fn rows_at(&self, rows: &[u32]) -> Operand {
        fn at<T: Copy>(values: &[T], rows: &[u32]) -> Vec<T> {
            rows.iter().map(|&row| values[row as usize]).collect()
        }
        let numbers = match &self.numbers {
            Numbers::I32(values) => Numbers::I32(at(values, rows)),
            Numbers::I64(values) => Numbers::I64(at(values, rows)),
            Numbers::F32(values) => Numbers::F32(at(values, rows)),
            Numbers::F64(values) => Numbers::F64(at(values, rows)),
        };
        Operand::new(numbers, self.missing.as_ref().map(|missing| at(missing, rows)))
    }

    /// Appends rows.
    ///
    /// # Panics
    ///
    /// Panics if the numbers have a different type from the existing ones.
    pub(super) fn append(&mut self, rows: &Operand) {
        let before = self.numbers.len();
        match (&mut self.numbers, &rows.numbers) {
            (Numbers::I32(all), Numbers::I32(more)) => all.extend_from_slice(more),
            (Numbers::I64(all), Numbers::I64(more)) => all.extend_from_slice(more),
            (Numbers::F32(all), Numbers::F32(more)) => all.extend_from_slice(more),
            (Numbers::F64(all), Numbers::F64(more)) => all.extend_from_slice(more),
            (all, more) => panic!("expected numbers of the same type, got {all:?} and {more:?}"),
        }
        if self.missing.is_some() || rows.missing.is_some() {
            let missing = self.missing.get_or_insert_with(|| vec![false; before]);
            match &rows.missing {
                Some(more) => missing.extend_from_slice(more),
                None => missing.resize(before + rows.numbers.len(), false),
            }
        }
        self.widen(rows);
    }

    /// Appends a row of another operand.
    ///
    /// # Panics
    ///
    /// Panics if the number differs in type from the existing ones.
    pub(super) fn push(&mut self, from: &Operand, row: usize) {
        let before = self.numbers.len();
        match (&mut self.numbers, &from.numbers) {
            (Numbers::I32(all), Numbers::I32(values)) => all.push(values[row]),
            (Numbers::I64(all), Numbers::I64(values)) => all.push(values[row]),
            (Numbers::F32(all), Numbers::F32(values)) => all.push(values[row]),
            (Numbers::F64(all), Numbers::F64(values)) => all.push(values[row]),
            (all, values) => {
                panic!("expected numbers of the same type, got {all:?} and {values:?}")
            }
        }
        let is_missing = from.missing.as_ref().is_some_and(|missing| missing[row]);
        if self.missing.is_some() || is_missing {
            self.missing.get_or_insert_with(|| vec![false; before]).push(is_missing);
        }
        if from.compares(row) {
            let rank = with_values!(&from.numbers, values => values[row].rank());
            let (low, high) = self.ends.unwrap_or((rank, rank));
            self.ends = Some((low.min(rank), high.max(rank)));
        }
    }

    /// Extends the range of numbers as if the rows had been appended and then removed.
    pub(super) fn widen(&mut self, rows: &Operand) {
        self.ends = match (self.ends, rows.ends) {
            (Some(own), Some(other)) => Some((own.0.min(other.0), own.1.max(other.1))),
            (own, other) => own.or(other),
        };
    }

    /// Removes rows from the front.
    pub(super) fn drop_front(&mut self, rows: usize) {
        with_values!(&mut self.numbers, values => {
            values.drain(..rows);
            values.shrink_to(2 * values.len());
        });
        if let Some(missing) = &mut self.missing {
            missing.drain(..rows);
        }
    }

    /// Returns the memory held, in bytes.
    pub fn memory(&self) -> usize {
        let missing = self.missing.as_ref().map_or(0, Vec::capacity);
        missing
            + with_values!(&self.numbers, values => values.capacity() * values.first().map_or(0, size_of_val))
    }

    /// Returns whether any row has no number. NaN counts as a number here, even though it matches
    /// nothing.
    pub fn has_missing(&self) -> bool {
        self.missing.as_ref().is_some_and(|missing| missing.contains(&true))
    }

    /// Returns whether a row has a number other than NaN.
    pub(super) fn compares(&self, row: usize) -> bool {
        !self.missing.as_ref().is_some_and(|missing| missing[row])
            && !with_values!(&self.numbers, values => values[row].is_nan())
    }

    /// Returns the smallest and largest ranks of all numbers that can be compared.
    pub(super) fn ends(&self) -> Option<(u64, u64)> {
        self.ends
    }

    fn find_ends(&self) -> Option<(u64, u64)> {
        with_values!(&self.numbers, values => {
            let ranks = (0..values.len()).filter(|&row| self.compares(row)).map(|row| values[row].rank());
            ranks.fold(None, |ends, rank| match ends {
                None => Some((rank, rank)),
                Some((low, high)) => Some((rank.min(low), rank.max(high))),
            })
        })
    }
}

/// A type of number that has a *rank*. Ranks are unsigned integers: larger numbers have larger
/// ranks, and equal numbers have equal ranks.
pub(super) trait Number: Copy {
    /// The rank of the smallest number.
    const FIRST: u64;
    /// The rank of the largest number. NaN has a greater rank.
    const LAST: u64;

    fn rank(self) -> u64;
    fn of_rank(rank: u64) -> Self;
    fn is_nan(self) -> bool;
    /// Converts the number to the nearest float. The conversion preserves order.
    fn float(self) -> f64;
    /// Returns the number nearest to a float, or another number close to the float.
    fn near_float(float: f64) -> Self;
}

/// Numbers that can be used in 64-bit integer arithmetic.
pub(super) trait Whole: Number {
    fn whole(self) -> i64;
    /// Returns the number nearest to an integer.
    fn near_whole(whole: i64) -> Self;
}

macro_rules! integer {
    ($number:ty, $unsigned:ty) => {
        impl Number for $number {
            const FIRST: u64 = 0;
            const LAST: u64 = <$unsigned>::MAX as u64;

            fn rank(self) -> u64 {
                u64::from(self as $unsigned ^ <$number>::MIN as $unsigned)
            }

            fn of_rank(rank: u64) -> Self {
                (rank as $unsigned ^ <$number>::MIN as $unsigned) as $number
            }

            fn is_nan(self) -> bool {
                false
            }

            fn float(self) -> f64 {
                self as f64
            }

            fn near_float(float: f64) -> Self {
                float as $number
            }
        }

        impl Whole for $number {
            fn whole(self) -> i64 {
                i64::from(self)
            }

            fn near_whole(whole: i64) -> Self {
                whole.clamp(i64::from(<$number>::MIN), i64::from(<$number>::MAX)) as $number
            }
        }
    };
}

integer!(i32, u32);
integer!(i64, u64);

macro_rules! float {
    ($number:ty, $unsigned:ty) => {
        impl Number for $number {
            const FIRST: u64 = !<$number>::NEG_INFINITY.to_bits() as u64;
            const LAST: u64 = (<$number>::INFINITY.to_bits() | 1 << (<$unsigned>::BITS - 1)) as u64;

            fn rank(self) -> u64 {
                const SIGN: $unsigned = 1 << (<$unsigned>::BITS - 1);
                // Adding zero turns negative zero into positive zero.
                let bits = (self + 0.0).to_bits();
                match self {
                    _ if self.is_nan() => u64::from(<$unsigned>::MAX),
                    _ if bits & SIGN == 0 => u64::from(bits | SIGN),
                    _ => u64::from(!bits),
                }
            }

            fn of_rank(rank: u64) -> Self {
                const SIGN: $unsigned = 1 << (<$unsigned>::BITS - 1);
                let rank = rank as $unsigned;
                <$number>::from_bits(if rank & SIGN == 0 { !rank } else { rank ^ SIGN })
            }

            fn is_nan(self) -> bool {
                self != self
            }

            fn float(self) -> f64 {
                f64::from(self)
            }

            fn near_float(float: f64) -> Self {
                float as $number
            }
        }
    };
}

float!(f32, u32);
float!(f64, u64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranks_keep_the_order<T: Number + PartialOrd + std::fmt::Debug>(a: T, b: T) {
        if a.is_nan() || b.is_nan() {
            assert!([a, b].iter().all(|value| !value.is_nan() || value.rank() > T::LAST));
            return;
        }
        assert_eq!(a.partial_cmp(&b), Some(a.rank().cmp(&b.rank())), "{a:?} {b:?}");
        assert!((T::FIRST..=T::LAST).contains(&a.rank()));
        assert!(T::of_rank(a.rank()) == a);
    }

    proptest! {
        #[test]
        fn oracle_comparison(a in any::<u64>(), b in any::<u64>(), near in -2_i64..3) {
            for b in [b, a.wrapping_add_signed(near), !a] {
                ranks_keep_the_order(a as i64, b as i64);
                ranks_keep_the_order(a as i32, b as i32);
                ranks_keep_the_order(f64::from_bits(a), f64::from_bits(b));
                ranks_keep_the_order(f32::from_bits(a as u32), f32::from_bits(b as u32));
            }
        }
    }

    #[test]
    fn zeros_are_equal_and_infinities_the_ends() {
        ranks_keep_the_order(-0.0_f64, 0.0);
        ranks_keep_the_order(-0.0_f32, 0.0);
        assert_eq!((f32::NEG_INFINITY.rank(), f32::INFINITY.rank()), (f32::FIRST, f32::LAST));
        assert_eq!((f64::NEG_INFINITY.rank(), f64::INFINITY.rank()), (f64::FIRST, f64::LAST));
    }
}
