//! The parts that all operators with two sides share.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `rows.rs` | the ready rows on a side, from the runs of its sources |
//! | `maker.rs` | builds result batches from kept rows |
//! | `late.rs` | the late rows on both sides as one table |

pub(super) mod late;
pub(super) mod maker;
pub(super) mod rows;

use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::explanation::Explanation;
use super::intake::latency::Latency;
use super::intake::ready::Rest;
use super::intake::rows::ROW_BYTES;
use super::intake::stream::Stream;
use super::intake::{Intake, Order};
use super::lateness::Lateness;
use super::memory::Memory;
use super::options::StreamOptions;
use super::tactic::Common;
use super::times::ResultTimes;
use crate::background::lasting;
use crate::columns::faults::Faults;
use crate::columns::row_ends::Width;
use crate::columns::time::Unit;
use crate::query::identity::Identity;
use crate::{Error, Result};

/// The two sides of a join, with their schemas, time columns and common time unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides<'a> {
    pub(super) left: &'a SchemaRef,
    pub(super) right: &'a SchemaRef,
    pub(super) times: (usize, usize),
    pub(super) unit: Unit,
}

/// The parts of a join query that all operators need.
#[derive(Debug)]
pub(super) struct JoinRequest {
    pub(super) identity: Identity,
    /// The schema of the results.
    pub(super) schema: SchemaRef,
    pub(super) times: ResultTimes,
    pub(super) explanation: Explanation,
    pub(super) threads: usize,
    /// On each side, the maximum distance between a computed end and the time of its row.
    pub(super) widths: [Option<Width>; 2],
    pub(super) order: Order,
    /// The record of pairs for which the join's condition cannot be evaluated.
    pub(super) faults: Faults,
}

impl Sides<'_> {
    /// Returns the parts that all join operators share. Each row is charged `row_bytes` bytes in
    /// addition to the bytes that every operator charges for it.
    pub(super) fn common(
        self,
        request: JoinRequest,
        options: &StreamOptions,
        row_bytes: usize,
    ) -> Result<Common> {
        let stream = |schema: &SchemaRef, on, width: Option<Width>| {
            let width = width.map(Arc::new);
            Stream {
                schema: schema.clone(),
                given: None,
                on,
                unit: self.unit,
                lateness: Some(0),
                width,
                counted: None,
            }
        };
        let of_side = |side: &str, sources: usize, lateness: &Lateness, stream: Stream| {
            let steps = lateness.steps(&format!("{side} sources"), sources, self.unit)?;
            let named = (0..).zip(steps).map(|(number, lateness): (usize, i64)| {
                (
                    format!("{side} source {number}"),
                    Stream { lateness: Some(lateness), ..stream.clone() },
                )
            });
            Ok::<Vec<_>, Error>(named.collect())
        };
        let [of_left, of_right] = request.widths;
        let (lefts, rights) = options.sources;
        let left_stream = stream(self.left, self.times.0, of_left);
        let right_stream = stream(self.right, self.times.1, of_right);
        let mut streams = of_side("left", lefts, &options.lateness.0, left_stream)?;
        streams.extend(of_side("right", rights, &options.lateness.1, right_stream)?);
        let memory = Memory::new(options.memory_limit, streams.len(), false);
        Ok(Common {
            name: "join",
            schema: request.schema,
            times: request.times.unordered(options.ordered),
            query: request.identity.sources(options.sources, &options.lateness),
            explanation: request.explanation,
            intake: Intake::new(
                streams,
                memory,
                ROW_BYTES + row_bytes,
                request.order,
                Some(lefts),
            )?,
            pending: Vec::new(),
            rest: Rest::NotYet,
            ready: Default::default(),
            charges_results: false,
            recalls: false,
            driver: lasting(request.threads, options.pin)?,
            latency: Latency::default(),
            faults: request.faults,
        })
    }
}
