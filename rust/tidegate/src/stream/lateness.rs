//! How far the rows of each source may be out of order.

use std::fmt;

use crate::columns::time::{self, Bound, Unit};
use crate::{Error, Result};

/// How far the rows of sources may be out of order.
#[derive(Clone, PartialEq)]
pub enum Lateness {
    /// As far in each of them; not at all if none is said.
    All(Option<Bound>),
    /// One for each source.
    Each(Vec<Option<Bound>>),
}

impl From<Option<Bound>> for Lateness {
    fn from(all: Option<Bound>) -> Self {
        Lateness::All(all)
    }
}

/// As snapshots tell it.
impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lateness::All(all) => all.fmt(f),
            Lateness::Each(each) => each.fmt(f),
        }
    }
}

impl Lateness {
    /// The lateness of each of `sources` sources in steps of `unit`; `of` says whose they are.
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

/// The lateness of sources, in words.
pub(crate) fn describe(steps: &[i64], unit: Unit) -> String {
    let name = unit.name();
    match steps {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => match first {
            0 => "none: a source is in time order, or its row is late".to_owned(),
            steps => format!("{steps} ({name})"),
        },
        steps => {
            let each: Vec<String> = steps.iter().map(i64::to_string).collect();
            format!("{} ({name}), a value for each source", each.join(", "))
        }
    }
}
