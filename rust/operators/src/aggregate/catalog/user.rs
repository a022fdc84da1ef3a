//! User-defined functions, written in Rust.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::kind::{AggregateKind, kind_of};
use crate::aggregate::folds::partners::functions::InPanes;
use crate::aggregate::inputs::columns::{Column, Stream};
use crate::aggregate::output::OutputValue;
use crate::aggregate::states::functions::{Function, RowOrder};
use crate::aggregate::states::words::{STATE_WORDS, StateWords, StoredFunction, three};

/// A user-defined function over the values of a window, whose states can be combined.
///
/// User-defined functions are computed like the built-in functions. Each row is added to the state
/// of its slice, and a window combines the states of its slices. User-defined functions can be used
/// with tables, sessions and streams, and with every algorithm.
///
/// For the results to depend on the data alone, three laws must hold. The crate does not check
/// these laws:
///
/// - `combine(EMPTY, a)` and `combine(a, EMPTY)` have the same result as `a`.
/// - `combine(combine(a, b), c)` and `combine(a, combine(b, c))` have the same result, or results
///   that are close enough for your purposes. Only the rows' times determine which states are
///   combined.
/// - `of_words(to_words(a))` equals `a`.
///
/// # Examples
///
/// This function counts how often a value was greater than the previous one, so the result depends
/// on the order of rows:
///
/// ```
/// use tidegate_operators::aggregate::{
///     Aggregate, Column, RowOrder, Page, Stream, UserFunction, OutputValues, Windows, aggregate,
/// };
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_sync::Stop;
///
/// /// The first value and the last one, if there are any, and the rises between them.
/// type Ends = (Option<(i32, i32)>, u32);
///
/// struct Rises;
///
/// impl UserFunction for Rises {
///     type Input = i32;
///     type State = Ends;
///     type Output = i64;
///
///     const ORDER: RowOrder = RowOrder::Merged;
///     const EMPTY: Ends = (None, 0);
///
///     fn add(state: &mut Ends, value: i32) {
///         *state = Self::combine(*state, (Some((value, value)), 0));
///     }
///
///     fn combine(earlier: Ends, later: Ends) -> Ends {
///         match (earlier.0, later.0) {
///             (Some((first, before)), Some((after, last))) => {
///                 (Some((first, last)), earlier.1 + later.1 + u32::from(after > before))
///             }
///             (None, _) => later,
///             (_, None) => earlier,
///         }
///     }
///
///     fn finish(state: Ends) -> Option<i64> {
///         state.0.map(|_| state.1.into())
///     }
///
///     fn to_words((ends, rises): Ends) -> [u64; 3] {
///         let (first, last) = ends.unwrap_or_default();
///         [first as u64, last as u64, u64::from(rises) << 1 | u64::from(ends.is_some())]
///     }
///
///     fn of_words([first, last, rises]: [u64; 3]) -> Ends {
///         ((rises & 1 == 1).then_some((first as i32, last as i32)), (rises >> 1) as u32)
///     }
/// }
///
/// // Two sources: together, the values are 5, 7, 6 in the first window, and 6, 9 in the second.
/// let streams = [Stream { ts: &[0, 12], keys: None }, Stream { ts: &[3, 7, 11], keys: None }];
/// let columns = vec![Column { values: &[5, 9], mask: None }, Column { values: &[7, 6, 6], mask: None }];
/// let rises = Aggregate::user::<Rises>(columns);
/// let windows = Windows::new(10, 10, 0);
/// let driver = Driver::new(2, Stop::default());
/// let take = |page: Page| match &page.columns[0].values {
///     OutputValues::Integers(values) => Ok::<_, Stopped>(values[..page.rows].to_vec()),
///     _ => unreachable!("the results are whole numbers"),
/// };
/// let found = aggregate(&streams, 1, &windows, &[rises], &driver, |_| Ok(()), take)?;
/// assert_eq!(found.concat(), [1, 1]);
/// # Ok::<(), Stopped>(())
/// ```
pub trait UserFunction: Send + Sync + 'static {
    /// The value that a row adds, or its values from several columns.
    type Input: Copy + Send + Sync + 'static;
    /// The state computed from some rows.
    type State: Copy + Send + Sync;
    /// The result type: `i64`, `i128`, `f64`, or `u32` for a row number.
    type Output: OutputValue;

    /// The order in which rows must be added.
    const ORDER: RowOrder;
    /// The state before any row is added.
    const EMPTY: Self::State;

    /// Adds a row to a state.
    fn add(state: &mut Self::State, value: Self::Input);

    /// Returns the state of both groups of rows combined. All rows in `earlier` precede the rows in
    /// `later`.
    fn combine(earlier: Self::State, later: Self::State) -> Self::State;

    /// Returns the result, or `None` if there were too few rows.
    fn finish(state: Self::State) -> Option<Self::Output>;

    /// Returns the state as words, so that threads can share it.
    fn to_words(state: Self::State) -> [u64; STATE_WORDS];

    /// Converts these words back into a state.
    fn of_words(words: [u64; STATE_WORDS]) -> Self::State;
}

/// Adapts a user-defined function to the trait of the built-in functions.
pub(in crate::aggregate) struct User<F>(PhantomData<F>);

impl<F: UserFunction> Function for User<F> {
    type Input = F::Input;
    type State = F::State;
    type Output = F::Output;

    const ORDER: RowOrder = F::ORDER;
    const EMPTY: F::State = F::EMPTY;

    #[inline]
    fn add(state: &mut F::State, value: F::Input) {
        F::add(state, value);
    }

    #[inline]
    fn combine(earlier: F::State, later: F::State) -> F::State {
        F::combine(earlier, later)
    }

    #[inline]
    fn finish(state: F::State) -> Option<F::Output> {
        F::finish(state)
    }
}

impl<F: UserFunction> InPanes for User<F> {
    type Family = F;
}

impl<F: UserFunction> StoredFunction for User<F> {
    fn to_words(state: F::State) -> StateWords {
        three(F::to_words(state))
    }

    fn of_words([a, b, c, ..]: StateWords) -> F::State {
        F::of_words([a, b, c])
    }
}

/// A user-defined function of any type, with its input.
#[derive(Clone)]
pub struct UserAggregate<'a>(Arc<dyn AnyUserFunction + 'a>);

impl fmt::Debug for UserAggregate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UserAggregate").finish_non_exhaustive()
    }
}

impl<'a> UserAggregate<'a> {
    /// Creates a function over one column per source.
    pub(in crate::aggregate) fn new<F: UserFunction>(columns: Vec<Column<'a, F::Input>>) -> Self {
        UserAggregate(Arc::new(UserColumns::<F>(columns)))
    }

    pub(in crate::aggregate) fn kind<'b>(
        &'b self,
        streams: &'b [Stream<'b>],
    ) -> Box<dyn AggregateKind + 'b> {
        self.0.kind(streams)
    }
}

trait AnyUserFunction: Send + Sync {
    fn kind<'b>(&'b self, streams: &'b [Stream<'b>]) -> Box<dyn AggregateKind + 'b>;
}

struct UserColumns<'a, F: UserFunction>(Vec<Column<'a, F::Input>>);

impl<F: UserFunction> AnyUserFunction for UserColumns<'_, F> {
    fn kind<'b>(&'b self, streams: &'b [Stream<'b>]) -> Box<dyn AggregateKind + 'b> {
        kind_of::<User<F>, _>(streams, &self.0[..])
    }
}
