//! Rolling windows of tables and streams must agree with a loop over all rows before each row.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate::query::aggregate::{Aggregate, Function};
use tidegate::stream::{self, AggregateOptions, Operator};
use tidegate::{
    Closed, Driver, How, JoinOptions, PartnerAggregation, PartnerJoin, Result, RollingSize,
    RollingWindows, Stop, Table,
};

use crate::aggregates::{Counted, exact};
use crate::draw::Draw;
use crate::joins::{late, used};
use crate::oracle::Side;
use crate::play::{self, Way};
use crate::rows::{Layout, assert_same, batch_of, concat};

/// The length of a window: nanoseconds or steps, or a number of rows.
#[derive(Clone, Copy, Debug)]
enum Size {
    Time(i128),
    Rows(usize),
}

/// Rolling windows of sources that share a layout.
#[derive(Debug)]
struct Query {
    layout: Layout,
    size: Size,
    closed: Closed,
    keys: usize,
    aggregates: Vec<Counted>,
}

impl Query {
    fn draw(draw: &mut Draw<'_>) -> Self {
        let mut layout = Layout::draw(draw);
        layout.is_extreme = false;
        let size = match draw.flip() {
            true => Size::Rows(draw.number(1, 6) as usize),
            false => Size::Time(draw.signed(1, 8) * layout.tick()),
        };
        Query {
            layout,
            size,
            closed: draw.pick(&[Closed::Right, Closed::Left, Closed::Both, Closed::Neither]),
            keys: draw.number(0, 2) as usize,
            aggregates: (0..draw.number(1, 4)).map(|_| Query::aggregate(draw)).collect(),
        }
    }

    fn aggregate(draw: &mut Draw<'_>) -> Counted {
        let drawn = Counted::draw(draw);
        // Rolling windows do not weight values by time.
        match drawn.function {
            Function::TimeWeightedMean => Counted { function: Function::Mean, ..drawn },
            _ => drawn,
        }
    }

    fn asked(&self, draw: &mut Draw<'_>) -> PartnerAggregation {
        let rolling = RollingWindows {
            on: "ts".to_owned(),
            size: match self.size {
                Size::Time(size) => RollingSize::Time(self.layout.bound(size)),
                Size::Rows(rows) => RollingSize::Rows(rows as u64),
            },
            closed: self.closed,
            options: JoinOptions {
                by: ["k", "g"].iter().take(self.keys).map(|key| pair(key)).collect(),
                predicate: None,
                how: How::Semi,
                suffix: String::new(),
                columns: Some(vec!["id".to_owned()]),
                threads: draw.pick(&[1, 1, 2, 3]),
                max_rows: None,
                batch_rows: None,
            },
        };
        let named = self.aggregates.iter().enumerate();
        let aggregates: Vec<Aggregate> = named.map(|(nth, one)| one.aggregate(nth)).collect();
        PartnerAggregation::new(PartnerJoin::Rolling(rolling), aggregates, How::Left)
            .expect("valid rolling windows")
    }

    fn of_table(&self, rows: &RecordBatch, draw: &mut Draw<'_>) -> RecordBatch {
        let query = self.asked(draw);
        let driver = Driver::new(1, Stop::default());
        let run = || -> Result<RecordBatch> {
            let table = Table::new("table", rows.schema(), vec![rows.clone()], &driver)?;
            let result = query.start(&table, &table, Stop::default())?;
            let schema = result.schema().clone();
            Ok(concat(&schema, &result.read_all()?))
        };
        run().unwrap_or_else(|error| panic!("{error:?}; {self:#?}"))
    }

    fn stream(
        &self,
        schema: &SchemaRef,
        sources: usize,
        lateness: i128,
        draw: &mut Draw<'_>,
    ) -> Result<Operator> {
        let options = AggregateOptions {
            sources,
            lateness: self.layout.lateness(lateness),
            memory_limit: None,
        };
        stream::rolling(&self.asked(draw), schema.clone(), &options)
    }

    /// Returns the rows in the window of each row. `all` is in merged order.
    fn windows(&self, all: &Side) -> Vec<Vec<usize>> {
        let (ts, keys) = (&all.rows.ts, &all.rows.keys);
        let are_equal = |a: usize, b: usize| keys[a][..self.keys] == keys[b][..self.keys];
        let has_start = matches!(self.closed, Closed::Left | Closed::Both);
        let has_end = matches!(self.closed, Closed::Right | Closed::Both);
        let of_row = |row: usize| -> Vec<usize> {
            let own = (0..ts.len()).filter(|&other| are_equal(other, row));
            match self.size {
                Size::Time(size) => own
                    .filter(|&other| {
                        let age = ts[row] - ts[other];
                        (0 < age || has_end && age == 0) && (age < size || has_start && age == size)
                    })
                    .collect(),
                Size::Rows(rows) => {
                    let mut found: Vec<usize> =
                        own.take_while(|&other| other < row + usize::from(has_end)).collect();
                    // A window that excludes its start has one row fewer, unless it has its end.
                    let most = match self.closed {
                        Closed::Right | Closed::Left => rows,
                        Closed::Both => rows + 1,
                        Closed::Neither => rows - 1,
                    };
                    found.drain(..found.len().saturating_sub(most));
                    found
                }
            }
        };
        (0..ts.len()).map(of_row).collect()
    }
}

fn pair(key: &str) -> (String, String) {
    (key.to_owned(), key.to_owned())
}

/// Draws rolling windows and sources, computes them in several ways and compares the results.
pub(crate) fn rolling(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let draw = &mut draw;
    let query = Query::draw(draw);
    let count = draw.pick(&[6, 0, 1, 14, 30]);
    let rows = query.layout.rows(draw, 0, count);
    let (sources, tick) = (draw.number(1, 3) as usize, query.layout.tick());
    let lateness = draw.signed(0, 3) * tick;
    let feeds = play::feeds(draw, &rows, sources, lateness, (query.layout.steps()[0], tick));
    let turns = play::turns(draw, &feeds);

    let all = in_merged_order(&used(&feeds, 0));
    let whole = query.of_table(&all.rows.batch, draw);
    assert_same(&query.of_table(&all.rows.batch, draw), &whole, &query);
    against_oracle(&query, &whole, &all);

    let schema = rows.batch.schema();
    let mut states = Vec::new();
    for way in Way::all(draw) {
        let mut make = || query.stream(&schema, sources, lateness, draw);
        let found = play::play(&feeds, &turns, way, &mut make);
        let found = found.unwrap_or_else(|error| panic!("{error:?}; {way:?}; {query:#?}"));
        assert_same(&found.rows, &whole, &query);
        assert_eq!(found.late, late(&feeds), "{query:#?}");
        states.push(found.states);
    }
    assert!(states[0] == states[1], "equal histories must yield equal bytes: {query:#?}");
}

/// Returns the rows as one source in merged order.
fn in_merged_order(all: &Side) -> Side {
    let mut order: Vec<usize> = (0..all.rows.len()).collect();
    order.sort_by_key(|&row| all.places[row]);
    Side::of_table(all.rows.take(&order), 0)
}

/// Panics unless all exact aggregates agree with those computed from all rows of each window.
fn against_oracle(query: &Query, found: &RecordBatch, all: &Side) {
    let windows = query.windows(all);
    let ids = all.rows.batch.column_by_name("id").expect("a column").clone();
    let (mut places, mut columns) = (vec![0], vec![("id".to_owned(), ids)]);
    for (nth, one) in query.aggregates.iter().enumerate() {
        let counted: Vec<Vec<usize>> = windows.iter().map(|rows| one.counted(rows, all)).collect();
        if let Some(wanted) = exact(&one.function, one.column, &counted, all) {
            columns.push((format!("a{nth}"), wanted));
            places.push(1 + nth);
        }
    }
    let found = found.project(&places).expect("columns of the result");
    assert_same(&found, &batch_of(columns, all.rows.len()), query);
}
