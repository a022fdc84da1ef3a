//! The maximum time by which each source's rows can be out of order.

use std::fmt;

use crate::columns::time::{self, Bound, Unit};
use crate::{Error, Result};

/// The maximum time by which rows from the sources can be out of order.
#[derive(Clone, PartialEq)]
pub enum Lateness {
    /// The same lateness for every source; `None` requires rows to be in order.
    All(Option<Bound>),
    /// One lateness for each source.
    Each(Vec<Option<Bound>>),
}

impl From<Option<Bound>> for Lateness {
    fn from(all: Option<Bound>) -> Self {
        Lateness::All(all)
    }
}

/// Formats the lateness as it is stored in snapshots.
impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lateness::All(all) => all.fmt(f),
            Lateness::Each(each) => each.fmt(f),
        }
    }
}

impl Lateness {
    /// Returns the lateness of each of the `sources` sources, in steps of `unit`. Messages use `of`
    /// to identify the sources.
    pub(crate) fn steps(&self, of: &str, sources: usize, unit: Unit) -> Result<Vec<i64>> {
        match self {
            Lateness::All(all) => Ok(vec![time::lateness(*all, unit)?; sources]),
            Lateness::Each(each) if each.len() == sources => {
                each.iter().map(|&one| time::lateness(one, unit)).collect()
            }
            Lateness::Each(each) => Err(Error::argument(format!(
                "lateness: expected one value, or a list with a value for each of the {sources} \
                 {of}, got a list of {}",
                each.len()
            ))),
        }
    }
}

/// Describes the lateness of the sources.
pub(crate) fn describe(steps: &[i64], unit: Unit) -> String {
    let name = unit.name();
    match steps {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => match first {
            0 => "none: rows that are out of time order within their source are late".to_owned(),
            steps => format!("{steps} ({name})"),
        },
        steps => {
            let each: Vec<String> = steps.iter().map(i64::to_string).collect();
            format!("{} ({name}), a value for each source", each.join(", "))
        }
    }
}
