//! Windows in the W-Hive, which are updated by many threads.

use crate::hive::{Hive, HiveReader, HiveWriter};
use crate::row_gate::{Reader, Row};

use super::merge::numbered;
use super::winsets::{Window, Winsets, seed};
use crate::stages::{Stage, feeding, run, taking};
use tidegate_operators::aggregate::{Epoch, OpenPartials, Slice};
use tidegate_operators::driver::{Driver, Stopped};

/// Handles to the windows that the threads share.
type HiveHandles<'a> = (Vec<Writer<'a>>, HiveReader<Window, New<'a>>);
type Writer<'a> = HiveWriter<Window, New<'a>>;
type New<'a> = Box<dyn Fn() -> Window + Send + Sync + 'a>;

/// Creates a hive that contains the partial results of earlier epochs.
fn hive<'a>(epoch: &'a Epoch<'_>, open: &OpenPartials, writers: usize) -> HiveHandles<'a> {
    let new: New<'a> = Box::new(|| Window::new(epoch.rows.len()));
    let (mut writers, reader) = Hive::new(writers, new);
    seed(open, |slice, key, fill| writers[0].update(slice, key, fill));
    (writers, reader)
}

/// Updates the window of each row. Each row is in the same slice as the previous row, or in a later
/// one.
fn updating<'a>(
    epoch: &'a Epoch<'_>,
    mut writer: Writer<'a>,
) -> impl FnMut((usize, usize)) + Send + 'a {
    let mut last = Slice::MIN;
    move |(source, row)| {
        let Some((slice, key)) = epoch.place(source, row) else { return };
        if slice > last {
            writer.advance(slice);
            last = slice;
        }
        writer.update(slice, key, |window| window.add(epoch, source, row));
    }
}

/// Runs stages that update a hive. Another stage takes out the windows that writers have finished
/// updating.
fn taken(
    mut windows: HiveReader<Window, New<'_>>,
    stages: Vec<Stage<'_>>,
    driver: &Driver,
    sources: usize,
) -> Result<OpenPartials, Stopped> {
    let mut winsets = Winsets::default();
    let output = taking(
        || windows.next_winset(),
        |winset| winsets.insert(winset.start(), winset.into_windows()),
    );
    run(driver, Vec::new(), stages.into_iter().chain([output]).collect())?;
    Ok(winsets.partials(sources))
}

/// Each thread updates the windows of some keys while `stages` fill the gate.
pub(super) fn by_key<'a>(
    epoch: &'a Epoch<'_>,
    open: &OpenPartials,
    (mut stages, reader): (Vec<Stage<'a>>, Reader<u32>),
    driver: &Driver,
) -> Result<OpenPartials, Stopped> {
    let threads = driver.threads();
    let (writers, windows) = hive(epoch, open, threads);
    let hash = |row: &Row<'_, u32>| {
        let keys = epoch.rows[usize::from(row.id.source())].keys;
        let key = keys.map_or(0, |keys| keys[*row.payload as usize]);
        u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    stages.extend(writers.into_iter().enumerate().map(|(part, writer)| {
        let mut rows = reader.fork().keyed(part, threads, hash);
        taking(move || numbered(rows.next_ready()), updating(epoch, writer))
    }));
    // This reader would keep all rows in memory.
    drop(reader);
    taken(windows, stages, driver, epoch.rows.len())
}

/// Each source updates the windows of its rows.
pub(super) fn by_source(
    epoch: &Epoch<'_>,
    open: &OpenPartials,
    driver: &Driver,
) -> Result<OpenPartials, Stopped> {
    let (writers, windows) = hive(epoch, open, epoch.rows.len());
    let stages = writers.into_iter().zip(epoch.rows).enumerate().map(|(source, (writer, rows))| {
        let mut update = updating(epoch, writer);
        feeding(0..rows.ts.len(), move |row| update((source, row)))
    });
    taken(windows, stages.collect(), driver, epoch.rows.len())
}
