//! Grids: how many ranks each loop is divided over, and lower bounds for the schedules on a grid.

#[cfg(test)]
mod tests;

use crate::space::Space;
use crate::variant::{Grid, MOST_DIVIDED, MOST_GRIDS, Variant};
use polyshard_layout::{Name, each_once};
use polyshard_machine::{Interconnect, Level, Machine};
use polyshard_program::{Access, Affine, Assign, Kernel, Tensor};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of panels that a loop is cut into to fit into the memory.
pub(crate) const MOST_PANELS: usize = 1 << 12;

/// All grids of at most this many ranks, with at most as many along a loop as it has iterations, that divide at most
/// [`MOST_DIVIDED`] loops; `None` if there are too many to compare.
pub(crate) fn all(kernel: &Kernel, ranks: usize) -> Option<Vec<Grid>> {
    let grids = divided(kernel, ranks, MOST_GRIDS, |left| 1..=left)?;
    Some(grids.into_iter().map(|(grid, _)| grid).collect())
}

/// All grids of exactly this many ranks, with at most as many along a loop as it has iterations, that divide at most
/// [`MOST_DIVIDED`] loops.
pub(crate) fn exactly(kernel: &Kernel, ranks: usize) -> Vec<Grid> {
    let divisors: Vec<usize> = (1..=ranks).filter(|&divisor| ranks.is_multiple_of(divisor)).collect();
    let divisors_of = |left: usize| divisors.iter().copied().filter(move |&divisor| left.is_multiple_of(divisor));
    let grids = divided(kernel, ranks, usize::MAX, divisors_of).into_iter().flatten();
    grids.filter(|(_, left)| *left == 1).map(|(grid, _)| grid).collect()
}

/// The grids that divide each loop by one of the `divisors` of the ranks that are left, each with the ranks that are
/// left by it; `None` if there are more than `most`.
fn divided<D: Iterator<Item = usize>>(
    kernel: &Kernel,
    ranks: usize,
    most: usize,
    divisors: impl Fn(usize) -> D,
) -> Option<Vec<(Grid, usize)>> {
    let mut grids = vec![(Grid::new(), ranks)];
    for var in kernel.vars() {
        let longer = |(grid, left): (Grid, usize)| {
            let is_full = grid.iter().filter(|&&divided| divided > 1).count() == MOST_DIVIDED;
            let most = if is_full || kernel.record_index() == Some(var.name) { 1 } else { var.extent.max(1) };
            let fits = divisors(left).take_while(move |&divided| divided <= most);
            fits.map(move |divided| ([&grid[..], &[divided]].concat(), left / divided))
        };
        grids = grids.into_iter().flat_map(longer).take(most.saturating_add(1)).collect();
        if grids.len() > most {
            return None;
        }
    }
    Some(grids)
}

/// The loops with several iterations on a rank, longest first: the summed ones, and the others.
pub(crate) fn serial(kernel: &Kernel, grid: &Grid) -> [Vec<usize>; 2] {
    let vars = kernel.vars();
    let is_summed = |var: &usize| kernel.target().index.iter().all(|index| index.coefficient(vars[*var].name) == 0);
    let extent = |var: &usize| vars[*var].extent.div_ceil(grid[*var]);
    let is_cut = |var: &usize| extent(var) > 1 && kernel.record_index() != Some(vars[*var].name);
    let mut all: Vec<usize> = (0..vars.len()).filter(is_cut).collect();
    all.sort_by_key(|var| (Reverse(extent(var)), *var));
    let (summed, others) = all.into_iter().partition(is_summed);
    [summed, others]
}

/// The loops that index an access: a bit for each of the first 64.
fn loops_of(kernel: &Kernel, access: &Access) -> u64 {
    let is_in = |name: Name| access.index.iter().any(|index| index.coefficient(name) != 0);
    let loops = kernel.vars().iter().take(64).enumerate().filter(|(_, var)| is_in(var.name));
    loops.fold(0, |loops, (nth, _)| loops | 1 << nth)
}

/// Lower bounds of a kernel, known before any schedule.
pub(crate) struct Bounds<'a> {
    kernel: &'a Kernel,
    accesses: Vec<&'a Access>,
    machine: &'a Machine,
    /// Operations per second.
    rate: f64,
    /// Tensors of which a rank may already hold all that it touches, since their shardings are given or other stages
    /// keep tiles of them.
    placed: Vec<Name>,
    /// The links by which a device receives; `None` if it need not receive anything, as it shares memory with others.
    port: Option<Port>,
    domains: Vec<Domain>,
    /// For each access, the loops that index its tensor, so that their panels touch different elements: a bit for each.
    indexed: Vec<u64>,
}

impl<'a> Bounds<'a> {
    pub(crate) fn new(
        kernel: &'a Kernel,
        machine: &'a Machine,
        ranks: usize,
        placed: impl IntoIterator<Item = Name>,
    ) -> Self {
        let placed = placed.into_iter().collect();
        let mut accesses = each_once(kernel.value().accesses());
        accesses.insert(0, kernel.target());
        let rate_of = |rates: &BTreeMap<String, f64>| rates.get(kernel.dtype().name()).copied();
        let device = machine.device();
        // The faster of the two rates, since the kind of leaf is not known yet.
        let rate = rate_of(&device.flops).map_or(f64::INFINITY, |rate| rate.max(rate_of(&device.nests).unwrap_or(0.0)));
        let sees_others = (1..ranks.min(machine.devices())).any(|rank| machine.shares_memory(&[0, rank]));
        let port = (!sees_others).then(|| Port::new(machine));
        let loops = |tensor: Name| kernel.accesses_of(tensor).into_iter().map(|access| loops_of(kernel, access));
        let indexed = accesses.iter().map(|access| loops(access.tensor).fold(0, |all, loops| all | loops));
        let indexed = indexed.collect();
        Self { kernel, accesses, machine, rate, placed, port, domains: domains(machine), indexed }
    }

    /// These bounds for ranks on arbitrary devices, whose neighbours need not share ports.
    pub(crate) fn of_devices_anywhere(self) -> Self {
        Self { domains: Vec::new(), ..self }
    }

    /// Whether ranks receive messages from others.
    pub(crate) fn sends(&self) -> bool {
        self.port.is_some()
    }

    /// The maximum number of iterations of each loop on a rank.
    pub(crate) fn extents(&self, grid: &Grid) -> Vec<usize> {
        self.kernel.vars().iter().zip(grid).map(|(var, &ranks)| var.extent.div_ceil(ranks)).collect()
    }

    /// The number of elements of an access that loops of these extents touch: a box, or a diagonal in it.
    pub(crate) fn elements(&self, access: &Access, extents: &[usize]) -> f64 {
        let along = |index: &Affine| {
            let reach = index.terms.iter().map(|&(name, factor)| {
                let var = self.kernel.vars().iter().position(|var| var.name == name);
                factor.unsigned_abs() as f64 * var.map_or(0.0, |var| extents[var] as f64 - 1.0)
            });
            1.0 + reach.sum::<f64>().max(-1.0)
        };
        let of_box: f64 = access.index.iter().map(along).product();
        let is_read = |name: Name| access.index.iter().any(|index| index.terms.iter().any(|term| term.0 == name));
        let vars = self.kernel.vars().iter().zip(extents);
        of_box.min(vars.filter(|(var, _)| is_read(var.name)).map(|(_, &extent)| extent as f64).product())
    }

    /// The number of elements that a rank touches and does not hold.
    pub(crate) fn words(&self, grid: &Grid) -> f64 {
        let extents = self.extents(grid);
        self.fetched(grid, &extents).sum()
    }

    /// For each access, the number of elements that a rank touches and does not hold; 0 if its tensor is `placed`.
    fn fetched<'b>(&'b self, grid: &'b Grid, extents: &'b [usize]) -> impl Iterator<Item = f64> + 'b {
        self.accesses.iter().map(move |access| match self.placed.contains(&access.tensor) {
            true => 0.0,
            false => (self.elements(access, extents) - self.held(access, grid)).max(0.0),
        })
    }

    /// The maximum number of elements of a tensor that a rank holds: each dimension is divided as the loop that indexes
    /// it, and loops that index no dimension divide any of them. If extents are not divisible, some ranks hold more
    /// than an even share.
    fn held(&self, access: &Access, grid: &Grid) -> f64 {
        let shape =
            self.kernel.tensors().find(|tensor| tensor.name == access.tensor).map_or(&[][..], |tensor| &tensor.shape);
        let home = self.accesses.iter().find(|home| home.tensor == access.tensor).unwrap_or(&access);
        let mut blocks = shape.to_vec();
        let mut copies = Vec::new();
        for (var, &ranks) in self.kernel.vars().iter().zip(grid).filter(|(_, ranks)| **ranks > 1) {
            match home.index.iter().position(|index| index.as_variable() == Some(var.name)) {
                Some(dim) => blocks[dim] = blocks[dim].div_ceil(ranks),
                None => copies.push(ranks),
            }
        }
        largest(&mut blocks, &copies)
    }

    /// Lower bound on the bytes that a rank holds with every schedule on this grid: even shares, and the elements that
    /// a leaf touches beyond them, of which one loop may run in panels. Each panel fetches a part of those, and the
    /// largest part is at least the average.
    pub(crate) fn memory(&self, grid: &Grid) -> f64 {
        let (ranks, extents) = (grid.iter().product::<usize>() as f64, self.extents(grid));
        let of_tensor = |tensor: &Tensor| {
            let elements: f64 = tensor.shape.iter().map(|&extent| extent as f64).product();
            let accesses = self.accesses.iter().zip(&self.indexed).filter(|(access, _)| access.tensor == tensor.name);
            // Reads outside the tensor, or with repetition, may touch fewer elements.
            let is_known =
                |access: &Access| access.outside.is_none() && access.index.iter().all(|index| index.modulus.is_none());
            let touched = accesses.filter(|(access, _)| is_known(access));
            let touched = touched.map(|(access, &indexed)| (self.elements(access, &extents), indexed));
            let (touched, indexed) = touched.fold((0.0, 0), |all, one| (f64::max(all.0, one.0), all.1 | one.1));
            let share = (elements / ranks).ceil();
            (share, (touched - share).max(0.0), indexed)
        };
        let tensors: Vec<_> = self.kernel.tensors().map(of_tensor).collect();
        let in_panels = |panels: usize, var: usize| -> f64 {
            let brought = |indexed: u64| if indexed >> var & 1 == 1 { panels as f64 } else { 1.0 };
            tensors.iter().map(|&(share, besides, indexed)| share + besides / brought(indexed)).sum()
        };
        let [summed, others] = serial(self.kernel, grid);
        let space = Space { kernel: self.kernel, homes: &[], rotates: false };
        let least = summed.iter().take(1).chain(&others).filter(|var| **var < 64).map(|&var| {
            let owned = space.owned_panels(grid, var);
            let finer = (extents[var].min(MOST_PANELS) / owned).checked_ilog2();
            in_panels(finer.map_or(1, |finer| owned << finer), var)
        });
        (self.kernel.dtype().size() as f64 * least.fold(in_panels(1, 0), f64::min)).floor()
    }

    /// Lower bound on the operations of a leaf of these extents. A product of several tensors is computed in pairs, so
    /// each tensor is multiplied by the product of some others, which has the indices that other factors or the output
    /// still need.
    fn operations(&self, extents: &[usize]) -> f64 {
        let points = |loops: u64| -> f64 {
            (0..extents.len()).filter(|var| loops >> var & 1 == 1).map(|var| extents[var] as f64).product()
        };
        let Some(factors) = self.kernel.value().factors().filter(|factors| (2..=8).contains(&factors.len())) else {
            return 0.0;
        };
        let factors: Vec<u64> = factors.into_iter().map(|factor| loops_of(self.kernel, factor)).collect();
        let target = loops_of(self.kernel, self.kernel.target());
        let joined = |set: u64, is_in: bool| {
            let chosen = factors.iter().enumerate().filter(|(nth, _)| (set >> nth & 1 == 1) == is_in);
            chosen.fold(0, |loops, (_, factor)| loops | factor)
        };
        let meets = |nth: usize| {
            let others = (1..1u64 << factors.len()).filter(|set| set >> nth & 1 == 0);
            let loops = others.map(|set| factors[nth] | joined(set, true) & (joined(set, false) | target));
            loops.map(points).fold(f64::INFINITY, f64::min)
        };
        // A multiplication, and an addition if there is a sum.
        let is_summed = |var: usize| target >> var & 1 == 0;
        let sums = self.kernel.assign() != Assign::Set || (0..extents.len().min(64)).any(is_summed);
        let each = if sums { 2.0 } else { 1.0 };
        each * (0..factors.len()).map(meets).fold(0.0, f64::max)
    }

    /// Lower bound on the seconds of this many operations on this number of ranks.
    pub(crate) fn computing(&self, operations: f64, ranks: usize) -> f64 {
        operations / ranks as f64 / self.rate
    }

    /// Lower bound on the seconds of every schedule on this number of ranks, whatever the grid.
    pub(crate) fn least_of_all(&self, ranks: usize) -> f64 {
        let extents: Vec<usize> = self.kernel.vars().iter().map(|var| var.extent).collect();
        self.computing(self.operations(&extents), ranks)
    }

    /// Lower bound on the seconds of schedules on this grid that do not overlap transfers with the leaf.
    pub(crate) fn seconds(&self, grid: &Grid) -> f64 {
        self.least(grid)[0]
    }

    /// Lower bounds on the seconds of schedules on this grid: that of [`seconds`](Self::seconds), and that of all
    /// schedules, including those that overlap panels of one loop, or halos, with computation.
    pub(crate) fn least(&self, grid: &Grid) -> [f64; 2] {
        let (all, ahead) = self.of_loops(grid);
        let with_interior_first = if self.has_halos() { self.hiding(grid, all) } else { all };
        [all, ahead.into_iter().map(|(seconds, _)| seconds).fold(with_interior_first, f64::min)]
    }

    /// Whether an input may be fetched as a halo while the interior is computed.
    pub(crate) fn has_halos(&self) -> bool {
        self.sends() && self.accesses.iter().any(|access| access.index.iter().any(|at| at.as_variable().is_none()))
    }

    /// Seconds with as much overlap as possible of a schedule that takes `all` seconds without.
    fn hiding(&self, grid: &Grid, all: f64) -> f64 {
        let leaf = self.leaf(grid);
        f64::max(leaf, all - leaf)
    }

    /// As [`seconds_along`](Self::seconds_along), but halos may be in flight while interiors are computed.
    pub(crate) fn least_along(&self, variant: &Variant) -> f64 {
        let all = self.seconds_along(variant);
        if self.has_halos() { self.hiding(&variant.grid(), all) } else { all }
    }

    /// For each loop in panels, the lower bound on the seconds of schedules that fetch its panels while others are
    /// computed; lowest first.
    pub(crate) fn ahead(&self, grid: &Grid) -> Vec<(f64, usize)> {
        let (_, mut ahead) = self.of_loops(grid);
        ahead.sort_by(|one, other| one.0.total_cmp(&other.0));
        ahead
    }

    /// Lower bound on the seconds that the busiest rank computes.
    pub(crate) fn leaf(&self, grid: &Grid) -> f64 {
        let extents = &self.extents(grid);
        let touched: f64 = self.accesses.iter().map(|access| self.elements(access, extents)).sum();
        let bytes = touched * self.kernel.dtype().size() as f64;
        f64::max(self.operations(extents) / self.rate, bytes / self.machine.memory_bandwidth(grid.iter().product()))
    }

    /// Lower bounds on the seconds: without overlap, and for each loop with its panels overlapped.
    fn of_loops(&self, grid: &Grid) -> (f64, Vec<(f64, usize)>) {
        let extents = self.extents(grid);
        let size = self.kernel.dtype().size() as f64;
        let leaf = self.leaf(grid);
        let Some(port) = &self.port else { return (leaf, Vec::new()) };
        let moved: Vec<f64> = self.fetched(grid, &extents).map(|words| port.seconds(words * size)).collect();
        let all = leaf + moved.iter().sum::<f64>();
        let of_loop = |var: usize| {
            let in_panels = moved.iter().zip(&self.indexed).filter(|(_, indexed)| **indexed >> var & 1 == 1);
            (all - leaf.min(in_panels.map(|(seconds, _)| seconds).sum()), var)
        };
        (all, (0..extents.len().min(64)).filter(|&var| extents[var] > 1).map(of_loop).collect())
    }
}

/// The links by which devices receive from others.
struct Port {
    /// Maximum bytes per second received, and as many sent.
    bandwidth: f64,
    /// Minimum seconds of a message.
    latency: f64,
    /// The smallest ratio of measured to predicted time, at most 1.
    factor: f64,
}

impl Port {
    /// The ports of one device.
    fn new(machine: &Machine) -> Self {
        Self::of_levels(machine, machine.levels().iter().map(port).sum(), machine.levels())
    }

    fn of_levels(machine: &Machine, bandwidth: f64, levels: &[Level]) -> Self {
        let latency = levels.iter().filter(|level| level.count > 1).map(|level| level.latency);
        let factors = machine.profiles().iter().flat_map(|profile| profile.factor.iter().copied());
        Self { bandwidth, latency: latency.fold(f64::INFINITY, f64::min), factor: factors.fold(1.0, f64::min) }
    }

    /// Minimum seconds to receive this many bytes, in one transfer or more.
    fn seconds(&self, bytes: f64) -> f64 {
        if bytes > 0.0 { self.factor * (bytes / self.bandwidth + self.latency) } else { 0.0 }
    }
}

/// Neighbouring devices: those of one member of a level, which may share its ports.
struct Domain {
    devices: usize,
    /// The ports of all of them together.
    port: Port,
}

/// The domains of a machine that do not share memory with other devices.
fn domains(machine: &Machine) -> Vec<Domain> {
    let levels = machine.levels();
    let devices_of = |level: usize| levels[level + 1..].iter().map(|level| level.count).product::<usize>();
    let of_level = |level: usize| {
        let devices = devices_of(level);
        let outside = &levels[..=level];
        let ports = |outer: &Level| match outer.shared_ports {
            // A member of an outer level has at most the ports of all members inside it; counting as many keeps this a
            // bound.
            Some(ports) => ports as f64 * outer.bandwidth + devices as f64 * outer.bypass.unwrap_or(0.0),
            None => devices as f64 * port(outer),
        };
        let bandwidth = outside.iter().filter(|outer| outer.count > 1).map(ports).sum();
        Domain { devices, port: Port::of_levels(machine, bandwidth, outside) }
    };
    let sees = |devices: usize| devices < machine.devices() && machine.shares_memory(&[0, devices]);
    let all = (0..levels.len()).filter(|&level| levels[level].count > 1).map(of_level);
    all.filter(|domain| !sees(domain.devices)).collect()
}

impl Bounds<'_> {
    /// Lower bound on the seconds of schedules whose loops are divided along these axes, on devices in the order of the
    /// mesh. A rank receives through its own ports, and the ranks of a node through the ports of the node.
    pub(crate) fn seconds_along(&self, variant: &Variant) -> f64 {
        let grid = variant.grid();
        let rank = self.seconds(&grid);
        let size = self.kernel.dtype().size() as f64;
        let extents = self.extents(&grid);
        let transfer = |access: &&Access| {
            let missing = (self.elements(access, &extents) - self.held(access, &grid)).max(0.0);
            let alone = self.port.as_ref().map_or(0.0, |port| port.seconds(missing * size));
            let together = self
                .domains
                .iter()
                .map(|domain| domain.port.seconds(self.missing(access, &grid, variant, domain.devices) * size));
            (together.fold(alone, f64::max) - alone).max(0.0)
        };
        let accesses = self.accesses.iter().copied().filter(|access| !self.placed.contains(&access.tensor));
        rank + accesses.map(|access| transfer(&access)).sum::<f64>()
    }

    /// Lower bound on the elements of an access that the first `devices` ranks touch together and do not hold; 0 if an
    /// index is not a single variable.
    fn missing(&self, access: &Access, grid: &Grid, variant: &Variant, devices: usize) -> f64 {
        let vars = self.kernel.vars();
        let indexed: Option<Vec<usize>> = access
            .index
            .iter()
            .map(|index| index.as_variable().and_then(|name| vars.iter().position(|var| var.name == name)))
            .collect();
        let Some(indexed) = indexed.filter(|_| variant.mesh.size() > devices) else { return 0.0 };
        let blocks: BTreeSet<Vec<usize>> = (0..devices)
            .map(|rank| {
                let mut blocks = vec![0; vars.len()];
                let at = variant.mesh.coordinates(rank);
                for (var, axes) in variant.along.axes.iter().enumerate() {
                    let extent = |axis: usize| variant.mesh.as_slice()[axis].extent;
                    axes.iter().for_each(|&axis| blocks[var] = blocks[var] * extent(axis) + at[axis]);
                }
                indexed.iter().map(|&var| blocks[var]).collect()
            })
            .collect();
        let elements = |block: &Vec<usize>| -> f64 {
            // A diagonal has one index.
            let once = indexed.iter().enumerate().filter(|(nth, var)| !indexed[..*nth].contains(var));
            once.map(|(nth, &var)| self.iterations(variant, var, block[nth]) as f64).product()
        };
        let touched: f64 = blocks.iter().map(elements).sum();
        touched - devices as f64 * self.held(access, grid)
    }

    /// The number of iterations of a loop in one of its blocks, which may be blocks of blocks.
    fn iterations(&self, variant: &Variant, var: usize, number: usize) -> usize {
        let extent = |&axis: &usize| variant.mesh.as_slice()[axis].extent;
        let parts: Vec<usize> = variant.along.axes[var].iter().map(extent).collect();
        let (mut length, mut after) = (self.kernel.vars()[var].extent, parts.iter().product::<usize>());
        for extent in parts {
            after /= extent;
            let block = length.div_ceil(extent);
            let at = number / after % extent;
            length = length.saturating_sub(at * block).min(block);
        }
        length
    }
}

/// The maximum number of elements of a block if each of these numbers divides any one of its dimensions.
fn largest(blocks: &mut [usize], copies: &[usize]) -> f64 {
    let Some((first, rest)) = copies.split_first() else {
        return blocks.iter().map(|&block| block as f64).product();
    };
    let mut most: f64 = if blocks.is_empty() { 1.0 } else { 0.0 };
    for dim in 0..blocks.len() {
        let whole = blocks[dim];
        blocks[dim] = whole.div_ceil(*first);
        most = most.max(largest(blocks, rest));
        blocks[dim] = whole;
    }
    most
}

/// Maximum bytes per second that a device receives through one level.
fn port(level: &Level) -> f64 {
    let links = match &level.interconnect {
        Interconnect::Switch => level.shared_ports.unwrap_or(1) as f64,
        Interconnect::Ring | Interconnect::Line => 2.0,
        Interconnect::Torus(extents) => 2.0 * extents.len() as f64,
    };
    if level.count > 1 { links * level.bandwidth + level.bypass.unwrap_or(0.0) } else { 0.0 }
}
