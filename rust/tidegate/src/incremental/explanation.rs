//! What an incremental join does, for people.

use tidegate_operators::online_join::Parallelism;

use super::interval_join::OnlineOptions;
use super::source::ROW_BYTES;
use crate::interval_join::{IntervalJoin, Plan};

/// What a join of rows as they come does with this query.
pub(super) fn explain(query: &IntervalJoin, plan: &Plan, options: &OnlineOptions) -> String {
    let algorithm = match options.parallelism {
        Parallelism::Auto => "PPOIJ, a key on one thread (KP), until one has far more to compare; then as hybrid",
        Parallelism::Key => "PPOIJ, a key on one thread (KP)",
        Parallelism::Data => "PPOIJ, each key on all threads (DP)",
        Parallelism::Hybrid => "PPOIJ, a key on as many threads as its share of the rows needs (HP)",
    };
    let limit = options.memory_limit.map_or("no limit".to_owned(), |limit| format!("at most {limit} bytes"));
    let order = if options.ordered { "a pair at the place of its later row" } else { "in any order" };
    let pinned = if options.pin { ", each on a processor of its own" } else { "" };
    let mut lines = query.describe(plan);
    lines.extend([
        format!("  sources    {} left, {} right", options.sources.0, options.sources.1),
        format!("  algorithm  {algorithm}"),
        "  index      the rows of each key and side that later rows may match, in time order".to_owned(),
        format!("  threads    {}{pinned}", query.options.threads),
        format!("  memory     rows until none can match them any more, and {ROW_BYTES} bytes each; {limit}"),
        format!("  output     {} columns, {order}", plan.join.schema.fields().len()),
    ]);
    lines.join("\n")
}
