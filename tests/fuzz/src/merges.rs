//! Merges: the rows of all sources sorted by time, source and position.

use tidegate::stream::{Merge, MergeOptions};

use crate::draw::Draw;
use crate::joins::{late, used};
use crate::play::{self, Way};
use crate::rows::{Layout, assert_same};

/// Draws sources and compares their merge with a sort.
pub(crate) fn merge(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let draw = &mut draw;
    let layout = Layout::draw(draw);
    let count = draw.pick(&[0, 3, 8, 20, 3000]);
    let rows = match count {
        3000 => layout.rows(&mut draw.seeded(), 0, count),
        few => layout.rows(draw, 0, few),
    };
    let sources = draw.number(1, 5) as usize;
    let lateness = draw.signed(0, 3) * layout.tick();
    let feeds = play::feeds(draw, &rows, sources, lateness, (layout.steps()[0], layout.tick()));
    let turns = play::turns(draw, &feeds);
    let all = used(&feeds, 0);
    let mut order: Vec<usize> = (0..all.rows.len()).collect();
    order.sort_by_key(|&row| all.places[row]);
    let wanted = all.rows.take(&order).batch;
    let options = MergeOptions {
        on: "ts".to_owned(),
        sources,
        lateness: layout.lateness(lateness),
        memory_limit: None,
        threads: draw.pick(&[1, 2, 3]),
    };
    for way in Way::all(draw) {
        let found =
            play::play(&feeds, &turns, way, &mut || Merge::new(rows.batch.schema(), &options));
        let found = found.unwrap_or_else(|error| panic!("{error:?}; {way:?}; {options:?}"));
        assert_same(&found.rows, &wanted, &options);
        assert_eq!(found.late, late(&feeds), "{way:?}; {options:?}");
    }
}
