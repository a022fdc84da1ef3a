//! The as-of join of two tables.

use tidegate_operators::asof::{
    AsOf, Nearness, PartnerSearch, Rounds, Strategy, asof_join_in, candidates, candidates_in,
    chosen, interval_candidates_in, nearest_few, nearest_few_chosen, rounds_of,
};
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::interval_join;
use tidegate_operators::matches::Matches;
use tidegate_operators::order::JoinColumns;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_sync::Stop;

use super::condition::Condition;
use super::index::METHOD;
use super::join::Join;
use super::lookups::{LookupResults, LookupTimes, OffsetPartners};
use super::pairs::{Candidates, FoundPairs};
use super::sides::TableSides;
use crate::columns::expression::Predicate;
use crate::columns::index::{IndexFit, TableIndex};
use crate::columns::table::Table;
use crate::columns::time::{self, Int64s};
use crate::query::asof::{AsofJoin, AsofPlan};
use crate::query::lookups::{LookupPlan, Lookups, OffsetPlan};
use crate::query::options::JoinPlan;
use crate::{Error, Result, shown};

/// The minimum number of left rows that justifies waking a thread to move their times.
const PART_ROWS: usize = 1 << 16;

/// If a block has at least this many candidates, an index may be worthwhile. A new sample then
/// determines how the candidates are tested.
const LONG_BLOCK: u32 = 1 << 12;

impl AsofJoin {
    /// Finds the partners of the left table's rows. The result rows are built when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let plan = self.plan(left.schema(), right.schema())?;
        if plan.lookups.is_some() {
            return self.start_lookups(plan, (left, right), driver);
        }
        let Partners { key_method, condition_method, matches } =
            partners(&plan, left, right, &driver)?;
        let plan = JoinPlan { predicate: None, ..plan.join };
        let found = FoundPairs { key_method, candidates: Candidates::runs(matches) };
        let join = Join::new(&self.options, plan, (left, right), found, None, driver)?;
        Ok(join.with_condition_method(condition_method))
    }

    /// Starts a join that looks up several right rows per left row.
    fn start_lookups(
        &self,
        plan: AsofPlan,
        (left, right): (&Table, &Table),
        driver: Driver,
    ) -> Result<Join> {
        let lookups = plan.lookups.as_ref().expect("the caller checked this");
        let labels = self.lookups.iter().flat_map(Lookups::labels).collect();
        let search = Search { plan: &plan, tables: (left, right), driver: &driver };
        let found = search.lookups(lookups, labels)?;
        let FoundLookups { key_method, condition_method, partners, times } = found;
        let results =
            LookupResults::new((&plan, lookups), self.options.how, (left, right), partners, times);
        let join = JoinPlan { predicate: None, ..plan.join };
        let candidates = Candidates::runs(Matches::none());
        let found = FoundPairs { key_method, candidates };
        let join = Join::new(&self.options, join, (left, right), found, None, driver)?;
        Ok(join.with_condition_method(condition_method).with_lookups(results))
    }
}

/// The partners found for a table's rows, and the method used to find them.
pub(crate) struct Partners {
    key_method: &'static str,
    condition_method: &'static str,
    /// At most one match for each left row.
    pub(crate) matches: Matches,
}

/// The partners found at each offset.
struct FoundLookups {
    key_method: &'static str,
    condition_method: &'static str,
    partners: Vec<OffsetPartners>,
    times: Option<LookupTimes>,
}

/// Finds the partners of the left table's rows.
pub(crate) fn partners(
    plan: &AsofPlan,
    left: &Table,
    right: &Table,
    driver: &Driver,
) -> Result<Partners> {
    let search = Search { plan, tables: (left, right), driver };
    let ends = plan.asof.ends();
    let found = search.with_rows(ends.as_deref(), &mut |rows| rows.partners(None, &plan.asof))?;
    let (matches, condition_method) = found.found;
    Ok(Partners { key_method: found.key_method, condition_method, matches })
}

/// Two tables whose rows are joined.
struct Search<'a> {
    plan: &'a AsofPlan,
    tables: (&'a Table, &'a Table),
    driver: &'a Driver,
}

/// What was found in the right rows, and the method used to number keys.
struct FoundInRows<T> {
    key_method: &'static str,
    found: T,
}

/// Matches, and the method used to evaluate the condition on candidates.
type TestedMatches = (Matches, &'static str);

/// Right rows in which partners are searched for. A search returns `None` if it takes less time to
/// visit all rows than to search an index.
trait RightRows {
    /// The times of the left rows.
    fn left_times(&self) -> &[i64];

    /// Finds the nearest partner of each left row. `moved` contains the times at which partners are
    /// looked up; `None` for the times of the left rows.
    fn partners(&mut self, moved: Option<&[i64]>, asof: &AsOf) -> Result<Option<TestedMatches>>;

    /// Finds the nearest few partners of each left row, in time order.
    fn several(
        &mut self,
        moved: Option<&[i64]>,
        asof: &AsOf,
        most: u32,
    ) -> Result<Option<TestedMatches>>;
}

impl Search<'_> {
    /// Calls `find` with the rows of the right table's index. If there is no index, or if searching
    /// it would take more time, calls `find` with all rows. `ends` contains the bounds on the
    /// differences between left and right times; `None` if distances are compared.
    fn with_rows<T>(
        &self,
        ends: Option<&[i128]>,
        find: &mut dyn FnMut(&mut dyn RightRows) -> Result<Option<T>>,
    ) -> Result<FoundInRows<T>> {
        let Search { plan, tables: (left, right), driver } = *self;
        if let Some(index) = right.index()
            && let Some(found) = self.in_index(index, find)?
        {
            return Ok(FoundInRows { key_method: METHOD, found });
        }
        let (left_ts, right_ts) = match ends {
            Some(ends) => time::both_times((left, right), plan.times, plan.unit, ends)?,
            None => (
                time::times(left, plan.times.0, plan.unit)?,
                time::times(right, plan.times.1, plan.unit)?,
            ),
        };
        let sides = TableSides {
            left: left_ts,
            right: right_ts,
            keys: plan.join.encode_keys(left, right, driver)?,
        };
        let key_method = sides.key_method();
        let mut rows = AllRows { search: self, sides: &sides, prepared: None };
        let found = find(&mut rows)?.expect("all rows are visited");
        Ok(FoundInRows { key_method, found })
    }

    fn in_index<T>(
        &self,
        index: &TableIndex,
        find: &mut dyn FnMut(&mut dyn RightRows) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let Search { plan, tables: (left, right), driver } = *self;
        let (on, keys) = ((plan.times.1, None), &plan.join.keys);
        let ts = time::times(left, plan.times.0, plan.unit)?;
        if index.is_passed_over(&ts, (right, on), keys, driver)? {
            return Ok(None);
        }
        let fit = index.fit((left, right), (on, plan.unit), keys, driver)?;
        find(&mut IndexRows { search: self, ts: &ts, fit: &fit, right_ts: None })
    }

    /// Chooses the partners that satisfy the condition.
    fn choose(
        &self,
        mut found: Vec<Rounds>,
        predicate: &Predicate,
        (left_ts, right_ts): (&[i64], &[i64]),
    ) -> Result<TestedMatches> {
        let method = test(&mut found, predicate, self.tables, right_ts, self.driver)?;
        Ok((chosen(found, left_ts, right_ts, self.driver)?, method))
    }

    /// Selects the few nearest partners from each left row's candidates, which are sorted by time.
    fn choose_several(
        &self,
        candidates: Matches,
        nearness: Nearness,
        times: (&[i64], &[i64]),
    ) -> Result<TestedMatches> {
        let condition = (self.plan.join.predicate.as_ref(), self.tables);
        few(candidates, nearness, times, condition, self.driver)
    }

    /// Finds the partners at each offset.
    fn lookups(&self, lookups: &LookupPlan, labels: Vec<&str>) -> Result<FoundLookups> {
        let LookupPlan { interpolates, partners: most, .. } = *lookups;
        let asof = |offset: &OffsetPlan| AsOf { tolerance: offset.tolerance, ..self.plan.asof };
        let mut ends = Some(Vec::new());
        for offset in &lookups.offsets {
            let of_offset = if interpolates { None } else { asof(offset).ends() };
            ends = ends.zip(of_offset).map(|(mut ends, of_offset)| {
                ends.extend(of_offset.into_iter().map(|end| end + i128::from(offset.steps)));
                ends
            });
        }
        let times = match interpolates {
            false => None,
            true => {
                let (left, right) = self.tables;
                Some(LookupTimes {
                    left: time::times(left, self.plan.times.0, self.plan.unit)?,
                    right: time::times(right, self.plan.times.1, self.plan.unit)?,
                })
            }
        };
        let found = self.with_rows(ends.as_deref(), &mut |rows| {
            let (mut partners, mut method) = (Vec::with_capacity(labels.len()), "none");
            for (number, offset) in lookups.offsets.iter().enumerate() {
                let label = labels.get(number).copied();
                let moved = self.moved(rows.left_times(), offset.steps, label)?;
                let (moved, asof) = (moved.as_deref(), asof(offset));
                let found = match (&times, most) {
                    (Some(times), _) => between(rows, moved, &asof, &times.right)?,
                    (None, Some(most)) => rows
                        .several(moved, &asof, most)?
                        .map(|(found, method)| (OffsetPartners::Several(found), method)),
                    (None, None) => rows
                        .partners(moved, &asof)?
                        .map(|(found, method)| (OffsetPartners::One(found), method)),
                };
                let Some((found, of_offset)) = found else { return Ok(None) };
                partners.push(found);
                method = of_offset;
            }
            Ok(Some((partners, method)))
        })?;
        let (partners, condition_method) = found.found;
        Ok(FoundLookups { key_method: found.key_method, condition_method, partners, times })
    }

    /// Returns the times of left rows, moved by an offset. Returns `None` if the offset is 0.
    fn moved(&self, ts: &[i64], steps: i64, label: Option<&str>) -> Result<Option<Pages<i64>>> {
        if steps == 0 {
            return Ok(None);
        }
        let mut moved = Pages::<i64>::unwritten(ts.len());
        let rows = ts.len().div_ceil(self.driver.parts(ts.len(), PART_ROWS)).max(1);
        let work = moved.chunks_mut(rows).zip(ts.chunks(rows)).collect();
        let fits = self.driver.map(work, |(moved, ts): (&mut [Slot<i64>], &[i64])| {
            let mut fits = true;
            for (moved, &ts) in moved.iter_mut().zip(ts) {
                let (sum, is_beyond) = ts.overflowing_add(steps);
                fits &= !is_beyond;
                moved.set(sum);
            }
            fits
        })?;
        if fits.into_iter().all(|fits| fits) {
            return Ok(Some(moved.written()));
        }
        Err(Error::argument(format!(
            "at: the offset `{}` moves a time of {} beyond the range of 64-bit times; give a \
             smaller offset",
            label.map_or_else(|| steps.to_string(), |label| shown(label).into_owned()),
            self.tables.0.name()
        )))
    }
}

/// Finds the rows before and after the times at which partners are looked up. A left row has both,
/// or only the row before if that row has the time looked up, or neither.
fn between(
    rows: &mut dyn RightRows,
    moved: Option<&[i64]>,
    asof: &AsOf,
    right_ts: &[i64],
) -> Result<Option<(OffsetPartners, &'static str)>> {
    let past = AsOf { strategy: Strategy::Backward, ..*asof };
    let future = AsOf { strategy: Strategy::Forward, exact: false, ..*asof };
    let Some((mut before, method)) = rows.partners(moved, &past)? else { return Ok(None) };
    let Some((after, _)) = rows.partners(moved, &future)? else { return Ok(None) };
    let ts = moved.unwrap_or_else(|| rows.left_times());
    before.keep_partners(|left, row| {
        after.partner(left).is_some() || right_ts[row as usize] == ts[left]
    });
    Ok(Some((OffsetPartners::Between { before, after }, method)))
}

/// All rows of the right table.
struct AllRows<'a> {
    search: &'a Search<'a>,
    sides: &'a TableSides,
    /// The right rows, prepared for joins without a condition.
    prepared: Option<PartnerSearch<'a>>,
}

impl AllRows<'_> {
    /// Returns the left rows and the right rows, with the times at which partners are looked up.
    fn columns<'b>(&'b self, moved: Option<&'b [i64]>) -> (JoinColumns<'b>, JoinColumns<'b>) {
        let (left, right) = self.sides.columns();
        (JoinColumns { ts: moved.unwrap_or(left.ts), ..left }, right)
    }
}

impl RightRows for AllRows<'_> {
    fn left_times(&self) -> &[i64] {
        &self.sides.left
    }

    fn partners(&mut self, moved: Option<&[i64]>, asof: &AsOf) -> Result<Option<TestedMatches>> {
        let Search { plan, driver, .. } = *self.search;
        let key_count = self.sides.key_count();
        let Some(predicate) = &plan.join.predicate else {
            let mut prepared = match self.prepared.take() {
                Some(prepared) => prepared,
                None => PartnerSearch::new(self.sides.columns().1, key_count, driver)?,
            };
            let found = prepared.partners(self.columns(moved).0, asof, driver)?;
            self.prepared = Some(prepared);
            return Ok(Some((found, "none")));
        };
        let (left, right) = self.columns(moved);
        let rounds = candidates(left, right, key_count, asof, driver)?;
        self.search.choose(rounds, predicate, (left.ts, right.ts)).map(Some)
    }

    fn several(
        &mut self,
        moved: Option<&[i64]>,
        asof: &AsOf,
        most: u32,
    ) -> Result<Option<TestedMatches>> {
        let (left, right) = self.columns(moved);
        let interval = asof.candidate_interval();
        let driver = self.search.driver;
        let found = interval_join(left, right, self.sides.key_count(), &interval, driver)?;
        let times = (left.ts, right.ts);
        self.search.choose_several(found, asof.nearness(most), times).map(Some)
    }
}

/// The rows of the right table's index.
struct IndexRows<'a> {
    search: &'a Search<'a>,
    ts: &'a [i64],
    fit: &'a IndexFit<'a>,
    /// The times of the right rows, once they have been read.
    right_ts: Option<Int64s>,
}

impl IndexRows<'_> {
    /// Reads the times of the right rows.
    fn read_right_times(&mut self) -> Result<()> {
        if self.right_ts.is_none() {
            let Search { plan, tables: (_, right), .. } = *self.search;
            self.right_ts = Some(time::times(right, plan.times.1, plan.unit)?);
        }
        Ok(())
    }
}

impl RightRows for IndexRows<'_> {
    fn left_times(&self) -> &[i64] {
        self.ts
    }

    fn partners(&mut self, moved: Option<&[i64]>, asof: &AsOf) -> Result<Option<TestedMatches>> {
        let (ts, factor) = (moved.unwrap_or(self.ts), self.fit.factor);
        let Search { plan, driver, .. } = *self.search;
        let rows = self.fit.rows();
        let Some(predicate) = &plan.join.predicate else {
            let found = asof_join_in(ts, &rows, asof, factor, driver)?;
            return Ok(found.map(|matches| (matches, "none")));
        };
        // Times that have to be converted are read in the same way as the times of a table.
        if factor != 1 {
            return Ok(None);
        }
        let Some(rounds) = candidates_in(ts, &rows, asof, factor, driver)? else {
            return Ok(None);
        };
        self.read_right_times()?;
        let right_ts = self.right_ts.as_deref().expect("the times have been read");
        self.search.choose(rounds, predicate, (ts, right_ts)).map(Some)
    }

    fn several(
        &mut self,
        moved: Option<&[i64]>,
        asof: &AsOf,
        most: u32,
    ) -> Result<Option<TestedMatches>> {
        let (ts, factor) = (moved.unwrap_or(self.ts), self.fit.factor);
        let (rows, interval) = (self.fit.rows(), asof.candidate_interval());
        let driver = self.search.driver;
        let Some(found) = interval_candidates_in(ts, &rows, &interval, factor, driver)? else {
            return Ok(None);
        };
        self.read_right_times()?;
        let right_ts = self.right_ts.as_deref().expect("the times have been read");
        self.search.choose_several(found, asof.nearness(most), (ts, right_ts)).map(Some)
    }
}

/// Selects the nearest few candidates of each left row that satisfy a condition, if there is one.
/// The candidates must be in time order. Also returns the method used to evaluate the condition.
pub(super) fn few(
    candidates: Matches,
    nearness: Nearness,
    times: (&[i64], &[i64]),
    (predicate, tables): (Option<&Predicate>, (&Table, &Table)),
    driver: &Driver,
) -> Result<TestedMatches> {
    let (found, method) = match predicate {
        None => (nearest_few(candidates, nearness, times, driver)?, "none"),
        Some(predicate) => {
            let mut rounds = rounds_of(candidates, nearness, times, driver)?;
            let method = test(&mut rounds, predicate, tables, times.1, driver)?;
            (nearest_few_chosen(rounds, nearness.limit, times, driver)?, method)
        }
    };
    Ok((found.ok_or_else(too_many_partners)?, method))
}

/// The error for partners whose positions do not fit in 32 bits.
fn too_many_partners() -> Error {
    Error::memory(
        "the left rows have more than 4,294,967,295 partners in total; request fewer partners per \
         row, or join fewer left rows at a time",
    )
}

/// Tests a condition on candidates, nearest first. Returns the method used to evaluate it.
fn test(
    found: &mut [Rounds],
    predicate: &Predicate,
    (left, right): (&Table, &Table),
    right_ts: &[i64],
    driver: &Driver,
) -> Result<&'static str> {
    let mut method = "none";
    for rounds in found {
        let mut condition = None;
        while let Some(round) = rounds.next_round() {
            if condition.is_none() || rounds.block() == LONG_BLOCK {
                let predicate = predicate.clone();
                condition = Some(Condition::new(predicate, left, right, &round, driver)?);
            }
            let condition = condition.as_mut().expect("made above");
            method = condition.method();
            let mut start = 0;
            while start < round.left_rows() {
                let (page, kept) = condition.next_page(&round, start, driver)?;
                start = page.end;
                rounds.take(page, &kept, right_ts);
            }
        }
    }
    Ok(method)
}
