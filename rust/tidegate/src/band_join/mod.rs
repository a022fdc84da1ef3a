//! The band join of two tables.

mod column;
mod distance;

use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::band_join::{BandColumn, BandKeys, band_join};
use tidegate_operators::driver::Driver;
use tidegate_operators::interval_join::NO_KEY;
use tidegate_structures::pages::Pages;
use tidegate_sync::Stop;

use self::column::{Codes, ColumnPlan};
pub use self::distance::{Distance, Within};
use crate::join::{Join, JoinOptions, JoinPlan};
use crate::table::Table;
use crate::{Error, Result};

/// A band join: which pairs of rows of two tables are wanted.
///
/// A pair `(l, r)` is in the result when `l.x - below <= r.x <= l.x + above` in each column of `on`, all `by` columns are
/// equal and `predicate` holds.
#[derive(Clone, Debug)]
pub struct BandJoin {
    /// The band columns of both sides.
    pub on: Vec<(String, String)>,
    /// How far the values of each may be apart.
    pub within: Vec<Within>,
    /// What any join may be asked for.
    pub options: JoinOptions,
}

/// A join whose names and types fit two schemas.
#[derive(Debug)]
struct Plan {
    columns: Vec<ColumnPlan>,
    join: JoinPlan,
}

impl BandJoin {
    fn plan(&self, left: &Schema, right: &Schema) -> Result<Plan> {
        let (columns, widths) = (self.on.len(), self.within.len());
        if columns == 0 {
            return Err(Error::argument("on names no column; a band join needs one at least"));
        }
        if columns != widths {
            return Err(Error::argument(format!("within has {widths} entries, but on names {columns} columns")));
        }
        let columns = self.on.iter().zip(&self.within);
        let columns = columns.map(|(names, within)| ColumnPlan::new(names, *within, left, right));
        Ok(Plan { columns: columns.collect::<Result<_>>()?, join: self.options.plan(left, right)? })
    }

    /// The schema of the result.
    pub fn schema(&self, left: &Schema, right: &Schema) -> Result<SchemaRef> {
        Ok(self.plan(left, right)?.join.schema)
    }

    /// What the join of two tables of these schemas would do, for people.
    pub fn explain(&self, left: &Schema, right: &Schema) -> Result<String> {
        let plan = self.plan(left, right)?;
        let mut lines = vec![format!("band_join ({:?})", self.options.how).to_lowercase()];
        lines.extend(plan.columns.iter().map(|column| format!("  band       {column}")));
        lines.push(self.options.describe_keys());
        lines.extend(self.options.describe_predicate());
        let index = match &plan.columns[..] {
            [column] => format!("right rows grouped by key, in the order of {}", column.right_name()),
            _ => {
                "right rows grouped by key, in the order of the band column that leaves the fewest pairs of a sample; \
                  the other columns are checked pair by pair"
                    .to_owned()
            }
        };
        lines.extend([
            "  algorithm  sort and sweep: the only batch algorithm; O(n log n + pairs in the band of the indexed column)"
                .to_owned(),
            format!("  index      {index}"),
            format!("  threads    {}", self.options.threads),
            format!(
                "  memory     inputs + up to 60 bytes a row{}, + result",
                if plan.columns.len() > 1 { " and 32 a row for each further band column" } else { "" }
            ),
            format!("  output     {} columns, in left row order, then right row order", plan.join.schema.fields().len()),
        ]);
        Ok(lines.join("\n"))
    }

    /// Finds the pairs of two tables. The rows of the result are made when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let plan = self.plan(left.schema(), right.schema())?;
        let codes = plan.columns.iter().map(|column| column.codes(left, right, &driver)).collect::<Result<Vec<_>>>()?;
        let keys = plan.join.encode_keys(left, right, &driver)?;
        let key_method = keys.as_ref().map_or("none", |keys| keys.method);
        let mut keys = keys.map(|keys| (keys.left, keys.right, keys.count));
        if codes.iter().any(|(left, right)| !(left.missing.is_empty() && right.missing.is_empty())) {
            let keys = keys.get_or_insert_with(|| (one_key(left.rows()), one_key(right.rows()), 1));
            for (left, right) in &codes {
                without(&mut keys.0, left);
                without(&mut keys.1, right);
            }
        }
        let columns: Vec<_> = codes
            .iter()
            .zip(&plan.columns)
            .map(|(codes, column)| BandColumn { left: &codes.0.values, right: &codes.1.values, band: column.band })
            .collect();
        let keys = keys.as_ref().map(|(left, right, count)| BandKeys { left, right, count: *count });
        let found = band_join(&columns, keys, &driver)?;
        Join::new(&self.options, plan.join, left, right, key_method, (found.matches, found.checks), driver)
    }
}

/// The same key for all rows.
fn one_key(rows: usize) -> Pages<u32> {
    let mut keys = Pages::new(rows);
    keys.fill(0);
    keys
}

/// Lets the rows without a value match nothing.
fn without(keys: &mut [u32], codes: &Codes) {
    codes.missing.iter().for_each(|&row| keys[row as usize] = NO_KEY);
}
