//! Damaged snapshots with a fresh checksum, so that the damage reaches the code that reads them.

use tidegate::stream::{Operator, Poll, StreamOptions, merge};
use tidegate::{Error, Result, Stop};

use crate::aggregates;
use crate::draw::Draw;
use crate::merges;
use crate::play::{self, Feed, Turn};
use crate::query::{Query, Relation};

const MAGIC: usize = 8;
const VERSION: usize = 2;
const CHECKSUM: usize = 4;

/// Draws an operator, its input until a snapshot, and damage. The damaged snapshot is refused as
/// such, or an operator resumes from it. The results may then be wrong, but no internal error may
/// occur.
pub(crate) fn snapshot(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    if draw.once_in(3) {
        let query = aggregates::Query::draw(&mut draw);
        let (rows, sources, lateness) = query.sources(&mut draw);
        let feeds = query.feeds(&rows, sources, lateness, &mut draw);
        let schema = rows.batch.schema();
        return damaged(&feeds, &mut draw, &mut |draw| {
            query.stream(&schema, sources, lateness, draw)
        });
    }
    if draw.once_in(6) {
        let sources = merges::Sources::draw(&mut draw);
        let schema = sources.rows.batch.schema();
        return damaged(&sources.feeds, &mut draw, &mut |_| {
            merge(schema.clone(), &sources.options)
        });
    }
    let mut query = Query::draw(&mut draw);
    if let Relation::Band { windows: None, .. } = query.relation {
        query.relation =
            Relation::Interval { lower: Some(0), upper: None, closed: tidegate::Closed::Both };
    }
    let lateness = draw.signed(0, 2) * query.layout.tick();
    let feeds: Vec<Feed> = [0, 1]
        .into_iter()
        .flat_map(|side| {
            let count = draw.number(0, 12) as usize;
            let rows = query.layout.rows(&mut draw, side, count);
            play::feeds(
                &mut draw,
                &rows,
                1,
                lateness,
                (query.layout.steps()[side], query.layout.tick()),
            )
        })
        .collect();
    let options = StreamOptions {
        sources: (1, 1),
        lateness: (query.layout.lateness(lateness), query.layout.lateness(lateness)),
        memory_limit: None,
        ordered: true,
        pin: false,
    };
    damaged(&feeds, &mut draw, &mut |draw| query.stream(1, &options, draw));
}

fn damaged(
    feeds: &[Feed],
    draw: &mut Draw<'_>,
    make: &mut dyn FnMut(&mut Draw<'_>) -> Result<Operator>,
) {
    let turns = play::turns(draw, feeds);
    let (before, after) = turns.split_at(draw.place(turns.len() + 1));
    // A condition whose arithmetic fails ends the operator, so there is no snapshot.
    let Ok(mut operator) = make(draw) else { return };
    let fed = feed(&mut operator, feeds, before);
    let Ok(mut state) = fed.and_then(|()| operator.snapshot(&Stop::default())) else { return };
    let sound = state.clone();
    seal(&mut state);
    assert_eq!(state, sound, "the checksum does not cover all bytes before it");
    damage(&mut state, draw);
    seal(&mut state);
    let mut other = make(draw).expect("the same query was accepted before");
    match other.restore(&state, &Stop::default()).and_then(|()| feed(&mut other, feeds, after)) {
        Ok(()) => {}
        Err(error) => check(&error),
    }
    if let Err(error) = other.snapshot(&Stop::default()) {
        check(&error);
    }
}

fn check(error: &Error) {
    assert!(!error.is_bug(), "{error:?}");
}

/// Feeds an operator, and takes all available results from time to time.
fn feed(operator: &mut Operator, feeds: &[Feed], turns: &[Turn]) -> Result<()> {
    let mut batches = Vec::new();
    for turn in turns {
        // A source that a snapshot has closed accepts no more rows.
        match play::happen(operator, &feeds[turn.source], turn) {
            Err(error) if !error.is_closed() => return Err(error),
            _ => {}
        }
        if turn.polls && matches!(play::drain(operator, &mut batches)?, Poll::End) {
            break;
        }
    }
    Ok(())
}

/// Changes a few bytes after the query. The query itself is compared as a string.
fn damage(state: &mut Vec<u8>, draw: &mut Draw<'_>) {
    let head = MAGIC + VERSION;
    let query = u64::from_le_bytes(state[head..head + 8].try_into().expect("eight bytes"));
    let start = head + 8 + query as usize;
    for _ in 0..draw.number(0, 3) {
        let len = state.len() - CHECKSUM - start;
        if len < 8 {
            return;
        }
        let at = start + (draw.number(0, u32::from(u16::MAX)) as usize) % (len - 7);
        let at = if draw.flip() { at } else { start + (at - start) / 8 * 8 };
        let extreme = draw.pick(&[
            0,
            1,
            u64::MAX,
            1 << 40,
            1 << 31,
            (1 << 63) - 1,
            1 << 63,
            7,
            len as u64,
            255,
        ]);
        match draw.number(0, 5) {
            0 => state[at] ^= 1 << draw.number(0, 7),
            1 => state[at] = draw.number(0, 255) as u8,
            2 => state[at..at + 4].copy_from_slice(&extreme.to_le_bytes()[..4]),
            3 => state[at..at + 8].copy_from_slice(&extreme.to_le_bytes()),
            4 => drop(state.drain(at..at + draw.number(1, 8) as usize)),
            _ => {
                let copied = state[at..at + 8].to_vec();
                state.splice(at..at, copied);
            }
        }
    }
}

/// Recomputes the checksum.
fn seal(state: &mut [u8]) {
    let (content, checksum) = state.split_at_mut(state.len() - CHECKSUM);
    checksum.copy_from_slice(&crc32fast::hash(content).to_le_bytes());
}
