//! Streams as they are drawn: what each source is fed and promises, and in which turns; and operators that are fed so.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt16Type, UInt64Type};
use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use tidegate::incremental::{self, Merge, OnlineAggregation, Polled, Source, SourceStats, StreamJoin, lock};
use tidegate::{Result, Stop};

use crate::draw::Draw;
use crate::rows::{Rows, concat};

/// What happens to a source.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Rows of its own come, in one push.
    Push(Range<usize>),
    /// It promises that nothing below comes any more.
    Promise(i128),
    Close,
}

/// What one source is fed.
#[derive(Debug)]
pub(crate) struct Feed {
    /// In the order in which they come.
    pub(crate) rows: Rows,
    pub(crate) history: Vec<Event>,
    /// How far they may be out of order.
    pub(crate) lateness: i128,
    /// Nanoseconds of a step of its time, or 1.
    step: i128,
}

/// What happens, in turns.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) source: usize,
    event: Event,
    /// Whether all results are then taken.
    pub(crate) polls: bool,
    /// Whether another operator then goes on from a snapshot.
    is_cut: bool,
}

/// Deals rows out to sources.
pub(crate) fn feeds(
    draw: &mut Draw<'_>,
    rows: &Rows,
    count: usize,
    lateness: i128,
    (step, tick): (i128, i128),
) -> Vec<Feed> {
    let mut own = vec![Vec::new(); count];
    let mut dealing = if rows.len() > 64 { draw.seeded() } else { Draw::Seed(u64::from(draw.number(0, 255))) };
    (0..rows.len()).for_each(|row| own[dealing.place(count)].push(row));
    let feed = |mut own: Vec<usize>| {
        // Mostly in time order, as streams are; else all but the first row would be late.
        if !draw.once_in(4) {
            own.sort_by_key(|&row| rows.ts[row]);
        }
        let mut cuts = vec![0, own.len()];
        for _ in 0..draw.number(0, 3) {
            cuts.push(draw.number(0, own.len() as u32) as usize);
        }
        cuts.sort_unstable();
        let mut history = Vec::new();
        for cut in cuts.windows(2) {
            if draw.once_in(5) {
                history.push(Event::Promise(draw.signed(-1, 6) * tick));
            }
            history.push(Event::Push(cut[0]..cut[1]));
        }
        history.push(Event::Close);
        Feed { rows: rows.take(&own), history, lateness, step }
    };
    own.into_iter().map(feed).collect()
}

impl Feed {
    /// The rows that are used, and those that are late: below what the source has promised when they come.
    pub(crate) fn sort_out(&self) -> (Vec<usize>, Vec<usize>) {
        let mut watermark = i128::MIN;
        let (mut used, mut late) = (Vec::new(), Vec::new());
        for event in &self.history {
            match event {
                Event::Promise(ts) => watermark = watermark.max(*ts),
                Event::Push(rows) => {
                    for row in rows.clone() {
                        if self.rows.ts[row] < watermark {
                            late.push(row);
                        } else {
                            used.push(row);
                            watermark = watermark.max(self.rows.ts[row] - self.lateness);
                        }
                    }
                }
                Event::Close => {}
            }
        }
        (used, late)
    }
}

/// The turns in which sources are fed.
pub(crate) fn turns(draw: &mut Draw<'_>, feeds: &[Feed]) -> Vec<Turn> {
    let mut waiting: Vec<(usize, &[Event])> = feeds.iter().map(|feed| &feed.history[..]).enumerate().collect();
    let mut turns = Vec::new();
    let mut cuts = 0;
    while !waiting.is_empty() {
        let turn = draw.place(waiting.len());
        let (source, history) = &mut waiting[turn];
        let (event, rest) = history.split_first().expect("a source that is done waits no more");
        *history = rest;
        // Operators cost more than rows: each has threads of its own.
        let is_cut = cuts < 2 && draw.once_in(8);
        cuts += usize::from(is_cut);
        turns.push(Turn { source: *source, event: event.clone(), polls: draw.once_in(3), is_cut });
        if rest.is_empty() {
            waiting.remove(turn);
        }
    }
    turns
}

/// What takes rows as they come.
pub(crate) trait Operator {
    fn schema(&self) -> SchemaRef;
    fn sources(&self) -> &[Arc<Mutex<Source>>];
    fn poll(&mut self) -> Result<Polled>;
    /// Late rows: their sources and positions.
    fn late(&self) -> Result<Vec<(usize, u64)>>;
    /// The state, where there is one to save.
    fn save(&mut self) -> Result<Option<Vec<u8>>>;
    fn restore(&mut self, snapshot: &[u8]) -> Result<()>;
}

/// What an operator gave.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) rows: RecordBatch,
    pub(crate) late: Vec<(usize, u64)>,
    /// The states at the cuts, and how many rows had been taken before.
    pub(crate) states: Vec<(usize, Vec<u8>)>,
}

/// Feeds an operator in turns. At a cut, another one goes on from its state if `restores` says so.
pub(crate) fn play<O: Operator>(
    feeds: &[Feed],
    turns: &[Turn],
    restores: bool,
    make: &mut dyn FnMut() -> Result<O>,
) -> Result<Played> {
    let mut operator = make()?;
    let schema = operator.schema();
    let (mut batches, mut states) = (Vec::new(), Vec::new());
    for turn in turns {
        happen(&operator, &feeds[turn.source], turn)?;
        if turn.polls {
            drain(&mut operator, &mut batches)?;
        }
        if turn.is_cut
            && let Some(state) = operator.save()?
        {
            if restores {
                operator = make()?;
                operator.restore(&state)?;
            }
            states.push((batches.iter().map(RecordBatch::num_rows).sum(), state));
        }
    }
    assert!(matches!(drain(&mut operator, &mut batches)?, Polled::End), "all sources are closed");
    let late = operator.late()?;
    let stats: Vec<SourceStats> = operator.sources().iter().map(|source| lock(source).stats()).collect();
    let rows_in: u64 = stats.iter().map(|source| source.rows_in).sum();
    assert_eq!(rows_in, feeds.iter().map(|feed| feed.rows.len() as u64).sum::<u64>(), "rows that came in");
    assert_eq!(stats.iter().map(|source| source.rows_late).sum::<u64>(), late.len() as u64, "rows that were late");
    Ok(Played { rows: concat(&schema, &batches), late, states })
}

pub(crate) fn happen(operator: &impl Operator, feed: &Feed, turn: &Turn) -> Result<()> {
    let mut source = lock(&operator.sources()[turn.source]);
    match &turn.event {
        Event::Push(rows) => {
            let rows = feed.rows.batch.slice(rows.start, rows.len());
            source.push(&feed.rows.batch.schema(), vec![rows], &Stop::default())
        }
        Event::Promise(ts) => source.advance((ts / feed.step) as i64),
        Event::Close => {
            source.close();
            Ok(())
        }
    }
}

/// Takes all results that there are.
pub(crate) fn drain(operator: &mut impl Operator, batches: &mut Vec<RecordBatch>) -> Result<Polled> {
    loop {
        match operator.poll()? {
            Polled::Batch(batch) => batches.push(batch),
            last => return Ok(last),
        }
    }
}

/// The sources and positions that late rows have, from the two columns that say so.
fn numbers(batch: &RecordBatch, from: usize, before: impl Fn(usize) -> usize) -> Vec<(usize, u64)> {
    let sources = batch.column(from).as_primitive::<UInt16Type>();
    let positions = batch.column(from + 1).as_primitive::<UInt64Type>();
    (0..batch.num_rows()).map(|row| (usize::from(sources.value(row)) + before(row), positions.value(row))).collect()
}

impl Operator for StreamJoin {
    fn schema(&self) -> SchemaRef {
        self.schema().clone()
    }

    fn sources(&self) -> &[Arc<Mutex<Source>>] {
        self.sources()
    }

    fn poll(&mut self) -> Result<Polled> {
        incremental::Operator::poll(self)
    }

    fn late(&self) -> Result<Vec<(usize, u64)>> {
        let of_batch = |batch: &RecordBatch| {
            let sides = batch.column(0).as_string::<i32>();
            numbers(batch, 1, |row| if sides.value(row) == "left" { 0 } else { self.left_sources() })
        };
        Ok(incremental::Operator::late(self)?.0.iter().flat_map(of_batch).collect())
    }

    fn save(&mut self) -> Result<Option<Vec<u8>>> {
        self.snapshot(&Stop::default()).map(Some)
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<()> {
        self.restore(snapshot, &Stop::default())
    }
}

impl Operator for OnlineAggregation {
    fn schema(&self) -> SchemaRef {
        self.schema().clone()
    }

    fn sources(&self) -> &[Arc<Mutex<Source>>] {
        self.sources()
    }

    fn poll(&mut self) -> Result<Polled> {
        incremental::Operator::poll(self)
    }

    fn late(&self) -> Result<Vec<(usize, u64)>> {
        Ok(incremental::Operator::late(self)?.0.iter().flat_map(|batch| numbers(batch, 0, |_| 0)).collect())
    }

    fn save(&mut self) -> Result<Option<Vec<u8>>> {
        self.snapshot(&Stop::default()).map(Some)
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<()> {
        self.restore(snapshot, &Stop::default())
    }
}

impl Operator for Merge {
    fn schema(&self) -> SchemaRef {
        self.schema().clone()
    }

    fn sources(&self) -> &[Arc<Mutex<Source>>] {
        self.sources()
    }

    fn poll(&mut self) -> Result<Polled> {
        incremental::Operator::poll(self)
    }

    fn late(&self) -> Result<Vec<(usize, u64)>> {
        Ok(incremental::Operator::late(self)?.0.iter().flat_map(|batch| numbers(batch, 0, |_| 0)).collect())
    }

    fn save(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn restore(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("a merge has no snapshots")
    }
}
