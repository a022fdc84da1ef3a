//! Functions over all values of each left row's partners.

use std::ops::Range;
use std::sync::Arc;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot, UnwrittenPages};
use tidegate_structures::memory::partition::{ranges, split_buckets};

use super::{
    AllValues, Distinct, FEW_LISTED, Item, Quantiles, RowChoice, RowRanks, Scratch, Smallest,
    ValuesByPlace, WindowFunction, column, lists, slide,
};
use crate::aggregate::folds::partners::listed::Lists;
use crate::aggregate::inputs::columns::Mask;
use crate::aggregate::inputs::places::Place;
use crate::aggregate::output::{OutputColumn, OutputValue, OutputValues};
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::interval::Partners;
use crate::matches::{Matches, Run};
use crate::order::{Groups, JoinColumns, Value};
use crate::rows::NO_KEY;

/// The minimum number of positions whose left rows are processed by one thread.
const BUCKET: u32 = if cfg!(test) { 7 } else { 1 << 15 };

/// Functions over the partners of all left rows. Results are available for any range of left rows.
/// Quantiles of the same values are computed together.
///
/// In this example, the median is computed over the right values of the last 2 time units:
///
/// ```
/// use tidegate_operators::aggregate::{
///     AllValues, Column, Interpolation, OutputValues, PartnerValues, Quantile,
/// };
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::interval::{PartnerColumns, interval_partners};
/// use tidegate_operators::order::JoinColumns;
/// use tidegate_operators::rows::{Closed, Interval};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let left = JoinColumns { ts: &[10, 30], keys: None };
/// let right = JoinColumns { ts: &[8, 9], keys: None };
/// let before = Interval { lower: Some(-2), upper: Some(0), closed: Closed::Both };
/// let columns =
///     PartnerColumns { left, right, key_count: 1, interval: &before, with_prevailing: false };
/// let partners = interval_partners(columns, &driver)?;
///
/// let values = vec![Column { values: &[4.0, 7.0], mask: None }];
/// let quantile = Quantile { share: 0.5, interpolation: Interpolation::Linear };
/// let median = AllValues::Quantile { values, quantile };
/// let found = PartnerValues::new(&partners, &[median], &driver)?.of(0..2);
/// let OutputValues::Floats(medians) = &found[0].values else { unreachable!() };
/// assert_eq!((medians[0], &found[0].missing), (5.5, &vec![1])); // 30 has no partner
/// # Ok::<(), Stopped>(())
/// ```
#[derive(Debug)]
pub struct PartnerValues<'a>(Vec<ValueResults<'a>>);

#[derive(Debug)]
enum ValueResults<'a> {
    Floats(LeftResults<f64>),
    Integers(LeftResults<i64>),
    /// Rows are listed only on request, because they can far outnumber the left rows.
    Rows(RowChoice, &'a Partners, ValuesByPlace),
    /// For each list position, the rank of the row at this position in each left row's list.
    Largest(Vec<LeftResults<i64>>, &'a Partners, RowRanks),
}

/// For each left row, a flag that indicates whether there is a result, followed by the result.
#[derive(Debug)]
struct LeftResults<T> {
    values: Pages<T>,
    is_present: Arc<Pages<u8>>,
}

/// Some adjacent left rows, as output slices for their buckets, their runs, and flags for rows with
/// results.
type LeftPiece<'a> =
    (((Range<usize>, &'a mut [Slot<u32>]), &'a mut [Slot<i64>]), &'a mut [Slot<u8>]);

/// Divides a column of left rows into the parts that individual tasks write.
fn cut<'a, T>(column: &'a mut [Slot<T>], rows: usize, driver: &Driver) -> Vec<&'a mut [Slot<T>]> {
    let mut rest = column;
    let part = |part: Range<usize>| {
        let (own, others) = std::mem::take(&mut rest).split_at_mut(part.len());
        rest = others;
        own
    };
    ranges(rows, driver.parts(rows, PART_ROWS)).into_iter().map(part).collect()
}

/// Encodes a run as a number. Sorting these numbers sorts the runs by start and then by end.
fn pack(run: Run) -> i64 {
    (((u64::from(run.start) << 32) | u64::from(run.end)) ^ (1 << 63)).cast_signed()
}

fn unpack(packed: i64) -> Run {
    let packed = packed.cast_unsigned() ^ (1 << 63);
    Run { start: (packed >> 32) as u32, end: packed as u32 }
}

impl<'a> PartnerValues<'a> {
    /// Computes the results for all left rows.
    pub fn new(
        partners: &'a Partners,
        functions: &[AllValues<'_>],
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let rows = partners.rows();
        let row = |place| Place { source: 0, row: rows.map_or(place, |rows| rows[place] as usize) };
        let places = partners.places();
        let mut all: Vec<Option<ValueResults<'_>>> = functions.iter().map(|_| None).collect();
        for (at, function) in functions.iter().enumerate() {
            if all[at].is_some() {
                continue;
            }
            let placed = function.placed(places, row, driver)?;
            match function {
                AllValues::Quantile { values, .. } => {
                    let same = |at: &usize| functions[*at].quantile_of(values).is_some();
                    let together: Vec<usize> = (at..functions.len()).filter(same).collect();
                    let quantile = |&at: &usize| functions[at].quantile_of(values);
                    let quantiles = Quantiles(together.iter().filter_map(quantile).collect());
                    let found = LeftResults::new(&quantiles, partners, &placed, driver)?;
                    for (at, results) in together.into_iter().zip(found) {
                        all[at] = Some(ValueResults::Floats(results));
                    }
                }
                AllValues::Distinct(_) => {
                    let found = LeftResults::new(&Distinct, partners, &placed, driver)?;
                    all[at] = found.into_iter().next().map(ValueResults::Integers);
                }
                AllValues::Rows { list, .. } => {
                    let listed = RowChoice::InOrder(*list);
                    all[at] = Some(ValueResults::Rows(listed, partners, placed));
                }
                AllValues::Largest { most, .. } if *most <= FEW_LISTED => {
                    let ranking = RowRanks::new(placed);
                    let smallest = Smallest(*most);
                    let ranks = LeftResults::new(&smallest, partners, &ranking.placed, driver)?;
                    all[at] = Some(ValueResults::Largest(ranks, partners, ranking));
                }
                AllValues::Largest { most, .. } => {
                    let listed = RowChoice::Largest(*most);
                    all[at] = Some(ValueResults::Rows(listed, partners, placed));
                }
            }
        }
        Ok(PartnerValues(all.into_iter().flatten().collect()))
    }

    /// Returns each function's results for a range of adjacent left rows.
    pub fn of(&self, left: Range<usize>) -> Vec<OutputColumn> {
        let of_function = |found: &ValueResults<'_>| match found {
            ValueResults::Floats(results) => results.of(left.clone()),
            ValueResults::Integers(results) => results.of(left.clone()),
            ValueResults::Rows(listed, partners, placed) => {
                let rows = partners.rows();
                let row = |place| rows.map_or(place, |rows| rows[place as usize]);
                lists(*listed, placed, left.clone().map(partners.whole_runs()), row)
            }
            ValueResults::Largest(ranks, partners, ranking) => {
                let rows = partners.rows();
                let row = |place| rows.map_or(place, |rows| rows[place as usize]);
                listed_by_rank(ranks, left.clone(), ranking, row)
            }
        };
        self.0.iter().map(of_function).collect()
    }
}

/// Returns the rows with the given ranks as a list for each left row.
fn listed_by_rank(
    ranks: &[LeftResults<i64>],
    left: Range<usize>,
    ranking: &RowRanks,
    row: impl Fn(u32) -> u32,
) -> OutputColumn {
    let (mut ends, mut rows, mut missing) = (memory::vec(left.len()), Vec::new(), Vec::new());
    let mut own = memory::vec(ranks.len());
    for (at, left) in left.enumerate() {
        own.clear();
        // A row without values has no results.
        let is_present = ranks[0].is_present[left] == 1;
        own.extend(ranks.iter().filter(|_| is_present).map(|ranks| ranks.values[left]));
        memory::reserve(&mut rows, own.len());
        ranking.extend(&mut rows, &own, &row);
        missing.extend((!is_present).then_some(at));
        ends.push(rows.len());
    }
    OutputColumn { values: OutputValues::Lists { ends, rows }, missing }
}

impl<T: OutputValue + Value> LeftResults<T> {
    /// Computes the results of one function. Left rows are sorted by run so that adjacent runs are
    /// processed together. The results are then put back in row order.
    #[expect(
        clippy::too_many_lines,
        reason = "a sequence of passes, each over the output of the previous one"
    )]
    fn new<F: WindowFunction<Output = T>>(
        function: &F,
        partners: &Partners,
        placed: &ValuesByPlace,
        driver: &Driver,
    ) -> Result<Vec<Self>, Stopped> {
        // A left row without partners has the result for an empty set of values, or no result.
        let mut of_none = Vec::with_capacity(function.results());
        function.of(&mut [], |none| of_none.push(u8::from(none.is_some())));
        let rows = partners.left_rows();
        let (mut buckets, mut runs) = (Pages::unwritten(rows), Pages::unwritten(rows));
        let mut is_present = Pages::unwritten(rows);
        let run = partners.whole_runs();
        let parts = ranges(rows, driver.parts(rows, PART_ROWS)).into_iter();
        let parts = parts
            .zip(cut(&mut buckets, rows, driver))
            .zip(cut(&mut runs, rows, driver))
            .zip(cut(&mut is_present, rows, driver))
            .collect();
        driver.map(parts, |(((left, buckets), runs), is_present): LeftPiece<'_>| {
            for (((left, bucket), packed), is_present) in
                left.zip(buckets).zip(runs).zip(is_present)
            {
                let run = run(left);
                bucket.set(if run.len() > 0 { run.start / BUCKET } else { NO_KEY });
                packed.set(pack(run));
                is_present.set(u8::from(run.len() > 0) | of_none[0]);
            }
        })?;
        let (buckets, runs) = (buckets.written(), runs.written());
        let side = JoinColumns { ts: &runs, keys: Some(&buckets) };
        let groups = Groups::new(side, placed.codes.len().div_ceil(BUCKET as usize), driver)?;
        let packed = groups.ts();
        let mut found: Vec<_> =
            of_none.iter().map(|_| Pages::<T>::unwritten(packed.len())).collect();
        let mut slots: Vec<_> = groups.starts.windows(2).map(|_| Vec::new()).collect();
        for found in &mut found {
            for (slots, part) in slots.iter_mut().zip(split_buckets(found, &groups.starts)) {
                slots.push(part);
            }
        }
        let tasks = groups.starts.iter().zip(slots).collect();
        let scratch = || (Scratch::default(), Vec::new());
        let missing =
            driver.map_with(tasks, scratch, |(scratch, items), (&start, mut slots)| {
                let places =
                    start as usize..start as usize + slots.first().map_or(0, |own| own.len());
                items.clear();
                memory::reserve(items, places.len());
                let item = |(out, &run)| Item { run: unpack(run), out };
                items.extend((0..).zip(&packed[places]).map(item));
                let (mut missing, mut nth) = (Vec::new(), 0);
                slide(function, placed, items, scratch, driver, |out, result: Option<T>| {
                    slots[nth][out as usize].set(result.unwrap_or_default());
                    if result.is_none() && nth == 0 {
                        missing.push(start + out);
                    }
                    nth = (nth + 1) % slots.len();
                })?;
                Ok(missing)
            })?;
        let mut is_present = is_present.written();
        for missing in missing.into_iter().collect::<Result<Vec<_>, Stopped>>()? {
            for place in missing {
                let row = groups.numbers().map_or(place, |numbers| numbers[place as usize]);
                is_present[row as usize] = 0;
            }
        }
        let is_present = Arc::new(is_present);
        let by_row = |found: UnwrittenPages<T>| {
            let mut values = Pages::unwritten(rows);
            groups.put_by_row(found.written(), &mut values, driver)?;
            Ok(LeftResults { values: values.written(), is_present: is_present.clone() })
        };
        found.into_iter().map(by_row).collect()
    }

    fn of(&self, left: Range<usize>) -> OutputColumn {
        let values = self.values[left.clone()].iter().zip(&self.is_present[left]);
        column(values.map(|(&value, &is_present)| (is_present == 1).then_some(value)))
    }
}

/// Returns the results of a function over all values. These matches specify the left rows'
/// partners. For other functions, use [`aggregate_matches`](super::super::aggregate_matches).
///
/// In this example, the right rows are listed for each left row:
///
/// ```
/// use tidegate_operators::aggregate::{AllValues, OutputValues, RowList, all_values_of_matches};
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::matches::Matches;
/// use tidegate_sync::Stop;
///
/// let pairs = [(vec![0, 0, 2], vec![3, 1, 0])];
/// let matches = Matches::of_pairs(&pairs, 3, 4, &Driver::new(1, Stop::default()))?;
/// let all = AllValues::Rows { masks: vec![None], list: RowList::All };
/// let found = all_values_of_matches(&matches, 0..3, None, &all);
/// let OutputValues::Lists { ends, rows } = &found.values else { unreachable!() };
/// assert_eq!((ends, rows, &found.missing), (&vec![2, 2, 3], &vec![1, 3, 0], &vec![1]));
/// # Ok::<(), Stopped>(())
/// ```
pub fn all_values_of_matches(
    matches: &Matches,
    left: Range<usize>,
    ts: Option<&[i64]>,
    function: &AllValues<'_>,
) -> OutputColumn {
    let found = Lists::new(matches, left, ts);
    match function {
        AllValues::Quantile { values, quantile } => {
            let of = values[0];
            let code = |row| super::order_of(of.values[row]);
            one_by_one(&Quantiles(vec![*quantile]), &found, of.mask, code)
        }
        AllValues::Distinct(values) => {
            let of = values[0];
            one_by_one(&Distinct, &found, of.mask, |row| of.values[row])
        }
        AllValues::Rows { masks, list } => {
            row_lists(RowChoice::InOrder(*list), &found, masks[0], |_| 0)
        }
        AllValues::Largest { values, most } => {
            let of = values[0];
            row_lists(RowChoice::Largest(*most), &found, of.mask, |row| of.values[row as usize])
        }
    }
}

/// Returns the listed rows of each list.
fn row_lists(
    listed: RowChoice,
    lists: &Lists<'_>,
    mask: Mask<'_>,
    code: impl Fn(u32) -> i64,
) -> OutputColumn {
    let counted = |row: &u32| mask.is_none_or(|mask| mask.contains(*row as usize));
    let (mut ends, mut rows, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (at, list) in lists.rows_of_each().enumerate() {
        let before = rows.len();
        listed.extend(&mut rows, list.filter(counted), &code, |row| row);
        missing.extend((rows.len() == before).then_some(at));
        ends.push(rows.len());
    }
    OutputColumn { values: OutputValues::Lists { ends, rows }, missing }
}

/// Computes the results of a single-result function for each list separately.
fn one_by_one<F: WindowFunction>(
    function: &F,
    lists: &Lists<'_>,
    mask: Mask<'_>,
    code: impl Fn(usize) -> i64,
) -> OutputColumn {
    let (mut values, mut results) = (Vec::new(), Vec::new());
    for rows in lists.rows_of_each() {
        values.clear();
        let counted = rows.map(|row| row as usize);
        let counted = counted.filter(|&row| mask.is_none_or(|mask| mask.contains(row)));
        values.extend(counted.map(&code));
        function.of(&mut values, |result| results.push(result));
    }
    column(results.into_iter())
}
