//! Windows that many threads update, in the W-Hive.

use tidegate_structures::gate::Next;
use tidegate_structures::papers::hive::{Hive, HiveReader, HiveWriter};
use tidegate_structures::papers::row_gate::{Reader, Row};

use super::merge::numbered;
use super::winsets::{Window, Winsets, seed};
use crate::aggregate::{Epoch, OpenPartials, Slice};
use crate::driver::{Driver, Stopped};

/// Windows that threads share.
type Shared<'a> = (Vec<Writer<'a>>, HiveReader<Window, New<'a>>);
type Writer<'a> = HiveWriter<Window, New<'a>>;
type New<'a> = Box<dyn Fn() -> Window + Send + Sync + 'a>;

/// A hive that has the partials of earlier epochs.
fn hive<'a>(epoch: &'a Epoch<'_>, open: &OpenPartials, writers: usize) -> Shared<'a> {
    let new: New<'a> = Box::new(|| Window::new(epoch.rows.len()));
    let (mut writers, reader) = Hive::new(writers, new);
    seed(open, |slice, key, fill| writers[0].update(slice, key, fill));
    (writers, reader)
}

/// The rows of windows that no writer writes to any more.
fn taken(mut reader: HiveReader<Window, New<'_>>, sources: usize) -> OpenPartials {
    let mut winsets = Winsets::default();
    while let Next::Ready(winset) = reader.next_winset() {
        winsets.insert(winset.start(), winset.into_windows());
    }
    winsets.partials(sources)
}

/// Updates the windows of one thread's rows. No row is in an earlier slice than the row before it.
fn update_all(
    epoch: &Epoch<'_>,
    writer: &mut Writer<'_>,
    rows: impl Iterator<Item = (usize, usize)>,
) {
    let mut last = Slice::MIN;
    for (source, row) in rows {
        let Some((slice, key)) = epoch.place(source, row) else { continue };
        if slice > last {
            writer.advance(slice);
            last = slice;
        }
        writer.update(slice, key, |window| window.add(epoch, source, row));
    }
}

/// Each thread updates the windows of some keys.
pub(super) fn by_key(
    epoch: &Epoch<'_>,
    open: &OpenPartials,
    reader: &Reader<u32>,
    driver: &Driver,
) -> Result<OpenPartials, Stopped> {
    let threads = driver.threads();
    let (writers, windows) = hive(epoch, open, threads);
    let hash = |row: &Row<'_, u32>| {
        let keys = epoch.rows[usize::from(row.id.source())].keys;
        let key = keys.map_or(0, |keys| keys[*row.payload as usize]);
        u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let work = writers
        .into_iter()
        .enumerate()
        .map(|(part, writer)| (reader.fork().keyed(part, threads, hash), writer));
    driver.map(work.collect(), |(mut rows, mut writer)| {
        let next = || rows.next_ready().ready().map(numbered);
        update_all(epoch, &mut writer, std::iter::from_fn(next));
    })?;
    Ok(taken(windows, epoch.rows.len()))
}

/// Each source updates the windows of its rows.
pub(super) fn by_source(
    epoch: &Epoch<'_>,
    open: &OpenPartials,
    driver: &Driver,
) -> Result<OpenPartials, Stopped> {
    let (writers, windows) = hive(epoch, open, epoch.rows.len());
    driver.map(writers.into_iter().enumerate().collect(), |(source, mut writer)| {
        let rows = 0..epoch.rows[source].ts.len();
        update_all(epoch, &mut writer, rows.map(|row| (source, row)));
    })?;
    Ok(taken(windows, epoch.rows.len()))
}
