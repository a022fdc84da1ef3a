//! A source that follows another operator. The source's rows are the results of that operator,
//! which also determines the source's promises.

use arrow_schema::Schema;
use tidegate_operators::rows::Reorder;
use tidegate_structures::memory;

use super::Source;
use crate::stream::times::{LedSource, ResultTime, ResultTimes, led};
use crate::{Error, Result};

impl Source {
    /// Makes the source follow an operator with these result times. The source's rows will be the
    /// operator's results, and its promises will be the operator's promises. Returns the columns
    /// from which `of` computes the source's time, or no columns if the time is a result column.
    pub fn follow(
        &mut self,
        times: &ResultTimes,
        schema: &Schema,
        of: Option<ResultTime>,
    ) -> Result<Vec<String>> {
        self.check_open()?;
        let named = |text: &str| format!("{}: {text}", self.name);
        if self.lead.is_some() || self.rows_in > 0 || self.reorder.watermark() > i64::MIN {
            return Err(Error::argument(named(
                "the source is in use; an operator can only feed a new source",
            )));
        }
        let LedSource { lead, lateness, columns } =
            led(times, schema, (self.time_field(), self.stream.unit), of)
                .map_err(|error| error.within(&self.name))?;
        if lateness.is_none() && self.shared.memory.limit().is_some() {
            return Err(Error::argument(named(
                "memory_limit: results with ordered=False wait here until the preceding operator \
                 promises a time, so the limit could be exhausted forever; leave it out, or write \
                 ordered=True there",
            )));
        }
        self.stream.lateness = lateness;
        self.reorder = Reorder::new(self.stream.lateness);
        self.lead = Some(lead);
        Ok(columns)
    }

    /// Promises that no future result of the followed operator has a position below `place`, in the
    /// operator's unit.
    pub fn promise_of_results(&mut self, place: i64) -> Result<()> {
        self.check_open()?;
        let lead = self.lead.ok_or_else(|| Error::bug("the source follows an operator"))?;
        match lead.promise(place, self.stream.unit) {
            Some(ts) if ts > self.reorder.watermark() => {
                memory::check();
                self.promise(ts)
            }
            _ => Ok(()),
        }
    }
}
