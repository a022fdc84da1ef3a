//! Windows over whole tables. All functions fold each part, and the cells of all parts are then
//! combined into windows, task by task.

use tidegate_sync::Stop;

use super::catalog::aggregate::{Aggregate, kind};
use super::catalog::kind::AggregateKind;
use super::folds::tables::cells::{Belongs, parts};
use super::folds::tables::fold::PartStates;
use super::folds::tables::part::TimePart;
use super::folds::tables::slide::{CellBlock, CellSlices, FunctionStates, Scratch, Writer};
use super::inputs::columns::{Stream, first_rows};
use super::output::Page;
use super::slices::windows::Windows;
use crate::driver::{Driver, Stopped};

/// Aggregates the rows from all sources, and passes the result to `take` page by page. Before the
/// memory for a page is allocated, `announce` receives the number of its rows. The return values of
/// `take` are returned in order.
///
/// Keys must be less than `key_count`.
///
/// This example computes the sums of two sources in windows of 10:
///
/// ```
/// use tidegate_operators::aggregate::{
///     Aggregate, Column, NumberColumns, OutputValues, Page, Stream, Windows, aggregate,
/// };
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_sync::Stop;
///
/// let streams = [Stream { ts: &[1, 12], keys: None }, Stream { ts: &[4, 13], keys: None }];
/// let column = |values| Column { values, mask: None };
/// let sum = Aggregate::Sum(NumberColumns::Integers(vec![column(&[5, 6]), column(&[7, 8])]));
/// let (windows, driver) = (Windows::new(10, 10, 0), Driver::new(2, Stop::default()));
/// let take = |page: Page| {
///     let OutputValues::Integers(sums) = &page.columns[0].values else { unreachable!() };
///     let starts = page.windows.iter().map(|window| window.start);
///     Ok::<_, Stopped>(starts.zip(sums.to_vec()).collect::<Vec<_>>())
/// };
/// let found = aggregate(&streams, 1, &windows, &[sum], &driver, |_| Ok(()), take)?;
/// assert_eq!(found.concat(), [(0, 5 + 7), (10, 6 + 8)]);
/// # Ok::<(), Stopped>(())
/// ```
pub fn aggregate<R: Send, E: From<Stopped> + Send>(
    streams: &[Stream<'_>],
    key_count: usize,
    windows: &Windows,
    aggregates: &[Aggregate<'_>],
    driver: &Driver,
    announce: impl Fn(usize) -> Result<(), E> + Sync,
    take: impl Fn(Page) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let first_rows = first_rows(streams);
    let kinds: Vec<Box<dyn AggregateKind + '_>> =
        aggregates.iter().map(|aggregate| kind(aggregate, streams, &first_rows)).collect();
    let fold_all = |part: &TimePart, belongs: &Belongs<'_>| -> Vec<PartStates> {
        kinds.iter().map(|kind| kind.fold(part, belongs)).collect()
    };
    let (parts, states): (Vec<_>, Vec<_>) =
        parts(streams, key_count, windows, driver, fold_all)?.into_iter().unzip();
    let mut states: Vec<_> = states.into_iter().map(Vec::into_iter).collect();
    let folded: Vec<Box<dyn FunctionStates>> = kinds
        .iter()
        .map(|kind| {
            let of_function = states
                .iter_mut()
                .map(|part| part.next().expect("there are states for each function"));
            kind.put_together(of_function.collect())
        })
        .collect();
    let slices = CellSlices::new(&parts);
    let failure = Stop::default();
    let made = driver.map_with(
        slices.tasks(windows, key_count),
        || Scratch::new(key_count),
        |scratch, task| {
            // The first failure is reported, and the results of the remaining tasks are discarded.
            if failure.is_requested() {
                return Ok(Vec::new());
            }
            let mut writer = Writer::new(&task, &folded);
            let mut taken = Vec::new();
            let mut keep = |page| {
                taken.push(take(page)?);
                Ok(())
            };
            let mut write = || {
                for piece in &task.pieces {
                    driver.check()?;
                    let block = CellBlock::new(piece, &slices, windows, scratch);
                    writer.write(piece, &block, windows, &announce, &mut keep)?;
                }
                writer.flush(&mut keep)
            };
            let written = write();
            if written.is_err() {
                failure.request();
            }
            written.map(|()| taken)
        },
    )?;
    let mut all = Vec::new();
    for taken in made {
        all.extend(taken?);
    }
    Ok(all)
}
