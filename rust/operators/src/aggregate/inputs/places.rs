//! The rows from several sources as one source, in merged order.

use super::columns::Stream;
use crate::driver::{Driver, Stopped};
use crate::order::time_order;

/// A row's position: its source and its number within that source.
#[derive(Clone, Copy, Debug)]
pub(in crate::aggregate) struct Place {
    pub(in crate::aggregate) source: usize,
    pub(in crate::aggregate) row: usize,
}

/// The rows from all sources, ordered by time, source and position.
pub(in crate::aggregate) struct MergedRows {
    /// The position of each row.
    pub(in crate::aggregate) places: Vec<Place>,
    ts: Vec<i64>,
    keys: Option<Vec<u32>>,
}

impl MergedRows {
    pub(in crate::aggregate) fn new(
        streams: &[Stream<'_>],
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let place = |(source, stream): (usize, &Stream<'_>)| {
            (0..stream.ts.len()).map(move |row| Place { source, row })
        };
        let mut places: Vec<Place> = streams.iter().enumerate().flat_map(place).collect();
        let times: Vec<i64> = streams.iter().flat_map(|stream| stream.ts).copied().collect();
        if let Some(order) = time_order(&times, driver)? {
            places = order.iter().map(|row| places[*row as usize]).collect();
        }
        let keys = streams.iter().any(|stream| stream.keys.is_some());
        let key = |place: &Place| streams[place.source].keys.map_or(0, |keys| keys[place.row]);
        Ok(MergedRows {
            ts: places.iter().map(|place| streams[place.source].ts[place.row]).collect(),
            keys: keys.then(|| places.iter().map(key).collect()),
            places,
        })
    }

    /// Returns the rows as one source.
    pub(in crate::aggregate) fn stream(&self) -> Stream<'_> {
        Stream { ts: &self.ts, keys: self.keys.as_deref() }
    }
}
