//! The rivals in PPOIJ's paper: SplitJoin, and the buffers of Scale-OIJ, which threads share.
//!
//! Both give a row's pairs in any order, which is less work than the join of this crate does.

use std::collections::VecDeque;
use std::sync::{Mutex, RwLock};

use tidegate_operators::driver::Driver;
use tidegate_operators::rows::Side;

use crate::System;
use crate::workload::Epoch;

/// Neighbouring rows that a thread takes at a time.
const TAKEN: usize = 256;

/// Rows of each key, of the left and of the right side: time and number.
#[derive(Default)]
struct Window(Vec<[VecDeque<(i64, u32)>; 2]>);

impl Window {
    fn new(keys: usize) -> Self {
        Window((0..keys).map(|_| Default::default()).collect())
    }

    /// Drops the rows of a buffer that nothing from `ts` on matches.
    fn drop_old(&mut self, key: u32, side: Side, oldest: i64) {
        let rows = &mut self.0[key as usize][side as usize];
        while rows.front().is_some_and(|&(ts, _)| ts < oldest) {
            rows.pop_front();
        }
    }

    fn push(&mut self, row: &Row) {
        self.0[row.key as usize][row.side as usize].push_back((row.ts, row.number));
    }

    /// Adds the pairs of a row with rows of the other side that came before it.
    fn find(&self, row: &Row, reach: i64, pairs: &mut Vec<(u32, u32)>) {
        let others = &self.0[row.key as usize][row.side.other() as usize];
        let first = others.partition_point(|&(ts, _)| ts < row.ts - reach);
        let earlier = others.range(first..).take_while(|&&(_, number)| number < row.number);
        pairs.extend(earlier.map(|&(_, number)| (row.number, number)));
    }
}

/// A row, numbered in merged order.
struct Row {
    ts: i64,
    side: Side,
    key: u32,
    number: u32,
}

/// The rows of an epoch, of which the first has the number `first`.
fn rows(epoch: &Epoch, first: u32) -> Vec<Row> {
    let mut keys = epoch.keys.each_ref().map(|keys| keys.iter());
    let row = |((&ts, &side), number)| {
        let key = *keys[side as usize].next().expect("a key a row");
        Row { ts, side, key, number }
    };
    epoch.ts.iter().zip(&epoch.sides).zip(first..).map(row).collect()
}

/// SplitJoin: all rows go to all threads, each of which stores every so many-th in a window of its
/// own.
pub(crate) fn split_join(keys: usize, reach: i64, driver: &Driver) -> System {
    let driver = driver.clone();
    let threads = driver.threads();
    let mut windows: Vec<Window> = (0..threads).map(|_| Window::new(keys)).collect();
    let mut first = 0;
    Box::new(move |epoch| {
        let rows = rows(epoch, first);
        first += rows.len() as u32;
        let work = |(me, window): (usize, &mut Window)| {
            let mut pairs = Vec::new();
            for row in &rows {
                window.drop_old(row.key, row.side.other(), row.ts - reach);
                window.find(row, reach, &mut pairs);
                if row.number as usize % threads == me {
                    window.push(row);
                }
            }
            pairs.len()
        };
        let found = driver.within(|| driver.map(windows.iter_mut().enumerate().collect(), work));
        found.expect("nothing stops it").into_iter().sum()
    })
}

/// Scale-OIJ's sharing: a row goes to one thread, whichever is free, which stores it in buffers of
/// its own and looks into those of all. Rows of an epoch are stored before any is looked for, so
/// that no pair is missed.
pub(crate) fn shared_buffers(keys: usize, reach: i64, driver: &Driver) -> System {
    let driver = driver.clone();
    let windows: Vec<RwLock<Window>> =
        (0..driver.threads()).map(|_| RwLock::new(Window::new(keys))).collect();
    let mut first = 0;
    Box::new(move |epoch| {
        let rows = rows(epoch, first);
        first += rows.len() as u32;
        let store = |next: &Mutex<std::slice::Chunks<'_, Row>>, window: &RwLock<Window>| {
            let mut window = window.write().expect("nobody panics");
            // The lock is held no longer than that.
            let take = || next.lock().expect("nobody panics").next();
            while let Some(taken) = take() {
                for row in taken {
                    // What is too old for the epoch.
                    window.drop_old(row.key, row.side, epoch.ts[0] - reach);
                    window.push(row);
                }
            }
        };
        let find = |taken: &[Row]| {
            let windows: Vec<_> =
                windows.iter().map(|window| window.read().expect("nobody panics")).collect();
            let mut pairs = Vec::new();
            taken.iter().for_each(|row| {
                windows.iter().for_each(|window| window.find(row, reach, &mut pairs))
            });
            pairs.len()
        };
        driver.within(|| {
            let next = Mutex::new(rows.chunks(TAKEN));
            driver
                .map(windows.iter().collect(), |window| store(&next, window))
                .expect("nothing stops it");
            driver
                .map(rows.chunks(TAKEN).collect(), find)
                .expect("nothing stops it")
                .into_iter()
                .sum()
        })
    })
}
