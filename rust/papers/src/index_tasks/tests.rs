//! Compares tasks with a loop over all pairs. The tasks run on threads, and also step by step in
//! orders that no scheduler would choose.

use proptest::prelude::*;
use tidegate_structures::index::Probe;
use tidegate_sync::Stop;

use super::*;
use tidegate_operators::driver::Driver;

/// The side and key of each row, in order of arrival. There are one or two sides.
type Rows = Vec<(usize, Option<i64>)>;

/// Creates the tasks for rows that arrive after `came` rows on each side. A row searches for keys
/// that differ from its own key by at most `within`.
fn tasks(
    rows: &[(usize, Option<i64>)],
    sides: usize,
    came: &mut [u32],
    window: u32,
    within: i64,
) -> Vec<TaskRow> {
    rows.iter()
        .map(|&(side, key)| {
            let other = if sides == 1 { 0 } else { 1 - side };
            let number = came[side];
            came[side] += 1;
            let to = if sides == 1 { number } else { came[other] };
            let middle = key.unwrap_or(0);
            let probe = Probe {
                low: middle.saturating_sub(within),
                high: middle.saturating_add(within),
                from: to.saturating_sub(window),
                to,
            };
            TaskRow { side, other, number, key, probe }
        })
        .collect()
}

/// Returns the matches of each row.
fn oracle(rows: &[TaskRow]) -> Vec<Vec<u32>> {
    let matches = |nth: usize, row: &TaskRow| {
        let earlier = rows[..nth]
            .iter()
            .filter(|other| other.side == row.other && row.probe.takes(other.number));
        let close = |key: &TaskRow| {
            key.key.is_some_and(|key| (row.probe.low..=row.probe.high).contains(&key))
        };
        let numbers = earlier.filter(|other| close(other)).map(|other| other.number);
        if row.key.is_some() { numbers.collect() } else { Vec::new() }
    };
    rows.iter().enumerate().map(|(nth, row)| matches(nth, row)).collect()
}

fn options() -> impl Strategy<Value = TaskOptions> {
    let ratio = prop_oneof![Just(1e-9), Just(0.3), Just(1.0)];
    let depth = prop_oneof![Just(None), Just(Some(0)), Just(Some(1)), Just(Some(2))];
    let pim_tree =
        (ratio, depth, any::<bool>()).prop_map(|(merge_ratio, insertion_depth, is_blocking)| {
            TaskIndex::PimTree(MergeOptions { merge_ratio, insertion_depth, is_blocking })
        });
    let index = prop_oneof![pim_tree, Just(TaskIndex::BPlusTree)];
    (1_usize..9, index).prop_map(|(rows, index)| TaskOptions { rows, index })
}

fn rows(sides: usize) -> impl Strategy<Value = Rows> {
    let key =
        prop_oneof![9 => (-40_i64..40).prop_map(Some), 1 => Just(Some(i64::MAX)), 1 => Just(None)];
    prop::collection::vec((0..sides, key), 0..400)
}

/// Passes the rows to a join in epochs of these lengths. `run` runs the workers until all work is
/// done.
fn matches(
    rows: &[(usize, Option<i64>)],
    sides: usize,
    (window, within): (u32, i64),
    options: TaskOptions,
    epochs: &[usize],
    mut run: impl FnMut(&TaskJoin),
) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let (mut join, mut came) = (TaskJoin::new(sides, options), vec![0; sides]);
    let (mut found, mut all, mut rest) = (Vec::new(), Vec::new(), rows);
    for &len in epochs.iter().cycle() {
        let (head, tail) = rest.split_at(len.min(rest.len()));
        rest = tail;
        let rows = tasks(head, sides, &mut came, window, within);
        all.extend(rows.iter().copied());
        join.queue_up(rows);
        let upto = all.len();
        while found.len() < upto {
            // Some matches are taken before all are found.
            join.limit(60);
            run(&join);
            found.extend(join.take_matches());
        }
        if rest.is_empty() {
            break;
        }
    }
    (found, oracle(&all))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn oracle_tasks_on_threads(
        (sides, rows) in (1_usize..3).prop_flat_map(|sides| (Just(sides), rows(sides))),
        options in options(),
        window in 1_u32..200,
        within in 0_i64..20,
        epochs in prop::collection::vec(1_usize..200, 1..4),
        threads in 1_usize..5,
    ) {
        let driver = Driver::new(threads, Stop::default());
        let (found, expected) = matches(&rows, sides, (window, within), options, &epochs, |join| {
            let workers = (0..threads).map(|nth| join.worker(nth));
            take_turns(&driver, workers.map(|mut worker| move || worker.step()).collect()).unwrap();
        });
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn oracle_tasks_in_any_order_of_steps(
        (sides, rows) in (1_usize..3).prop_flat_map(|sides| (Just(sides), rows(sides))),
        options in options(),
        window in 1_u32..200,
        within in 0_i64..20,
        epochs in prop::collection::vec(1_usize..200, 1..4),
        turns in prop::collection::vec(0_usize..4, 1..60),
    ) {
        let mut turns = turns.into_iter().cycle();
        let (found, expected) = matches(&rows, sides, (window, within), options, &epochs, |join| {
            let mut workers: Vec<Worker<'_>> = (0..4).map(|nth| join.worker(nth)).collect();
            // Run the chosen worker. From time to time, run all workers, because a single one may
            // have to wait forever.
            for (nth, turn) in turns.by_ref().enumerate() {
                if workers[if nth % 50 < 40 { turn } else { nth % 4 }].step() == Turn::Finished {
                    return;
                }
            }
        });
        prop_assert_eq!(found, expected);
    }
}

/// Uses more threads than cores and merges constantly, so that rare cases occur often enough.
#[test]
#[ignore = "takes some ten seconds"]
fn stress_tasks_on_up_to_sixteen_threads() {
    for (seed, threads) in [1, 2, 3, 4, 8, 16].into_iter().cycle().take(60).enumerate() {
        let mut state = seed as u64 * 2 + 1;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let sides = 1 + seed % 2;
        let key = |random: &mut dyn FnMut(u64) -> u64| {
            if random(20) == 0 { None } else { Some(random(2000) as i64) }
        };
        let rows: Rows =
            (0..6000).map(|_| (random(sides as u64) as usize, key(&mut random))).collect();
        let merged = MergeOptions {
            merge_ratio: [1e-9, 0.1, 1.0][seed % 3],
            insertion_depth: [None, Some(1)][seed / 3 % 2],
            is_blocking: seed % 5 == 0,
        };
        let index = match seed / 2 % 3 {
            0 => TaskIndex::BPlusTree,
            _ => TaskIndex::PimTree(merged),
        };
        let options = TaskOptions { rows: 1 + seed % 8, index };
        let driver = Driver::new(threads, Stop::default());
        let (found, expected) = matches(&rows, sides, (500, 3), options, &[700, 1500], |join| {
            let workers = (0..threads).map(|nth| join.worker(nth));
            take_turns(&driver, workers.map(|mut worker| move || worker.step()).collect()).unwrap();
        });
        assert!(found == expected, "seed {seed}, {options:?}, {threads} threads");
    }
}

/// After each epoch, a B+-tree contains exactly the rows that a later row may search for.
#[test]
fn rows_that_have_left_are_removed_by_the_end_of_an_epoch() {
    const WINDOW: u32 = 50;
    for threads in [1, 3] {
        let options = TaskOptions { rows: 3, index: TaskIndex::BPlusTree };
        let mut join = TaskJoin::new(2, options);
        let (mut came, driver) = (vec![0; 2], Driver::new(threads, Stop::default()));
        for epoch in 0..20_i64 {
            let row = |nth: i64| ((nth % 2) as usize, (nth % 7 != 0).then_some(nth * 31 % 17));
            let rows: Rows = (epoch * 90..(epoch + 1) * 90).map(row).collect();
            let rows = tasks(&rows, 2, &mut came, WINDOW, 2);
            let froms = [0, 1].map(|side| {
                rows.iter().rfind(|row| row.other == side).expect("rows of both sides").probe.from
            });
            join.queue_up(rows);
            join.limit(usize::MAX);
            let workers = (0..threads).map(|nth| join.worker(nth));
            take_turns(&driver, workers.map(|mut worker| move || worker.step()).collect()).unwrap();
            for side in 0..2 {
                let index = join.queue.with(|queue| queue.sides[side].index.clone());
                let mut found = Vec::new();
                let all = Probe { low: i64::MIN, high: i64::MAX, from: 0, to: came[side] };
                let mut place = [PimPlace::default()];
                index.locate(&[all.low], &mut place);
                index.find_at(place[0], &all, &mut found);
                assert!(found.iter().all(|&row| row >= froms[side]), "{found:?}");
                assert!(found.len() > WINDOW as usize / 2, "{} rows", found.len());
            }
        }
    }
}

/// A thread can be interrupted for any length of time in the middle of its task. Meanwhile, the
/// other threads compare all rows from that task onward one by one, so they must stop taking tasks.
#[test]
fn an_interrupted_thread_does_not_make_the_others_compare_all_rows() {
    const ROWS: usize = 6000;
    let merged = TaskIndex::PimTree(MergeOptions::default());
    for index in [merged, TaskIndex::BPlusTree] {
        let options = TaskOptions { rows: 4, index };
        let mut join = TaskJoin::new(2, options);
        // No two keys are close enough to match.
        let rows: Rows = (0..ROWS).map(|nth| (nth % 2, Some(nth as i64))).collect();
        join.queue_up(tasks(&rows, 2, &mut [0; 2], ROWS as u32, 0));
        let interrupted = join.worker(0);
        let mut indexes = Indexes::default();
        let NextWork::Task(task) = join.acquire(&mut indexes) else { panic!("rows are waiting") };
        let interrupted = Worker { indexes, ..interrupted };
        let mut other = join.worker(1);
        while other.step() == Turn::Worked {}
        assert!(join.queue.with(|queue| queue.next) < ROWS, "the other worker took all tasks");
        interrupted.work(task);
        while other.step() != Turn::Finished {}
        let mut compared = [0; 2];
        for piece in join.take() {
            piece.comparisons.iter().zip(&mut compared).for_each(|(more, sum)| *sum += more);
        }
        let most = (AHEAD * 2 + 1) * options.rows * ROWS;
        assert!(compared[1] > 0 && compared.iter().sum::<u64>() < most as u64, "{compared:?}");
    }
}
