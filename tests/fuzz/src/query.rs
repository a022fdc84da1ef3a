//! Drawn joins, as a query for tidegate and as a test of single pairs for the oracle.

use arrow_array::ArrayRef;
use tidegate::columns::expression::{Expr, Origin, Predicate, parse_sql};
use tidegate::stream::{self, Operator, Parallelism, StreamOptions};
use tidegate::{
    Algorithm, BandAlgorithm, BandJoin, Closed, Distance, End, How, IndexKind, IntervalJoin, Join,
    JoinOptions, MergeOptions, OverlapJoin, Result, Sliding, Stop, Table, TaskIndex, TaskOptions,
    Window, WindowJoin, Within,
};

use crate::draw::Draw;
use crate::rows::{Layout, Number, Rows, pick};

/// The relation between matching rows, in addition to keys and the condition.
#[derive(Clone, Debug)]
pub(crate) enum Relation {
    Interval { lower: Option<i128>, upper: Option<i128>, closed: Closed },
    Window(Windows),
    Band { below: Option<i128>, above: Option<i128>, windows: Option<Windows> },
    Overlap { closed: Closed, least: Option<i128> },
}

/// The retention of each side, in nanoseconds or steps, or in rows of that side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Windows {
    Time(i128, i128),
    Rows(usize, usize),
}

/// A join of two tables or streams.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) layout: Layout,
    pub(crate) relation: Relation,
    /// The number of columns, `k` and then `g`, that must be equal.
    pub(crate) keys: usize,
    pub(crate) condition: Option<Expr>,
    pub(crate) how: How,
    /// Whether the result contains only the row numbers.
    pub(crate) is_narrow: bool,
}

const EXTREMES: [i128; 7] = [-(1 << 63), -(1 << 63) + 1, -1, 0, 1, (1 << 63) - 2, (1 << 63) - 1];

impl Query {
    pub(crate) fn draw(draw: &mut Draw<'_>) -> Self {
        let layout = Layout::draw(draw);
        let relation = match draw.number(0, 4) {
            0 | 1 => interval(&layout, draw),
            2 => Relation::Window(windows(&layout, draw)),
            other => {
                let end = |draw: &mut Draw<'_>| (!draw.once_in(6)).then(|| draw.signed(0, 3));
                let (below, above) = (end(draw), end(draw));
                // A band that is unbounded on both ends is refused.
                let below = below.or((above.is_none()).then_some(1));
                Relation::Band {
                    below,
                    above,
                    windows: (other == 4).then(|| windows(&layout, draw)),
                }
            }
        };
        Query::with(layout, relation, draw)
    }

    /// Draws a join of rows with intervals.
    pub(crate) fn draw_overlap(draw: &mut Draw<'_>) -> Self {
        let layout = Layout::draw_with_spans(draw);
        let least = match layout.is_extreme {
            true => draw.pick(&[0, 1, (1 << 63) - 2, (1 << 63) - 1]),
            // Lengths may lie between two steps, if a step is longer than 1.
            false => draw.signed(0, 5) * (layout.tick() / 2).max(1),
        };
        let relation = Relation::Overlap {
            closed: draw.pick(&[Closed::Both, Closed::Left]),
            least: draw.flip().then_some(least),
        };
        Query::with(layout, relation, draw)
    }

    fn with(layout: Layout, relation: Relation, draw: &mut Draw<'_>) -> Self {
        let mut query = Query {
            layout,
            relation,
            keys: draw.number(0, 2) as usize,
            condition: None,
            how: draw.pick(&[How::Inner, How::Left, How::Right, How::Full, How::Semi, How::Anti]),
            is_narrow: draw.once_in(4),
        };
        if draw.flip() {
            let text = condition(draw, 3);
            let rows = [0, 1].map(|side| query.layout.rows(draw, side, 0).batch.schema());
            // Some combinations of types are refused.
            query.condition = parse_sql(&text)
                .ok()
                .filter(|condition| Predicate::bind(condition, &rows[0], &rows[1]).is_ok());
        }
        query
    }

    pub(crate) fn options(&self, threads: usize, batch_rows: Option<usize>) -> JoinOptions {
        let names = ["k", "g"].iter().take(self.keys);
        let columns = if self.how.pairs() { vec!["id", "id_right"] } else { vec!["id"] };
        JoinOptions {
            by: names.map(|name| (name.to_string(), name.to_string())).collect(),
            predicate: self.condition.clone(),
            how: self.how,
            suffix: "_right".to_owned(),
            columns: self.is_narrow.then(|| columns.into_iter().map(str::to_owned).collect()),
            threads,
            max_rows: None,
            batch_rows,
        }
    }

    fn sides(&self, windows: Windows) -> (Window, Window) {
        match windows {
            Windows::Time(left, right) => {
                (Window::Time(self.layout.bound(left)), Window::Time(self.layout.bound(right)))
            }
            Windows::Rows(left, right) => (Window::Rows(left), Window::Rows(right)),
        }
    }

    /// Starts the join of two tables with a drawn algorithm.
    pub(crate) fn start(
        &self,
        left: &Table,
        right: &Table,
        threads: usize,
        draw: &mut Draw<'_>,
    ) -> Result<Join> {
        let batch_rows = draw.once_in(3).then(|| draw.number(1, 9) as usize);
        let options = self.options(threads, batch_rows);
        match self.ask(draw, options, false) {
            JoinRequest::Interval(join, _) => join.start(left, right, Stop::default()),
            JoinRequest::Window(join) => join.start(left, right, Stop::default()),
            JoinRequest::Band(join) => join.start(left, right, Stop::default()),
            JoinRequest::Overlap(join) => join.start(left, right, Stop::default()),
        }
    }

    /// Creates the join of streams with a drawn algorithm.
    pub(crate) fn stream(
        &self,
        threads: usize,
        options: &StreamOptions,
        draw: &mut Draw<'_>,
    ) -> Result<Operator> {
        let [left, right] = [0, 1].map(|side| self.layout.rows(draw, side, 0).batch.schema());
        match self.ask(draw, self.options(threads, None), true) {
            JoinRequest::Interval(join, parallelism) => {
                // An unordered result leaves the choice of parallelism to the operator.
                let parallelism = if options.ordered { parallelism } else { Parallelism::Auto };
                stream::interval_join(&join, parallelism, None, None, left, right, options)
            }
            JoinRequest::Window(join) => stream::window_join(&join, left, right, options),
            JoinRequest::Band(join) => stream::band_join(&join, left, right, options),
            JoinRequest::Overlap(_) => unreachable!("rows with intervals are joined as tables"),
        }
    }

    fn ask(&self, draw: &mut Draw<'_>, options: JoinOptions, streaming: bool) -> JoinRequest {
        let on = ("ts".to_owned(), "at".to_owned());
        match &self.relation {
            Relation::Interval { lower, upper, closed } => {
                let [lower, upper] =
                    [lower, upper].map(|end| end.map(|end| End::Fixed(self.layout.bound(end))));
                let all = [
                    Parallelism::Auto,
                    Parallelism::Key,
                    Parallelism::Data,
                    Parallelism::Hybrid,
                    Parallelism::ScaleOij,
                ];
                JoinRequest::Interval(
                    IntervalJoin {
                        on,
                        lower,
                        upper,
                        closed: *closed,
                        open_ends: false,
                        limit: None,
                        options,
                    },
                    draw.pick(&all),
                )
            }
            Relation::Window(windows) => {
                let all = [
                    None,
                    Some(Algorithm::ScaleJoin),
                    Some(Algorithm::ScaleGates),
                    Some(Algorithm::SplitJoin),
                    Some(Algorithm::Cell),
                    Some(Algorithm::ThreeStep),
                    Some(Algorithm::Handshake),
                    Some(Algorithm::LowLatencyHandshake),
                ];
                JoinRequest::Window(WindowJoin {
                    on,
                    window: self.sides(*windows),
                    algorithm: draw.pick(&all),
                    options,
                })
            }
            Relation::Band { below, above, windows } => {
                let [below, above] = [below, above].map(|end| end.map(|end| self.distance(end)));
                let tasks =
                    |index| BandAlgorithm::Tasks(TaskOptions { index, ..TaskOptions::default() });
                let blocking = MergeOptions { is_blocking: true, ..MergeOptions::default() };
                let all = [
                    BandAlgorithm::Auto,
                    BandAlgorithm::Buckets,
                    BandAlgorithm::Index(IndexKind::PIM_TREE),
                    BandAlgorithm::Index(IndexKind::IM_TREE),
                    BandAlgorithm::Index(IndexKind::BPlusTree),
                    BandAlgorithm::Index(IndexKind::B_CHAIN),
                    BandAlgorithm::Index(IndexKind::IB_CHAIN),
                    BandAlgorithm::Partitions(options.threads),
                    BandAlgorithm::Tasks(TaskOptions::default()),
                    tasks(TaskIndex::PimTree(blocking)),
                    tasks(TaskIndex::BPlusTree),
                    BandAlgorithm::Sort,
                ];
                let all = if streaming { &all[..all.len() - 1] } else { &all };
                JoinRequest::Band(BandJoin {
                    on: vec![("x".to_owned(), "x".to_owned())],
                    within: vec![Within { below, above }],
                    sliding: windows
                        .map(|windows| Sliding { time: on, window: self.sides(windows) }),
                    algorithm: draw.pick(all),
                    options,
                })
            }
            Relation::Overlap { .. } => JoinRequest::Overlap(self.overlap_join(options)),
        }
    }

    /// An overlap join.
    pub(crate) fn overlap_join(&self, options: JoinOptions) -> OverlapJoin {
        let Relation::Overlap { closed, least } = self.relation else {
            unreachable!("the query of an overlap join")
        };
        let names = || ("from".to_owned(), "to".to_owned());
        let min_overlap = least.map(|least| self.layout.bound(least));
        OverlapJoin { on: [names(), names()], closed, open_ends: false, min_overlap, options }
    }

    /// Creates a distance; between floats it is in tenths, which makes rounding visible.
    fn distance(&self, distance: i128) -> Distance {
        match self.layout.value.is_floating() {
            true => Distance::Float(distance as f64 / 10.0),
            false => Distance::Whole(distance),
        }
    }

    /// Returns whether two rows have equal keys and, in a band join, values that are close.
    pub(crate) fn are_equal(&self, left: &Rows, l: usize, right: &Rows, r: usize) -> bool {
        let of_keys = (0..self.keys)
            .all(|key| left.keys[l][key].is_some() && left.keys[l][key] == right.keys[r][key]);
        let Relation::Band { below, above, .. } = self.relation else { return of_keys };
        let close = match (left.values[l], right.values[r]) {
            (Some(Number::Whole(l)), Some(Number::Whole(r))) => {
                below.is_none_or(|below| l - r <= below) && above.is_none_or(|above| r - l <= above)
            }
            (Some(Number::Float(l)), Some(Number::Float(r))) => {
                let within = |distance: f64, most: Option<i128>| {
                    most.map_or(!distance.is_nan(), |most| distance <= most as f64 / 10.0)
                };
                within(l - r, below) && within(r - l, above)
            }
            _ => false,
        };
        of_keys && close
    }

    /// Returns which of these pairs meet the condition.
    pub(crate) fn keep(
        &self,
        left: &Rows,
        right: &Rows,
        pairs: &[(usize, usize)],
    ) -> Result<Vec<bool>> {
        let Some(condition) = &self.condition else { return Ok(vec![true; pairs.len()]) };
        let predicate = Predicate::bind(condition, &left.batch.schema(), &right.batch.schema())?;
        let columns = |side: Origin,
                       rows: &Rows,
                       places: &dyn Fn(&(usize, usize)) -> usize|
         -> Vec<ArrayRef> {
            let column = |&at: &usize| {
                pick(rows.batch.column(at), pairs.iter().map(|pair| Some(places(pair))))
            };
            predicate.columns(side).iter().map(column).collect()
        };
        let (of_left, of_right) = (
            columns(Origin::Left, left, &|pair| pair.0),
            columns(Origin::Right, right, &|pair| pair.1),
        );
        Ok(predicate.evaluate(&of_left, &of_right, pairs.len())?.iter().collect())
    }
}

/// A join, as it is passed to tidegate.
enum JoinRequest {
    Interval(IntervalJoin, Parallelism),
    Window(WindowJoin),
    Band(BandJoin),
    Overlap(OverlapJoin),
}

fn interval(layout: &Layout, draw: &mut Draw<'_>) -> Relation {
    let end = |draw: &mut Draw<'_>| {
        // Lengths may lie between two steps, if a step is longer than 1.
        let half = layout.tick() / 2;
        let length =
            if layout.is_extreme { draw.pick(&EXTREMES) } else { draw.signed(-3, 4) * half.max(1) };
        (!draw.once_in(8)).then_some(length)
    };
    let (mut lower, mut upper) = (end(draw), end(draw));
    if let (Some(low), Some(high)) = (&mut lower, &mut upper)
        && low > high
    {
        std::mem::swap(low, high);
    }
    let closed = draw.pick(&[Closed::Both, Closed::Left, Closed::Right, Closed::Neither]);
    Relation::Interval { lower, upper, closed }
}

fn windows(layout: &Layout, draw: &mut Draw<'_>) -> Windows {
    match draw.flip() {
        true => Windows::Time(draw.signed(0, 4) * layout.tick(), draw.signed(0, 4) * layout.tick()),
        false => Windows::Rows(draw.number(1, 5) as usize, draw.number(1, 5) as usize),
    }
}

/// Draws a condition in SQL.
fn condition(draw: &mut Draw<'_>, depth: u32) -> String {
    const COMPARED: [&str; 6] = ["=", "!=", "<", "<=", ">", ">="];
    let side = |draw: &mut Draw<'_>| draw.pick(&["left", "right"]);
    match draw.number(0, if depth > 0 { 9 } else { 6 }) {
        0 | 1 => format!("{} {} {}", number(draw, 2), draw.pick(&COMPARED), number(draw, 2)),
        2 => format!("{} BETWEEN {} AND {}", number(draw, 1), number(draw, 1), number(draw, 1)),
        3 => format!("left.s {} right.s", draw.pick(&COMPARED)),
        4 => format!(
            "{}.s {}",
            side(draw),
            draw.pick(&["LIKE 'a%'", "= 'ab'", "IS NULL", "IN ('', 'b')", "REGEXP '^a'"])
        ),
        5 => format!("{}.g {}", side(draw), draw.pick(&["= TRUE", "IS NOT NULL", "!= left.g"])),
        6 => format!("{}.x {}", side(draw), draw.pick(&["IS NULL", "IN (0, 1, 5)", "IS NOT NULL"])),
        7 => format!("NOT ({})", condition(draw, depth - 1)),
        8 => format!("({}) AND ({})", condition(draw, depth - 1), condition(draw, depth - 1)),
        _ => format!("({}) OR ({})", condition(draw, depth - 1), condition(draw, depth - 1)),
    }
}

fn number(draw: &mut Draw<'_>, depth: u32) -> String {
    match draw.number(0, if depth > 0 { 7 } else { 3 }) {
        0 => "left.x".to_owned(),
        1 => "right.x".to_owned(),
        2 => format!("{}.id", draw.pick(&["left", "right"])),
        3 => draw.pick(&["0", "1", "-2", "0.3", "7"]).to_owned(),
        4 => format!("({} + {})", number(draw, depth - 1), number(draw, depth - 1)),
        5 => format!("({} - {})", number(draw, depth - 1), number(draw, depth - 1)),
        6 => format!("abs({})", number(draw, depth - 1)),
        _ => format!(
            "({} {} {})",
            number(draw, depth - 1),
            draw.pick(&["*", "/", "%"]),
            number(draw, depth - 1)
        ),
    }
}
