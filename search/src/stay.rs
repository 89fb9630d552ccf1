//! Tiles that stages of a sequence may share.
//!
//! A stage whose tile is kept for a stage that needs more fetches the larger tile, by messages of the same kind. So it
//! takes at least as long as it does alone, and bounds that count the first stage alone hold.

use polyshard_layout::Name;
use polyshard_planner::cost::{Cost, CostedPart};
use polyshard_program::{Program, Transfer, TransferView};

/// A tile of an input that is fetched before all loops: if another stage has the same tile, it is neither fetched nor
/// allocated again.
#[derive(Clone, Debug)]
pub(crate) struct Stay {
    /// The input, by its number in the kernel.
    pub(crate) input: usize,
    transfer: Transfer,
    /// Bytes of the tile, and of the staging buffers that fetch it.
    pub(crate) bytes: u64,
    /// Seconds to fetch it.
    pub(crate) seconds: f64,
}

impl Stay {
    /// The tiles of a kernel's program, with this cost, that may be shared: those of the inputs in `shared`.
    pub(crate) fn all(program: &Program, cost: &Cost, shared: &[Name]) -> Vec<Self> {
        if shared.is_empty() {
            return Vec::new();
        }
        let nest = program.nest();
        let (volumes, _) = nest.traffic();
        let stay = |(number, transfer): (usize, &TransferView<'_>)| {
            let name = nest.tensor_name(transfer.tensor);
            let input = nest.kernel.inputs().iter().position(|tensor| tensor.name == name)?;
            if !shared.contains(&name) || !transfer.can_stay() {
                return None;
            }
            let tile = (transfer.tile.capacity as u64).saturating_mul(nest.kernel.dtype().size() as u64);
            let bytes = tile.saturating_mul(transfer.tile.buffers.count()).saturating_add(volumes[number].staged);
            let own = cost.parts.iter().filter(|part| part.part == CostedPart::Transfer(transfer.id));
            let seconds = own.map(|part| part.seconds).sum();
            Some(Self { input, transfer: transfer.row.clone(), bytes, seconds })
        };
        nest.inputs().iter().enumerate().filter_map(stay).collect()
    }

    /// Whether it can replace another tile of the same kernel in every sharing: same input, region and route, and
    /// interior first or not.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let what = |stay: &Self| (stay.input, stay.transfer.interior_first);
        let [one, two] = [self, other].map(|stay| (&stay.transfer.region, &stay.transfer.route));
        what(self) == what(other) && one == two
    }
}

/// Lower bound on the seconds of a program with this cost, if its tiles `kept` by another stage are not fetched.
pub(crate) fn seconds_without<'s>(cost: &Cost, kept: impl Iterator<Item = &'s Stay>) -> f64 {
    let kept: Vec<f64> = kept.map(|stay| stay.seconds).collect();
    if kept.is_empty() {
        return cost.seconds();
    }
    // Without these, more of the other transfers may overlap the leaves.
    if cost.parts.iter().any(|part| part.hidden > 0.0) {
        return cost.computing();
    }
    (cost.seconds() - kept.iter().sum::<f64>()).max(0.0)
}

/// Lower bound on the bytes of a program with this cost, if its tiles `kept` by another stage are not allocated.
pub(crate) fn memory_without<'s>(cost: &Cost, kept: impl Iterator<Item = &'s Stay>) -> u64 {
    kept.fold(cost.memory, |memory, stay| memory.saturating_sub(stay.bytes))
}
