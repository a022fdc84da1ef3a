//! Runs SplitJoin, with its trees, as an interval join. Keys are numbers that are compared for
//! equality. Each join core compares every row with all rows in its window.

use tidegate_operators::driver::Driver;
use tidegate_operators::predicate::{Constraint, Numbers, Operand, Order, Relation, Term};
use tidegate_operators::rows::{How, Retention, RowJoin};
use tidegate_papers::split_join::split_join;

use crate::{System, rest};

/// Creates a SplitJoin that matches rows at most `reach` apart and has one join core per thread.
pub(crate) fn split_trees(reach: i64, driver: &Driver) -> System {
    let window = Retention::Time { left: reach.unsigned_abs(), right: reach.unsigned_abs() };
    let limit = |order| Constraint::Difference { order, than: 0 };
    let equal = Relation::Whole(vec![limit(Order::LessOrEqual), limit(Order::GreaterOrEqual)]);
    let term = Term::new(numbers(&[]), numbers(&[]), equal).expect("no row yet");
    let mut join = split_join(window, How::Inner, driver.threads(), true, vec![term]);
    let driver = driver.clone();
    Box::new(move |epoch| {
        let keys = [(numbers(&epoch.keys[0]), numbers(&epoch.keys[1]))];
        driver.clone().within(|| {
            join.begin(&driver, epoch.ts.clone(), epoch.sides.clone(), Some(&keys));
            rest(&mut join, &driver, epoch)
        })
    })
}

fn numbers(keys: &[u32]) -> Operand {
    Operand::new(Numbers::I64(keys.iter().map(|&key| key.into()).collect()), None)
}
