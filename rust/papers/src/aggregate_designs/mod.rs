//! The designs from the multiway aggregation paper. They differ in which threads merge rows and
//! update windows.
//!
//! ```text
//!           add            merge                    update                         output
//! MQ        per source ──▶ queues, looked at one ─▶ by one thread ───────────────▶ ┐
//! MQ-LF     the same, with lock-free queues                                        │
//! TuMLSC    per source ──▶ T-Gate ────────────────▶ by one thread ───────────────▶ ├─▶ cells
//! TuMLMC    per source ──▶ T-Gate ────────────────▶ by many, in the W-Hive ──────▶ │
//! WiML      per source ───────────────────────────▶ by the sources, in the W-Hive ▶ ┘
//! ```
//!
//! The designs exist for comparison: each row passes individually through data structures that
//! threads share. All stages of a design run at the same time. Sources add rows while other stages
//! merge rows and update windows. Finished windows are taken out of the hive while other windows
//! are still being updated. The aggregates of an epoch's rows are stored where the default
//! algorithm stores them. Windows, snapshots and results therefore equal those of
//! [`StreamingAggregate`].
//!
//! | file | contents |
//! | --- | --- |
//! | `merge.rs` | the rows of all sources in merged order: queues, and the gate |
//! | `winsets.rs` | windows by slice and key; one thread updates them |
//! | `hive.rs` | windows that many threads update |
//!
//! Departures from Cederman, Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas, "Efficient data
//! streaming multiway aggregation through concurrent algorithmic designs and new abstract data
//! types", section 5:
//!
//! - A winset belongs to a slice instead of a window, because all windows in tidegate consist of
//!   slices.
//! - Each window has a separate part for each source, so the order in which floats are added
//!   depends only on the data. WiML is therefore also correct for functions that depend on the
//!   order of rows.
//! - The T-Gate is replaced by its successor, ScaleGate.
//! - Each epoch has its own gate, queues and hive, and the sources end after the epoch's rows. At
//!   the end of each epoch, stages therefore wait for each other. Other threads can then inspect
//!   the operator.
//! - Stages take turns on the operator's threads, because there may be fewer threads than stages.
//!   If there are at least two threads, the stage that updates all windows runs on its own thread.

mod hive;
mod merge;
mod winsets;

use merge::{End, LockedQueue, merged, numbered, queued};
use tidegate_operators::aggregate::{
    AddEpoch, Aggregate, Epoch, KeyOrder, OpenPartials, Page, Stream, StreamingAggregate,
    StreamingWindows, Windows, first_rows,
};
use tidegate_operators::driver::{Driver, Stopped};
use winsets::updated;

/// Determines how rows are aggregated into slice states. All designs return the same results as the
/// slice-based algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultiwayDesign {
    /// Each source has a queue with a lock, and one thread merges rows and updates windows.
    MultiQueue,
    /// Each source has a lock-free queue, and one thread merges rows and updates windows.
    LockFreeMultiQueue,
    /// A gate merges rows, and one thread updates windows.
    MergedSingleConsumer,
    /// A gate merges rows. Many threads update windows, each for some of the keys.
    MergedMultipleConsumer,
    /// Rows are not merged, and each source updates windows.
    WindowMerged,
}

impl AddEpoch for MultiwayDesign {
    fn add(
        &self,
        epoch: &Epoch<'_>,
        open: &OpenPartials,
        driver: &Driver,
    ) -> Result<OpenPartials, Stopped> {
        match self {
            MultiwayDesign::MultiQueue => {
                updated(epoch, open, queued::<LockedQueue>(epoch), driver)
            }
            MultiwayDesign::LockFreeMultiQueue => {
                updated(epoch, open, queued::<End>(epoch), driver)
            }
            MultiwayDesign::MergedSingleConsumer => {
                let (stages, mut reader) = merged(epoch);
                updated(epoch, open, (stages, move || numbered(reader.next_ready())), driver)
            }
            MultiwayDesign::MergedMultipleConsumer => {
                hive::by_key(epoch, open, merged(epoch), driver)
            }
            MultiwayDesign::WindowMerged => hive::by_source(epoch, open, driver),
        }
    }
}

/// Creates a streaming aggregation for rows from this number of sources. The aggregation uses one
/// of the paper's designs (see [`StreamingAggregate::new`]).
pub fn streaming_aggregate_by(
    design: MultiwayDesign,
    windows: Windows,
    sources: usize,
    aggregates: &[Aggregate<'_>],
) -> StreamingAggregate {
    StreamingAggregate::new(windows, sources, aggregates).adding_by(Box::new(design))
}

/// Aggregates rows like [`aggregate`](tidegate_operators::aggregate::aggregate), but uses one of
/// the paper's designs.
///
/// ```
/// use tidegate_operators::aggregate::{Aggregate, OutputValues, Page, Stream, Windows};
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_papers::aggregate_designs::{MultiwayDesign, aggregate_by};
/// use tidegate_sync::Stop;
///
/// let streams = [Stream { ts: &[0, 12], keys: None }, Stream { ts: &[3, 7], keys: None }];
/// let counts = aggregate_by(
///     MultiwayDesign::WindowMerged,
///     &streams,
///     1,
///     &Windows::new(10, 10, 0),
///     &[Aggregate::Count(vec![None, None])],
///     &Driver::new(2, Stop::default()),
///     |_| Ok(()),
///     |page: Page| match &page.columns[0].values {
///         OutputValues::Integers(counts) => Ok::<_, Stopped>(counts[..page.rows].to_vec()),
///         _ => unreachable!("counts are whole numbers"),
///     },
/// )?;
/// assert_eq!(counts.concat(), [3, 1]);
/// # Ok::<(), Stopped>(())
/// ```
#[expect(clippy::too_many_arguments, reason = "those of `aggregate`, and the design")]
pub fn aggregate_by<R: Send, E: From<Stopped> + Send>(
    design: MultiwayDesign,
    streams: &[Stream<'_>],
    key_count: usize,
    windows: &Windows,
    aggregates: &[Aggregate<'_>],
    driver: &Driver,
    announce: impl Fn(usize) -> Result<(), E> + Sync,
    take: impl Fn(Page) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let mut streaming = streaming_aggregate_by(design, windows.clone(), streams.len(), aggregates);
    streaming.add(streams, key_count, &first_rows(streams), aggregates, driver)?;
    streaming.finish(driver)?;
    let keys: Vec<u32> = (0..key_count as u32).collect();
    let mut taken = Vec::new();
    loop {
        let pages =
            streaming.pages(driver.threads(), KeyOrder { keys: &keys, ranks: &keys }, driver)?;
        if pages.is_empty() {
            return Ok(taken);
        }
        announce(pages.iter().map(|page| page.rows).sum())?;
        for made in driver.map(pages, &take)? {
            taken.push(made?);
        }
    }
}
