//! A thread of each process that notices when its rank has waited long, and finds out with the others' threads which ranks are missing.
//!
//! The thread that MPI belongs to is inside MPI then and cannot ask; and MPI lets no other thread call it. So the watchdogs
//! exchange datagrams: that of rank 0 asks all, and each answers for its rank, whatever the rank does.
//!
//! ```text
//! rank 2   has waited for 10 s           "I wait long" to rank 0, repeated as long as it lasts
//! rank 0   has received that             "where are you?" to all, every half second
//! all      "in barrier", "runs", ..      their reports
//! rank 0   some are deadlocked, twice    reports where all are, and ends all processes
//!          some rank computes            waits for it, and prints nothing
//!          otherwise                     reports where all are, once per wait
//! ```
//!
//! If no datagrams arrive, a rank reports only its own wait. Tests: `runtime/tests/it/comm_waits.rs`.

use super::report::{Place, Report};
use super::verdict::stuck;
use super::watch::Watch;
use crate::mpi::process;
use crate::words::{Operation, deadlock, progress};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two questions.
const ROUND: Duration = Duration::from_millis(500);

/// How long a rank that waits long waits for a question before it considers the others unreachable.
const PATIENCE: Duration = Duration::from_secs(3);

/// The address of rank 0, which it sends to the others.
#[derive(Clone, Debug)]
pub(in crate::mpi) struct Address {
    pub(in crate::mpi) host: String,
    pub(in crate::mpi) port: u16,
    /// The first word of this program's messages.
    pub(in crate::mpi) token: u64,
}

/// Returns a socket for the watchdog of a process, if the system gives one.
///
/// On a single host, it receives from that host only.
pub(in crate::mpi) fn socket(one_host: bool) -> Option<UdpSocket> {
    let from = if one_host { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    UdpSocket::bind((from, 0)).ok()
}

/// Returns a number that other programs do not know.
pub(in crate::mpi) fn token() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Starts the watchdog of this process, which runs as long as the process.
pub(in crate::mpi) fn start(watch: &'static Watch, socket: Option<UdpSocket>, address: Address, one_host: bool) {
    let address = Address { host: if one_host { "127.0.0.1".into() } else { address.host }, ..address };
    let watchdog = move || Watchdog::new(watch, socket, address.token).run(&address);
    // Without the thread, long waits and deadlocks are not reported; nothing else changes.
    let _ = thread::Builder::new().name("polyshard watchdog".into()).spawn(watchdog);
}

struct Watchdog {
    watch: &'static Watch,
    socket: Option<UdpSocket>,
    token: u64,
    /// The last turn seen, and when it was first seen: the start of the present wait.
    since: (u64, Instant),
    /// The waits in the last report, by rank and turn, and the minimum duration of the next one to report.
    told: Vec<(usize, usize)>,
    least: Duration,
    /// On rank 0: the addresses and the last reports of all ranks.
    known: Vec<Option<SocketAddr>>,
    reports: Vec<Option<Report>>,
    round: usize,
    /// When rank 0 last asked, and until when it keeps asking; on other ranks, when they were last asked.
    asked: Option<Instant>,
    until: Instant,
    /// The ranks that could not continue in the last round, with the turns of their waits.
    stuck: Vec<(usize, usize)>,
}

impl Watchdog {
    fn new(watch: &'static Watch, socket: Option<UdpSocket>, token: u64) -> Self {
        let (now, size) = (Instant::now(), if watch.rank == 0 { watch.size } else { 0 });
        Self {
            watch,
            socket,
            token,
            since: (watch.turn(), now),
            told: Vec::new(),
            least: watch.limit,
            known: vec![None; size],
            reports: vec![None; size],
            round: 1,
            asked: None,
            until: now,
            stuck: Vec::new(),
        }
    }

    fn run(mut self, address: &Address) {
        let calm = (self.watch.limit / 4).clamp(Duration::from_millis(20), Duration::from_secs(1));
        let mut servers: Vec<SocketAddr> = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let waits_long = self.waited() >= self.watch.limit;
            let pause = if waits_long || Instant::now() < self.until { calm.min(ROUND / 5) } else { calm };
            if let Some((len, from)) = self.hear(pause, &mut buffer) {
                self.take(&buffer[..len], from);
            }
            if self.watch.rank == 0 {
                self.lead();
                continue;
            }
            if servers.is_empty() {
                // Resolving host names may take long, so this thread does it.
                let found = (&address.host[..], address.port).to_socket_addrs();
                servers = found.map(|found| found.filter(SocketAddr::is_ipv4).collect()).unwrap_or_default();
            }
            self.follow(&servers);
        }
    }

    /// Waits for a datagram, for at most `pause`.
    fn hear(&self, pause: Duration, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
        let Some(socket) = &self.socket else {
            thread::sleep(pause);
            return None;
        };
        let heard = socket.set_read_timeout(Some(pause)).and_then(|()| socket.recv_from(buffer));
        let is_late = |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        if heard.as_ref().is_err_and(|error| !is_late(error)) {
            thread::sleep(pause);
        }
        heard.ok()
    }

    fn send(&self, report: &Report, to: &[SocketAddr]) {
        let bytes = report.to_bytes(self.token);
        // Lost datagrams are sent again.
        let _ = self.socket.as_ref().map(|socket| to.iter().try_for_each(|to| socket.send_to(&bytes, to).map(drop)));
    }

    /// How long the rank has waited in its present call.
    fn waited(&mut self) -> Duration {
        let turn = self.watch.turn();
        if self.since.0 != turn {
            self.since = (turn, Instant::now());
        }
        if turn % 2 == 1 { self.since.1.elapsed() } else { Duration::ZERO }
    }

    fn report(&mut self, round: usize) -> Report {
        let waited = self.waited();
        self.watch.report(round, waited)
    }

    /// Handles a report on rank 0, and elsewhere a question: a report of rank 0, whose round asks for an answer.
    fn take(&mut self, bytes: &[u8], from: SocketAddr) {
        let Some(report) = Report::from_bytes(bytes, self.token) else { return };
        if self.watch.rank > 0 {
            self.asked = Some(Instant::now());
            let answer = self.report(report.round);
            return self.send(&answer, &[from]);
        }
        let rank = report.rank;
        if rank == 0 || rank >= self.watch.size {
            return;
        }
        if report.round == 0 {
            // The rank announces itself, or a long wait, and the reply confirms that this rank has received it.
            self.known[rank] = Some(from);
            if report.waited >= self.watch.limit.as_millis() as usize {
                self.until = Instant::now() + 4 * ROUND;
            }
            let question = self.report(self.round);
            self.send(&question, &[from]);
        } else {
            self.reports[rank] = Some(report);
        }
    }

    /// One turn of the watchdog of rank 0: asks, and reports what the answers mean.
    fn lead(&mut self) {
        let now = Instant::now();
        if self.waited() >= self.watch.limit {
            self.until = now + 4 * ROUND;
        }
        if now >= self.until {
            (self.asked, self.stuck) = (None, Vec::new());
            return;
        }
        if self.asked.is_some_and(|asked| now - asked < ROUND) {
            return;
        }
        if self.asked.is_some() {
            self.conclude();
        }
        self.asked = Some(now);
        self.round += 1;
        let question = self.report(self.round);
        self.reports.fill(None);
        let others: Vec<SocketAddr> = self.known.iter().flatten().copied().collect();
        self.send(&question, &others);
        self.reports[0] = Some(question);
    }

    /// Reports what the answers to the last question mean.
    fn conclude(&mut self) {
        for report in &mut self.reports {
            report.take_if(|report| report.round != self.round);
        }
        let reports = &self.reports;
        let operation = || {
            let said =
                |report: &Option<Report>| report.as_ref().map_or(Operation::Silent, |report| report.operation.clone());
            reports.iter().map(said).enumerate()
        };
        let turn = |(rank, is_stuck): (usize, bool)| {
            reports[rank].as_ref().filter(|_| is_stuck).map(|report| (rank, report.turn))
        };
        let stuck: Vec<(usize, usize)> = stuck(reports).into_iter().enumerate().filter_map(turn).collect();
        let last = std::mem::replace(&mut self.stuck, stuck);
        if !self.stuck.is_empty() {
            // The same ranks were stuck in the same waits one round ago, so they were all stuck at the same time.
            if last == self.stuck {
                process::fail_for_all(&deadlock(operation()));
            }
            return;
        }
        if reports.iter().flatten().any(|report| report.place == Place::Runs) {
            return;
        }
        let waits = |report: &&Report| report.waited > 0;
        let Some(longest) = reports.iter().flatten().filter(waits).max_by_key(|report| report.waited) else { return };
        let waited = Duration::from_millis(longest.waited as u64);
        if waited >= self.least && !self.told.contains(&(longest.rank, longest.turn)) {
            say(&format!("after {} s, {}", waited.as_secs(), progress(operation())));
            self.told = reports.iter().flatten().filter(waits).map(|report| (report.rank, report.turn)).collect();
            self.least = 2 * waited;
        }
    }

    /// One turn of the other watchdogs: announce themselves to rank 0, and report long waits.
    fn follow(&mut self, servers: &[SocketAddr]) {
        let waited = self.waited();
        let is_long = waited >= self.watch.limit;
        if !is_long && self.asked.is_some() {
            return;
        }
        let report = self.report(0);
        self.send(&report, servers);
        let is_heard = self.asked.is_some_and(|asked| asked.elapsed() < PATIENCE);
        let wait = (report.rank, report.turn);
        if waited >= self.least + PATIENCE && !is_heard && !self.told.contains(&wait) {
            let rank = self.watch.rank;
            let here = progress([(rank, report.operation)]);
            say(&format!("after {} s, {here}; the other ranks do not answer", waited.as_secs()));
            (self.told, self.least) = (vec![wait], 2 * waited);
        }
    }
}

/// Prints a message while the program continues.
fn say(message: &str) {
    // A failure to write cannot be reported.
    let _ = io::stderr().write_all(format!("{message}\n").as_bytes());
}
