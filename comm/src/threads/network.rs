//! The network of an emulated machine: when a message that is sent now arrives.
//!
//! Each port keeps a timetable on the wall clock. A message reserves the first free time on each port of its path,
//! as long as its bytes take there, and arrives when it has passed the last; its receiver sleeps until then. So
//! messages wait for each other where they share a port, and nowhere else:
//!
//! ```text
//! 3 messages of ranks 0, 1 and 2 of node 0, sent at once          ranks 0, 1 and 2 pass them inside the node
//! port of node 0   |--- 0 ---|--- 1 ---|--- 2 ---|                ports of 0, 1, 2   |-|
//! ```
//!
//! Messages travel as packets do: one enters a port when it has begun to leave the one before, and fills the gaps that others leave, in
//! pieces if need be. If it had to pass in one piece, ranks that are slightly out of step would leave gaps slightly too short to use.
//! Several ports that a member shares are modelled as one with their total bandwidth. Nothing here knows collectives, nor how long one
//! should take. A shaken network adds a random delay to each message, so that messages overtake each other.

use crate::{LaunchError, Result};
use polyshard_layout::mix;
use polyshard_machine::{Machine, Port};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a rank that waits for a message checks whether another has failed.
const LOOK: Duration = Duration::from_millis(20);

/// The ports of a machine, shared by all ranks. Times are seconds since the network was made.
pub struct Network {
    devices: usize,
    /// By source and then target.
    paths: Vec<Path>,
    ports: Mutex<Vec<Timetable>>,
    made: Instant,
    shaken: Option<Shaken>,
}

/// Random delays of messages: a function of the seed, the two ranks and the number of earlier messages from the one to the other. So the
/// delays do not depend on the timing of the threads.
struct Shaken {
    seed: u64,
    /// Maximum delay in seconds.
    most: f64,
    /// The number of messages sent, by source and then target.
    sent: Vec<AtomicU64>,
}

impl Shaken {
    /// Returns the delay of the next message from one device to another, in seconds.
    fn next(&self, path: usize) -> f64 {
        let number = self.sent[path].fetch_add(1, Ordering::Relaxed);
        let drawn = [path as u64, number].into_iter().fold(mix(self.seed), |state, value| mix(state ^ mix(value)));
        // The upper 53 bits are a number from 0 to 1.
        self.most * (drawn >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The path of messages from one device to another.
struct Path {
    /// Ports, and the seconds that a byte takes on each.
    passages: Vec<(usize, f64)>,
    latency: f64,
}

/// When a port is busy.
#[derive(Default)]
struct Timetable {
    /// Start and end times, ascending and disjoint.
    busy: Vec<(f64, f64)>,
    /// Total seconds reserved so far.
    taken: f64,
}

impl Network {
    /// Returns the idle network of a machine slowed down by `slowdown`: each of its seconds takes `slowdown` seconds.
    ///
    /// # Errors
    /// If `slowdown` is not positive and finite.
    pub fn new(machine: &Machine, slowdown: f64) -> Result<Self> {
        if !(slowdown > 0.0 && slowdown.is_finite()) {
            return Err(LaunchError::Slowdown { factor: slowdown.to_string() }.into());
        }
        let devices = machine.devices();
        let mut numbers: HashMap<Port, usize> = HashMap::new();
        let mut paths = Vec::with_capacity(devices * devices);
        for (source, target) in (0..devices).flat_map(|source| (0..devices).map(move |target| (source, target))) {
            let path = machine.path(source, target);
            let mut passages = Vec::with_capacity(path.passages.len());
            for passage in path.passages {
                let number = numbers.len();
                let port = *numbers.entry(passage.port).or_insert(number);
                passages.push((port, passage.share / passage.bandwidth * slowdown));
            }
            paths.push(Path { passages, latency: path.latency * slowdown });
        }
        let ports = Mutex::new(numbers.iter().map(|_| Timetable::default()).collect());
        Ok(Self { devices, paths, ports, made: Instant::now(), shaken: None })
    }

    /// Returns the network with each message delayed by 0 to `most`, drawn from a seed.
    pub fn shaken(self, seed: u64, most: Duration) -> Self {
        let sent = self.paths.iter().map(|_| AtomicU64::new(0)).collect();
        Self { shaken: Some(Shaken { seed, most: most.as_secs_f64(), sent }), ..self }
    }

    /// Returns the number of devices.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Returns the time in seconds.
    pub(super) fn now(&self) -> f64 {
        self.made.elapsed().as_secs_f64()
    }

    /// Sends a message of `bytes` bytes from `source` to `target` at time `now`; returns when it arrives.
    pub(super) fn send(&self, source: usize, target: usize, bytes: usize, now: f64) -> f64 {
        // A panic under the lock is a bug in this module, and leaves timetables as they were.
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let number = source * self.devices + target;
        let path = &self.paths[number];
        let (mut begin, mut end) = (now, now);
        for &(port, seconds) in &path.passages {
            let taken = ports[port].take(begin, bytes as f64 * seconds, now);
            begin = taken.0;
            // A slower port before this one delays the message's end.
            end = f64::max(end, taken.1);
        }
        end + path.latency + self.shaken.as_ref().map_or(0.0, |shaken| shaken.next(number))
    }

    /// Returns how much longer a message takes per byte on an idle network, in seconds.
    pub(super) fn seconds_per_byte(&self, source: usize, target: usize) -> f64 {
        let path = &self.paths[source * self.devices + target];
        path.passages.iter().map(|passage| passage.1).fold(0.0, f64::max)
    }

    /// Sleeps until `time`, or until `check` finds that another rank has failed.
    pub(super) fn sleep_until(&self, time: f64, check: impl Fn() -> Result<()>) -> Result<()> {
        loop {
            let left = time - self.now();
            if left <= 0.0 {
                return Ok(());
            }
            thread::sleep(Duration::from_secs_f64(left.min(LOOK.as_secs_f64())));
            check()?;
        }
    }

    /// Returns the seconds for which the busiest port was reserved.
    #[cfg(test)]
    pub(super) fn most_taken(&self) -> f64 {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter().map(|port| port.taken).fold(0.0, f64::max)
    }
}

impl Timetable {
    /// Reserves the first `seconds` seconds that are free at or after `earliest`; returns when they begin and end.
    /// Reservations that ended before `now` are forgotten.
    fn take(&mut self, earliest: f64, seconds: f64, now: f64) -> (f64, f64) {
        self.busy.retain(|(_, until)| *until > now);
        let (mut time, mut left) = (earliest, seconds);
        let mut pieces = Vec::new();
        for &(from, until) in self.busy.iter().chain([&(f64::INFINITY, f64::INFINITY)]) {
            // The end of a filled gap is exactly the start of the next reservation.
            let end = if from - time > left { time + left } else { from };
            if end > time {
                pieces.push((time, end));
                left = if end == from { left - (from - time) } else { 0.0 };
            }
            if left <= 0.0 {
                break;
            }
            time = f64::max(time, until);
        }
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return (earliest, earliest) };
        let taken = (first.0, last.1);
        self.taken += seconds;
        self.busy.append(&mut pieces);
        self.busy.sort_by(|left, right| left.0.total_cmp(&right.0));
        // Adjacent reservations are merged, so that the table stays short.
        self.busy.dedup_by(|next, before| {
            let touch = next.0 <= before.1;
            if touch {
                before.1 = f64::max(before.1, next.1);
            }
            touch
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_machine::{Device, Interconnect, Level};
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
    fn a_message_fills_the_time_that_others_leave() {
        let mut port = Timetable::default();
        assert_eq!(port.take(5.0, 2.0, 0.0), (5.0, 7.0));
        assert_eq!(port.take(0.0, 3.0, 0.0), (0.0, 3.0));
        assert_eq!(port.busy, [(0.0, 3.0), (5.0, 7.0)]);
        assert_eq!(port.take(1.0, 3.0, 0.0), (3.0, 8.0), "2 seconds before the other and 1 after it");
        assert_eq!(port.busy, [(0.0, 8.0)]);
        assert_eq!(port.take(6.0, 0.0, 6.0), (6.0, 6.0), "without bytes it takes no time anywhere");
        assert_eq!(port.take(9.0, 1.0, 9.0), (9.0, 10.0));
        assert_eq!(port.busy, [(9.0, 10.0)], "what is over is forgotten");
    }

    /// The order in which messages from all devices arrive at the last one, two of each, all sent at once.
    fn order(network: &Network) -> Vec<usize> {
        let arrivals = (0..6).map(|message| network.send(message % 3, 3, 0, 0.0));
        let mut arrivals: Vec<_> = arrivals.enumerate().collect();
        arrivals.sort_by(|a, b| a.1.total_cmp(&b.1));
        arrivals.into_iter().map(|(message, _)| message).collect()
    }

    #[test]
    fn messages_arrive_in_another_order_for_each_seed_and_the_same_one_again() {
        // Of messages without bytes, those sent inside the last device's node arrive first.
        assert_eq!(order(&network()), [2, 5, 0, 1, 3, 4]);
        let shaken = |seed| order(&network().shaken(seed, Duration::from_secs(10)));
        let orders: Vec<_> = (0..20).map(shaken).collect();
        assert_eq!((0..20).map(shaken).collect::<Vec<_>>(), orders, "a seed draws the same times again");
        let different: std::collections::HashSet<_> = orders.iter().collect();
        assert!(different.len() > 15, "{orders:?}");
        let overtakes = |order: &&Vec<usize>| {
            let at = |message| order.iter().position(|&other| other == message);
            (0..3).any(|source| at(source) > at(source + 3))
        };
        assert!(
            orders.iter().filter(overtakes).count() > 10,
            "of two messages of one rank the later one may come first"
        );
    }

    #[test]
    fn delays_do_not_depend_on_what_others_send_and_are_bounded() {
        let most = Duration::from_millis(500);
        let [alone, among] = [network().shaken(7, most), network().shaken(7, most)];
        for nth in 0..100 {
            among.send(1, 0, 3, f64::from(nth));
            among.send(2, 3, 3, f64::from(nth));
            let [alone, among] = [&alone, &among].map(|network| network.send(0, 3, 0, f64::from(nth)));
            assert_eq!(alone, among, "message {nth}");
            let late = alone - f64::from(nth) - 0.5;
            assert!(-1e-9 < late && late < 0.5 + 1e-9, "message {nth} is {late} s late");
        }
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
        /// A port carries one message at a time, each in full, none before it was sent, and is not idle while one waits.
        #[test]
        fn a_port_is_never_taken_twice(messages in prop::collection::vec((0.0..9.0, 0.0..3.0), 1..40)) {
            let mut port = Timetable::default();
            for (earliest, seconds) in messages {
                let before = port.busy.clone();
                let (begin, end) = port.take(earliest, seconds, 0.0);
                prop_assert!(begin >= earliest && end >= begin + seconds - 1e-9);
                prop_assert!(port.busy.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", port.busy);
                let busy = |table: &[(f64, f64)]| table.iter().map(|(from, until)| until - from).sum::<f64>();
                prop_assert!((busy(&port.busy) - busy(&before) - seconds).abs() < 1e-9);
                prop_assert!((busy(&port.busy) - port.taken).abs() < 1e-9);
                let within = |&(from, until): &(f64, f64)| from <= earliest && end <= until;
                prop_assert!(seconds == 0.0 || port.busy.iter().any(within), "{:?}", port.busy);
            }
        }

        /// No message arrives before its bytes and its latency have passed, on any path.
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
