//! The engine: carries out the transfers of a program's kernels on one rank, for both the executor and emitted source.
//!
//! A [`Kernel`] is a table: its arrays, its loops, and its [`Transfer`]s, each with the region that it moves and the legs that move it. The
//! engine makes the tiles and groups of all kernels once, and a [`Run`] of one of them carries out its statements:
//!
//! ```text
//! fill      an output's tile starts from the identity, or takes over a neighbour's sums
//! begin     an input's region is fetched, an output's tile is sent to its owners; at once, unless the transfer is ahead
//! end       of a transfer ahead: its region is in the tile, or its sums are with their owners
//! compute   a leaf on tiles and shards; transfers in flight make progress meanwhile
//! ```
//!
//! Transfers between two arrays take the same legs, and may be in flight while kernels run.
//!
//! How a transfer is carried out, whether it waits, and which ranks read inputs in place in the memory of others if they share any, is
//! stated in the table and is the same for all ranks; the engine decides nothing.
//!
//! Tests: `tests/it/golden.rs`, `tests/it/properties.rs`.

mod legs;
mod moves;
mod run;
mod table;

pub use polyshard_program::{Algorithm, Assign, InPlace, LeafPart, Leg, Owners, TileId};
pub use run::{Leaf, Run};
pub use table::{Coordinates, Kernel, Transfer, coordinates};

pub(crate) use legs::{At, values_at};
pub(crate) use table::{RegionOf, TimeSteps};

use crate::groups::Groups;
use crate::instances::Instances;
use crate::leaf::op;
use crate::tile::{How, Link, Tile, Written};
use crate::{DistArray, Element, Grid, InputTable, Reduction, Result, Transport, World};
use moves::Move;
use polyshard_program::Buffers;
use smallvec::SmallVec;
use std::panic::Location;

/// The kernels of a program, with everything that their runs need, made once.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::engine::{Assign, Engine, Kernel, Leg, Owners, TileId, Transfer};
/// use polyshard::runtime::leaf::{nest, pointwise};
/// use polyshard::runtime::Region;
/// let mesh = Mesh::new([("x", 2)]);
/// let [x] = mesh.axes();
/// let blocks = Sharding::new(&mesh, &[4], &[Placement::block(0, x)]).expect("a sharding");
/// // B[i] = A[3 - i]: each rank gathers all of A.
/// let mirror = || {
///     let all = Transfer::input("A", 0)
///         .region(|_: [i64; 1], _: [i64; 0]| Region::new(std::iter::once(0..4)))
///         .by([Leg::collective([0], Owners::Parts)])
///         .tile(4);
///     let kernel = Kernel::new("mirror", "B[i] = A[3 - i]", &mesh, Assign::Set, [&blocks, &blocks]).overwrites();
///     kernel.transfers([all, Transfer::output("B")])
/// };
/// let found = spmd(2, |world| {
///     let mut engine = Engine::new(world, [mirror()])?;
///     let a = DistArray::from_fn(world, &blocks, |index| index[0] as f64)?;
///     let mut b = DistArray::filled(world, &blocks, 0.0)?;
///     let mut run = engine.run(0, &[&a], &mut b)?;
///     let [x] = run.coordinates();
///     run.transfer(TileId(0), &[])?;
///     run.compute(&[], &[2], |leaf| {
///         let (a, b) = (leaf.read(TileId(0), &[3 - 2 * x], &[&[-1]]), leaf.write(&[2 * x], &[&[1]]));
///         nest(&leaf.counts(), b, ReduceOp::Sum, &[a], &pointwise(|[a]: [f64; 1]| a));
///     })?;
///     run.finish()?;
///     Ok(b.block().to_vec())
/// })?;
/// assert_eq!(found, [[3.0, 2.0], [1.0, 0.0]]);
/// # Ok::<(), polyshard::Error>(())
/// ```
pub struct Engine<'w, T: Element> {
    world: &'w World,
    transport: Transport,
    kernels: Vec<Prepared<'w, T>>,
    /// By kernel and transfer of an input; `None` where the leaf reads the shard, or the tile of another kernel.
    links: Vec<Vec<Option<Link<T>>>>,
    /// By kernel, the locations of all ranks' inputs in its last run.
    known: Vec<InputTable>,
    moves: Vec<Move>,
    /// Whether the last run did not end, so that transfers may be in flight.
    is_unfinished: bool,
}

/// A kernel, with its groups and its output's tile.
struct Prepared<'w, T: Element> {
    kernel: Kernel<'w>,
    grid: Grid<'w>,
    groups: Groups,
    output: Option<Link<T>>,
    /// The output of the previous time step, and that of the current one.
    steps: Option<[Tile<T>; 2]>,
    /// The elements of the output that the kernel writes; `None` if it writes all.
    written: Option<Written>,
}

impl<'w, T: Element> Engine<'w, T> {
    /// Makes what runs of these kernels need; collective over the world.
    ///
    /// # Errors
    /// If the number of ranks of a mesh is not the world's, there is too little memory, or another rank failed.
    pub fn new(world: &'w World, kernels: impl IntoIterator<Item = Kernel<'w>>) -> Result<Self> {
        T::engine(world, kernels.into_iter().collect())
    }

    pub(crate) fn made(world: &'w World, kernels: Vec<Kernel<'w>>) -> Result<Self> {
        let transport = world.transport();
        let mut engine = Self {
            world,
            transport,
            kernels: Vec::with_capacity(kernels.len()),
            links: Vec::with_capacity(kernels.len()),
            known: Vec::with_capacity(kernels.len()),
            moves: Vec::new(),
            is_unfinished: false,
        };
        kernels.into_iter().try_for_each(|kernel| engine.add(kernel))?;
        Ok(engine)
    }

    fn add(&mut self, kernel: Kernel<'w>) -> Result<()> {
        let world = self.world;
        let grid = Grid::new(world, &kernel.mesh)?;
        let groups = Groups::new(kernel.groups(), |axes, stages| match stages {
            None => grid.group(axes),
            Some(stages) => world.group_in_stages(grid.mesh(), axes, stages),
        })?;
        let step = |steps: &table::TimeSteps<'_>| {
            let tile = || Tile::new(kernel.output().name.as_str(), steps.capacity);
            Ok::<_, crate::Error>([tile()?, tile()?])
        };
        let steps = kernel.time_steps.as_ref().map(step);
        let steps = steps.transpose()?;
        let inputs = kernel.inputs().iter().map(|transfer| link(transfer, &grid, &groups));
        self.links.push(inputs.collect::<Result<_>>()?);
        let written = kernel.written.as_ref().map(|written| Written::of(world, kernel.output_sharding(), written));
        let output = link(kernel.output(), &grid, &groups)?;
        self.known.push(InputTable::of(&(&kernel.name, &kernel.statement, &kernel.shardings)));
        self.kernels.push(Prepared { kernel, grid, groups, output, steps, written });
        Ok(())
    }

    /// Sets how inputs are transferred between ranks.
    pub(crate) fn set_transport(&mut self, transport: Transport) {
        self.transport = transport;
        self.set_transport_of_moves(transport);
        if transport == Transport::Messages {
            self.kernels.iter_mut().flat_map(|prepared| &mut prepared.output).for_each(Link::use_messages);
        }
    }

    /// Begins a run of a kernel on these inputs, for the call at the caller's line; collective over the world. Ranks that share memory
    /// read each other's inputs in place until it is [finished](Run::finish).
    ///
    /// # Errors
    /// If the output does not have the kernel's sharding, the ranks run different programs, or another rank failed.
    ///
    /// # Panics
    /// If there is no such kernel.
    #[track_caller]
    pub fn run<'r>(
        &'r mut self,
        kernel: usize,
        inputs: &[&'r DistArray<T>],
        output: &'r mut DistArray<T>,
    ) -> Result<Run<'r, 'w, T>> {
        T::run_kernel(self, kernel, inputs, output, Location::caller())
    }

    /// As [`run`](Self::run), for the call at a line.
    pub(crate) fn run_at<'r>(
        &'r mut self,
        number: usize,
        inputs: &[&'r DistArray<T>],
        output: &'r mut DistArray<T>,
        at: &'static Location<'static>,
    ) -> Result<Run<'r, 'w, T>> {
        self.start();
        let mut run = self.begin(at);
        run.opened(number, inputs, output)?;
        Ok(run)
    }

    /// Forgets the transfers that a failed run left in flight; dropping them makes every later call of this rank an error. Every run begins
    /// with it, and [ends](Self::end) unless it fails.
    pub(crate) fn start(&mut self) {
        if std::mem::replace(&mut self.is_unfinished, true) {
            let outputs = self.kernels.iter_mut().filter_map(|prepared| prepared.output.as_mut());
            self.links.iter_mut().flatten().flatten().chain(outputs).for_each(Link::restart);
            self.restart_moves();
        }
    }

    /// Ends a run, which has left no transfers in flight.
    pub(crate) fn end(&mut self) {
        self.is_unfinished = false;
    }

    /// Begins a run of kernels whose statements mix, each of which is then [opened](Run::open); the first one is
    /// [selected](Run::select).
    pub(crate) fn begin<'r>(&'r mut self, at: &'static Location<'static>) -> Run<'r, 'w, T> {
        Run { engine: self, open: SmallVec::new(), selected: 0, at }
    }

    /// Returns the value that each element of a kernel's output starts from; `None` if runs overwrite all of them.
    pub(crate) fn identity(&self, kernel: usize) -> Option<T> {
        let Prepared { kernel, written, .. } = &self.kernels[kernel];
        let writes_all = kernel.assign == Assign::Set && written.is_none();
        (!writes_all).then(|| op(kernel.assign).identity())
    }

    /// Returns an output for a kernel that writes a tile alone: an array without elements.
    ///
    /// # Errors
    /// If its shape is too large.
    ///
    /// # Panics
    /// If there is no such kernel.
    pub fn target_in_tile(&self, kernel: usize) -> Result<DistArray<T>> {
        DistArray::empty(self.world, self.kernels[kernel].kernel.output_sharding())
    }

    /// Initialises an output of a kernel as the next version of an array: elements that runs write start from the identity, and all others
    /// are copied.
    ///
    /// # Panics
    /// If there is no such kernel.
    pub fn begin_version(&self, kernel: usize, output: &mut DistArray<T>, before: &DistArray<T>) {
        let Prepared { kernel, written, .. } = &self.kernels[kernel];
        let Some(written) = written else { return };
        written.copy_others(output, before);
        // `=` clears them in the run.
        if kernel.assign != Assign::Set {
            written.fill(output, op(kernel.assign).identity());
        }
    }

    /// Copies the elements that a kernel writes to an output from another array with the same layout; nothing if it writes all.
    pub(crate) fn copy_written(&self, kernel: usize, output: &mut DistArray<T>, from: &DistArray<T>) {
        let Prepared { kernel, written, .. } = &self.kernels[kernel];
        let Some((written, formula)) = written.as_ref().zip(kernel.written.as_ref()) else { return };
        match output.sharding() == kernel.output_sharding() {
            true => written.copy(output, from),
            // Later versions of its output are elsewhere.
            false => Written::of(self.world, output.sharding(), formula).copy(output, from),
        }
    }

    /// Returns the world.
    #[must_use]
    pub fn world(&self) -> &'w World {
        self.world
    }
}

/// The link of a transfer; none if the leaf works on the shard, or reads the tile of another kernel.
fn link<T: Element>(transfer: &Transfer<'_>, grid: &Grid<'_>, groups: &Groups) -> Result<Option<Link<T>>> {
    let (name, stated) = (transfer.name.as_str(), transfer.tile);
    if transfer.reused.is_some() || stated.buffers == Buffers::Shard {
        return Ok(None);
    }
    let reduction = transfer.route.procedure();
    let reduction = reduction.map(|procedure| Reduction::new(grid.world(), procedure, stated.capacity)).transpose()?;
    let how = How {
        is_fixed: stated.is_fixed,
        by: transfer.route.algorithm().cloned().unwrap_or_default(),
        sums: transfer.sums(),
        by_messages: false,
        reduction,
    };
    let group = transfer.group_ahead().map(|axes| groups.along(axes, None));
    let is_input = transfer.is_input();
    let tile = if is_input { Tile::new(name, stated.capacity) } else { Tile::to_be_read(name, stated.capacity) };
    let link = Link::new(tile?, how);
    let link = match (stated.buffers, is_input) {
        (Buffers::Ahead(depth), true) => link.fetched_ahead(depth, group)?,
        (Buffers::Ahead(depth), false) => link.sent_ahead(name, depth, group)?,
        (Buffers::Relay, true) => link.relay()?,
        _ => link,
    };
    let peers = transfer.peers_ahead(grid.mesh());
    let peers = peers.into_iter().map(|reach| if is_input { reach } else { reach.mirrored() });
    peers.into_iter().try_for_each(|reach| grid.connect(&reach))?;
    Ok(Some(link))
}
