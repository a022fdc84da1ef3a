//! ScaleJoin over ScaleGates: threads that process rows run freely between two gates.
//!
//! ```text
//! left source  ─┐            ┌─ reader 0 ─▶ processor 0, its share of the windows ─▶ source 0 ─┐
//!               ├─▶ SG_in ───┤                                                                 ├─▶ SG_out ─▶ matches in order
//! right source ─┘            └─ reader 1 ─▶ processor 1, its share of the windows ─▶ source 1 ─┘
//! ```
//!
//! Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas, "ScaleJoin: a Deterministic,
//! Disjoint-Parallel and Skew-Resilient Stream Join", Figure 2 and Algorithm 1. Both gates are the
//! [row gate](tidegate_structures::papers::row_gate). Each processor has a reader of its own, so
//! that it sees all rows and waits for no other. It compares a row with its share of the other
//! side's window (L16-18), stores it if it is its turn by its own counters (L19-20), and adds what it
//! found to SG_out, of which it is a source. SG_out gives matches once every processor is past
//! their row. Rows go in, are compared and come out at the same time.
//!
//! # Departures
//!
//! Beside those numbered 2 and 3 of [`window::scale`](crate::window::scale):
//!
//! 1. There are two sources, one a side: the operator's own gate has put rows of several physical
//!    streams in order before. Rows have their places in that order as times.
//! 2. Rows of an epoch go through both gates, and all threads rest when the last one is through.
//! 3. A processor that finds nothing for a row promises SG_out to be past it. In the paper, matches
//!    of others wait until it finds some.
//!
//! # Trade-offs
//!
//! Rows are compared one by one, and each costs every thread a step in a gate. The default way has
//! neither: see BENCHMARKS.md.

use std::ops::Range;

use tidegate_structures::gate::Next;
use tidegate_structures::papers::row_gate::ScaleGate;

use super::stages::{Stage, feeding, run, taking};
use crate::driver::{Driver, Stopped};
use crate::predicate::Term;
use crate::rows::{How, Retention, Side};
use crate::window::scale::{CompareRows, MatchedRow, Processor, ScaleAlgorithm, ScaleJoin};

/// A window join without rows by ScaleGates and this number of processing threads: see
/// [`ScaleJoin::new`].
///
/// ```
/// use tidegate_operators::driver::Driver;
/// use tidegate_operators::papers::scale_gates::gated_scale_join;
/// use tidegate_operators::rows::{How, Retention, RowJoin, Side};
/// use tidegate_sync::Stop;
///
/// let window = Retention::Time { left: 10, right: 10 };
/// let mut join = gated_scale_join(window, How::Inner, 2, true, Vec::new());
/// let driver = Driver::new(2, Stop::default());
/// join.begin(&driver, vec![1, 2, 30], vec![Side::Left, Side::Right, Side::Left], Some(&[]));
/// let pairs = join.advance(&driver, None)?.into_results();
/// assert_eq!((pairs.left, pairs.right), (vec![0], vec![0]));
/// # Ok::<(), tidegate_operators::rows::Failed>(())
/// ```
pub fn gated_scale_join(
    retention: Retention,
    how: How,
    threads: usize,
    ordered: bool,
    terms: Vec<Term>,
) -> ScaleJoin {
    ScaleJoin::new(retention, how, ScaleAlgorithm::ScaleJoin, threads, ordered, terms)
        .comparing_by(Box::new(ScaleGates))
}

struct ScaleGates;

impl CompareRows for ScaleGates {
    fn compare(
        &self,
        rows: Range<usize>,
        sides: &[Side],
        processors: Vec<Processor<'_>>,
        driver: &Driver,
    ) -> Result<Vec<MatchedRow>, Stopped> {
        let enough = "as many sources as an operator may have threads";
        let (sources, readers) = ScaleGate::new(2, processors.len()).expect(enough);
        let (outs, mut results) = ScaleGate::new(processors.len(), 1).expect(enough);
        let mut results = results.pop().expect("there is one");
        let pushed = "rows are in order, and nothing limits the gate";
        let mut matches = Vec::new();
        // 1. A processor stays on its thread: they are the first stages.
        let mut stages: Vec<Stage<'_>> = Vec::new();
        for ((mut processor, mut reader), mut out) in processors.into_iter().zip(readers).zip(outs)
        {
            let next = move || match reader.next_ready() {
                Next::Ready(row) => Next::Ready(*row.payload as usize),
                Next::NotYet => Next::NotYet,
                Next::End => Next::End,
            };
            stages.push(taking(next, move |row: usize| {
                let found = processor.process(row);
                if found.is_empty() {
                    out.advance(row as i64 + 1);
                } else {
                    out.push(row as i64, found).expect(pushed);
                }
            }));
        }
        // 2. The sources.
        for (side, mut source) in [Side::Left, Side::Right].into_iter().zip(sources) {
            let own = rows.clone().filter(move |&row| sides[row] == side);
            stages.push(feeding(own, move |row| {
                source.push(row as i64, row as u32).expect(pushed);
            }));
        }
        // 3. The output.
        let next = || match results.next_ready() {
            Next::Ready(row) => Next::Ready((row.ts as usize, row.payload.clone())),
            Next::NotYet => Next::NotYet,
            Next::End => Next::End,
        };
        stages.push(taking(next, |(row, offsets)| matches.push(MatchedRow { row, offsets })));
        run(driver, Vec::new(), stages)?;
        Ok(matches)
    }
}
