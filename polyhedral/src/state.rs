//! The effect of a schedule's steps: each is checked when it is added, without isl. Tests: `tests/it/bad_input/schedules.rs`.

use crate::bounds;
use crate::error::ErrorKind;
use crate::nest::{Nest, NodeId};
use polyshard_dsl::{Clause, Dim, Step};
use polyshard_layout::{Division, Mesh, MeshError, Name, Placement, Sharding, in_order, joined};
use polyshard_program::{Assign, Kernel, LeafKind, MOST_AHEAD, MOST_TIME_STEPS, Pattern, StepId};
use std::sync::Arc;

/// The loops and data of a kernel after some steps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub kernel: Arc<Kernel>,
    pub nest: Nest,
    pub mesh: Mesh,
    pub shards: Vec<Shard>,
    pub communications: Vec<Communication>,
    pub tensorized: Option<Tensorized>,
    /// The loop inside which the leaf is, since other kernels run in it, too.
    pub together: Option<(Name, StepId)>,
    pub pipelines: Vec<Pipeline>,
    /// The step that leaves the order of sums to the communication library.
    pub reassociated: Option<StepId>,
    /// The input that the kernel is applied to several times.
    pub applied: Option<Applied>,
    /// Inputs that are in flight while the interior of the leaf is computed.
    pub interiors: Vec<(Name, StepId)>,
    pub expectations: Vec<(Name, Pattern, StepId)>,
    /// The minimum share of a tensor's transfer that a step expects to be hidden.
    pub overlaps: Vec<(Name, f64, StepId)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shard {
    pub tensor: Name,
    pub clauses: Vec<Clause>,
    pub sharding: Sharding,
    pub step: StepId,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Communication {
    pub tensor: Name,
    pub at: Name,
    pub step: StepId,
}

/// A loop whose transfers begin some iterations ahead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pipeline {
    pub t: Name,
    pub depth: usize,
    pub step: StepId,
}

/// How often a kernel is applied to an input, each time but the first to its previous output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Applied {
    pub tensor: Name,
    pub count: usize,
    pub step: StepId,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensorized {
    pub loops: Vec<Name>,
    pub kind: Option<LeafKind>,
    pub step: StepId,
}

/// Maximum size of a tile, part or block, so that rounding up fits in 64 bits; `bounds` checks numbers computed from them.
const MAX_COUNT: i64 = 1 << 62;

impl State {
    pub(crate) fn new(kernel: Arc<Kernel>) -> Self {
        let mut nest = Nest::default();
        for var in kernel.vars() {
            nest.add_variable(var.name, var.extent as i64);
        }
        // Records are combined whole, so the loop over their elements is the innermost one.
        if let Some(record) = kernel.record_index().and_then(|name| nest.find(name)) {
            nest.loops[record..].rotate_left(1);
        }
        Self {
            kernel,
            nest,
            mesh: Mesh::default(),
            shards: Vec::new(),
            communications: Vec::new(),
            tensorized: None,
            together: None,
            pipelines: Vec::new(),
            reassociated: None,
            applied: None,
            interiors: Vec::new(),
            expectations: Vec::new(),
            overlaps: Vec::new(),
        }
    }

    /// Applies a step, the `number`-th.
    pub(crate) fn apply(&mut self, step: &Step, number: StepId) -> Result<(), ErrorKind> {
        match step {
            Step::Split { i, outer, inner, size } => {
                let position = self.free_loop(*i, "split")?;
                let size = count("a tile of", *size)?;
                let extent = self.extent(position);
                // A tile beyond the extent is the whole loop, so products of tile sizes stay countable.
                let size = size.min(extent.max(1));
                self.fresh(&[*outer, *inner])?;
                self.nest.split(position, (*outer, div_ceil(extent, size)), (*inner, size), 0, number);
            }
            Step::Divide { i, outer, inner, parts } => {
                let position = self.free_loop(*i, "divide")?;
                self.fresh(&[*outer, *inner])?;
                let parts = count("a number of parts of", *parts)?;
                self.divide(position, (*outer, *inner), parts, (0, self.extent(position)), number);
            }
            Step::Reorder { order } => return self.reorder(order),
            Step::Fuse { i, j, fused } => self.fuse(*i, *j, *fused, number)?,
            Step::Distribute { loops, outer, inner, mesh } => self.distribute(loops, outer, inner, mesh, number)?,
            Step::Replicate { mesh } => self.replicate(mesh, number)?,
            Step::Rotate { t, by } => self.rotate(*t, by, number)?,
            Step::Shard { tensor, clauses } => return self.shard(*tensor, clauses, number),
            Step::Communicate { tensor, at } => return self.communicate(*tensor, *at, number),
            Step::Pipeline { t, depth } => return self.pipeline(*t, *depth, number),
            Step::Halo { tensor, steps } => return self.halo(*tensor, *steps, number),
            Step::InteriorFirst { tensor } => return self.interior_first(*tensor, number),
            Step::Reassociate { tensor } => return self.reassociate(*tensor, number),
            Step::Tensorize { loops, kind } => return self.tensorize(loops, *kind, number),
            Step::Expect { tensor, pattern } => return self.expect(*tensor, pattern, number),
            Step::Together { tensors, at } => return self.together(tensors, *at, number),
            Step::Apart { .. } | Step::Of { .. } | Step::OfAll => {
                return Err(ErrorKind::OneStatement { step: step.method() });
            }
            Step::ExpectOverlap { tensor, share } => return self.expect_overlap(*tensor, share.get(), number),
        }
        // Only steps that made loops get here.
        bounds::nest(&self.kernel, &self.nest)
    }

    fn expect(&mut self, tensor: Name, pattern: &Pattern, number: StepId) -> Result<(), ErrorKind> {
        self.tensor(tensor)?;
        self.axes_exist(pattern)?;
        self.expectations.push((tensor, pattern.clone(), number));
        Ok(())
    }

    fn expect_overlap(&mut self, tensor: Name, share: f64, number: StepId) -> Result<(), ErrorKind> {
        self.tensor(tensor)?;
        if !(0.0..=1.0).contains(&share) {
            return Err(ErrorKind::BadShare { share });
        }
        self.overlaps.push((tensor, share, number));
        Ok(())
    }

    /// The sharding of a tensor; replicated if no step shards it.
    pub(crate) fn sharding(&self, tensor: Name) -> Sharding {
        match self.shards.iter().find(|shard| shard.tensor == tensor) {
            Some(shard) => shard.sharding.clone(),
            None => Sharding::replicated(&self.mesh, self.shape(tensor)),
        }
    }

    fn shape(&self, tensor: Name) -> &[usize] {
        self.kernel.tensors().find(|other| other.name == tensor).map_or(&[], |tensor| &tensor.shape)
    }

    fn extent(&self, position: usize) -> i64 {
        self.nest.node(self.nest.loops[position]).extent
    }

    fn find(&self, name: Name) -> Result<usize, ErrorKind> {
        if self.kernel.record_index() == Some(name) {
            return Err(ErrorKind::RecordLoop { name });
        }
        self.nest.find(name).ok_or_else(|| ErrorKind::UnknownLoop { name, loops: self.nest.names() })
    }

    /// The position of a loop that is neither distributed nor tensorized nor communicated at.
    fn free_loop(&self, name: Name, method: &'static str) -> Result<usize, ErrorKind> {
        let position = self.serial_loop(name, "use its inner loop")?;
        if self.is_tensorized(name) {
            return Err(ErrorKind::Tensorized { name, instead: "change loops before `tensorize`" });
        }
        if let Some(communication) = self.communications.iter().find(|other| other.at == name) {
            return Err(ErrorKind::Communicated { name, tensor: communication.tensor, method });
        }
        Ok(position)
    }

    fn serial_loop(&self, name: Name, instead: &'static str) -> Result<usize, ErrorKind> {
        let position = self.find(name)?;
        match self.mesh.as_slice().get(position) {
            Some(axis) if position < self.nest.distributed => {
                Err(ErrorKind::Distributed { name, axis: axis.name, instead })
            }
            _ => Ok(position),
        }
    }

    fn is_tensorized(&self, name: Name) -> bool {
        self.tensorized.as_ref().is_some_and(|tensorized| tensorized.loops.contains(&name))
    }

    fn fresh(&self, names: &[Name]) -> Result<(), ErrorKind> {
        for (i, &name) in names.iter().enumerate() {
            identifier(name, "loop")?;
            if self.nest.taken(name) || names[..i].contains(&name) {
                return Err(ErrorKind::NameTaken { name, by: "a loop or an index of the kernel" });
            }
            if self.mesh.position(name).is_some() {
                return Err(ErrorKind::NameTaken { name, by: "a mesh axis" });
            }
        }
        Ok(())
    }

    /// Divides the loop at `position` like a range of `whole` indices, of which its own begin at `offset`.
    fn divide(
        &mut self,
        position: usize,
        (outer, inner): (Name, Name),
        parts: i64,
        (offset, whole): (i64, i64),
        number: StepId,
    ) {
        let factor = div_ceil(whole, parts).max(1);
        self.nest.split(position, (outer, parts), (inner, factor), offset, number);
    }

    /// The dimension of the output that a loop writes: the first one whose index is the loop's variable, optionally
    /// plus a constant. Returns where the loop begins in it, and its extent.
    pub(crate) fn written(&self, NodeId(var): NodeId) -> Option<(i64, i64)> {
        let var = self.kernel.vars().get(var)?;
        let mut dims = self.kernel.target().index.iter().zip(&self.kernel.output().shape);
        let (index, &extent) = dims.find(|(index, _)| index.modulus.is_none() && index.terms == [(var.name, 1)])?;
        Some((index.constant, extent as i64))
    }

    fn reorder(&mut self, order: &[Name]) -> Result<(), ErrorKind> {
        distinct(order)?;
        let positions = order.iter().map(|&name| self.find(name)).collect::<Result<Vec<_>, _>>()?;
        let mut places = positions.clone();
        places.sort_unstable();
        let before = self.nest.loops.clone();
        for (&place, &from) in places.iter().zip(&positions) {
            if place != from && from.min(place) < self.nest.distributed {
                let fixed = if from < self.nest.distributed { from } else { place };
                let name = self.nest.node(before[fixed]).name;
                let instead = "list it in its place, or leave it out";
                return Err(ErrorKind::Distributed { name, axis: self.mesh.as_slice()[fixed].name, instead });
            }
        }
        for (place, from) in places.into_iter().zip(positions) {
            self.nest.loops[place] = before[from];
        }
        Ok(())
    }

    fn fuse(&mut self, i: Name, j: Name, fused: Name, number: StepId) -> Result<(), ErrorKind> {
        let (outer, inner) = (self.free_loop(i, "fuse")?, self.free_loop(j, "fuse")?);
        if inner != outer + 1 {
            return Err(ErrorKind::NotAdjacent { i, j, loops: joined(self.nest.names(), ", ") });
        }
        self.fresh(&[fused])?;
        let extent = self.extent(outer).checked_mul(self.extent(inner)).filter(|&extent| extent <= MAX_COUNT);
        let extent = extent.ok_or_else(|| ErrorKind::TooLarge { what: format!("loop `{fused}`") })?;
        self.nest.fuse(outer, fused, extent, number);
        Ok(())
    }

    fn distribute(
        &mut self,
        loops: &[Name],
        outer: &[Name],
        inner: &[Name],
        mesh: &Mesh,
        number: StepId,
    ) -> Result<(), ErrorKind> {
        let axes = mesh.ndim();
        if [loops.len(), outer.len(), inner.len()] != [axes; 3] {
            let (loops, outer, inner, mesh) = (loops.len(), outer.len(), inner.len(), mesh.clone());
            return Err(ErrorKind::DistributeCounts { loops, outer, inner, mesh });
        }
        distinct(loops)?;
        let whole = self.wider(mesh)?;
        loops.iter().try_for_each(|&name| self.free_loop(name, "distribute").map(drop))?;
        self.fresh(&[outer, inner].concat())?;
        if let Some(axis) = mesh.as_slice().iter().find(|axis| outer.contains(&axis.name) || inner.contains(&axis.name))
        {
            return Err(ErrorKind::NameTaken { name: axis.name, by: "a loop or an index of the kernel" });
        }
        for (((&name, &outer), &inner), axis) in loops.iter().zip(outer).zip(inner).zip(mesh.as_slice()) {
            let position = self.find(name)?;
            let written = self.written(self.nest.loops[position]).unwrap_or((0, self.extent(position)));
            self.divide(position, (outer, inner), axis.extent as i64, written, number);
        }
        for (&outer, place) in outer.iter().zip(self.nest.distributed..) {
            let from = self.find(outer)?;
            let id = self.nest.loops.remove(from);
            self.nest.loops.insert(place, id);
        }
        self.nest.distributed += axes;
        self.widen(whole)
    }

    /// Adds axes along which each coordinate runs all iterations.
    fn replicate(&mut self, mesh: &Mesh, number: StepId) -> Result<(), ErrorKind> {
        let whole = self.wider(mesh)?;
        for axis in mesh.as_slice() {
            self.nest.replicate(axis.name, axis.extent as i64, number);
        }
        self.widen(whole)
    }

    /// The mesh with more axes, whose names must not be in use.
    fn wider(&self, mesh: &Mesh) -> Result<Mesh, ErrorKind> {
        let whole = self.mesh.product(mesh).map_err(|error| match error {
            MeshError::AxisTwice { axis } => ErrorKind::AxisDistributed { axis },
            _ => ErrorKind::TooManyRanks { mesh: format!("{}, {mesh}", self.mesh) },
        })?;
        bounds::mesh(&whole)?;
        for axis in mesh.as_slice() {
            count("an axis of", axis.extent)?;
            identifier(axis.name, "mesh axis")?;
        }
        match mesh.as_slice().iter().find(|axis| self.nest.taken(axis.name)) {
            Some(axis) => Err(ErrorKind::NameTaken { name: axis.name, by: "a loop or an index of the kernel" }),
            None => Ok(whole),
        }
    }

    /// Makes `whole` the mesh. Sharded tensors are sharded over it, and replicated along new axes.
    fn widen(&mut self, whole: Mesh) -> Result<(), ErrorKind> {
        self.mesh = whole;
        let clauses: Vec<_> = self.shards.iter().map(|shard| (shard.tensor, shard.clauses.clone())).collect();
        for (i, (tensor, clauses)) in clauses.into_iter().enumerate() {
            self.shards[i].sharding = self.place(tensor, &clauses)?;
        }
        Ok(())
    }

    fn rotate(&mut self, t: Name, by: &[Name], number: StepId) -> Result<(), ErrorKind> {
        let position = self.serial_loop(t, "rotate a serial loop by it")?;
        if self.is_tensorized(t) {
            return Err(ErrorKind::Tensorized { name: t, instead: "rotate before `tensorize`" });
        }
        distinct(by)?;
        let mut outside = Vec::new();
        for &name in by {
            let other = self.find(name)?;
            if other >= position {
                return Err(ErrorKind::NotOutside { name: t, by: name, loops: joined(self.nest.names(), ", ") });
            }
            outside.push(self.nest.loops[other]);
        }
        self.nest.rotate(position, outside, number);
        Ok(())
    }

    fn tensor(&self, name: Name) -> Result<(), ErrorKind> {
        if self.kernel.tensors().any(|tensor| tensor.name == name) {
            return Ok(());
        }
        Err(ErrorKind::UnknownTensor { name, tensors: self.kernel.tensors().map(|tensor| tensor.name).collect() })
    }

    fn shard(&mut self, tensor: Name, clauses: &[Clause], number: StepId) -> Result<(), ErrorKind> {
        self.tensor(tensor)?;
        let first = self.shards.iter().find(|shard| shard.tensor == tensor).map(|shard| shard.step);
        once(first, || format!("`{tensor}` is already sharded"))?;
        if self.nest.distributed == 0 {
            return Err(ErrorKind::NoMesh);
        }
        let sharding = self.place(tensor, clauses)?;
        if !sharding.partial().is_empty() {
            let axes = joined(sharding.partial_axes(), ", ");
            if tensor != self.kernel.output().name {
                return Err(ErrorKind::PartialInput { tensor, axes });
            }
            let assign = self.kernel.assign();
            if !matches!(assign, Assign::Set | Assign::Add) {
                return Err(ErrorKind::NoSum { tensor, assign: assign.to_string(), axes });
            }
        }
        let holds_records = tensor == self.kernel.output().name && self.kernel.record_index().is_some();
        if holds_records && sharding.dims().last().is_some_and(|last| !last.is_whole()) {
            return Err(ErrorKind::RecordDivided { tensor });
        }
        self.shards.push(Shard { tensor, clauses: clauses.to_vec(), sharding, step: number });
        Ok(())
    }

    fn place(&self, tensor: Name, clauses: &[Clause]) -> Result<Sharding, ErrorKind> {
        let placements = clauses.iter().map(|clause| self.placement(tensor, clause)).collect::<Result<Vec<_>, _>>()?;
        Sharding::new(&self.mesh, self.shape(tensor), &placements).map_err(ErrorKind::Sharding)
    }

    fn placement(&self, tensor: Name, clause: &Clause) -> Result<Placement, ErrorKind> {
        Ok(match clause {
            Clause::Divided { dim, levels } => {
                for level in levels {
                    if let Division::Cyclic { block, .. } = level {
                        count("blocks of", (*block).max(1))?;
                    }
                }
                Placement::Divided { dim: self.dim(tensor, *dim)?, levels: levels.clone() }
            }
            Clause::Pin { axis, coordinate } => Placement::Pin { axis: *axis, coordinate: *coordinate },
            Clause::Partial { axis } => Placement::Partial { axis: *axis },
        })
    }

    /// The number of the dimension that `dim` names.
    fn dim(&self, tensor: Name, dim: Dim) -> Result<usize, ErrorKind> {
        let name = match dim {
            Dim::Number(number) => return Ok(number),
            Dim::Var(name) => name,
        };
        let accesses = self.kernel.written_accesses_of(tensor);
        let indices = accesses.iter().flat_map(|access| access.index.iter().enumerate());
        let with_it = indices.filter(|(_, index)| index.coefficient(name) != 0);
        let dims = in_order(with_it.map(|(dim, _)| dim).collect());
        let count = match dims[..] {
            [dim] => return Ok(dim),
            [] => "no dimension",
            _ => "more than one dimension",
        };
        let accesses = joined(accesses.iter().map(|access| format!("`{access}`")), " and ");
        Err(ErrorKind::AmbiguousDim { tensor, name, count, accesses })
    }

    fn communicate(&mut self, tensor: Name, at: Name, number: StepId) -> Result<(), ErrorKind> {
        self.tensor(tensor)?;
        self.find(at)?;
        if self.is_tensorized(at) {
            return Err(ErrorKind::Tensorized { name: at, instead: "communicate at a loop outside it" });
        }
        if self.shards.iter().all(|shard| shard.tensor != tensor) {
            return Err(ErrorKind::NoSharding { tensor });
        }
        let first = self.communications.iter().find(|other| other.tensor == tensor).map(|other| other.step);
        once(first, || format!("`{tensor}` is already communicated"))?;
        self.communications.push(Communication { tensor, at, step: number });
        Ok(())
    }

    fn pipeline(&mut self, t: Name, depth: usize, number: StepId) -> Result<(), ErrorKind> {
        self.serial_loop(t, "pipeline a serial loop, at which something is communicated")?;
        if self.is_tensorized(t) {
            return Err(ErrorKind::Tensorized { name: t, instead: "pipeline a loop outside it" });
        }
        if !(1..=MOST_AHEAD).contains(&depth) {
            return Err(ErrorKind::BadDepth { depth, most: MOST_AHEAD });
        }
        let first = self.pipelines.iter().find(|other| other.t == t).map(|other| other.step);
        once(first, || format!("`{t}` is already pipelined"))?;
        self.pipelines.push(Pipeline { t, depth, step: number });
        Ok(())
    }

    fn halo(&mut self, tensor: Name, count: usize, number: StepId) -> Result<(), ErrorKind> {
        self.tensor(tensor)?;
        if !(1..=MOST_TIME_STEPS).contains(&count) {
            return Err(ErrorKind::BadTimeSteps { steps: count, most: MOST_TIME_STEPS });
        }
        let first = self.applied.map(|applied| applied.step);
        let of = self.applied.map_or(tensor, |applied| applied.tensor);
        once(first, || format!("`{of}` already has a halo for several steps"))?;
        self.applied = Some(Applied { tensor, count, step: number });
        Ok(())
    }

    fn interior_first(&mut self, tensor: Name, number: StepId) -> Result<(), ErrorKind> {
        self.tensor(tensor)?;
        let first = self.interiors.iter().find(|(other, _)| *other == tensor).map(|(_, step)| *step);
        once(first, || format!("`{tensor}` already has `interior_first`"))?;
        self.interiors.push((tensor, number));
        Ok(())
    }

    fn reassociate(&mut self, tensor: Name, number: StepId) -> Result<(), ErrorKind> {
        self.tensor(tensor)?;
        let output = self.kernel.output().name;
        if tensor != output {
            return Err(ErrorKind::NotSummed { tensor, output });
        }
        if self.kernel.record_index().is_some() {
            return Err(ErrorKind::RecordOrder { tensor, assign: self.kernel.assign().to_string() });
        }
        once(self.reassociated, || format!("sums of `{tensor}` are already reassociated"))?;
        self.reassociated = Some(number);
        Ok(())
    }

    fn tensorize(&mut self, loops: &[Name], kind: Option<LeafKind>, number: StepId) -> Result<(), ErrorKind> {
        once(self.tensorized.as_ref().map(|leaf| leaf.step), || "there is already a leaf".into())?;
        if let Some(LeafKind::Named(name)) = kind {
            identifier(name, "leaf")?;
        }
        distinct(loops)?;
        for &name in loops {
            self.serial_loop(name, "tensorize its inner loop")?;
            if let Some(communication) = self.communications.iter().find(|other| other.at == name) {
                return Err(ErrorKind::CommunicatedInLeaf { name, tensor: communication.tensor });
            }
        }
        let loops = loops.iter().copied().chain(self.kernel.record_index()).collect();
        self.tensorized = Some(Tensorized { loops, kind, step: number });
        Ok(())
    }

    fn together(&mut self, tensors: &[Name], at: Name, number: StepId) -> Result<(), ErrorKind> {
        once(self.together.map(|(_, step)| step), || "it already runs together with others".into())?;
        distinct(tensors)?;
        self.serial_loop(at, "share a serial loop")?;
        if self.is_tensorized(at) {
            return Err(ErrorKind::Tensorized { name: at, instead: "share a loop outside it" });
        }
        self.together = Some((at, number));
        Ok(())
    }

    fn axes_exist(&self, pattern: &Pattern) -> Result<(), ErrorKind> {
        match pattern.axes().into_iter().find(|&axis| self.mesh.position(axis).is_none()) {
            None => Ok(()),
            Some(name) => {
                let axes = self.mesh.as_slice().iter().map(|axis| axis.name).collect();
                Err(ErrorKind::UnknownAxis { name, axes })
            }
        }
    }
}

/// Refuses what an earlier step has said.
fn once(first: Option<StepId>, what: impl FnOnce() -> String) -> Result<(), ErrorKind> {
    first.map_or(Ok(()), |StepId(first)| Err(ErrorKind::Twice { what: what(), first }))
}

fn count(what: &'static str, count: usize) -> Result<i64, ErrorKind> {
    i64::try_from(count).ok().filter(|n| (1..=MAX_COUNT).contains(n)).ok_or(ErrorKind::BadCount { what, count })
}

fn div_ceil(n: i64, d: i64) -> i64 {
    n / d + i64::from(n % d != 0)
}

/// Names are printed into source and messages, so they must be valid identifiers.
fn identifier(name: Name, what: &'static str) -> Result<(), ErrorKind> {
    if name.is_identifier() { Ok(()) } else { Err(ErrorKind::BadName { name, what }) }
}

fn distinct(names: &[Name]) -> Result<(), ErrorKind> {
    match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        Some((_, &name)) => Err(ErrorKind::ListedTwice { name }),
        None => Ok(()),
    }
}
