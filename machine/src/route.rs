//! The ports and links that a message between two devices loads.
//!
//! A message crosses levels from the outermost at which its ends differ inwards:
//!
//! ```text
//! switch           out of the sender's port, into the receiver's
//! ring, line       over the links between the two, the shorter way; both ways, half each, if they are alike
//! ring with bypass over the link between neighbours; out of and into the ports of the bypass otherwise
//! torus            along its dimensions, one after the other
//! ```
//!
//! Behind a level with shared ports the message is at the receiver: a network card reaches every device of its node. It
//! has also passed the shared ports of the switches inside, at the sender and at the receiver. Where each device has
//! its own links, as in a torus, the message still has to cross the inner levels.
//!
//! Loads add up over all messages of a step, and a resource takes bytes over bandwidth. The model ignores the order of
//! messages, and effects of a network beyond its links.

use super::{Interconnect, Level, Machine};
use std::collections::BTreeMap;

/// Something that carries bytes at a bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Resource {
    /// The level.
    pub(crate) level: usize,
    /// Its part of that level.
    pub(crate) part: Part,
    /// The member it belongs to, numbered over the whole machine; the device if each has its own.
    pub(crate) member: usize,
}

/// A part of a level that carries bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    /// Out of a switch's port.
    Out,
    /// Into a switch's port.
    In,
    /// Out, by the bypass.
    BypassOut,
    /// In, by the bypass.
    BypassIn,
    /// The link to the next member along this dimension of the level.
    Next(usize),
    /// The link to the member before.
    Previous(usize),
}

/// The bytes that each resource carries.
pub(crate) type Loads = BTreeMap<Resource, f64>;

/// A machine's levels as single switches, rings and lines.
pub(crate) struct Router<'a> {
    machine: &'a Machine,
    /// For each level its dimensions, outermost first.
    dims: Vec<Vec<Dim>>,
}

/// One dimension of a level: a torus has several, any other interconnect one.
#[derive(Clone, Copy)]
pub(crate) struct Dim {
    pub(crate) extent: usize,
    /// The devices of one member along it.
    pub(crate) stride: usize,
    wiring: Wiring,
}

#[derive(Clone, Copy, PartialEq)]
enum Wiring {
    Switch,
    Ring,
    Line,
}

impl Dim {
    /// The coordinate of `rank` along it.
    pub(crate) fn at(&self, rank: usize) -> usize {
        rank / self.stride % self.extent
    }

    /// Whether its members are on a switch.
    pub(crate) fn is_switch(&self) -> bool {
        self.wiring == Wiring::Switch
    }
}

impl<'a> Router<'a> {
    pub(crate) fn new(machine: &'a Machine) -> Self {
        let mut stride = machine.devices();
        let mut dims = Vec::new();
        for level in machine.levels() {
            let (extents, wiring) = match &level.interconnect {
                Interconnect::Switch => (vec![level.count], Wiring::Switch),
                Interconnect::Ring => (vec![level.count], Wiring::Ring),
                Interconnect::Line => (vec![level.count], Wiring::Line),
                Interconnect::Torus(extents) => (extents.clone(), Wiring::Ring),
            };
            let dim = |extent: usize| {
                stride /= extent;
                Dim { extent, stride, wiring }
            };
            dims.push(extents.into_iter().map(dim).collect());
        }
        Self { machine, dims }
    }

    /// The devices of one member of a level.
    pub(crate) fn stride(&self, level: usize) -> usize {
        self.dims[level].last().map_or(1, |dim| dim.stride)
    }

    /// The dimensions along which every device has its own links to its neighbours.
    pub(crate) fn own_links(&self) -> impl Iterator<Item = Dim> {
        let levels = self.machine.levels().iter().zip(&self.dims);
        let own = levels.filter(|(level, _)| level.shared_ports.is_none() && level.bypass.is_none());
        own.flat_map(|(_, dims)| dims.iter().copied()).filter(|dim| dim.wiring != Wiring::Switch)
    }

    /// The levels, outermost first, with their dimensions.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (&Level, &[Dim])> {
        self.machine.levels().iter().zip(self.dims.iter().map(Vec::as_slice))
    }

    /// Adds `bytes` from `source` to `target` to the loads of all resources on the path; returns the seconds until a
    /// message without bytes arrives.
    pub(crate) fn load(&self, loads: &mut Loads, source: usize, target: usize, bytes: f64) -> f64 {
        self.walk(source, target, &mut |resource, share| {
            *loads.entry(resource).or_default() += bytes * share;
        })
    }

    /// Calls `pass` with each resource on the path and the fraction of the message that passes it; returns the latency.
    pub(crate) fn walk(&self, source: usize, target: usize, pass: &mut impl FnMut(Resource, f64)) -> f64 {
        let mut here = source;
        let mut latency = 0.0;
        for (level, dims) in self.dims.iter().enumerate() {
            let before = here;
            for (nth, dim) in dims.iter().enumerate() {
                let (from, to) = (dim.at(here), dim.at(target));
                if from != to {
                    let hops = self.cross(level, nth, here, to, pass);
                    latency += hops as f64 * self.machine.levels()[level].latency;
                    here = here - from * dim.stride + to * dim.stride;
                }
            }
            if here != before && self.machine.levels()[level].shared_ports.is_some() {
                self.enclosed(level + 1, source, target, pass);
                return latency;
            }
        }
        latency
    }

    /// Crosses one dimension from the device `here` to coordinate `to`; returns the number of hops.
    fn cross(&self, level: usize, nth: usize, here: usize, to: usize, pass: &mut impl FnMut(Resource, f64)) -> usize {
        let dim = self.dims[level][nth];
        let from = dim.at(here);
        let base = here - from * dim.stride;
        let device = |coordinate: usize| base + coordinate * dim.stride;
        // Shared links belong to the member, all others to the device.
        let owner = |device: usize| match self.machine.levels()[level].shared_ports {
            Some(_) => device / self.stride(level),
            None => device,
        };
        let mut take = |part, coordinate: usize, share: f64| {
            pass(Resource { level, part, member: owner(device(coordinate)) }, share);
        };
        let ahead = (to + dim.extent - from) % dim.extent;
        let back = dim.extent - ahead;
        if dim.wiring == Wiring::Switch {
            take(Part::Out, from, 1.0);
            take(Part::In, to, 1.0);
            return 1;
        }
        let neighbours = from.abs_diff(to) == 1 || (dim.wiring == Wiring::Ring && (ahead == 1 || back == 1));
        if self.machine.levels()[level].bypass.is_some() && !neighbours {
            take(Part::BypassOut, from, 1.0);
            take(Part::BypassIn, to, 1.0);
            return 1;
        }
        let ahead_share = match dim.wiring {
            Wiring::Ring if ahead == back => 0.5,
            Wiring::Ring => f64::from(u8::from(ahead < back)),
            Wiring::Line | Wiring::Switch => f64::from(u8::from(from < to)),
        };
        let mut hops = 0;
        if ahead_share > 0.0 {
            (0..ahead).for_each(|hop| take(Part::Next(nth), (from + hop) % dim.extent, ahead_share));
            hops = ahead;
        }
        if ahead_share < 1.0 {
            let at = |hop: usize| (from + dim.extent - hop) % dim.extent;
            (0..back).for_each(|hop| take(Part::Previous(nth), at(hop), 1.0 - ahead_share));
            hops = hops.max(back);
        }
        hops
    }

    /// The shared ports of the switches inside a level, which a message passes at both ends.
    fn enclosed(&self, inside: usize, source: usize, target: usize, pass: &mut impl FnMut(Resource, f64)) {
        for (level, described) in self.machine.levels().iter().enumerate().skip(inside) {
            if described.shared_ports.is_some() && described.interconnect == Interconnect::Switch {
                pass(Resource { level, part: Part::Out, member: source / self.stride(level) }, 1.0);
                pass(Resource { level, part: Part::In, member: target / self.stride(level) }, 1.0);
            }
        }
    }
}
