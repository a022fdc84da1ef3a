//! User-defined functions.

use tidegate_operators::aggregate::{RowOrder, UserFunction};

/// The number of values that are greater than the previous value.
pub(crate) struct Rises;

/// The first value, the last value and the number of rises between them. `is_some` is `true` if
/// there are any values.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    first: i64,
    last: i64,
    rises: u32,
    is_some: bool,
}

impl UserFunction for Rises {
    type Input = i64;
    type State = Ends;
    type Output = i64;

    const ORDER: RowOrder = RowOrder::Merged;
    const EMPTY: Ends = Ends { first: 0, last: 0, rises: 0, is_some: false };

    fn add(state: &mut Ends, value: i64) {
        *state = Self::combine(*state, Ends { first: value, last: value, rises: 0, is_some: true });
    }

    fn combine(earlier: Ends, later: Ends) -> Ends {
        match (earlier.is_some, later.is_some) {
            (false, _) => later,
            (_, false) => earlier,
            (true, true) => Ends {
                first: earlier.first,
                last: later.last,
                rises: earlier.rises + later.rises + u32::from(later.first > earlier.last),
                is_some: true,
            },
        }
    }

    fn finish(state: Ends) -> Option<i64> {
        state.is_some.then_some(state.rises.into())
    }

    fn to_words(Ends { first, last, rises, is_some }: Ends) -> [u64; 3] {
        [first.cast_unsigned(), last.cast_unsigned(), u64::from(rises) << 1 | u64::from(is_some)]
    }

    fn of_words([first, last, rises]: [u64; 3]) -> Ends {
        Ends {
            first: first.cast_signed(),
            last: last.cast_signed(),
            rises: (rises >> 1) as u32,
            is_some: rises & 1 == 1,
        }
    }
}

/// The largest value minus the smallest.
pub(crate) struct Spread;

impl UserFunction for Spread {
    type Input = i64;
    type State = Option<(i64, i64)>;
    type Output = i64;

    const ORDER: RowOrder = RowOrder::Any;
    const EMPTY: Option<(i64, i64)> = None;

    fn add(state: &mut Option<(i64, i64)>, value: i64) {
        *state = Self::combine(*state, Some((value, value)));
    }

    fn combine(earlier: Option<(i64, i64)>, later: Option<(i64, i64)>) -> Option<(i64, i64)> {
        match (earlier, later) {
            (Some((low, high)), Some((other, another))) => {
                Some((low.min(other), high.max(another)))
            }
            (one, other) => one.or(other),
        }
    }

    fn finish(state: Option<(i64, i64)>) -> Option<i64> {
        state.map(|(low, high)| high - low)
    }

    fn to_words(state: Option<(i64, i64)>) -> [u64; 3] {
        let (low, high) = state.unwrap_or_default();
        [low.cast_unsigned(), high.cast_unsigned(), state.is_some().into()]
    }

    fn of_words([low, high, is_some]: [u64; 3]) -> Option<(i64, i64)> {
        (is_some == 1).then_some((low.cast_signed(), high.cast_signed()))
    }
}
