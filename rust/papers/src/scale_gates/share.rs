//! The rows that a processing thread has stored, with copies of the numbers used to compare them.

use std::ops::Range;

use tidegate_sync::Counter;
use tidegate_sync::atomic::Arc;

use super::pipes::Process;
use tidegate_operators::predicate::{Ranges, ScanColumns, Term};
use tidegate_operators::rows::{Extent, Side};

/// The minimum number of rows at which a window is rebuilt. A window is rebuilt each time it
/// doubles in size.
const LEAST_ROWS: usize = if cfg!(test) { 8 } else { 1 << 12 };

/// Rows that were added together, and the numbers used to compare them. All threads read these
/// rows, and no thread changes them.
#[derive(Debug)]
pub(super) struct Piece {
    /// The number of the first row, counting both sides together.
    pub(super) first: u64,
    /// The number of the first row on each side.
    pub(super) firsts: [u64; 2],
    pub(super) ts: Vec<i64>,
    pub(super) sides: Vec<Side>,
    /// Each row's position among the rows on its side.
    pub(super) places: Vec<u32>,
    /// The conditions that a scan tests, with the numbers of these rows. `None` if a row has no
    /// number.
    pub(super) terms: Option<Vec<Term>>,
    /// True if the rows are not only stored but also compared.
    pub(super) are_compared: bool,
}

impl Piece {
    /// Creates a piece from rows on both sides that were added after `first` other rows.
    pub(super) fn new(
        first: u64,
        firsts: [u64; 2],
        ts: Vec<i64>,
        sides: Vec<Side>,
        terms: Option<Vec<Term>>,
        are_compared: bool,
    ) -> Self {
        let mut next = [0, 0];
        let place = |&side: &Side| {
            let next = &mut next[side as usize];
            *next += 1;
            *next - 1
        };
        let places = sides.iter().map(place).collect();
        Piece { first, firsts, ts, sides, places, terms, are_compared }
    }

    /// Returns the number of the last row plus one.
    pub(super) fn end(&self) -> u64 {
        self.first + self.ts.len() as u64
    }

    /// Returns a row's number within its side.
    pub(super) fn number(&self, nth: usize) -> u64 {
        self.firsts[self.sides[nth] as usize] + u64::from(self.places[nth])
    }

    pub(super) fn memory(&self) -> usize {
        let of_term = |term: &Term| {
            [Side::Left, Side::Right].map(|side| term.operand(side).memory()).iter().sum::<usize>()
        };
        let of_row = size_of::<i64>() + size_of::<Side>() + size_of::<u32>();
        self.ts.capacity() * of_row + self.terms.iter().flatten().map(of_term).sum::<usize>()
    }
}

/// An item from SG_in.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A row of a piece.
    Row { piece: Arc<Piece>, nth: u32 },
    /// On each side, rows with smaller numbers cannot match any later row, whatever its time.
    Gone([u64; 2]),
}

/// A processing thread's statistics.
#[derive(Debug, Default)]
pub(super) struct ThreadFigures {
    pub(super) compared: Counter,
    pub(super) memory: Counter,
}

/// A processing thread of Algorithm 1.
#[derive(Debug)]
pub(super) struct Processor {
    extent: Extent,
    id: u64,
    processors: u64,
    /// The number of rows that have arrived on each side. Each processor keeps its own count.
    counters: [u64; 2],
    /// The numbers of all rows stored on both sides, including removed rows.
    terms: Vec<Term>,
    halves: [Half; 2],
    figures: Arc<Vec<ThreadFigures>>,
    compared: usize,
}

/// The stored rows on one side.
#[derive(Debug)]
struct Half {
    /// The number of stored rows that were dropped when the window was rebuilt.
    moved: u64,
    /// The number of removed rows at the front.
    gone: usize,
    len: usize,
    /// The times of the rows, if windows are time-based.
    ts: Vec<i64>,
    window: ScanColumns,
    /// The number of rows in the window when it was last rebuilt.
    made_with: usize,
}

impl Processor {
    /// Creates a processor without rows.
    pub(super) fn new(
        extent: Extent,
        id: usize,
        processors: usize,
        terms: &[Term],
        figures: Arc<Vec<ThreadFigures>>,
    ) -> Self {
        let half = |side| Half {
            moved: 0,
            gone: 0,
            len: 0,
            ts: Vec::new(),
            window: ScanColumns::new(terms, side, None, 0)
                .expect("an empty window can always be created"),
            made_with: 0,
        };
        Processor {
            extent,
            id: id as u64,
            processors: processors as u64,
            counters: [0; 2],
            terms: terms.to_vec(),
            halves: [half(Side::Left), half(Side::Right)],
            figures,
            compared: 0,
        }
    }

    /// Returns how many rows before `number` are stored by this processor.
    fn stored_before(&self, number: u64) -> u64 {
        number.saturating_sub(self.id).div_ceil(self.processors)
    }

    /// Removes a side's rows with numbers below `number`.
    fn leave_before(&mut self, side: Side, number: u64) {
        let stored = self.stored_before(number);
        let half = &mut self.halves[side as usize];
        half.gone = half.gone.max((stored.saturating_sub(half.moved) as usize).min(half.len));
    }

    /// Removes a side's rows that cannot match any row arriving on the other side at `ts` or later.
    fn leave(&mut self, side: Side, ts: i64) {
        match self.extent {
            Extent::Time(reach) => {
                let first = reach.first(side.other(), ts);
                let half = &mut self.halves[side as usize];
                // Each row is removed once.
                half.gone += half.ts[half.gone..].iter().take_while(|&&ts| ts < first).count();
            }
            Extent::Rows(counts) => {
                let came = self.counters[side as usize];
                self.leave_before(side, came.saturating_sub(counts[side as usize]));
            }
        }
    }

    /// Returns the numbers of the other side's stored rows that match a row (L16-18).
    fn compare(&mut self, piece: &Piece, nth: usize) -> Vec<u32> {
        let (side, terms) = (piece.sides[nth], piece.terms.as_deref().unwrap_or_default());
        let half = &self.halves[side.other() as usize];
        let run: Range<u32> = half.gone as u32..half.len as u32;
        self.compared += run.len();
        if run.is_empty() {
            return Vec::new();
        }
        let row = [piece.places[nth] as usize];
        let ranges = Ranges::new(&half.window, terms, side, row.into_iter());
        let mut found = [Vec::new()];
        half.window.find(&ranges, &[run], &mut found);
        let [mut found] = found;
        let number = |at: u32| self.id + self.processors * (half.moved + u64::from(at));
        found.iter_mut().for_each(|at| *at = number(*at) as u32);
        found
    }

    /// Stores a row (L20).
    fn store(&mut self, piece: &Piece, nth: usize) {
        let side = piece.sides[nth];
        let half = &mut self.halves[side as usize];
        for (own, other) in self.terms.iter_mut().zip(piece.terms.iter().flatten()) {
            own.push(side, other, piece.places[nth] as usize);
        }
        if matches!(self.extent, Extent::Time(_)) {
            half.ts.push(piece.ts[nth]);
        }
        half.len += 1;
        let grown = half.len > 2 * half.made_with.max(LEAST_ROWS);
        if !grown && half.window.append(&self.terms, side, &[half.len as u32 - 1]) {
            return;
        }
        half.make(&mut self.terms, side);
    }

    /// Makes every pair match from now on.
    fn forget_terms(&mut self) {
        self.terms.clear();
        for (half, side) in self.halves.iter_mut().zip([Side::Left, Side::Right]) {
            half.window = ScanColumns::new(&[], side, None, half.len)
                .expect("a window without columns can always be created");
        }
    }

    fn memory(&self) -> usize {
        let of_side = |side: Side| {
            let half = &self.halves[side as usize];
            let numbers = self.terms.iter().map(|term| term.operand(side).memory());
            half.window.memory() + half.ts.capacity() * size_of::<i64>() + numbers.sum::<usize>()
        };
        of_side(Side::Left) + of_side(Side::Right)
    }
}

impl Half {
    /// Rebuilds the window from the rows that have not been removed.
    fn make(&mut self, terms: &mut [Term], side: Side) {
        terms.iter_mut().for_each(|term| term.drop_front(side, self.gone));
        self.ts.drain(..self.gone.min(self.ts.len()));
        self.ts.shrink_to(2 * self.ts.len());
        self.moved += self.gone as u64;
        self.len -= self.gone;
        self.gone = 0;
        self.window =
            ScanColumns::new(terms, side, None, self.len).expect("there is room for the numbers");
        self.made_with = self.len;
        if let Some(term) = terms.first() {
            let new_rows = term.operand(side.other()).rows();
            self.window.tune(terms, side, None, new_rows);
        }
    }
}

impl Process<Item> for Processor {
    fn process(&mut self, item: &Item) -> Option<Vec<u32>> {
        let (piece, nth) = match item {
            Item::Row { piece, nth } => (&**piece, *nth as usize),
            Item::Gone(numbers) => {
                for side in [Side::Left, Side::Right] {
                    self.leave_before(side, numbers[side as usize]);
                    let half = &mut self.halves[side as usize];
                    if half.gone == half.len && half.len > 0 {
                        half.make(&mut self.terms, side);
                    }
                }
                return None;
            }
        };
        if piece.terms.is_none() && !self.terms.is_empty() {
            self.forget_terms();
        }
        let (side, ts) = (piece.sides[nth], piece.ts[nth]);
        // Rows of the opposite window are removed before the row is compared with it.
        let found = if piece.are_compared {
            self.leave(side.other(), ts);
            self.compare(piece, nth)
        } else {
            Vec::new()
        };
        // L11 and L19.
        let counter = &mut self.counters[side as usize];
        let is_own = *counter % self.processors == self.id;
        *counter += 1;
        if is_own {
            self.store(piece, nth);
        }
        // L21-23.
        if piece.are_compared {
            self.leave(side, ts);
        }
        Some(found)
    }

    fn rest(&mut self) {
        let figures = &self.figures[self.id as usize];
        figures.compared.set(self.compared);
        figures.memory.set(self.memory());
    }
}
