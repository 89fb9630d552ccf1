//! The network of an emulated machine: when a message that is sent now arrives.
//!
//! Each port keeps a timetable on the wall clock. A message takes the first time that is free on each port of its
//! way, for as long as its bytes take there, and arrives when it has passed the last; whoever receives it sleeps until
//! then. So messages wait for one another where they meet, and nowhere else:
//!
//! ```text
//! 3 messages of ranks 0, 1 and 2 of node 0, sent at once          ranks 0, 1 and 2 pass them inside the node
//! port of node 0   |--- 0 ---|--- 1 ---|--- 2 ---|                ports of 0, 1, 2   |-|
//! ```
//!
//! A message enters a port when it has begun to leave the one before, as packets do, and may pass between two that
//! were sent before it if there is time. Several ports that a member shares are one of their bandwidth together.
//! Nothing here knows collectives, nor how long one should take.

use crate::comm::threads::Shared;
use crate::{Error, Result};
use polyshard_planner::machine::{Machine, Port};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A rank that waits for a message looks this often whether another has failed meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// The ports of a machine, shared by all ranks. Times are seconds since it was made.
pub(crate) struct Network {
    devices: usize,
    /// By source and then target.
    ways: Vec<Way>,
    ports: Mutex<Vec<Timetable>>,
    made: Instant,
}

/// The way of messages from one device to another.
struct Way {
    /// Ports, and the seconds that a byte takes there.
    passages: Vec<(usize, f64)>,
    latency: f64,
}

/// When a port is busy.
#[derive(Default)]
struct Timetable {
    /// From when until when, ascending and apart.
    busy: Vec<(f64, f64)>,
    /// Seconds for which it has been taken in all.
    taken: f64,
}

impl Network {
    /// Returns the idle network of a machine of which each second lasts `slowdown` seconds.
    ///
    /// # Errors
    /// If `slowdown` is not more than 0 and finite.
    pub(crate) fn new(machine: &Machine, slowdown: f64) -> Result<Self> {
        if !(slowdown > 0.0 && slowdown.is_finite()) {
            return Err(Error::Usage(format!(
                "a machine cannot be slowed by a factor of {slowdown}: give one that is more than 0, such as 1"
            )));
        }
        let devices = machine.devices();
        let mut numbers: HashMap<Port, usize> = HashMap::new();
        let mut ways = Vec::with_capacity(devices * devices);
        for (source, target) in (0..devices).flat_map(|source| (0..devices).map(move |target| (source, target))) {
            let way = machine.way(source, target);
            let mut passages = Vec::with_capacity(way.passages.len());
            for passage in way.passages {
                let number = numbers.len();
                let port = *numbers.entry(passage.port).or_insert(number);
                passages.push((port, passage.share / passage.bandwidth * slowdown));
            }
            ways.push(Way { passages, latency: way.latency * slowdown });
        }
        let ports = Mutex::new(numbers.iter().map(|_| Timetable::default()).collect());
        Ok(Self { devices, ways, ports, made: Instant::now() })
    }

    /// Returns the number of devices.
    pub(super) fn devices(&self) -> usize {
        self.devices
    }

    /// Returns the time.
    pub(super) fn now(&self) -> f64 {
        self.made.elapsed().as_secs_f64()
    }

    /// Sends a message of so many bytes from `source` to `target` at time `now`; returns when it arrives.
    pub(super) fn send(&self, source: usize, target: usize, bytes: usize, now: f64) -> f64 {
        // A panic under the lock is a bug of ours, and leaves timetables as they were.
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let way = &self.ways[source * self.devices + target];
        let (mut begin, mut end) = (now, now);
        for &(port, seconds) in &way.passages {
            let seconds = bytes as f64 * seconds;
            begin = ports[port].take(begin, seconds, now);
            // A slower port before this one holds the message's end back.
            end = f64::max(end, begin + seconds);
        }
        end + way.latency
    }

    /// Sleeps until `time`.
    ///
    /// # Errors
    /// If another rank fails meanwhile.
    pub(super) fn sleep_until(&self, time: f64, ranks: &Shared) -> Result<()> {
        loop {
            let left = time - self.now();
            if left <= 0.0 {
                return Ok(());
            }
            thread::sleep(Duration::from_secs_f64(left.min(LOOK.as_secs_f64())));
            ranks.check()?;
        }
    }

    /// Returns for how many seconds the port was taken that was taken longest.
    #[cfg(test)]
    pub(super) fn most_taken(&self) -> f64 {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter().map(|port| port.taken).fold(0.0, f64::max)
    }
}

impl Timetable {
    /// Takes the port for so many seconds at the first time from `earliest` on; returns when that begins. What ended
    /// before `now` is forgotten.
    fn take(&mut self, earliest: f64, seconds: f64, now: f64) -> f64 {
        if seconds == 0.0 {
            return earliest;
        }
        self.taken += seconds;
        self.busy.retain(|(_, end)| *end > now);
        let mut begin = earliest;
        let mut place = 0;
        for &(from, until) in &self.busy {
            if begin + seconds <= from {
                break;
            }
            begin = begin.max(until);
            place += 1;
        }
        self.busy.insert(place, (begin, begin + seconds));
        begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_planner::machine::{Device, Interconnect, Level};
    use proptest::prelude::*;

    /// 2 nodes of 2 devices: 10 bytes/s between the nodes, 100 inside.
    fn network() -> Network {
        let level = |name: &str, bandwidth, latency, shared_ports| Level {
            name: name.into(),
            count: 2,
            interconnect: Interconnect::Switch,
            bandwidth,
            latency,
            shared_ports,
            bypass: None,
        };
        let device = Device { memory_bandwidth: 1e9, memory_capacity: 1 << 30, ..Device::default() };
        let levels = vec![level("node", 10.0, 0.5, Some(1)), level("device", 100.0, 0.25, None)];
        Network::new(&Machine::new("test", levels, device).unwrap(), 1.0).unwrap()
    }

    #[test]
    fn messages_that_share_a_port_wait_for_one_another_and_others_do_not() {
        let network = network();
        assert_eq!(network.send(0, 2, 10, 0.0), 1.5);
        assert_eq!(network.send(1, 3, 10, 0.0), 2.5, "the node has one port");
        assert_eq!(network.send(2, 0, 10, 0.0), 1.5, "the other direction is free");
        assert_eq!(network.send(0, 1, 10, 0.0), 0.35, "the devices have ports of their own");
        assert_eq!(network.send(0, 2, 10, 7.0), 8.5, "what is long gone holds nobody back");
    }

    #[test]
    fn a_short_message_passes_before_a_late_one() {
        let mut port = Timetable::default();
        assert_eq!(port.take(5.0, 2.0, 0.0), 5.0);
        assert_eq!(port.take(0.0, 3.0, 0.0), 0.0);
        assert_eq!(port.take(0.0, 3.0, 0.0), 7.0, "there is no time for it between 3 and 5");
        assert_eq!(port.take(0.0, 2.0, 0.0), 3.0);
        assert_eq!(port.busy, [(0.0, 3.0), (3.0, 5.0), (5.0, 7.0), (7.0, 10.0)]);
        assert_eq!(port.take(6.0, 0.0, 6.0), 6.0, "without bytes it takes no time anywhere");
    }

    #[test]
    fn a_slowdown_that_is_none_is_refused() {
        let machine = Machine::preset("a100").unwrap();
        for slowdown in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = Network::new(&machine, slowdown).err().expect("it should be refused").to_string();
            assert!(error.starts_with(&format!("a machine cannot be slowed by a factor of {slowdown}")), "{error}");
        }
    }

    proptest! {
        /// A port carries one message at a time, all of each, and none before it was sent.
        #[test]
        fn a_port_is_never_taken_twice(messages in prop::collection::vec((0.0..2.0, 0.0..5.0, 0.0..3.0), 1..40)) {
            let mut port = Timetable::default();
            let mut taken: Vec<(f64, f64)> = Vec::new();
            let mut now = 0.0;
            for (later, ahead, seconds) in messages {
                now += later;
                let begin = port.take(now + ahead, seconds, now);
                prop_assert!(begin >= now + ahead);
                taken.push((begin, begin + seconds));
            }
            prop_assert!((port.taken - taken.iter().map(|(begin, end)| end - begin).sum::<f64>()).abs() < 1e-9);
            taken.retain(|(begin, end)| end > begin);
            taken.sort_by(|left, right| left.partial_cmp(right).unwrap());
            prop_assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{taken:?}");
        }

        /// No message arrives before its bytes and its latency have passed, on any way.
        #[test]
        fn messages_take_at_least_their_time(
            messages in prop::collection::vec((0..4usize, 0..4usize, 0..100usize), 1..40),
        ) {
            let network = network();
            for (nth, (source, target, bytes)) in messages.into_iter().enumerate() {
                let now = nth as f64 / 10.0;
                let least = match (source == target, source / 2 == target / 2) {
                    (true, _) => 0.0,
                    (_, true) => bytes as f64 / 100.0 + 0.25,
                    _ => bytes as f64 / 10.0 + 0.5,
                };
                prop_assert!(network.send(source, target, bytes, now) >= now + least - 1e-9);
            }
        }
    }
}
