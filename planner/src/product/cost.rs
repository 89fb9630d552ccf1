//! What steps cost: bytes and seconds of a collective, seconds of a multiplication.
//!
//! J. Austin et al., "How to Scale Your Model", part 3, Google DeepMind, 2025. `V` is the array that a group has
//! together, in bytes, on axes of `X` ranks; `w` the bytes per second of a link in one direction. A gather along
//! one axis takes the longer of its hops and its transfer:
//!
//! | wiring | hops | transfer | all-to-all |
//! | --- | --- | --- | --- |
//! | ring | `X / 2` | `V / 2w` | `V / 8w` |
//! | line | `X - 1` | `V (X - 1) / X w` | `V / 4w` |
//! | switch | `log2 X`, rounded up | `V (X - 1) / X w` | `V (X - 1) / X^2 w` in `X - 1` hops |
//!
//! A ring sends both ways, so its bandwidth is `2w`; the literature leaves out its `(X - 1) / X`, as here. On a line
//! the ends have one link, so everything passes it one way. Along several axes hops add up and so do bandwidths, but
//! no axis carries less than what must cross it. A reduce-scatter costs what a gather does, an all-reduce twice.
//! The sums themselves are not counted, and steps do not share links.

use super::Roofline;
use super::roofline::Wiring;
use super::step::ProductStep;
use polyshard_layout::{Collective, DType, Mesh, SumKind};

/// What one step, or all of a sequence, costs a device.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct StepCost {
    /// Bytes that it gets from others.
    pub bytes: u128,
    /// Seconds in which data move.
    pub communication: f64,
    /// Seconds in which it multiplies.
    pub arithmetic: f64,
    /// Bytes of memory that are taken at the same time.
    pub memory: u128,
}

impl StepCost {
    /// Returns the seconds if communication and arithmetic overlap: those of the longer.
    #[must_use]
    pub fn overlapped(&self) -> f64 {
        self.communication.max(self.arithmetic)
    }

    /// Returns the seconds if they follow each other: their sum.
    #[must_use]
    pub fn sequential(&self) -> f64 {
        self.communication + self.arithmetic
    }
}

/// The seconds that a collective takes along `axes` where a rank's tile has `before` bytes and then `after`.
pub(super) fn seconds(
    roofline: &Roofline,
    mesh: &Mesh,
    op: Collective,
    axes: &[usize],
    before: f64,
    after: f64,
) -> f64 {
    let group: f64 = axes.iter().map(|&axis| mesh.as_slice()[axis].extent as f64).product();
    match op {
        Collective::Slice => 0.0,
        Collective::AllGather => gather(roofline, mesh, axes, after),
        Collective::ReduceScatter => gather(roofline, mesh, axes, before),
        Collective::AllReduce => 2.0 * gather(roofline, mesh, axes, before),
        Collective::AllToAll => all_to_all(roofline, mesh, axes, before * group),
        _ => unreachable!("{op} in a product: this is a bug of polyshard"),
    }
}

/// The seconds in which data move in a step.
pub(super) fn communication(roofline: &Roofline, step: &ProductStep, dtype: DType) -> f64 {
    let ProductStep::Move { op, axes, from, to, .. } = step else { return 0.0 };
    let bytes = |array: &super::Sharded| array.bytes(dtype) as f64;
    seconds(roofline, from.mesh(), *op, axes, bytes(from), bytes(to))
}

/// The bytes that a device gets from others in a step.
pub(super) fn received(step: &ProductStep, dtype: DType) -> u128 {
    let ProductStep::Move { op, axes, from, to, .. } = step else { return 0 };
    let (before, after) = (from.bytes(dtype), to.bytes(dtype));
    let extents = axes.iter().map(|&axis| from.mesh().as_slice()[axis].extent as u128);
    let group: u128 = extents.product();
    match op {
        Collective::Slice => 0,
        Collective::AllGather => after - before,
        Collective::ReduceScatter | Collective::AllToAll => before - before / group,
        Collective::AllReduce => {
            let [bytes, ranks] = [before, group].map(|count| u64::try_from(count).unwrap_or(u64::MAX));
            SumKind::new(dtype, SumKind::pays_in_pieces(bytes, ranks)).most_received(bytes, ranks).into()
        }
        _ => unreachable!("{op} in a product: this is a bug of polyshard"),
    }
}

/// The seconds in which a device multiplies its tiles: those of the operations or of memory, whichever are more.
pub(super) fn arithmetic(roofline: &Roofline, step: &ProductStep, dtype: DType) -> f64 {
    let ProductStep::Multiply { left, right, out } = step else { return 0.0 };
    let bytes: u128 = [left, right, out].iter().map(|array| array.bytes(dtype)).sum();
    (flops(step) / roofline.flops).max(bytes as f64 / roofline.memory_bandwidth)
}

/// The operations of one device in a multiplication: two for each point of its tile of the loops.
pub(super) fn flops(step: &ProductStep) -> f64 {
    let ProductStep::Multiply { left, right, .. } = step else { return 0.0 };
    let tile = |array: &super::Sharded| array.tile_shape();
    let only_right = right.names().iter().zip(tile(right)).filter(|(name, _)| !left.names().contains(name));
    let points = tile(left).into_iter().chain(only_right.map(|(_, extent)| extent));
    2.0 * points.map(|extent| extent as f64).product::<f64>()
}

fn gather(roofline: &Roofline, mesh: &Mesh, axes: &[usize], bytes: f64) -> f64 {
    let group: f64 = axes.iter().map(|&axis| mesh.as_slice()[axis].extent as f64).product();
    let (mut latency, mut together, mut slowest) = (0.0, 0.0, 0.0f64);
    for &axis in axes {
        let (link, extent) = (roofline.link(mesh, axis), mesh.as_slice()[axis].extent);
        let all = extent as f64;
        // The bandwidth at which the whole of the array would seem to pass.
        let (hops, bandwidth) = match link.wiring {
            Wiring::Ring => (extent / 2, 2.0 * link.bandwidth),
            Wiring::Line => (extent - 1, link.bandwidth * all / (all - 1.0)),
            Wiring::Switch => (extent.next_power_of_two().ilog2() as usize, link.bandwidth * all / (all - 1.0)),
        };
        latency += hops as f64 * link.latency;
        together += bandwidth;
        // Ranks that differ along other axes can each bring another part across this one, and no less.
        slowest = slowest.max(bytes * all / group / bandwidth);
    }
    latency.max(bytes / together).max(slowest)
}

fn all_to_all(roofline: &Roofline, mesh: &Mesh, axes: &[usize], bytes: f64) -> f64 {
    let group: f64 = axes.iter().map(|&axis| mesh.as_slice()[axis].extent as f64).product();
    let (mut latency, mut slowest) = (0.0, 0.0f64);
    for &axis in axes {
        let (link, extent) = (roofline.link(mesh, axis), mesh.as_slice()[axis].extent);
        let all = extent as f64;
        // What the ranks of one line along this axis have together.
        let line = bytes * all / group;
        let (hops, transfer) = match link.wiring {
            Wiring::Ring => (extent / 2, line / (8.0 * link.bandwidth)),
            Wiring::Line => (extent - 1, line / (4.0 * link.bandwidth)),
            Wiring::Switch => (extent - 1, line * (all - 1.0) / (all * all * link.bandwidth)),
        };
        latency += hops as f64 * link.latency;
        slowest = slowest.max(transfer);
    }
    latency.max(slowest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::Link;

    fn roofline(wiring: Wiring) -> Roofline {
        let link = Link { wiring, bandwidth: 1e9, latency: 1e-6 };
        Roofline { flops: 1e12, memory_bandwidth: 1e11, memory_bytes: 1 << 30, links: vec![] }
            .with_link("X", link)
            .with_link("Y", Link { bandwidth: 1e7, ..link })
            .with_link("Z", link)
    }

    /// Microseconds for a group that has 8 MB together.
    #[track_caller]
    fn check(wiring: Wiring, op: Collective, axes: &[usize], expected: f64) {
        let mesh = Mesh::new([("X", 4), ("Y", 2), ("Z", 8)]);
        let group: f64 = axes.iter().map(|&axis| mesh.as_slice()[axis].extent as f64).product();
        let (before, after) = match op {
            Collective::AllGather => (8e6 / group, 8e6),
            Collective::AllReduce => (8e6, 8e6),
            Collective::ReduceScatter => (8e6, 8e6 / group),
            _ => (8e6 / group, 8e6 / group),
        };
        let micros = 1e6 * seconds(&roofline(wiring), &mesh, op, axes, before, after);
        assert!((micros - expected).abs() < 1e-6 * expected, "{wiring:?} {op} {axes:?}: {micros} us, not {expected}");
    }

    #[test]
    fn one_axis_costs_what_the_table_says() {
        check(Wiring::Ring, Collective::AllGather, &[0], 4000.0);
        check(Wiring::Ring, Collective::ReduceScatter, &[2], 4000.0);
        check(Wiring::Ring, Collective::AllReduce, &[0], 8000.0);
        check(Wiring::Ring, Collective::AllToAll, &[0], 1000.0);
        check(Wiring::Line, Collective::AllGather, &[0], 6000.0);
        check(Wiring::Line, Collective::AllToAll, &[0], 2000.0);
        check(Wiring::Switch, Collective::AllGather, &[2], 7000.0);
        check(Wiring::Switch, Collective::AllToAll, &[2], 875.0);
    }

    #[test]
    fn several_axes_share_the_transfer_as_far_as_their_links_go() {
        check(Wiring::Ring, Collective::AllGather, &[0, 2], 2000.0);
        check(Wiring::Ring, Collective::AllToAll, &[0, 2], 250.0);
        // Links along Y are a hundred times slower: a fourth of the array must pass them, by each of the four along X.
        check(Wiring::Ring, Collective::AllGather, &[0, 1], 100_000.0);
    }
}
