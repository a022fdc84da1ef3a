//! Rows in time order.

use tidegate_structures::memory::pages::Pages;

use crate::driver::{Driver, Stopped};
use crate::interval::{Groups, Side};

/// The row numbers in time order, those of equal times ascending; `None` where they are so already.
pub fn time_order(ts: &[i64], driver: &Driver) -> Result<Option<Pages<u32>>, Stopped> {
    Ok(Groups::new(Side { ts, keys: None }, 1, driver)?.into_numbers())
}
