//! The path of one message: which ports and links it passes, and how fast each is.
//!
//! For code that carries out messages, such as an emulation of the machine. `route` alone defines ports and the ones
//! that a message passes. Contention at ports is not modelled here, and nor is anything of [`seconds`](super::seconds).

use super::Machine;
use super::route::{Resource, Router};
use super::time::bandwidth;

/// The ports of one device or member at one level, or one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(Resource);

/// A port on the path of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage {
    /// Which port.
    pub port: Port,
    /// The fraction of the message that passes the port: half where the message goes both ways around a ring, else all
    /// of it.
    pub share: f64,
    /// Bytes per second of the port; of all ports together where a member has several.
    pub bandwidth: f64,
}

/// The path of a message from one device to another.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Path {
    /// The ports that the message passes, from the outermost level inwards.
    pub passages: Vec<Passage>,
    /// Seconds until a message without bytes arrives.
    pub latency: f64,
}

impl Machine {
    /// Returns the path of a message from `source` to `target`; empty if they are the same.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?;
    /// let ports = |source, target| machine.path(source, target).passages.into_iter().map(|passage| passage.port);
    /// // Out of node 0 and into node 1, each with one network card for all of its devices.
    /// assert!(ports(3, 20).eq(ports(4, 21)));
    /// assert!(ports(3, 4).ne(ports(4, 3)));
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If one of the two is not in `0..self.devices()`.
    #[must_use]
    pub fn path(&self, source: usize, target: usize) -> Path {
        for rank in [source, target] {
            assert!(rank < self.devices(), "rank {rank} is not one of the machine's {} devices", self.devices());
        }
        let mut passages = Vec::new();
        let latency = Router::new(self).walk(source, target, &mut |resource, share| {
            passages.push(Passage { port: Port(resource), share, bandwidth: bandwidth(self, resource) });
        });
        Path { passages, latency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Collective, GroupedCollective, PRESETS, seconds};
    use std::collections::BTreeMap;

    /// A broadcast of two ranks is one message, so its time is that of the slowest passage of the path.
    #[test]
    fn a_lone_message_takes_as_long_as_its_slowest_passage() {
        for preset in PRESETS {
            let machine = Machine::preset(preset).expect("a preset");
            let last = machine.devices() - 1;
            for (source, target) in [(0, 1), (0, last), (last, 0), (1, last / 2)] {
                let path = machine.path(source, target);
                let bytes = 12345.0;
                let slowest = path.passages.iter().map(|passage| passage.share * bytes / passage.bandwidth);
                let collective =
                    GroupedCollective { operation: Collective::Broadcast, groups: vec![vec![source, target]], bytes };
                let simulated = seconds(&machine, &collective, Algorithm::Ring).expect("a valid collective");
                let slowest = slowest.fold(0.0, f64::max);
                assert!((slowest / simulated.transfer - 1.0).abs() < 1e-9, "{preset}: {source} to {target}");
                assert_eq!(path.latency, simulated.latency, "{preset}: {source} to {target}");
            }
        }
    }

    #[test]
    fn a_message_to_oneself_passes_nothing() {
        let machine = Machine::preset("a100").expect("a preset");
        assert_eq!(machine.path(5, 5), Path::default());
    }

    #[test]
    fn equal_ports_are_the_same_port() {
        let machine = Machine::preset("a100").expect("a preset");
        let mut used: BTreeMap<Port, usize> = BTreeMap::new();
        for gpu in 0..16 {
            machine.path(gpu, 16 + gpu).passages.iter().for_each(|passage| *used.entry(passage.port).or_default() += 1);
        }
        let counts: Vec<usize> = used.values().copied().collect();
        assert_eq!(counts, [16, 16], "16 messages share the ports out of one node and into another: {used:?}");
    }
}
