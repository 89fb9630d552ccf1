//! The cost of a program, part by part, as data and as a table.

use polyshard_machine::units::{scaled, seconds as shown, table};
use polyshard_program::{KernelId, TransferId};
use std::fmt;

/// A part of a program that costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostedPart {
    /// A transfer between an array and a tile, from its beginning to its end.
    Transfer(TransferId),
    /// A move from an array to another one.
    Move(TransferId),
    /// The leaf of a kernel.
    Compute(KernelId),
}

/// How the time of a part is spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spent {
    /// By operations on elements.
    Computing,
    /// By reading and writing the rank's own memory.
    Memory,
    /// By reading other ranks' data, in memory that they share.
    InPlace,
    /// By messages; the slowest resource, as text.
    Messages(String),
}

/// The cost of one part for the slowest rank.
#[derive(Clone, Debug, PartialEq)]
pub struct PartCost {
    /// The part.
    pub part: CostedPart,
    /// The part's name for people: `A, broadcast(y)`.
    pub name: String,
    /// How often it is carried out.
    pub times: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// Those of them that overlap with a leaf.
    pub hidden: f64,
    /// Bytes that one rank receives in all.
    pub received: u64,
    /// How the time is spent.
    pub spent: Spent,
}

/// The cost of a program: its parts in the order of their first start.
///
/// ```
/// use polyshard::planner::cost;
/// use polyshard::prelude::*;
/// let matmul = kernel! {
///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let cost = cost(&matmul.lower()?, &Machine::preset("a100")?)?;
/// assert_eq!((cost.moving(), cost.received), (0.0, 0)); // on one rank
/// assert_eq!(cost.seconds(), cost.computing());
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The parts that take time, or by which some rank receives data.
    pub parts: Vec<PartCost>,
    /// An upper bound on the bytes that one rank holds in arrays, tiles and transfers in flight, without the copies of
    /// matrix products, which [`Program::packed_bytes`](polyshard_program::Program::packed_bytes) states.
    pub memory: u64,
    /// The maximum of the bytes that a rank receives.
    pub received: u64,
}

impl Cost {
    /// Returns the seconds of all parts.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.parts.iter().map(PartCost::added).sum()
    }

    /// Returns the seconds of leaves.
    #[must_use]
    pub fn computing(&self) -> f64 {
        let leaves = self.parts.iter().filter(|part| matches!(part.part, CostedPart::Compute(_)));
        leaves.map(|part| part.seconds).sum()
    }

    /// Returns the seconds of transfers that do not overlap with a leaf, [`copying`](Self::copying) included.
    #[must_use]
    pub fn moving(&self) -> f64 {
        self.seconds() - self.computing()
    }

    /// Returns the seconds of transfers within the memory of a rank, which the program does not list as moves.
    #[must_use]
    pub fn copying(&self) -> f64 {
        let copies = self.parts.iter().filter(|part| {
            matches!((&part.part, &part.spent), (CostedPart::Transfer(_) | CostedPart::Move(_), Spent::Memory))
        });
        copies.map(PartCost::added).sum()
    }

    /// Returns the part that takes most of the time, if any takes time.
    #[must_use]
    pub fn dominant(&self) -> Option<&PartCost> {
        let parts = self.parts.iter().filter(|part| part.added() > 0.0);
        parts.max_by(|one, other| one.added().total_cmp(&other.added()))
    }
}

impl PartCost {
    /// Returns the seconds that the part adds to the program's time.
    #[must_use]
    pub fn added(&self) -> f64 {
        self.seconds - self.hidden
    }

    /// Multiplies the part by `times` repetitions.
    pub(super) fn repeat(&mut self, times: u64) {
        self.times = self.times.saturating_mul(times);
        self.seconds *= times as f64;
        self.hidden *= times as f64;
        self.received = self.received.saturating_mul(times);
    }

    /// Advice that reduces this part's time.
    fn remedy(&self) -> &'static str {
        let is_leaf = matches!(self.part, CostedPart::Compute(_));
        match &self.spent {
            Spent::Computing => "divide the loops over more ranks",
            Spent::Memory if is_leaf && self.times > 1 => "access elements fewer times, in fewer and larger tiles",
            Spent::Memory if is_leaf => "divide the loops over more ranks, to use more memory bandwidth",
            Spent::Memory => "store the array in the order in which the leaf reads it",
            Spent::InPlace => "shard the array so that each rank owns more of what it reads",
            Spent::Messages(bottleneck) if bottleneck == "latency" => "send it in fewer and larger messages",
            Spent::Messages(_) => {
                "divide the loops so that less of it moves, or place the axes along which it moves inside a node"
            }
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overlaps = self.parts.iter().any(|part| part.hidden > 0.0);
        let mut rows = vec![["part", "times", "seconds", "received", "spent on"].map(String::from).to_vec()];
        if overlaps {
            rows[0].insert(3, "hidden".to_owned());
        }
        rows.extend(self.parts.iter().map(|part| {
            let spent = match &part.spent {
                Spent::Computing => "operations",
                Spent::Memory => "memory",
                Spent::InPlace => "memory of other ranks",
                Spent::Messages(bottleneck) => bottleneck,
            };
            let received = if part.received == 0 { String::new() } else { scaled(part.received as f64, "B") };
            let mut row =
                vec![part.name.clone(), part.times.to_string(), shown(part.seconds), received, spent.to_owned()];
            if overlaps {
                row.insert(3, if part.hidden > 0.0 { shown(part.hidden) } else { String::new() });
            }
            row
        }));
        f.write_str(&table(&rows, if overlaps { &[0, 5] } else { &[0, 4] }))?;
        let [all, computing] = [self.seconds(), self.computing()].map(shown);
        writeln!(
            f,
            "in all {all}, of which {computing} computing; at most {} of memory",
            scaled(self.memory as f64, "B")
        )?;
        let Some(most) = self.dominant() else { return Ok(()) };
        let percent = 100.0 * most.added() / self.seconds();
        writeln!(f, "{} takes {percent:.0} % of it; to reduce it, {}", most.name, most.remedy())
    }
}
