//! Measurements, their predictions, and the errors of these.
//!
//! Errors are relative to the measured time, and summarised by medians: sizes span many powers of ten, and a few of
//! them lie where a library changes its protocol, which no other size predicts.

use super::noise::Noise;
use super::topology::Topology;
use polyshard_machine::{Collective, Machine, median};
use polyshard_runtime::Result;
use serde::{Serialize, Serializer};
use std::fmt;

/// A timed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeasuredCall {
    /// Messages between neighbours of the level of this name, all ranks at once (MPI 3.1, section 3.10).
    Message(&'static str),
    /// A collective.
    Collective(Collective),
}

impl fmt::Display for MeasuredCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(level) => write!(f, "message to next {level}"),
            Self::Collective(operation) => operation.fmt(f),
        }
    }
}

impl Serialize for MeasuredCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One measurement and its predictions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The timed call.
    pub call: MeasuredCall,
    /// The ranks of a group. If the world has more, all groups of this many neighbours made the call at once.
    pub ranks: usize,
    /// The size in bytes, as in [`MeasureOptions::sizes`](super::MeasureOptions::sizes).
    pub bytes: usize,
    /// Seconds of the slowest rank, in the fastest of the rounds.
    pub seconds: f64,
    /// The seconds that latencies and bandwidths alone predict.
    pub links: f64,
    /// The seconds predicted by a machine that was not fitted to this measurement.
    pub predicted: f64,
}

impl Point {
    /// Returns the error of the prediction, as a part of the measured seconds, never negative.
    #[must_use]
    pub fn error(&self) -> f64 {
        (self.predicted / self.seconds - 1.0).abs()
    }

    /// Returns the error of the links' prediction, as [`error`](Self::error).
    #[must_use]
    pub fn links_error(&self) -> f64 {
        (self.links / self.seconds - 1.0).abs()
    }
}

/// Median errors of the predictions of one call, or of several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The predicted call.
    pub call: String,
    /// The ranks of a group.
    pub ranks: usize,
    /// The number of measurements.
    pub points: usize,
    /// The median of [`Point::links_error`].
    pub links: f64,
    /// The median of [`Point::error`].
    pub predicted: f64,
}

/// A machine, and the measurements that it was fitted to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The machine, with profiles of all collectives in groups of each number of ranks that divides its own.
    pub machine: Machine,
    /// The nodes and ranks.
    pub topology: Topology,
    /// The measurements, in the order of calls, groups and sizes.
    pub points: Vec<Point>,
    /// Disturbance by other work.
    pub noise: Noise,
}

impl Measured {
    /// Returns the median errors by call and group size, and last those of all collectives of each group size.
    #[must_use]
    pub fn errors(&self) -> Vec<Row> {
        let row = |call: String, points: &[&Point]| {
            let median_of = |error: fn(&Point) -> f64| median(points.iter().map(|point| error(point)).collect());
            let [links, predicted] = [Point::links_error, Point::error].map(|error| median_of(error).unwrap_or(0.0));
            Row { call, ranks: points[0].ranks, points: points.len(), links, predicted }
        };
        let all: Vec<&Point> = self.points.iter().collect();
        let same = all.chunk_by(|left, right| (left.call, left.ranks) == (right.call, right.ranks));
        let mut rows: Vec<Row> = same.map(|of| row(of[0].call.to_string(), of)).collect();
        let collectives: Vec<&Point> =
            all.into_iter().filter(|point| matches!(point.call, MeasuredCall::Collective(_))).collect();
        // The points are ordered by group size, so points of one size are adjacent.
        let groups = collectives.chunk_by(|left, right| left.ranks == right.ranks);
        rows.extend(groups.map(|of| row("all collectives".into(), of)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Watch;

    #[test]
    fn errors_are_medians_by_call_and_group() {
        let point = |call, ranks, predicted| Point { call, ranks, bytes: 8, seconds: 1.0, links: 3.0, predicted };
        let (message, gather) = (MeasuredCall::Message("rank"), MeasuredCall::Collective(Collective::AllGather));
        let points = [(message, 4, 9.0), (gather, 4, 1.5), (gather, 4, 0.75), (gather, 4, 2.0), (gather, 2, 1.0)];
        let points = points.map(|(call, ranks, predicted)| point(call, ranks, predicted)).to_vec();
        let topology = Topology { nodes: 1, ranks_per_node: 4, cores: 2, memory: 1 << 20 };
        let Ok(machine) = Machine::preset("a100") else { panic!("`a100` is a preset") };
        let noise = Noise::new(&topology, &Watch::new(None), &[]);
        let rows = Measured { machine, topology, points, noise }.errors();
        let rows: Vec<_> =
            rows.iter().map(|row| (&*row.call, row.ranks, row.points, row.links, row.predicted)).collect();
        let expected = [
            ("message to next rank", 4, 1, 2.0, 8.0),
            ("AllGather", 4, 3, 2.0, 0.5),
            ("AllGather", 2, 1, 2.0, 0.0),
            ("all collectives", 4, 3, 2.0, 0.5),
            ("all collectives", 2, 1, 2.0, 0.0),
        ];
        assert_eq!(rows, expected);
    }
}
