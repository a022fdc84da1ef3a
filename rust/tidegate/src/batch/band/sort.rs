//! Sorts tables, and finds runs of right rows.

use tidegate_operators::band::{Band, BandColumn, BandKeys, Bounds, band_join, candidates_a_row};
use tidegate_operators::matches::{Check, Matches};
use tidegate_operators::rows::NO_KEY;
use tidegate_operators::rows::Retention;
use tidegate_operators::window::counts::{Counts, Ends, meetings};
use tidegate_structures::memory::pages::Pages;

use super::BandTables;
use crate::Result;
use crate::columns::codes::Codes;
use crate::columns::time::Int64s;

/// A window, represented as an additional band column. The column contains times or positions in
/// time order.
struct WindowColumn {
    left: Int64s,
    right: Int64s,
    bounds: WindowBounds,
}

enum WindowBounds {
    Time(Band),
    Rows(Ends),
}

impl WindowColumn {
    fn new(tables: &BandTables<'_>) -> Result<Option<Self>> {
        let Some(plan) = &tables.plan.windows else { return Ok(None) };
        let (left, right) = plan.times(tables.left, tables.right)?;
        Ok(Some(match plan.retention {
            // A right row follows a left row by at most the time for which the left row stays, and
            // vice versa.
            Retention::Time { left: left_stays, right: right_stays } => {
                let (below, above) = (Some(right_stays), Some(left_stays));
                WindowColumn {
                    left,
                    right,
                    bounds: WindowBounds::Time(Band::Steps { below, above }),
                }
            }
            Retention::Rows { left: left_rows, right: right_rows } => {
                let counts = Counts { left: left_rows as usize, right: right_rows as usize };
                let (ends, places) = meetings(&left, &right, counts, tables.driver)?;
                WindowColumn { left, right: Int64s::Own(places), bounds: WindowBounds::Rows(ends) }
            }
        }))
    }

    fn column(&self) -> BandColumn<'_> {
        let bounds = match &self.bounds {
            WindowBounds::Time(band) => Bounds::Band(*band),
            WindowBounds::Rows(ends) => Bounds::Ends(ends),
        };
        BandColumn { left: &self.left, right: &self.right, bounds }
    }
}

impl BandTables<'_> {
    /// Returns the matches and the remaining checks. Returns `None` if a sample shows more than
    /// `most` candidates per left row.
    pub(super) fn sort(&self, most: f64) -> Result<Option<(Matches, Vec<Check>)>> {
        let BandTables { plan, left, right, keys, driver } = *self;
        let codes = plan
            .columns
            .iter()
            .map(|column| column.codes(left, right, driver))
            .collect::<Result<Vec<_>>>()?;
        let window = WindowColumn::new(self)?;
        let mut columns: Vec<_> = codes
            .iter()
            .zip(&plan.columns)
            .map(|((left, right), column)| {
                let bounds = Bounds::Band(column.band);
                BandColumn { left: &left.values, right: &right.values, bounds }
            })
            .collect();
        columns.extend(window.as_ref().map(WindowColumn::column));
        let of_tables =
            keys.map(|keys| BandKeys { left: &keys.left, right: &keys.right, count: keys.count });
        let with_values = with_values(&codes, of_tables, (left.rows(), right.rows()));
        let keys = match &with_values {
            None => of_tables,
            Some((left, right, count)) => Some(BandKeys { left, right, count: *count }),
        };
        if most.is_finite() && candidates_a_row(&columns, keys) > most {
            return Ok(None);
        }
        let found = band_join(&columns, keys, driver)?;
        Ok(Some((found.matches, found.checks)))
    }
}

/// Returns both sides' keys and the number of keys. The keys of rows without a value match nothing.
fn with_values(
    codes: &[(Codes, Codes)],
    keys: Option<BandKeys<'_>>,
    rows: (usize, usize),
) -> Option<(Pages<u32>, Pages<u32>, usize)> {
    if codes.iter().all(|(left, right)| left.missing.is_empty() && right.missing.is_empty()) {
        return None;
    }
    let own = |rows: usize, keys: Option<&[u32]>| match keys {
        Some(keys) => Pages::copied(keys),
        None => Pages::filled(rows, 0),
    };
    let (mut left, mut right) =
        (own(rows.0, keys.map(|keys| keys.left)), own(rows.1, keys.map(|keys| keys.right)));
    for (of_left, of_right) in codes {
        of_left.missing.iter().for_each(|&row| left[row as usize] = NO_KEY);
        of_right.missing.iter().for_each(|&row| right[row as usize] = NO_KEY);
    }
    Some((left, right, keys.map_or(1, |keys| keys.count)))
}
