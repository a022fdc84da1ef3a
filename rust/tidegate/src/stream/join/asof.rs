//! The as-of join, which matches each left row with the right row that has the same key and is
//! nearest in time.
//!
//! A left row is final once a certain time has passed:
//!
//! - backward: its own time;
//! - forward: the time of its partner;
//! - nearest: the row's own time plus the distance to its partner. A right row at that time would
//!   be as far away as the partner, so no row that arrives later can be nearer.
//!
//! With forward and nearest, an unmatched row is final at its own time plus the tolerance, or at the
//! end of the stream if there is no tolerance. If a row's key is null, or the
//! row can never satisfy the condition, the row is final at its own time.
//!
//! For each key, only the last of the earlier right rows can be a partner of a later left row,
//! provided that the condition does not depend on the left row.

use arrow_array::Array;
use arrow_schema::SchemaRef;
use tidegate_operators::asof::Strategy;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{How, NO_ROW, Results};
use tidegate_structures::memory;
use tidegate_structures::memory::bits::BitSet;

use crate::Result;
use crate::aggregate::streams::mask;
use crate::batch::asof::partners;
use crate::columns::expression::{Origin, Predicate};
use crate::columns::faults::Faults;
use crate::columns::table::Table;
use crate::query::asof::{AsofJoin, AsofPlan};
use crate::stream::intake::Order;
use crate::stream::operator::{Operator, with_room};
use crate::stream::options::StreamOptions;
use crate::stream::partners::kind::{FinalRows, PartnerKind};
use crate::stream::partners::standing::with_standing;
use crate::stream::partners::{PartnerQuery, explain, operator};
use crate::stream::recomputation::{FinalResults, Watermark};
use crate::stream::sides::maker::Maker;
use crate::stream::sides::{JoinRequest, Sides};
use crate::stream::state::timed_rows::TimedRows;
use crate::stream::times::ResultTimes;

/// Creates an as-of join of sources with these schemas. A left row is emitted once no further row
/// can become its match.
///
/// This example matches each trade with the last quote:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::stream::{Poll, StreamOptions, asof_join, lock};
/// use tidegate::{AsofJoin, How, JoinOptions, Stop, Strategy};
///
/// # let rows = |columns: &[(&str, &[i64])]| {
/// #     let column = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
/// #     RecordBatch::try_from_iter(columns.iter().map(|(name, values)| (*name, column(values))))
/// # };
/// # let (by, how, suffix) = (Vec::new(), How::Left, "_right".to_owned());
/// # let (predicate, columns, threads, max_rows, batch_rows) = (None, None, 1, None, None);
/// # let options = JoinOptions {
/// #     by, predicate, how, suffix, columns, threads, max_rows, batch_rows,
/// # };
/// # let (sources, lateness) = ((1, 1), (None.into(), None.into()));
/// # let streams = StreamOptions {
/// #     sources, lateness, memory_limit: None, ordered: true, pin: false,
/// # };
/// let trades = rows(&[("ts", &[10, 20])])?;
/// let quotes = rows(&[("ts", &[8, 9, 15])])?;
/// let query = AsofJoin {
///     on: ("ts".to_owned(), "ts".to_owned()),
///     strategy: Strategy::Backward,
///     tolerance: None,
///     allow_exact_matches: true,
///     lookups: None,
///     options, // of a left join
/// };
/// // `streams` specifies one source per side.
/// let mut join = asof_join(&query, trades.schema(), quotes.schema(), &streams)?;
/// for (source, rows) in join.sources().iter().zip([trades, quotes]) {
///     lock(source).push(&rows.schema(), vec![rows], &Stop::default())?;
/// }
/// // The trade at 20 waits, because a quote at 18 may still arrive.
/// let Poll::Batch(pairs) = join.poll()? else { unreachable!() };
/// assert_eq!(pairs["ts"].as_primitive::<Int64Type>().values(), &[10]);
/// assert_eq!(pairs["ts_right"].as_primitive::<Int64Type>().values(), &[9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn asof_join(
    query: &AsofJoin,
    left: SchemaRef,
    right: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    with_room([left, right], |schemas| join(query, schemas, options))
}

fn join(
    query: &AsofJoin,
    [left, right]: [SchemaRef; 2],
    options: &StreamOptions,
) -> Result<Operator> {
    if let Some(lookups) = &query.lookups {
        return Err(lookups.of_tables());
    }
    let mut plan = query.plan(&left, &right)?;
    let faults = Faults::default();
    plan.join.note(&faults);
    let of_sides = match &plan.join.predicate {
        None => Some([None, None]),
        Some(predicate) => predicate.by_side(),
    };
    let keeping = match (plan.asof.strategy, &of_sides, plan.asof.tolerance) {
        (Strategy::Forward, ..) => "right rows until they are ready",
        (_, Some(_), _) => "the last right row for each key, and the partners of left rows",
        (_, None, Some(_)) => {
            "right rows until they are outside the tolerance, because where uses both sides"
        }
        (_, None, None) => {
            "all right rows, because where uses both sides and there is no tolerance"
        }
    };
    let place = match plan.asof.strategy {
        Strategy::Backward => "a left row at the position of its time",
        _ => "a left row at the position of the time after which no row can be nearer",
    };
    let threads = query.options.threads;
    let columns = plan.join.columns.len();
    let explanation = explain(query.describe(&plan), keeping, place, threads, columns, options);
    let identity = query.identity(&left, &right);
    let schema = plan.join.schema.clone();
    let how = query.options.how;
    let times = ResultTimes::of_nearest(&plan.asof, &plan.join, plan.times, plan.unit, how);
    let request = JoinRequest {
        identity,
        schema,
        times,
        explanation,
        threads,
        widths: [None, None],
        order: Order::Merged,
        faults,
    };
    let sides = Sides { left: &left, right: &right, times: plan.times, unit: plan.unit };
    let keys = plan.join.keys.clone();
    let kind = Box::new(AsOfTime { plan, how: query.options.how, of_sides });
    operator(PartnerQuery { kind, request, sides, keys }, options)
}

/// The as-of join.
#[derive(Debug)]
struct AsOfTime {
    plan: AsofPlan,
    how: How,
    /// The conditions on each side's rows, or `None` if a condition reads both rows of a pair.
    of_sides: Option<[Option<Predicate>; 2]>,
}

impl PartnerKind for AsOfTime {
    fn settle(
        &self,
        left: &TimedRows,
        right: &TimedRows,
        _: u64,
        now: Watermark,
        driver: &Driver,
    ) -> Result<FinalResults<FinalRows>> {
        // No left row is final before its own time has passed.
        let seen = now.map_or(left.len(), |now| left.before(now));
        if seen == 0 {
            return Ok(FinalResults::NONE);
        }
        // 1. Find the current partners, and the times at which they become final.
        let partners = self.partners(left, right, seen, driver)?;
        let finals = self.finals(left, right, &partners, driver)?;
        // 2. Select the left rows that are final, in the order of these times.
        let is_final = |row: &u32| now.is_none_or(|now| finals[*row as usize] < now);
        let (mut rows, mut staying) = (memory::vec(seen), memory::vec(left.len()));
        for row in 0..seen as u32 {
            if is_final(&row) { rows.push(row) } else { staying.push(row) }
        }
        let leaving = match staying.first() {
            Some(&first) if (first as usize) < rows.len() => {
                staying.extend(seen as u32..left.len() as u32);
                FinalRows::AllBut(staying)
            }
            _ => FinalRows::First(rows.len()),
        };
        rows.sort_unstable_by_key(|&row| (finals[row as usize], row));
        // 3. Build their results.
        let partner = |row: &u32| partners[*row as usize];
        match self.how {
            How::Inner | How::Semi => rows.retain(|row| partner(row) != NO_ROW),
            How::Anti => rows.retain(|row| partner(row) == NO_ROW),
            _ => {}
        }
        let of_right =
            if self.how.pairs() { memory::collect(rows.iter().map(partner)) } else { Vec::new() };
        let results = Results { left: rows, right: of_right };
        let batches = match results.left.is_empty() {
            true => Vec::new(),
            false => {
                let maker = Maker::new(&self.plan.join, self.how, [left.store(), right.store()]);
                maker.batches(&results, driver)?
            }
        };
        Ok(FinalResults { batches, leaving })
    }

    fn reach(&self, first_left: Option<i64>, now: i64) -> i64 {
        match (self.plan.asof.strategy, self.plan.asof.tolerance) {
            // Left rows whose time has passed have found no partner among the rows that have
            // arrived.
            (Strategy::Forward, _) => now,
            (_, None) => i64::MIN,
            (_, Some(most)) => first_left.map_or(now, |first| first.min(now)).saturating_sub(most),
        }
    }

    fn picks(&self) -> bool {
        self.plan.asof.strategy != Strategy::Forward && self.of_sides.is_some()
    }

    fn needed(
        &self,
        left: &TimedRows,
        right: &TimedRows,
        now: i64,
        driver: &Driver,
    ) -> Result<Vec<u32>> {
        let counted = match &self.of_sides {
            Some([_, Some(of_right)]) => {
                Some(holds(right, right.len(), of_right, Origin::Right, driver)?)
            }
            _ => None,
        };
        let keys = &self.plan.join.keys;
        let mut needed = with_standing(right, left, keys, counted.as_ref(), now, driver)?;
        // A left row that waits for a nearer partner still has the last row before it.
        let waiting = left.before(now);
        if waiting > 0 {
            let partners = self.partners(left, right, waiting, driver)?;
            let partners = partners.into_iter().filter(|&row| row != NO_ROW);
            partners.for_each(|row| needed.insert(row as usize));
        }
        Ok(needed.present().map(|row| row as u32).collect())
    }

    fn looks_at_pairs(&self) -> bool {
        self.plan.join.predicate.is_some()
    }
}

impl AsOfTime {
    /// For each of the first left rows, returns its partner among the kept right rows, or
    /// [`NO_ROW`] if it has none.
    fn partners(
        &self,
        left: &TimedRows,
        right: &TimedRows,
        rows: usize,
        driver: &Driver,
    ) -> Result<Vec<u32>> {
        let (left, right) = (left.table("left", rows)?, right.table("right", right.len())?);
        let found = partners(&self.plan, &left, &right, driver)?;
        Ok(found.matches.partners().map(|row| row.unwrap_or(NO_ROW)).collect())
    }

    /// For each of the first left rows, returns the time after which the row is final.
    fn finals(
        &self,
        left: &TimedRows,
        right: &TimedRows,
        partners: &[u32],
        driver: &Driver,
    ) -> Result<Vec<i64>> {
        let rows = partners.len();
        if self.plan.asof.strategy == Strategy::Backward {
            return Ok(memory::collect((0..rows).map(|row| left.ts(row))));
        }
        let never = self.without_partners(left, rows, driver)?;
        let time = |(row, &partner): (usize, &u32)| {
            let ts = left.ts(row);
            match partner {
                _ if never.contains(row) => ts,
                NO_ROW => self.plan.asof.tolerance.map_or(i64::MAX, |most| ts.saturating_add(most)),
                partner => ts.saturating_add_unsigned(right.ts(partner as usize).abs_diff(ts)),
            }
        };
        Ok(memory::collect(partners.iter().enumerate().map(time)))
    }

    /// Returns which of the first left rows can never have a partner because their keys are null or
    /// they do not satisfy the condition.
    fn without_partners(&self, left: &TimedRows, rows: usize, driver: &Driver) -> Result<BitSet> {
        let mut found = BitSet::new(rows);
        let mut first = 0;
        for batch in left.table("left", rows)?.batches() {
            for key in &self.plan.join.keys {
                if let Some(nulls) = batch.column(key.left).logical_nulls() {
                    let is_null = |row: &usize| nulls.is_null(*row);
                    (0..nulls.len()).filter(is_null).for_each(|row| found.insert(first + row));
                }
            }
            first += batch.num_rows();
        }
        if let Some([Some(of_left), _]) = &self.of_sides {
            let holds = holds(left, rows, of_left, Origin::Left, driver)?;
            holds.missing().for_each(|row| found.insert(row));
        }
        Ok(found)
    }
}

/// Returns which of a side's first rows satisfy a condition on that side.
fn holds(
    rows: &TimedRows,
    count: usize,
    predicate: &Predicate,
    side: Origin,
    driver: &Driver,
) -> Result<BitSet> {
    let table: Table = rows.table("rows", count)?;
    let every: Vec<usize> = (0..rows.schema().fields().len()).collect();
    mask(&table, &every, predicate, side, driver)
}
