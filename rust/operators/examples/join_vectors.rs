//! Joins two vectors of times and keys. For each trade, finds the quotes for the same symbol that
//! are at most 2 time units older.
//!
//! Run with: cargo run -p tidegate-operators --example join_vectors

use std::sync::Arc;

use tidegate_operators::driver::{Driver, Stopped};
use tidegate_operators::interval::interval_join;
use tidegate_operators::matches::Output;
use tidegate_operators::order::JoinColumns;
use tidegate_operators::rows::{Closed, How, Interval};
use tidegate_sync::Stop;

fn main() -> Result<(), Stopped> {
    let driver = Driver::new(2, Stop::default());
    // Symbols are represented by numbers: 0 is the first symbol, 1 the second.
    let trades = JoinColumns { ts: &[10, 20, 30], keys: Some(&[0, 1, 0]) };
    let quotes = JoinColumns { ts: &[8, 10, 19, 29], keys: Some(&[0, 0, 0, 0]) };
    let before = Interval { lower: Some(-2), upper: Some(0), closed: Closed::Both };

    let matches = Arc::new(interval_join(trades, quotes, 2, &before, &driver)?);
    let pairs = Output::new(matches, How::Inner, &driver)?;

    let found: Vec<(u32, u32)> = pairs.list(0..pairs.rows(), |pairs| {
        pairs.left().iter().copied().zip(pairs.right().iter().copied()).collect()
    });
    for &(trade, quote) in &found {
        let (trade, quote) = (trades.ts[trade as usize], quotes.ts[quote as usize]);
        println!("the trade at {trade} is matched with the quote at {quote}");
    }
    assert_eq!(found, [(0, 0), (0, 1), (2, 3)]);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("this example never stops the driver");
}
