//! Non-numeric columns, such as strings and decimals, whose minimum or maximum a stream computes.
//!
//! Each value gets an integer code, and the codes are in the same order as the values. The states
//! contain codes. A new value between two existing values gets a code between theirs. If there is
//! no free code between them, all values get new, evenly spaced codes, and the states are updated.
//! Unused values are removed when there are many of them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use tidegate_operators::aggregate::{OutputValues, Page, StreamingWindows};
use tidegate_operators::driver::Driver;
use tidegate_structures::memory;

use super::groups::{GROUP_BYTES, StreamGroups};
use crate::Result;
use crate::aggregate::columns::{OrderedCodes, is_ordered_only};
use crate::columns::table::Table;
use crate::query::aggregate::Takes;
use crate::query::aggregate::plan::{AggregatePlan, OutputPlan};
use crate::query::aggregate::value_types::leaf;
use crate::results::gather::Column;

/// The distance between evenly spaced codes.
const SPACE: i64 = 1 << 30;

/// All columns of an aggregation whose values need codes.
#[derive(Debug)]
pub(crate) struct OrderedColumns {
    columns: Vec<OrderedColumn>,
    /// The position of each aggregate's column in `columns`.
    of_output: Vec<Option<usize>>,
}

#[derive(Debug)]
struct OrderedColumn {
    /// The column of the plan.
    at: usize,
    values: StreamGroups,
    /// The code of each value, indexed by the value's number.
    codes: Vec<Option<i64>>,
    /// All codes, sorted by value.
    ordered: Vec<i64>,
}

/// Returns the column from which an aggregate chooses a value, if the column's values need codes.
fn ordered(plan: &AggregatePlan, output: &OutputPlan) -> Option<usize> {
    let takes_order = output.function.takes() == Takes::Order;
    output.taken().filter(|&at| {
        takes_order && is_ordered_only(leaf(plan.functions.read.field(at).data_type()))
    })
}

impl OrderedColumns {
    pub(crate) fn new(plan: &AggregatePlan) -> Result<Self> {
        let mut at: Vec<usize> =
            plan.functions.outputs.iter().filter_map(|output| ordered(plan, output)).collect();
        at.sort_unstable();
        at.dedup();
        let place =
            |output| ordered(plan, output).and_then(|column| at.binary_search(&column).ok());
        let of_output = plan.functions.outputs.iter().map(place).collect();
        let column = |&at: &usize| {
            let values = StreamGroups::new(Arc::new(plan.functions.read.project(&[at])?))?;
            Ok(OrderedColumn { at, values, codes: Vec::new(), ordered: Vec::new() })
        };
        Ok(OrderedColumns { columns: at.iter().map(column).collect::<Result<_>>()?, of_output })
    }

    /// Returns the maximum number of bytes that a row adds, excluding the bytes of its values.
    pub(crate) fn row_bytes(&self) -> usize {
        self.columns.len() * (GROUP_BYTES + 2 * size_of::<i64>())
    }

    pub(crate) fn memory(&self) -> usize {
        let bytes = |column: &OrderedColumn| {
            column.values.memory() + 2 * size_of::<i64>() * column.codes.len()
        };
        self.columns.iter().map(bytes).sum()
    }

    /// Returns the codes of all rows for each aggregate that needs codes. If values have to be
    /// recoded, the states are updated as well.
    pub(crate) fn codes(
        &mut self,
        rows: &Table,
        windows: &mut dyn StreamingWindows,
        driver: &Driver,
    ) -> Result<Vec<OrderedCodes>> {
        let mut of_columns = Vec::with_capacity(self.columns.len());
        for (place, column) in self.columns.iter_mut().enumerate() {
            let batches = rows.batches().iter().map(|batch| batch.project(&[column.at]));
            let numbers = column.values.of(&batches.collect::<Result<Vec<_>, _>>()?, driver)?;
            if let Some(new) = column.give() {
                follow(&self.of_output, place, windows, &new);
            }
            let code =
                |number: &u32| column.codes[*number as usize].expect("every value has a code");
            of_columns.push(Arc::new(memory::collect(numbers.iter().map(code))));
        }
        Ok(self
            .of_output
            .iter()
            .map(|column| column.map(|column| of_columns[column].clone()))
            .collect())
    }

    /// Removes unused values if there are many of them.
    pub(crate) fn tidy(&mut self, windows: &mut dyn StreamingWindows) {
        for (place, column) in self.columns.iter_mut().enumerate() {
            if column.values.is_due() {
                column.release(&used(&self.of_output, place, windows));
            }
        }
    }

    /// Removes unused values, and gives the others codes that depend only on the remaining values.
    pub(crate) fn settle(&mut self, windows: &mut dyn StreamingWindows) {
        for (place, column) in self.columns.iter_mut().enumerate() {
            column.release(&used(&self.of_output, place, windows));
            let new = column.space();
            follow(&self.of_output, place, windows, &new);
        }
    }

    /// Returns the values of each column in ascending order.
    pub(crate) fn tables(&self) -> Result<Vec<RecordBatch>> {
        self.columns.iter().map(|column| column.values.table(column.values.order().keys)).collect()
    }

    /// Restores the values that [`tables`](Self::tables) returned; `learn` reads the values in one
    /// table.
    pub(crate) fn restore(
        &mut self,
        mut learn: impl FnMut(&mut StreamGroups) -> Result<Vec<u32>>,
    ) -> Result<()> {
        for column in &mut self.columns {
            learn(&mut column.values)?;
            column.space();
        }
        Ok(())
    }

    /// Returns whether the values of all codes in the states are known.
    pub(crate) fn has_all(&self, windows: &mut dyn StreamingWindows) -> bool {
        let outputs = self.of_output.iter().enumerate();
        outputs.filter_map(|(output, of)| Some((output, &self.columns[(*of)?].ordered))).all(
            |(output, codes)| {
                let mut all = true;
                windows
                    .for_each_value(output, &mut |code| all &= codes.binary_search(code).is_ok());
                all
            },
        )
    }

    /// Replaces the codes in a page with ranks.
    pub(crate) fn ranks(&self, page: &mut Page) {
        for (of, column) in page.columns.iter_mut().zip(&self.of_output) {
            let (Some(column), OutputValues::Integers(codes)) = (column, &mut of.values) else {
                continue;
            };
            let ordered = &self.columns[*column].ordered;
            // A value that is missing has no code.
            codes
                .iter_mut()
                .for_each(|code| *code = ordered.binary_search(code).unwrap_or(0) as i64);
        }
    }

    /// Returns the values in rank order, for each aggregate that needs codes.
    pub(crate) fn values(&mut self) -> Result<Vec<Option<&Column>>> {
        let columns = self.columns.iter_mut().map(|column| Ok(&column.values.columns()?[0]));
        let columns = columns.collect::<Result<Vec<&Column>>>()?;
        Ok(self.of_output.iter().map(|column| column.map(|column| columns[column])).collect())
    }
}

/// Returns the codes that the states use for a column.
fn used(
    of_output: &[Option<usize>],
    column: usize,
    windows: &mut dyn StreamingWindows,
) -> Vec<i64> {
    let mut used = Vec::new();
    for (output, _) in of_output.iter().enumerate().filter(|(_, of)| **of == Some(column)) {
        windows.for_each_value(output, &mut |code| used.push(*code));
    }
    used.sort_unstable();
    used.dedup();
    used
}

/// Replaces the codes that the states use for a column.
fn follow(
    of_output: &[Option<usize>],
    column: usize,
    windows: &mut dyn StreamingWindows,
    new: &HashMap<i64, i64>,
) {
    for (output, _) in of_output.iter().enumerate().filter(|(_, of)| **of == Some(column)) {
        windows.for_each_value(output, &mut |code| *code = new[code]);
        windows.follow_values(output, &|code| new.get(&code).copied());
    }
}

impl OrderedColumn {
    /// Assigns codes to the values that have none. If any existing codes had to change, returns the
    /// new code for each old one.
    fn give(&mut self) -> Option<HashMap<i64, i64>> {
        self.codes.resize(self.values.count(), None);
        if self.ordered.len() == self.values.len() {
            return None;
        }
        let order = self.values.order().keys;
        let mut start = 0;
        // Process runs of values without a code.
        while let Some(first) =
            order[start..].iter().position(|&number| self.codes[number as usize].is_none())
        {
            let run = &order[start + first..];
            let end = run
                .iter()
                .position(|&number| self.codes[number as usize].is_some())
                .unwrap_or(run.len());
            let before =
                (start + first).checked_sub(1).and_then(|at| self.codes[order[at] as usize]);
            let after = run.get(end).and_then(|&number| self.codes[number as usize]);
            let Some((from, step)) = between(before, after, end as i64) else {
                return Some(self.space());
            };
            for (number, at) in run[..end].iter().zip(1..) {
                self.codes[*number as usize] = Some(from + step * at);
            }
            start += first + end;
        }
        self.list();
        None
    }

    /// Spaces all codes evenly, and returns the new code for each old one.
    fn space(&mut self) -> HashMap<i64, i64> {
        self.codes.resize(self.values.count(), None);
        let mut new = HashMap::new();
        for (&number, at) in self.values.order().keys.iter().zip(1..) {
            let code = at * SPACE;
            if let Some(former) = self.codes[number as usize].replace(code) {
                new.insert(former, code);
            }
        }
        self.list();
        new
    }

    /// Lists the codes in value order.
    fn list(&mut self) {
        let code = |number: &u32| self.codes[*number as usize];
        self.ordered.clear();
        self.ordered.extend(self.values.order().keys.iter().filter_map(code));
    }

    /// Removes all values except those with the given codes.
    fn release(&mut self, used: &[i64]) {
        let is_used =
            |code: &Option<i64>| code.is_some_and(|code| used.binary_search(&code).is_ok());
        let kept: Vec<bool> = self.codes.iter().map(is_used).collect();
        self.values.release(&kept);
        self.codes
            .iter_mut()
            .zip(kept)
            .filter(|(_, kept)| !kept)
            .for_each(|(code, _)| *code = None);
        self.list();
    }
}

/// Finds `count` codes between two given codes. Returns the code before the first new code and the
/// distance between neighboring codes, or `None` if there are not enough free codes.
fn between(before: Option<i64>, after: Option<i64>, count: i64) -> Option<(i64, i64)> {
    match (before, after) {
        (None, None) => Some((0, SPACE)),
        (Some(before), None) => {
            before.checked_add(SPACE.checked_mul(count)?).map(|_| (before, SPACE))
        }
        (None, Some(after)) => {
            after.checked_sub(SPACE.checked_mul(count + 1)?).map(|from| (from, SPACE))
        }
        (Some(before), Some(after)) => {
            let step = after.checked_sub(before)? / (count + 1);
            (step > 0).then_some((before, step))
        }
    }
}
