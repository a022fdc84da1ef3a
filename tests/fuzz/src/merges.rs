//! Merges: the rows of all sources sorted by time, source and position.

use tidegate::stream::{self, MergeOptions};

use crate::draw::Draw;
use crate::joins::{late, used};
use crate::play::{self, Feed, Way};
use crate::rows::{Layout, Rows, assert_same};

/// Sources, and the options of their merge.
pub(crate) struct Sources {
    pub(crate) rows: Rows,
    pub(crate) feeds: Vec<Feed>,
    pub(crate) options: MergeOptions,
}

impl Sources {
    pub(crate) fn draw(draw: &mut Draw<'_>) -> Self {
        let layout = Layout::draw(draw);
        let count = draw.pick(&[0, 3, 8, 20, 3000]);
        let rows = match count {
            3000 => layout.rows(&mut draw.seeded(), 0, count),
            few => layout.rows(draw, 0, few),
        };
        let sources = draw.number(1, 5) as usize;
        let lateness = draw.signed(0, 3) * layout.tick();
        let feeds = play::feeds(draw, &rows, sources, lateness, (layout.steps()[0], layout.tick()));
        let options = MergeOptions {
            on: "ts".to_owned(),
            sources,
            lateness: layout.lateness(lateness),
            memory_limit: None,
            threads: draw.pick(&[1, 2, 3]),
        };
        Sources { rows, feeds, options }
    }
}

/// Draws sources and compares their merge with a sort.
pub(crate) fn merge(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let draw = &mut draw;
    let Sources { rows, feeds, options } = Sources::draw(draw);
    let turns = play::turns(draw, &feeds);
    let all = used(&feeds, 0);
    let mut order: Vec<usize> = (0..all.rows.len()).collect();
    order.sort_by_key(|&row| all.places[row]);
    let wanted = all.rows.take(&order).batch;
    let mut states = Vec::new();
    for way in Way::all(draw) {
        let mut make = || {
            let options = MergeOptions { threads: draw.pick(&[1, 2, 3]), ..options.clone() };
            stream::merge(rows.batch.schema(), &options)
        };
        let found = play::play(&feeds, &turns, way, &mut make);
        let found = found.unwrap_or_else(|error| panic!("{error:?}; {way:?}; {options:?}"));
        assert_same(&found.rows, &wanted, &options);
        assert_eq!(found.late, late(&feeds), "{way:?}; {options:?}");
        states.push(found.states);
    }
    assert!(states[0] == states[1], "equal histories must yield equal bytes: {options:?}");
}
