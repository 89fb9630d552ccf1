//! Links and devices, timed while all ranks use them at once.
//!
//! All at once, because ranks of one node share its memory and maybe its cores: a rank alone does not behave as
//! in a program. The caller decides how long it takes: a quick measurement, or a thorough one.

use super::calls::Buffers;
use super::clock::{Clock, Timed};
use super::noise::plausible;
use super::progress::Steps;
use super::topology::Topology;
use polyshard_layout::{AxisExpr, Mesh, Placement, Sharding, with_type};
use polyshard_machine::units::binary;
use polyshard_machine::{Device, Interconnect, Level, Link, Machine, MachineError, Products, fit_link};
use polyshard_runtime::comm::exchange_words;
use polyshard_runtime::leaf::{Role, contract, nest, pointwise};
use polyshard_runtime::{
    DType, DetectError, DistArray, Element, Error, Redistribution, ReduceOp, Result, Strided, StridedMut, ViewMut,
    World,
};
use std::hint::black_box;

/// How often implausible rates of products are timed again.
const REPEATS: usize = 4;

/// The times of messages between neighbours of one level.
pub(super) struct LinkTimes {
    pub(super) level: &'static str,
    /// Ranks behind one port, which all send at once.
    pub(super) sharing: usize,
    /// For each size, bytes per rank, the time.
    pub(super) times: Vec<(usize, Timed)>,
}

impl LinkTimes {
    /// Returns the bytes that pass one port, and the seconds, for each size.
    pub(super) fn of_port(&self) -> Vec<(f64, f64)> {
        self.times.iter().map(|&(bytes, timed)| ((self.sharing * bytes) as f64, timed.seconds)).collect()
    }
}

/// Times messages at each level of a topology, the fastest of several passes. Collective.
///
/// ```text
/// node 0 {0 1}, node 1 {2 3}     node: 0 -> 2, 1 -> 3, 2 -> 0, 3 -> 1     rank: 0 -> 1, 1 -> 0, 2 -> 3, 3 -> 2
/// ```
pub(super) fn links(
    clock: &Clock<'_>,
    topology: &Topology,
    buffers: &mut Buffers,
    sizes: &[usize],
    passes: usize,
    steps: &mut Steps<'_>,
) -> Result<Vec<LinkTimes>> {
    let (rank, ranks, inside) = (clock.comm.rank(), clock.comm.size(), topology.ranks_per_node);
    let mut links = Vec::new();
    for (level, count) in topology.levels() {
        let (sharing, [to, from]) = match level {
            "node" => (inside, [rank + inside, rank + ranks - inside].map(|to| to % ranks)),
            _ => (1, [rank + 1, rank + count - 1].map(|to| rank / count * count + to % count)),
        };
        let mut times: Vec<_> = sizes.iter().map(|&bytes| (bytes, Timed::NEVER)).collect();
        let clock = if level == "node" { clock.longer() } else { *clock };
        for _ in 0..passes.max(1) {
            for (bytes, timed) in &mut times {
                steps.next(format_args!("message of {} to the next {level}", binary(*bytes as f64)));
                *timed = timed.min(buffers.shift(&clock, *bytes, to, from)?);
            }
        }
        links.push(LinkTimes { level, sharing, times });
    }
    Ok(links)
}

/// Returns the machine with these links and devices.
pub(super) fn machine(name: &str, topology: &Topology, links: &[LinkTimes], device: Device) -> Result<Machine> {
    let mut levels = Vec::with_capacity(links.len());
    for ((level, count), link) in topology.levels().into_iter().zip(links) {
        let fit = fit_link(&link.of_port()).map_err(refused)?;
        levels.push(switch(level, count, fit));
    }
    of_ranks(Machine::new(name, levels, device), topology)
}

/// Returns a level whose members are on a switch; the ranks of a node share a port.
pub(super) fn switch(name: &str, count: usize, Link { bandwidth, latency }: Link) -> Level {
    let shared_ports = (name == "node").then_some(1);
    Level { shared_ports, ..Level::new(name, count, Interconnect::Switch, bandwidth, latency) }
}

/// Returns the machine, with shared memory among the ranks of a node.
pub(super) fn of_ranks(machine: Result<Machine, MachineError>, topology: &Topology) -> Result<Machine> {
    let machine = machine.and_then(|machine| match topology.ranks_per_node {
        1 => Ok(machine),
        _ => machine.with_shared_memory("rank"),
    });
    machine.map_err(refused)
}

/// Returns the error for figures measured here that the machine model rejects.
pub(super) fn refused(error: MachineError) -> Error {
    DetectError::Times(Box::new(error)).into()
}

/// The times of a device's operations.
pub(super) struct DeviceTimes {
    /// A product of square matrices of this many rows, by element type.
    products: Vec<(DType, Timed)>,
    rows: usize,
    /// Products of the [`SHAPES`], by element type.
    thin: Vec<(DType, [Timed; SHAPES.len()])>,
    /// A nest of [`NEST`] points, by element type.
    nests: Vec<(DType, Timed)>,
    /// Copies of `bytes` bytes, in each of the ways of [`COPIES`].
    copies: [Timed; COPIES.len()],
    bytes: usize,
    /// A nest that overwrites as many bytes.
    written: Timed,
    /// A product of [`COLUMNS`] columns in f64, whose larger operand has as many bytes, in each of the layouts of [`Packed::ALL`].
    packed: [Timed; 3],
    /// The times to fill as many bytes from the memory of another rank, and to fill a [`ROW`]; none if ranks share no memory.
    pub(super) others: Option<[Timed; 2]>,
}

/// How a rank copies from memory to memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    /// All ranks at once.
    Together,
    /// One rank of each node, while the others wait.
    Alone,
    /// All ranks, row by row.
    InRows,
    /// All ranks, every second row of twice as many bytes.
    RowsApart,
}

/// The ways to copy, and how the steps of a measurement say them.
const COPIES: [(Copied, &str); 4] = [
    (Copied::Together, ""),
    (Copied::Alone, " by one rank"),
    (Copied::InRows, ", row by row"),
    (Copied::RowsApart, " in rows that lie apart"),
];

/// Layout of the larger operand of a product, which is in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packed {
    /// In rows of as many terms as thin products have.
    InRows,
    /// In rows [`LONGER`] times as long.
    InLongRows,
    /// In blocks, each of them transposed.
    Transposed,
}

impl Packed {
    const ALL: [Self; 3] = [Self::InRows, Self::InLongRows, Self::Transposed];
}

/// Ratio of row lengths; the starts of the longer rows take hardly any time.
const LONGER: usize = 16;

/// The steps of one pass of [`device`].
pub(super) const DEVICE_STEPS: usize = (2 + SHAPES.len()) * DType::NATIVE.len() + 2 + Packed::ALL.len() + COPIES.len();

/// Bytes of a row in a copy of a part of an array.
const ROW: usize = 1 << 13;

/// Rows, columns and terms of small or thin products: 0 stands for [`ROWS`], or for the rows of square
/// products if these are fewer.
const SHAPES: [[usize; 3]; 7] = [[4; 3], [4, 0, 0], [16, 0, 0], [0, 4, 0], [0, 16, 0], [0, 0, 4], [0, 0, 16]];

/// Maximum rows of products of integers, and of thin products: they stay in a cache.
const ROWS: usize = 256;

/// Minimum ratio of the operand in memory to the cached one, and maximum ratio of the speed of operands to that of the memory.
const LARGER: usize = 8;

/// The columns of the product whose larger operand is in memory, and the index among the [`SHAPES`] of its cached counterpart.
const COLUMNS: usize = 16;
const OF_COLUMNS: usize = 4;

/// The loops of the timed nest: its operands stay in a cache.
const NEST: [usize; 3] = [16, 64, 64];

/// Times the devices, the fastest of several passes: products of square matrices of `rows` rows, and copies of `bytes`
/// bytes, rounded up to whole rows. The most important figures are timed first. Collective.
pub(super) fn device(
    clock: &Clock<'_>,
    topology: &Topology,
    types: &[DType],
    rows: usize,
    bytes: usize,
    passes: usize,
    steps: &mut Steps<'_>,
) -> Result<DeviceTimes> {
    let bytes = bytes.next_multiple_of(ROW);
    let products: Vec<_> = types.iter().map(|&dtype| (dtype, Timed::NEVER)).collect();
    let thin = types.iter().map(|&dtype| (dtype, [Timed::NEVER; SHAPES.len()])).collect();
    let (copies, written, packed, others) = ([Timed::NEVER; COPIES.len()], Timed::NEVER, [Timed::NEVER; 3], None);
    let mut found =
        DeviceTimes { nests: products.clone(), products, rows, thin, copies, bytes, written, packed, others };
    // Ranks that share a core alternate during one large product: their common rate shows over several.
    let long = if topology.ranks_per_node > topology.cores { clock.longer() } else { *clock };
    for _ in 0..passes.max(1) {
        for (dtype, timed) in &mut found.products {
            steps.next(format_args!("product of matrices of {} rows in {dtype}", rows_of(*dtype, rows)));
            *timed = timed.min(product_of(*dtype, &long, [rows_of(*dtype, rows); 3])?);
        }
        for (dtype, timed) in &mut found.nests {
            steps.next(format_args!("nest of loops in {dtype}"));
            *timed = timed.min(with_type!(*dtype, T => nest_in::<T>(clock))?);
        }
        steps.next(format_args!("nest that overwrites {}", binary(bytes as f64)));
        found.written = found.written.min(overwriting(clock, bytes)?);
        let mut memory = Memory::new(clock, topology, bytes);
        for (timed, (how, said)) in found.copies.iter_mut().zip(COPIES) {
            steps.next(format_args!("copy of {}{said}", binary(bytes as f64)));
            *timed = timed.min(memory.copy(clock, how)?);
        }
        // These are many, and none takes long.
        let quick = Clock { budget: clock.budget / 4, extra: clock.extra / 2, ..*clock };
        for (dtype, times) in &mut found.thin {
            for (timed, shape) in times.iter_mut().zip(SHAPES) {
                let shape @ [m, n, k] = shape_of(shape, rows.min(ROWS));
                steps.next(format_args!("product of {m} x {k} by {k} x {n} in {dtype}"));
                *timed = timed.min(product_of(*dtype, &quick, shape)?);
            }
        }
        let (terms, blocks) = (rows.min(ROWS), found.blocks_in_memory());
        for (timed, how) in found.packed.iter_mut().zip(Packed::ALL) {
            let (blocks, rows, terms, transposed) = match how {
                Packed::InRows => (blocks, terms, terms, ""),
                Packed::InLongRows => (1, (blocks * terms / LONGER).max(1), LONGER * terms, ""),
                Packed::Transposed => (blocks, terms, terms, ", in transposed blocks,"),
            };
            let large = blocks * rows;
            let of = format_args!("product of {large} x {terms}{transposed} by {terms} x {COLUMNS} in {}", DType::F64);
            steps.next(of);
            *timed =
                timed.min(product::<f64>(&long.closer(), [blocks, rows, COLUMNS, terms], how == Packed::Transposed)?);
        }
    }
    for _ in 0..REPEATS {
        // All ranks know the same times, so they stop together.
        if plausible(found.rate(DType::F32), found.rate(DType::F64)) {
            break;
        }
        for (dtype, timed) in &mut found.products {
            *timed = timed.min(product_of(*dtype, &long, [rows_of(*dtype, rows); 3])?);
        }
    }
    Ok(found)
}

impl DeviceTimes {
    /// Returns the operations per second on elements of a type.
    fn rate(&self, dtype: DType) -> f64 {
        let timed = self.products.iter().find(|(other, _)| *other == dtype).map(|(_, timed)| timed.seconds);
        timed.map_or(0.0, |seconds| 2.0 * (rows_of(dtype, self.rows) as f64).powi(3) / seconds)
    }

    /// Returns the rates of products of the [`SHAPES`] with these times. The time of the smallest product is nearly all latency.
    fn thin(&self, times: &[Timed; SHAPES.len()]) -> Products {
        let [latency, ..] = times.map(|timed| timed.seconds);
        let mut products = Products { latency, ..Products::default() };
        let rows = self.rows.min(ROWS);
        for (shape, timed) in SHAPES.iter().zip(times).skip(1) {
            let operations = 2.0 * shape_of(*shape, rows).iter().product::<usize>() as f64;
            let place = match shape {
                [rows, _, _] if *rows > 0 => &mut products.rows,
                [_, columns, _] if *columns > 0 => &mut products.columns,
                _ => &mut products.depth,
            };
            if let Some(extent) = shape.iter().copied().find(|&extent| extent > 0 && 4 * extent <= rows) {
                place.push((extent, operations / (timed.seconds - latency).max(0.1 * timed.seconds)));
            }
        }
        products
    }

    /// Returns the device; a copy reads as many bytes as it writes.
    pub(super) fn device(&self, topology: &Topology) -> Device {
        let rates = self.products.iter().map(|&(dtype, _)| (dtype.name().to_owned(), self.rate(dtype)));
        let thin = self.thin.iter().map(|(dtype, times)| (dtype.name().to_owned(), self.thin(times)));
        // A multiplication and an addition at each point.
        let operations = 2.0 * NEST.iter().product::<usize>() as f64;
        let nests = self.nests.iter().map(|(dtype, timed)| (dtype.name().to_owned(), operations / timed.seconds));
        let [together, alone, in_rows, apart] = self.copies.map(|timed| timed.seconds);
        let bandwidth = |seconds: f64| 2.0 * self.bytes as f64 / seconds;
        let packing = self.packing(bandwidth(together));
        let others = self.others.map(|times| self.in_place(times.map(|timed| timed.seconds)));
        Device {
            memory_bandwidth: bandwidth(together),
            memory_alone: (topology.ranks_per_node > 1 && alone < together).then_some(bandwidth(alone)),
            memory_of_others: others.map(|(bandwidth, _)| bandwidth),
            write_bandwidth: Some(self.bytes as f64 / self.written.seconds),
            in_place_latency: others.map_or(0.0, |(_, latency)| latency),
            packing_bandwidth: packing.map(|[bandwidth, ..]| bandwidth),
            packing_latency: packing.map_or(0.0, |[_, latency, _]| latency),
            transposing_bandwidth: packing.map(|[.., transposing]| transposing),
            memory_capacity: topology.memory / topology.ranks_per_node as u64,
            row_latency: (apart - in_rows).max(0.0) / (self.bytes / ROW) as f64,
            flops: rates.collect(),
            nests: nests.collect(),
            products: thin.collect(),
            streams: false,
        }
    }

    /// The number of square f64 matrices, of as many rows as thin products have, in the bytes that are copied.
    fn blocks_in_memory(&self) -> usize {
        (self.bytes / size_of::<f64>() / self.rows.min(ROWS).pow(2)).max(1)
    }

    /// How much longer products take when the larger operand is in memory, which delivers `memory` bytes per second: bytes per second,
    /// seconds per row, and bytes per second of transposed operands. None if that operand is hardly larger than a cached one.
    /// Operands in storage order take at most the time of the memory.
    fn packing(&self, memory: f64) -> Option<[f64; 3]> {
        let (times, terms) = (self.blocks_in_memory(), self.rows.min(ROWS));
        let (_, thin) = self.thin.iter().find(|(dtype, _)| *dtype == DType::F64).filter(|_| times >= LARGER)?;
        let bytes = (times * size_of::<f64>() * terms * terms) as f64;
        let (least, most) = (bytes / (LARGER as f64 * memory), bytes / memory);
        let [in_rows, in_long_rows, transposed] = self.packed.map(|packed| packed.seconds);
        let from_cache = times as f64 * thin[OF_COLUMNS].seconds;
        if ![memory, from_cache, in_rows, in_long_rows, transposed]
            .iter()
            .all(|known| known.is_finite() && *known > 0.0)
        {
            return None;
        }
        let in_memory = (in_rows - from_cache).clamp(least, most);
        // All but one in `LONGER` of the short rows begin inside a longer one.
        let rows = (times * terms) as f64;
        let latency = (in_rows - in_long_rows).max(0.0) / (rows * (1.0 - 1.0 / LONGER as f64));
        let latency = latency.min((in_memory - least) / rows);
        let transposed = (transposed - from_cache).max(in_memory);
        let [bandwidth, transposing] = [in_memory - rows * latency, transposed].map(|seconds| bytes / seconds);
        Some([bandwidth, latency, transposing])
    }

    /// Returns the bytes per second and the latency in seconds of moves with these times: a byte that is read and written counts twice. The
    /// time of few bytes is nearly all latency.
    fn in_place(&self, [all, row]: [f64; 2]) -> (f64, f64) {
        let [bytes, few] = [self.bytes, ROW].map(|bytes| 2.0 * bytes as f64);
        // A copy no longer than a row does not measure the speed of the memory.
        let bandwidth = if bytes > few && all > row { (bytes - few) / (all - row) } else { bytes / all };
        (bandwidth, (row - few / bandwidth).max(0.0))
    }

    /// Returns all times.
    pub(super) fn timed(&self) -> impl Iterator<Item = Timed> {
        let thin = self.thin.iter().flat_map(|(_, times)| times).copied();
        self.products
            .iter()
            .chain(&self.nests)
            .map(|(_, timed)| *timed)
            .chain(self.copies)
            .chain(thin)
            .chain(self.others.into_iter().flatten())
            .chain([self.written])
            .chain(self.packed)
    }
}

/// The steps of one pass of [`in_place`].
pub(super) fn in_place_steps(topology: &Topology) -> usize {
    if topology.ranks_per_node > 1 { 2 } else { 0 }
}

/// Times the move of `bytes` bytes, rounded up to whole rows, and of one row, from each rank to the next one of its node, as programs move
/// arrays in place. None if ranks share no memory. The fastest of several passes. Collective.
pub(super) fn in_place(
    world: &World,
    clock: &Clock<'_>,
    topology: &Topology,
    bytes: usize,
    passes: usize,
    steps: &mut Steps<'_>,
) -> Result<Option<[Timed; 2]>> {
    let (nodes, inside) = (topology.nodes, topology.ranks_per_node);
    if inside < 2 || clock.is_over() {
        return Ok(None);
    }
    let mesh = Mesh::new([("node", nodes), ("rank", inside)]);
    let [node, rank] = mesh.axes();
    let mut times = [Timed::NEVER; 2];
    for (timed, bytes) in times.iter_mut().zip([bytes.next_multiple_of(ROW), ROW]) {
        let shape = [nodes, inside, bytes / size_of::<u64>()];
        let lying = |at: AxisExpr| {
            let placements = [Placement::block(0, node), Placement::block(1, at)];
            Sharding::new(&mesh, &shape, &placements)
                .expect("a row for each rank is laid out; this is a bug in polyshard")
        };
        let own = lying(rank.into());
        let moving = Redistribution::new(world, &own, &lying((rank + 1) % inside as i64))?;
        let source = DistArray::<i64>::filled(world, &own, 1)?;
        let mut target = moving.output(world)?;
        let before = clock.comm.received().in_place;
        for _ in 0..passes.max(1) {
            steps.next(format_args!("{} in the memory of the next rank", binary(bytes as f64)));
            *timed = timed.min(clock.time(|| moving.run_into(world, &source, &mut target))?);
        }
        let is_in_place = [u64::from(clock.comm.received().in_place > before)];
        let all = exchange_words(clock.comm, "how ranks reach one another's memory", is_in_place)?;
        if all.iter().any(|[is_in_place]| *is_in_place == 0) {
            return Ok(None);
        }
    }
    Ok(Some(times))
}

/// Returns the shape with the extents of 0 replaced by `rows`.
fn shape_of(shape: [usize; 3], rows: usize) -> [usize; 3] {
    shape.map(|extent| if extent == 0 { rows } else { extent })
}

/// The rows of the timed square matrices of a type: for floats large ones, which are as fast as those of programs.
fn rows_of(dtype: DType, rows: usize) -> usize {
    if dtype.is_float() { rows } else { rows.min(ROWS) }
}

fn product_of(dtype: DType, clock: &Clock<'_>, [rows, columns, terms]: [usize; 3]) -> Result<Timed> {
    with_type!(dtype, T => product::<T>(clock, [1, rows, columns, terms], false))
}

/// A product by the leaf that programs use: blocks of rows, one after the other, with all columns. If `is_turned`, each block of the first
/// operand is transposed.
fn product<T: Element>(clock: &Clock<'_>, shape @ [blocks, m, n, k]: [usize; 4], is_turned: bool) -> Result<Timed> {
    if clock.is_over() {
        return Ok(Timed::NEVER);
    }
    let filled = |first: usize, len: usize| -> Vec<T> {
        (0..len).map(|i| if (first + i).is_multiple_of(7) { T::ONE } else { T::ZERO }).collect()
    };
    let (a, b, mut c) = (filled(1, blocks * m * k), filled(2, k * n), filled(3, blocks * m * n));
    let [m, n, k] = [m, n, k].map(|extent| extent as i64);
    let [row, term] = if is_turned { [1, m] } else { [k, 1] };
    clock.compute(|| {
        let (a, b) = (Strided::new(&a, 0, vec![m * k, row, 0, term]), Strided::new(&b, 0, vec![0, 0, 1, n]));
        let c = StridedMut::new(&mut c, 0, vec![m * n, n, 1, 0]);
        contract(&shape, &[Role::M, Role::M, Role::N, Role::K], T::ONE, a, b, c);
        Ok(())
    })
}

/// `c[i, j] += a[k, j] * b[i, k, j]` by the leaf that programs use.
fn nest_in<T: Element>(clock: &Clock<'_>) -> Result<Timed> {
    let [i, k, j] = NEST;
    let (a, b, mut c) = (vec![T::ONE; k * j], vec![T::ONE; i * k * j], vec![T::ZERO; i * j]);
    let row = j as i64;
    clock.compute(|| {
        let (a, b) = (Strided::new(&a, 0, vec![0, row, 1]), Strided::new(&b, 0, vec![k as i64 * row, row, 1]));
        let c = StridedMut::new(&mut c, 0, vec![row, 0, 1]);
        nest(&NEST, c, ReduceOp::Sum, &[a, b], &pointwise(|[a, b]: [T; 2]| a.multiply(b)));
        Ok(())
    })
}

/// `c[i, j] = a[j]` by the leaf that programs use, with rows of [`ROW`] bytes, `bytes` in all.
fn overwriting(clock: &Clock<'_>, bytes: usize) -> Result<Timed> {
    if clock.is_over() {
        return Ok(Timed::NEVER);
    }
    let row = ROW / size_of::<f64>();
    let (a, mut c) = (vec![1.0; row], vec![0.0; bytes / size_of::<f64>()]);
    let shape = [c.len() / row, row];
    clock.compute(|| {
        let c = ViewMut::new(&mut c, vec![0; 2], vec![row as i64, 1]).overwritten();
        let (c, a) = (c.strided(&[0; 2], &[&[1, 0], &[0, 1]]), Strided::new(&a, 0, vec![0, 1]));
        nest(&shape, c, ReduceOp::Sum, &[a], &pointwise(|[a]: [f64; 1]| a));
        Ok(())
    })
}

/// Buffers for copies: the source is twice as long as the target, so that its rows may be non-contiguous.
struct Memory {
    from: Vec<u64>,
    to: Vec<u64>,
    is_first: bool,
}

impl Memory {
    fn new(clock: &Clock<'_>, topology: &Topology, bytes: usize) -> Self {
        // All pages are written before they are timed: an untouched page costs a fault.
        let from: Vec<u64> = (0..(2 * bytes / size_of::<u64>()) as u64).collect();
        let to = from[..from.len() / 2].to_vec();
        Self { from, to, is_first: clock.comm.rank().is_multiple_of(topology.ranks_per_node) }
    }

    fn copy(&mut self, clock: &Clock<'_>, how: Copied) -> Result<Timed> {
        let Self { from, to, is_first } = self;
        let row = ROW / size_of::<u64>();
        let distance = if how == Copied::RowsApart { 2 * row } else { row };
        clock.compute(|| {
            match how {
                Copied::Alone if !*is_first => {}
                Copied::Together | Copied::Alone => {
                    let from = &black_box(&*from)[..to.len()];
                    to.copy_from_slice(from);
                }
                Copied::InRows | Copied::RowsApart => {
                    for (to, from) in to.chunks_exact_mut(row).zip(black_box(&*from).chunks_exact(distance)) {
                        to.copy_from_slice(&from[..row]);
                    }
                }
            }
            black_box(&mut *to);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
