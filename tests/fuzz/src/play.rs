//! Drawn streams: the rows and promises of each source, the order of their turns, and operators
//! that are fed with them.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt16Type, UInt64Type};
use parking_lot::Mutex;
use tidegate::stream::{Operator, Poll, Source, SourceStats, lock};
use tidegate::{Result, Stop};

use crate::draw::Draw;
use crate::rows::{Rows, concat};

/// An action of a source.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The source pushes some of its rows together.
    Push(Range<usize>),
    /// The source promises that no earlier row will arrive.
    Promise(i128),
    Close,
}

/// The input of one source.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The rows in order of arrival.
    pub(crate) rows: Rows,
    pub(crate) history: Vec<Event>,
    /// How far rows may be out of order.
    pub(crate) lateness: i128,
    /// The nanoseconds in a step of the source's time, or 1 for integers.
    step: i128,
}

/// A step in the history of an operator: an event at one source, and what follows it.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) source: usize,
    event: Event,
    /// Whether all available results are taken after the event.
    pub(crate) polls: bool,
    /// Whether another operator then resumes from a snapshot.
    is_cut: bool,
}

/// Distributes rows among sources.
pub(crate) fn feeds(
    draw: &mut Draw<'_>,
    rows: &Rows,
    count: usize,
    lateness: i128,
    (step, tick): (i128, i128),
) -> Vec<Feed> {
    let mut own = vec![Vec::new(); count];
    let mut dealing =
        if rows.len() > 64 { draw.seeded() } else { Draw::Seed(u64::from(draw.number(0, 255))) };
    (0..rows.len()).for_each(|row| own[dealing.place(count)].push(row));
    let feed = |mut own: Vec<usize>| {
        // Rows are mostly in time order, as in real streams. Otherwise most rows would be late.
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
    /// Returns the used rows and the late ones. A row is late if it arrives below a time that its
    /// source has promised.
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

/// Draws the order in which sources are fed.
pub(crate) fn turns(draw: &mut Draw<'_>, feeds: &[Feed]) -> Vec<Turn> {
    let mut waiting: Vec<(usize, &[Event])> =
        feeds.iter().map(|feed| &feed.history[..]).enumerate().collect();
    let mut turns = Vec::new();
    let mut cuts = 0;
    while !waiting.is_empty() {
        let turn = draw.place(waiting.len());
        let (source, history) = &mut waiting[turn];
        let (event, rest) = history.split_first().expect("finished sources are removed");
        *history = rest;
        // Each operator starts threads, so operators cost more than rows.
        let is_cut = cuts < 2 && draw.once_in(8);
        cuts += usize::from(is_cut);
        turns.push(Turn { source: *source, event: event.clone(), polls: draw.once_in(3), is_cut });
        if rest.is_empty() {
            waiting.remove(turn);
        }
    }
    turns
}

/// A way to feed an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One thread feeds all sources in turn.
    Turns,
    /// One thread feeds all sources in turn. At a cut, another operator resumes from the state.
    Restoring,
    /// One thread feeds all sources in turn, under a memory limit. Refused rows are pushed again
    /// after results have been taken. If they are refused again, the limit is raised.
    Limited(usize),
    /// Each source is fed by its own thread, while results are being taken.
    AtOnce,
}

impl Way {
    /// Returns every way to feed an operator, with a drawn memory limit.
    pub(crate) fn all(draw: &mut Draw<'_>) -> [Way; 4] {
        [
            Way::Turns,
            Way::Restoring,
            Way::Limited(draw.pick(&[0, 1, 500, 2_000, 20_000, 200_000])),
            Way::AtOnce,
        ]
    }
}

/// The results of an operator.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) rows: RecordBatch,
    pub(crate) late: Vec<(usize, u64)>,
    /// The states at the cuts, each with the number of result rows taken before it.
    pub(crate) states: Vec<(usize, Vec<u8>)>,
}

/// Feeds an operator.
pub(crate) fn play(
    feeds: &[Feed],
    turns: &[Turn],
    way: Way,
    make: &mut dyn FnMut() -> Result<Operator>,
) -> Result<Outcome> {
    let mut operator = make()?;
    let (mut batches, mut states) = (Vec::new(), Vec::new());
    match way {
        Way::AtOnce => at_once(&mut operator, feeds, &mut batches)?,
        way => in_turns(&mut operator, feeds, turns, way, make, &mut batches, &mut states)?,
    }
    let schema = operator.schema().clone();
    let late = late(&operator)?;
    let stats: Vec<SourceStats> =
        operator.sources().iter().map(|source| lock(source).stats()).collect();
    let rows_in: u64 = stats.iter().map(|source| source.rows_in).sum();
    assert_eq!(
        rows_in,
        feeds.iter().map(|feed| feed.rows.len() as u64).sum::<u64>(),
        "rows that came in"
    );
    assert_eq!(
        stats.iter().map(|source| source.rows_late).sum::<u64>(),
        late.len() as u64,
        "rows that were late"
    );
    Ok(Outcome { rows: concat(&schema, &batches), late, states })
}

fn in_turns(
    operator: &mut Operator,
    feeds: &[Feed],
    turns: &[Turn],
    way: Way,
    make: &mut dyn FnMut() -> Result<Operator>,
    batches: &mut Vec<RecordBatch>,
    states: &mut Vec<(usize, Vec<u8>)>,
) -> Result<()> {
    if let Way::Limited(bytes) = way {
        operator.memory().set_limit(Some(bytes));
    }
    for turn in turns {
        let feed = &feeds[turn.source];
        relieved(operator, batches, |operator| happen(operator, feed, turn))?;
        if turn.polls {
            drain(operator, batches)?;
        }
        if turn.is_cut {
            let save = |operator: &mut Operator| operator.snapshot(&Stop::default());
            let state = relieved(operator, batches, save)?;
            if way == Way::Restoring {
                *operator = make()?;
                operator.restore(&state, &Stop::default())?;
            }
            states.push((batches.iter().map(RecordBatch::num_rows).sum(), state));
        }
    }
    assert!(matches!(drain(operator, batches)?, Poll::End), "all sources are closed");
    Ok(())
}

/// Does work for which memory may be refused. After a refusal, results are taken, and after the
/// next one the limit is raised.
fn relieved<T>(
    operator: &mut Operator,
    batches: &mut Vec<RecordBatch>,
    mut work: impl FnMut(&mut Operator) -> Result<T>,
) -> Result<T> {
    let memory = operator.memory();
    for attempt in 0..100 {
        match work(operator) {
            Err(error) if error.is_memory() => {
                let limit = memory.limit().expect("memory is refused only if there is a limit");
                match attempt % 2 {
                    0 => drop(drain(operator, batches)?),
                    _ => memory.set_limit(Some(2 * limit + 64)),
                }
            }
            done => return done,
        }
    }
    panic!("memory is refused although the limit is {:?}", memory.limit());
}

/// Feeds each source on its own thread.
fn at_once(operator: &mut Operator, feeds: &[Feed], batches: &mut Vec<RecordBatch>) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(50);
    let sources = operator.sources().to_vec();
    std::thread::scope(|scope| {
        for (source, feed) in sources.iter().zip(feeds) {
            scope.spawn(|| {
                for event in &feed.history {
                    happens(source, feed, event).expect("the rows are accepted in turns");
                }
            });
        }
        let begun = Instant::now();
        while !matches!(drain(operator, batches)?, Poll::End) {
            assert!(begun.elapsed() < PATIENCE, "the operator does not end");
            std::thread::yield_now();
        }
        Ok(())
    })
}

pub(crate) fn happen(operator: &Operator, feed: &Feed, turn: &Turn) -> Result<()> {
    happens(&operator.sources()[turn.source], feed, &turn.event)
}

fn happens(source: &Mutex<Source>, feed: &Feed, event: &Event) -> Result<()> {
    let mut source = lock(source);
    match event {
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

/// Takes all available results, and raises the limit if a state has outgrown it.
pub(crate) fn drain(operator: &mut Operator, batches: &mut Vec<RecordBatch>) -> Result<Poll> {
    loop {
        match operator.poll() {
            Ok(Poll::Batch(batch)) => batches.push(batch),
            Err(error) if error.is_memory() => {
                let memory = operator.memory();
                memory.set_limit(memory.limit().map(|limit| 2 * limit + 64));
            }
            last => return last,
        }
    }
}

/// Returns the sources and positions of late rows. Sources are numbered across both sides.
fn late(operator: &Operator) -> Result<Vec<(usize, u64)>> {
    let (batches, schema) = operator.late()?;
    let is_left = |source: &&Arc<Mutex<Source>>| lock(source).stats().name.starts_with("left");
    let left_sources = operator.sources().iter().filter(is_left).count();
    let from = usize::from(schema.field(0).name() == "late_side");
    let of_batch = |batch: &RecordBatch| -> Vec<(usize, u64)> {
        let sides = (from == 1).then(|| batch.column(0).as_string::<i32>());
        let before = |row| match sides.is_some_and(|sides| sides.value(row) == "right") {
            true => left_sources,
            false => 0,
        };
        let sources = batch.column(from).as_primitive::<UInt16Type>();
        let positions = batch.column(from + 1).as_primitive::<UInt64Type>();
        (0..batch.num_rows())
            .map(|row| (usize::from(sources.value(row)) + before(row), positions.value(row)))
            .collect()
    };
    Ok(batches.iter().flat_map(of_batch).collect())
}
