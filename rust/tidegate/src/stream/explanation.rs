//! The text of `explain` for a streaming join.

use super::intake::rows::ROW_BYTES;
use super::memory::Memory;
use super::options::StreamOptions;

/// Describes how a streaming join finds its pairs.
pub(super) struct Method<'a> {
    pub(super) algorithm: &'a str,
    pub(super) index: &'a str,
    pub(super) threads: usize,
    /// The number of bytes kept per row in addition to those that every join keeps.
    pub(super) row_bytes: usize,
    /// True if a pair is emitted as soon as both of its rows have been pushed.
    pub(super) is_eager: bool,
}

/// Describes an operator, except for its memory limit, which can change.
#[derive(Debug)]
pub(super) struct Explanation {
    /// The last line describes the memory use.
    pub(super) lines: Vec<String>,
    pub(super) output: String,
}

impl Explanation {
    pub(super) fn text(&self, memory: &Memory) -> String {
        format!("{}; {}\n{}", self.lines.join("\n"), memory.describe(), self.output)
    }
}

/// Explains a streaming join. The first lines describe which pairs match; `result_columns` is the
/// number of columns in the result.
pub(super) fn explain(
    mut lines: Vec<String>,
    method: &Method<'_>,
    result_columns: usize,
    options: &StreamOptions,
) -> Explanation {
    let Method { algorithm, index, threads, row_bytes, is_eager } = *method;
    let row_bytes = ROW_BYTES + row_bytes;
    let order = match (options.ordered, is_eager) {
        (true, _) => {
            "a pair at the position of its later row, once no source can deliver an earlier row"
        }
        (false, true) => "a pair in the first poll after both of its rows were pushed",
        (false, false) => "in any order, once no source can deliver an earlier row",
    };
    let pinned = if options.pin { ", each pinned to one processor" } else { "" };
    lines.extend([
        format!("  sources    {} left, {} right", options.sources.0, options.sources.1),
        format!("  algorithm  {algorithm}"),
        format!("  index      {index}"),
        format!("  threads    {threads}{pinned}"),
        format!(
            "  memory     rows until none can match them any more, plus {row_bytes} bytes per row"
        ),
    ]);
    Explanation { lines, output: format!("  output     {result_columns} columns, {order}") }
}
