//! The streaming overlap join, which is a streaming interval join of the starts. Its interval covers
//! all rows that can overlap, and its test compares starts with ends.

use arrow_schema::SchemaRef;
use tidegate_operators::interval::streaming::LOAD_FACTOR;

use super::interval::{BoundedJoin, Parallelism};
use super::spans::KeptSpans;
use crate::Result;
use crate::columns::time::Bound;
use crate::query::overlap::OverlapJoin;
use crate::stream::operator::{Operator, with_room};
use crate::stream::options::StreamOptions;

/// Creates an overlap join of sources with these schemas. Rows are pushed in the order of their
/// starts. Rows that are longer than `max_width`, on the left and on the right, are set aside, like
/// late rows. Sides whose rows are points in time need no `max_width`.
///
/// This example matches each alarm with the jobs that were running during the alarm:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::stream::{Poll, StreamOptions, lock, overlap_join};
/// use tidegate::{Bound, Closed, How, JoinOptions, OverlapJoin, Stop};
///
/// # let rows = |columns: &[(&str, &[i64])]| {
/// #     let column = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
/// #     RecordBatch::try_from_iter(columns.iter().map(|(name, values)| (*name, column(values))))
/// # };
/// # let (by, how, suffix) = (Vec::new(), How::Inner, "_right".to_owned());
/// # let (predicate, columns, threads, max_rows, batch_rows) = (None, None, 1, None, None);
/// # let options = JoinOptions {
/// #     by, predicate, how, suffix, columns, threads, max_rows, batch_rows,
/// # };
/// # let (sources, lateness) = ((1, 1), (None.into(), None.into()));
/// # let streams = StreamOptions {
/// #     sources, lateness, memory_limit: None, ordered: true, pin: false,
/// # };
/// let alarms = rows(&[("start", &[10, 20]), ("end", &[15, 29])])?;
/// let jobs = rows(&[("start", &[0, 12, 21]), ("end", &[10, 14, 30])])?;
/// let names = || ("start".to_owned(), "end".to_owned());
/// let query = OverlapJoin {
///     on: [names(), names()],
///     closed: Closed::Both,
///     open_ends: false,
///     min_overlap: None,
///     options, // of an inner join
/// };
/// let (left, right) = (alarms.schema(), jobs.schema());
/// // `streams` specifies one source per side.
/// let mut join = overlap_join(&query, Some([Bound::Steps(10); 2]), left, right, &streams)?;
/// for (source, rows) in join.sources().iter().zip([alarms, jobs]) {
///     lock(source).push(&rows.schema(), vec![rows], &Stop::default())?;
/// }
/// // The last job waits, because another alarm may still start at 20.
/// let Poll::Batch(pairs) = join.poll()? else { unreachable!() };
/// assert_eq!(pairs["start"].as_primitive::<Int64Type>().values(), &[10, 10]);
/// assert_eq!(pairs["start_right"].as_primitive::<Int64Type>().values(), &[0, 12]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn overlap_join(
    query: &OverlapJoin,
    max_width: Option<[Bound; 2]>,
    left: SchemaRef,
    right: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    with_room([left, right], |[left, right]| {
        let plan = query.stream_plan(max_width, &left, &right)?;
        let (left_start, right_start) = plan.times;
        let [left_end, right_end] = plan.ends;
        let spans = [(left_start, left_end), (right_start, right_end)];
        let join = BoundedJoin {
            identity: plan.identity,
            options: &query.options,
            times: plan.times,
            unit: plan.unit,
            plan: plan.join,
            lines: plan.lines,
            widths: plan.widths,
            interval: plan.interval,
            spans: Some(KeptSpans::new(spans, plan.unit)),
        };
        join.operator(Parallelism::Auto, LOAD_FACTOR, [left, right], options)
    })
}
