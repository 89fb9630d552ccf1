//! Which ranks read the inputs of a kernel in place, where they share memory.

use crate::ids::KernelId;
use crate::nest::{Direction, Transfer};
use crate::program::Body;

/// The ranks that read the inputs of a kernel in each other's memory, if they share any; others send messages.
///
/// It pays where it takes less time than messages. Ranks publish their inputs and wait at the end, which takes two rendezvous, whatever the
/// length: next to nothing for threads; for processes 3 us if each has a core, and 60 to 80 us if they share cores. Medians of
/// `scripts/bench nests` on 2 cores, of processes in microseconds, in place and by messages:
///
/// ```text
/// bytes of all inputs   all-gather, 2 ranks   4 ranks         4 broadcasts, 2 ranks   4 ranks
///   2 KiB                3.3 and 4.2           77 and 24        7.1 and 11              85 and 48
///  32 KiB                4.2 and 6.5           74 and 32        7.5 and 16              80 and 37
/// 256 KiB                 12 and 19           102 and 89        9.6 and 26              89 and 68
///   1 MiB                 49 and 66           256 and 302        18 and 66             129 and 250
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InPlace {
    /// Threads: the inputs have less than 2 KiB.
    Threads,
    /// Threads, and processes that have a core each: the inputs have less than 512 KiB.
    WithCores,
    /// All.
    Always,
}

impl InPlace {
    /// Returns who reads inputs of this many bytes in place, those of all ranks together.
    #[must_use]
    pub fn of_bytes(bytes: u64) -> Self {
        match bytes {
            ..0x800 => Self::Threads,
            0x800..0x8_0000 => Self::WithCores,
            _ => Self::Always,
        }
    }

    /// Describes who reads in place, in a line of [`explain`](crate::Program::explain).
    pub(crate) fn line(self) -> &'static str {
        match self {
            Self::Threads => "read in place by threads, sent in messages between processes",
            Self::WithCores => {
                "read in place where ranks share memory, if they are threads or have a core each, else sent in messages"
            }
            Self::Always => "read in place where ranks share memory, else sent in messages",
        }
    }
}

impl Body {
    /// Returns the ranks that read the inputs of a kernel in place; `None` if each rank reads its own elements only.
    ///
    /// A tile of another kernel may be where its owner published it, so the inputs are then published whenever those of the other kernel are.
    ///
    /// # Panics
    /// If there is no such kernel.
    #[must_use]
    pub fn in_place(&self, id: KernelId) -> Option<InPlace> {
        let (mut found, mut kernels, mut next) = (None, vec![id], 0);
        while let Some(&id) = kernels.get(next) {
            next += 1;
            let row = &self.kernels[id.0];
            let used = || row.uses.iter().map(|used| &self.transfers[used.transfer.0]);
            let fetches = |one: &Transfer| one.direction == Direction::In && !one.route.is_local();
            let owners = used().filter(|one| fetches(one)).filter_map(Transfer::kernel);
            if owners.clone().any(|owner| owner == id) {
                let elements =
                    |shape: &[usize]| shape.iter().fold(1, |all: u64, &extent| all.saturating_mul(extent as u64));
                let inputs = row.reads().iter().map(|array| elements(self.arrays[array.0].sharding.shape()));
                let bytes = inputs.fold(0, u64::saturating_add).saturating_mul(self.dtype.size() as u64);
                found = found.max(Some(InPlace::of_bytes(bytes)));
            }
            let others: Vec<_> = owners.filter(|owner| !kernels.contains(owner)).collect();
            kernels.extend(others);
        }
        found
    }
}
