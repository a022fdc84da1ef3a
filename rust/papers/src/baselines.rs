//! The sliding-window joins with which ScaleJoin is compared. In the three-step procedure, a single
//! thread compares rows. In CellJoin, the window is divided again for each row, into one piece per
//! thread.
//!
//! Both procedures reuse the join of [`window::scale`](tidegate_operators::window::scale), but
//! divide the windows among its threads differently. The three-step procedure is from Kang,
//! Naughton and Viglas, "Evaluating Window Joins over Unbounded Streams". CellJoin is from Gedik,
//! Bordawekar and Yu, "CellJoin: a parallel stream join operator for the cell processor".

use tidegate_operators::predicate::Term;
use tidegate_operators::rows::{How, Retention};
use tidegate_operators::window::scale::{Part, ScaleJoin};

/// Creates an empty window join that uses the three-step procedure; see [`ScaleJoin::new`].
///
/// ```
/// use tidegate_operators::driver::Driver;
/// use tidegate_operators::rows::{How, Retention, RowJoin, Side};
/// use tidegate_papers::baselines::three_step_join;
/// use tidegate_sync::Stop;
///
/// let window = Retention::Time { left: 10, right: 10 };
/// let mut join = three_step_join(window, How::Inner, true, Vec::new());
/// let driver = Driver::new(1, Stop::default());
/// join.begin(&driver, vec![1, 2, 30], vec![Side::Left, Side::Right, Side::Left], Some(&[]));
/// let pairs = join.advance(&driver, None)?.into_results();
/// assert_eq!((pairs.left, pairs.right), (vec![0], vec![0]));
/// # Ok::<(), tidegate_operators::rows::JoinError>(())
/// ```
pub fn three_step_join(
    retention: Retention,
    how: How,
    ordered: bool,
    terms: Vec<Term>,
) -> ScaleJoin {
    ScaleJoin::of_parts(retention, how, ordered, terms, vec![Part::of_share(0)])
}

/// Creates an empty window join that uses CellJoin with the given number of threads; see
/// [`ScaleJoin::new`].
///
/// ```
/// use tidegate_operators::driver::Driver;
/// use tidegate_operators::rows::{How, Retention, RowJoin, Side};
/// use tidegate_papers::baselines::cell_join;
/// use tidegate_sync::Stop;
///
/// let window = Retention::Rows { left: 2, right: 2 };
/// let mut join = cell_join(window, How::Inner, 2, true, Vec::new());
/// let driver = Driver::new(2, Stop::default());
/// // The first left row has already left its window when the right row arrives.
/// let sides = vec![Side::Left, Side::Left, Side::Left, Side::Right];
/// join.begin(&driver, vec![1, 2, 3, 4], sides, Some(&[]));
/// let pairs = join.advance(&driver, None)?.into_results();
/// assert_eq!((pairs.left, pairs.right), (vec![1, 2], vec![0, 0]));
/// # Ok::<(), tidegate_operators::rows::JoinError>(())
/// ```
pub fn cell_join(
    retention: Retention,
    how: How,
    threads: usize,
    ordered: bool,
    terms: Vec<Term>,
) -> ScaleJoin {
    let pieces = (0..threads).map(|nth| Part::of_window(nth, threads)).collect();
    ScaleJoin::of_parts(retention, how, ordered, terms, pieces)
}
