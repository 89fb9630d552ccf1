//! The world that a rank of a running program sees, and its groups along mesh axes.
//!
//! A group is made when it is first requested and then kept, so a program that runs often, or in a loop, makes each sub-communicator once.
//! Making one is collective; looking one up is not.

mod agree;
mod cache;
mod numbering;
mod parts;
mod stages;

use crate::comm::{Communicator, Received, SharedMemory};
use crate::layout::Mesh;
use crate::memory::Visibility;
use crate::publish::{Peers, Publisher};
use crate::{Backend, GroupError, PollHandle, Polled, Progress, Result, Transport, at_caller, memory};
pub(crate) use agree::{hash_of, texts_if_differ};
use cache::Cache;
pub use numbering::Numbering;
use parts::Part;
use polyshard_comm::Poller;
use smallvec::SmallVec;
use stages::InStages;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// All ranks of a running program, seen from one of them: the argument that [`spmd`](crate::spmd()) passes to each.
///
/// ```
/// use polyshard::prelude::*;
/// let numbers = polyshard::spmd(3, |world| {
///     world.barrier()?;
///     Ok((world.rank(), world.size(), world.is_root()))
/// })?;
/// assert_eq!(numbers, [(0, 3, true), (1, 3, false), (2, 3, false)]);
/// # Ok::<(), polyshard::Error>(())
/// ```
pub struct World {
    comm: Rc<dyn Communicator>,
    backend: Backend,
    groups: RefCell<Vec<Rc<Group>>>,
    parts: RefCell<Vec<Part>>,
    memory: OnceCell<Rc<dyn SharedMemory>>,
    transport: Rc<Cell<Transport>>,
    poller: Rc<Poller>,
    /// The number of redistributions that this rank has made.
    redistributions: Rc<Cell<u64>>,
    /// The publisher of all ranks.
    publisher: Publisher,
    /// The numbering of the ranks, if it differs from the launcher's.
    numbering: Option<Numbering>,
    /// The same ranks under other numbers.
    renumbered: RefCell<Vec<Rc<World>>>,
    /// Values that calls made and later ones may reuse.
    kept: RefCell<Cache>,
}

impl World {
    pub(crate) fn new(comm: Rc<dyn Communicator>, backend: Backend) -> Self {
        Self {
            comm,
            backend,
            groups: RefCell::default(),
            parts: RefCell::default(),
            memory: OnceCell::new(),
            transport: Rc::default(),
            poller: Rc::default(),
            redistributions: Rc::default(),
            publisher: Publisher::default(),
            numbering: None,
            renumbered: RefCell::default(),
            kept: RefCell::default(),
        }
    }

    /// A world of ranks of this one, which shares its settings.
    fn with_comm(&self, comm: Rc<dyn Communicator>) -> Self {
        Self {
            // Numbers distinguish redistributions that run at the same time, so the ranks must not reuse one.
            redistributions: Rc::clone(&self.redistributions),
            transport: Rc::clone(&self.transport),
            poller: Rc::clone(&self.poller),
            ..Self::new(comm, self.backend)
        }
    }

    /// Returns this rank's number.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// Returns whether this is rank 0: print from rank 0 only, and each message appears once.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// spmd(4, |world| {
    ///     if world.is_root() {
    ///         println!("computing on {} ranks", world.size());
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.rank() == 0
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.comm.size()
    }

    /// Returns the communicator of all ranks.
    #[must_use]
    pub fn comm(&self) -> &dyn Communicator {
        &*self.comm
    }

    /// Returns the amount of data that this rank has received from other ranks, in all groups: by messages, and by reading in place.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let received = spmd(2, |world| {
    ///     world.all_gather(&[world.rank() as f64])?;
    ///     Ok(world.received())
    /// })?;
    /// assert_eq!((received[0].bytes_by_messages, received[0].bytes_in_place), (8, 0));
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn received(&self) -> Received {
        self.comm.received()
    }

    /// Returns the bytes that this rank has [received](Self::received) from other ranks, by messages and in place.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let received = spmd(4, |world| {
    ///     let before = world.bytes_received();
    ///     world.all_gather(&[world.rank() as f64; 3])?;
    ///     Ok(world.bytes_received() - before)
    /// })?;
    /// assert_eq!(received, [72; 4]); // three elements of each other rank
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.comm.bytes_received()
    }

    /// Returns the bytes that this rank keeps for tiles and messages of the next program, besides those in use.
    ///
    /// The system takes longer to provide new memory to a process than tiles take to receive, so a rank keeps the memory that the tiles of
    /// a program have freed. Together with the memory in use it never exceeds the maximum that was in use.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let blocks = Sharding::new(&mesh, &[2 << 20], &[Placement::block(0, "x")]).expect("a sharding");
    /// let kept = spmd(2, |world| {
    ///     drop(DistArray::filled(world, &blocks, 1.0f64)?);
    ///     let kept = world.kept_memory();
    ///     world.release_memory();
    ///     Ok([kept, world.kept_memory()])
    /// })?;
    /// assert_eq!(kept, [[8 << 20, 0]; 2]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn kept_memory(&self) -> usize {
        memory::kept()
    }

    /// Returns the memory that this rank [keeps](Self::kept_memory) to the system. Not collective.
    pub fn release_memory(&self) {
        memory::release();
    }

    /// Returns the kind of ranks.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns the group of the ranks that differ from this one along `axes` only.
    ///
    /// `axes` are positions in the mesh, any of them, also none or all. Members are ranked row-major by
    /// their coordinates along `axes`, in the order given.
    ///
    /// ```text
    /// mesh (x: 2, y: 3), axes [1]      mesh (x: 2, y: 3), axes [0]
    /// {0 1 2} {3 4 5}                  {0 3} {1 4} {2 5}
    /// ```
    ///
    /// The first call with a mesh and axes is collective over the world (MPI 3.1, section 6.4.2): all ranks
    /// must make such first calls in the same order.
    ///
    /// # Errors
    /// [`GroupError`] if the number of ranks of the mesh is not the world's, detected before any communication, or if `axes` names an axis
    /// twice or one that the mesh does not have; or as [`Communicator::split`] does.
    #[track_caller]
    pub fn group(&self, mesh: &Mesh, axes: &[usize]) -> Result<Rc<Group>> {
        at_caller(self.group_along(mesh, axes))
    }

    fn group_along(&self, mesh: &Mesh, axes: &[usize]) -> Result<Rc<Group>> {
        self.check_mesh(mesh)?;
        if let Some(group) = self.groups.borrow().iter().find(|group| group.is(mesh, axes, None)) {
            return Ok(Rc::clone(group));
        }
        for (nth, &axis) in axes.iter().enumerate() {
            if axis >= mesh.ndim() {
                return Err(GroupError::NoAxis { axis, mesh: mesh.clone() }.into());
            }
            if axes[..nth].contains(&axis) {
                return Err(GroupError::AxisTwice { axis, mesh: mesh.clone() }.into());
            }
        }
        let mut group = Group {
            near: None,
            publisher: Publisher::default(),
            transport: Rc::clone(&self.transport),
            comm: Rc::clone(&self.comm),
            mesh: mesh.clone(),
            axes: axes.to_vec(),
            origin: mesh.coordinates(self.rank()),
            in_stages: None,
        };
        let size: usize = group.extents().product();
        if size == 1 {
            group.comm = Rc::from(self.comm.alone()?);
        } else if !(size == self.size() && (0..size).all(|member| group.world_rank(member) == member)) {
            let coordinates: Vec<_> = axes.iter().map(|&axis| group.origin[axis]).collect();
            // The lowest member is the same for all members, and in no other group.
            group.comm = Rc::from(self.comm.split(group.world_rank(0), group.rank_of(&coordinates))?);
        }
        let memory = self.memory()?;
        let members: Rc<[usize]> = (0..size).map(|member| group.world_rank(member)).collect();
        let is_near = size > 1 && members.iter().all(|&rank| memory.reaches(rank));
        group.near = is_near.then(|| (Rc::clone(memory), members));
        let group = Rc::new(group);
        self.groups.borrow_mut().push(Rc::clone(&group));
        Ok(group)
    }

    /// Returns the memory that ranks share. The first call is collective.
    pub(crate) fn memory(&self) -> Result<&Rc<dyn SharedMemory>> {
        if let Some(memory) = self.memory.get() {
            return Ok(memory);
        }
        let memory = self.comm.shared_memory()?;
        Ok(self.memory.get_or_init(|| memory))
    }

    /// Returns the lowest rank of this rank's node: of the ranks that share memory with it. The first call is collective.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// assert_eq!(spmd(3, |world| Ok(world.node_root()?))?, [0; 3]); // threads share one node
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If another rank failed.
    pub fn node_root(&self) -> Result<usize> {
        let memory = self.memory()?;
        Ok((0..self.size()).find(|&rank| memory.reaches(rank)).unwrap_or(self.rank()))
    }

    /// Returns the publisher of all ranks.
    pub(crate) fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Returns how ranks of one node access each other's elements, unless a program or a redistribution sets it.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport.get()
    }

    /// Sets how ranks of one node access each other's elements: initially in place, if the ranks share memory, or as `POLYSHARD_TRANSPORT`
    /// in the environment says, which is `auto`, `messages` or `shared`. It applies to everything that is prepared or made afterwards, also
    /// under other numbers of the ranks. All ranks must set the same.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # use polyshard::runtime::Transport;
    /// spmd(2, |world| {
    ///     world.set_transport(Transport::Messages); // to measure what a network would carry
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn set_transport(&self, transport: Transport) {
        self.transport.set(transport);
    }

    /// Returns the driver of transfers while this rank computes a leaf.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.poller.progress()
    }

    /// Sets the driver of transfers while this rank computes a leaf: initially the rank itself between slices, or as `POLYSHARD_PROGRESS`
    /// in the environment says, which is `slices` or `thread`. It applies to all later runs, also under other numbers of the ranks. Each
    /// rank may set another: the messages, the time at which they begin and all bits are the same.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # use polyshard::runtime::Progress;
    /// spmd(2, |world| {
    ///     world.set_progress(Progress::Thread)?; // each rank has a core to spare
    ///     assert_eq!(world.progress(), Progress::Thread);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LaunchError`](crate::LaunchError) if the system cannot start a thread for it, or MPI has been initialised for calls of one thread
    /// only.
    pub fn set_progress(&self, progress: Progress) -> Result<()> {
        #[cfg(feature = "mpi")]
        if self.backend == Backend::Mpi && progress == Progress::Thread {
            polyshard_comm::mpi::process::check_progress()?;
        }
        Ok(self.poller.set(progress, self.rank())?)
    }

    /// Makes the progress thread poll the transfers of some tiles while this rank computes, until the returned value is dropped; under MPI,
    /// until this rank communicates, if that is earlier. Does nothing if transfers are polled between slices. If a poll panics, so does the
    /// drop; an error is returned by the tile's next `poll` or `arrive`.
    pub(crate) fn poll_meanwhile(&self, handles: impl IntoIterator<Item = PollHandle>) -> Polled {
        self.poller.poll_meanwhile(handles)
    }

    /// Returns whether this rank need not poll while it computes.
    pub(crate) fn has_progress_thread(&self) -> bool {
        self.progress() == Progress::Thread
    }

    /// Returns which processes need to see arrays: those of the node, if the ranks are processes.
    pub(crate) fn visibility(&self) -> Visibility {
        if self.backend == Backend::Mpi && self.size() > 1 { Visibility::Node } else { Visibility::Process }
    }

    /// Returns the cached value of this type for which `matches` holds, or creates it with `make` and caches it. The 32 most
    /// recently used values are kept.
    ///
    /// So repeated calls reuse values that earlier ones made. If `make` is collective, all ranks must request the same values in the same
    /// order.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// spmd(2, |world| {
    ///     let table = |len: usize| world.kept(|kept: &Vec<f64>| kept.len() == len, || Ok::<_, polyshard::Error>(vec![0.5; len]));
    ///     assert!(std::rc::Rc::ptr_eq(&table(3)?, &table(3)?));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn kept<T: 'static, E>(
        &self,
        matches: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Rc<T>, E> {
        let known = self.kept.borrow_mut().find(matches);
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Rc::new(make()?);
        self.kept.borrow_mut().keep(Rc::clone(&made));
        Ok(made)
    }

    /// Returns the number of a new redistribution, the same on all ranks if they make the same ones.
    pub(crate) fn number_redistribution(&self) -> u64 {
        self.redistributions.replace(self.redistributions.get() + 1)
    }

    /// Checks that the number of ranks of the mesh is the world's, without communication.
    ///
    /// # Errors
    /// [`GroupError::Mesh`] if it is not.
    pub fn check_mesh(&self, mesh: &Mesh) -> Result<()> {
        let (size, backend) = (self.size(), self.backend);
        if mesh.size() == size { Ok(()) } else { Err(GroupError::Mesh { mesh: mesh.clone(), size, backend }.into()) }
    }
}

/// The ranks that differ from this one only along some axes of a mesh.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2), ("y", 3)]);
/// let sums = polyshard::spmd(6, |world| {
///     let row = world.group(&mesh, &[1])?; // the ranks that differ in y
///     let mut sum = [world.rank() as i64];
///     row.all_reduce(&mut sum, ReduceOp::Sum)?;
///     Ok((row.rank(), sum[0]))
/// })?;
/// assert_eq!(sums[4], (1, 3 + 4 + 5));
/// # Ok::<(), polyshard::Error>(())
/// ```
pub struct Group {
    comm: Rc<dyn Communicator>,
    /// The memory of the world, if all members share it.
    near: Option<Near>,
    /// The publisher of the members.
    publisher: Publisher,
    transport: Rc<Cell<Transport>>,
    mesh: Mesh,
    axes: Vec<usize>,
    /// This rank's coordinates on the mesh.
    origin: Vec<usize>,
    /// The stages of its collectives, if they are staged.
    in_stages: Option<InStages>,
}

/// Memory that the members of a group share, and their ranks in the world whose memory it is.
type Near = (Rc<dyn SharedMemory>, Rc<[usize]>);

impl Group {
    /// Returns the communicator of the group.
    #[must_use]
    pub fn comm(&self) -> &dyn Communicator {
        &*self.comm
    }

    /// Returns the members as peers that share memory, unless they share none or have to send messages.
    pub(crate) fn peers(&self) -> Option<Peers<'_>> {
        let (memory, members) = self.near.as_ref().filter(|_| self.transport.get() != Transport::Messages)?;
        Some(Peers { comm: &*self.comm, memory: &**memory, members: Some(members) })
    }

    /// Returns the publisher of the members.
    pub(crate) fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the positions in the mesh of the axes along which the members differ.
    #[must_use]
    pub fn axes(&self) -> &[usize] {
        &self.axes
    }

    /// Returns the number of members.
    #[must_use]
    pub fn size(&self) -> usize {
        self.comm.size()
    }

    /// Returns this rank's number in the group.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// Returns the number in the group of the member at `coordinates_along_axes`, one per axis of the group.
    ///
    /// # Panics
    /// If there is not one coordinate per axis, each inside its axis.
    #[track_caller]
    #[must_use]
    pub fn rank_of(&self, coordinates_along_axes: &[usize]) -> usize {
        let (given, axes) = (coordinates_along_axes, &self.axes);
        assert!(given.len() == axes.len(), "coordinates {given:?} of a group along axes {axes:?}: give one per axis");
        let outside = self.extents().zip(given).find(|(extent, coordinate)| *coordinate >= extent);
        if let Some((extent, coordinate)) = outside {
            panic!("coordinate {coordinate} is outside an axis of extent {extent}");
        }
        self.extents().zip(given).fold(0, |rank, (extent, &coordinate)| rank * extent + coordinate)
    }

    /// As [`rank_of`](Self::rank_of), for coordinates that programs compute.
    pub(crate) fn member_at(&self, coordinates: &[i64]) -> usize {
        let inside = |&coordinate: &i64| {
            usize::try_from(coordinate)
                .unwrap_or_else(|_| panic!("coordinate {coordinate} in a group; this is a bug in polyshard"))
        };
        self.rank_of(&coordinates.iter().map(inside).collect::<SmallVec<[usize; 6]>>())
    }

    /// Returns the coordinates on the whole mesh of a member.
    ///
    /// # Panics
    /// If `member` is not in `0..self.size()`.
    #[track_caller]
    #[must_use]
    pub fn coordinates(&self, member: usize) -> Vec<usize> {
        self.coordinates_of(member).to_vec()
    }

    #[track_caller]
    fn coordinates_of(&self, member: usize) -> SmallVec<[usize; 6]> {
        let size: usize = self.extents().product();
        assert!(member < size, "no member {member}: the group has members 0..{size}");
        let mut coordinates = SmallVec::from_slice(&self.origin);
        let mut rest = member;
        for &axis in self.axes.iter().rev() {
            let extent = self.mesh.as_slice()[axis].extent;
            coordinates[axis] = rest % extent;
            rest /= extent;
        }
        coordinates
    }

    /// Returns the number in the world of a member.
    ///
    /// # Panics
    /// As [`coordinates`](Self::coordinates).
    #[track_caller]
    #[must_use]
    pub fn world_rank(&self, member: usize) -> usize {
        self.mesh.rank(&self.coordinates_of(member))
    }

    fn extents(&self) -> impl Iterator<Item = usize> + '_ {
        self.axes.iter().map(|&axis| self.mesh.as_slice()[axis].extent)
    }
}

#[cfg(test)]
mod tests;
