//! The schedule of a block, divided into one for each of its kernels.
//!
//! ```text
//! .distribute([i, j], [io, jo], [ii, ji])     Y[i] = A[i, k] * X[k]       distribute([i], [io], [ii], mesh(x: 2))
//!     over mesh(x: 2, y: 2)                                               replicate(mesh(y: 2))
//! .shard(A, i @ x)                                                        shard(A, dim(0) @ x)
//!                                                                         shard(Y, dim(0) @ x)
//! ```
//!
//! A step applies to each kernel that has its loops and its array. All kernels have one mesh: one without a loop on an axis is computed
//! by all ranks along it. An array has one sharding, in all its versions: as `shard` says, else cut like the loops of the first kernel that
//! writes it; the parameters of the block are replicated.

use super::spec::{BlockKernel, BlockMistake, BlockSpec, KernelSteps};
use crate::errors::listed;
use crate::step::{Clause, Dim, Step};
use polyshard_layout::{AxisExpr, Mesh, Name, did_you_mean, each_once};
use polyshard_program::{Affine, KernelSpec};
use std::collections::HashMap;

/// The indices of a kernel that steps may name.
fn loops(spec: &KernelSpec) -> Vec<Name> {
    let accesses = spec.value.accesses().into_iter().chain([&spec.target]);
    let in_accesses = accesses.flat_map(|access| &access.index).flat_map(|index| &index.terms).map(|(name, _)| *name);
    // No step is for the loop over the elements of records.
    let record = spec.assign.running().and_then(|_| spec.target.index.last()?.as_variable());
    let all = in_accesses.chain(spec.ranges.iter().map(|(name, _)| *name));
    each_once(all.filter(|name| Some(*name) != record))
}

impl BlockKernel {
    /// The tensors of the kernel, each with its array.
    fn tensors(&self) -> impl Iterator<Item = (Name, Name)> {
        let tensors = self.kernel.inputs.iter().chain([&self.kernel.output]).map(|(name, _)| *name);
        tensors.zip(self.inputs.iter().chain([&self.output]).map(|value| value.array()))
    }
}

impl BlockSpec {
    /// Returns the steps of each kernel for these steps of the block.
    ///
    /// # Errors
    /// All steps that apply to no kernel.
    pub fn divided(&self, steps: &[Step]) -> Result<Vec<KernelSteps>, Vec<BlockMistake>> {
        let mut mistakes = Vec::new();
        // The kernel that combines records runs together with others, not those that take values out of them.
        let of_records = |step: &Step| match step {
            Step::Together { tensors, at } => {
                let record = |name: &Name| self.records.iter().find(|(_, targets)| targets.contains(name));
                let names = tensors.iter().map(|name| record(name).map_or(*name, |(array, _)| *array));
                Step::Together { tensors: each_once(names), at: *at }
            }
            Step::Reassociate { tensor } => {
                let record = self.records.iter().find(|(_, targets)| targets.contains(tensor));
                Step::Reassociate { tensor: record.map_or(*tensor, |(array, _)| *array) }
            }
            other => other.clone(),
        };
        let steps: &[Step] = &steps.iter().map(of_records).collect::<Vec<_>>();
        let homes = self.homes(steps, &mut mistakes);
        let mut is_used = vec![false; steps.len()];
        let mut written: HashMap<Name, Vec<Clause>> = HashMap::new();
        let mut divided = Vec::with_capacity(self.kernels.len());
        for kernel in &self.kernels {
            let mut own = Divided::new(self, kernel);
            for (number, (step, is_used)) in steps.iter().zip(&mut is_used).enumerate() {
                *is_used |= own.add(step, number, &homes);
            }
            // The first kernel that writes an array determines where it is, if no step does.
            let array = kernel.output.array();
            let is_known = homes.iter().any(|(other, _)| *other == array) || written.contains_key(&array);
            let is_parameter = self.arrays[..self.parameters].contains(&array);
            if !is_known && !is_parameter {
                written.insert(array, own.home());
            }
            divided.push(own);
        }
        // Statements before it may read a later version, from the round before.
        for own in &mut divided {
            for (tensor, array) in own.kernel.tensors() {
                if let Some(clauses) = written.get(&array) {
                    own.steps.push((Step::Shard { tensor, clauses: clauses.clone() }, None));
                }
            }
            own.leave_where_computed();
        }
        let unused = steps.iter().enumerate().zip(is_used).filter(|(_, is_used)| !is_used);
        mistakes.extend(unused.filter_map(|((number, step), _)| self.unused(number, step)));
        if mistakes.is_empty() { Ok(divided.into_iter().map(|own| own.steps).collect()) } else { Err(mistakes) }
    }

    /// Returns, by kernel, whether a step says that it runs apart.
    #[must_use]
    pub fn apart(&self, steps: &[Step]) -> Vec<bool> {
        let is_apart =
            |array: Name| steps.iter().any(|step| matches!(step, Step::Apart { tensor } if self.is_of(array, *tensor)));
        self.kernels.iter().map(|kernel| is_apart(kernel.output.array())).collect()
    }

    /// Returns the shardings that a search keeps, of all versions of the arrays that these steps shard.
    ///
    /// # Errors
    /// All steps that no search keeps, and those that do not fit the arrays.
    pub fn kept(&self, steps: &[Step]) -> Result<Vec<(Name, Vec<Clause>)>, Vec<BlockMistake>> {
        let mut mistakes = Vec::new();
        for (number, _) in steps.iter().enumerate().filter(|(_, step)| step.sharding().is_none()) {
            let [message, help] = [
                "a search does not keep this step",
                "leave it out, or write the whole schedule: `shard` alone is kept",
            ];
            mistakes.push(BlockMistake { of: Some(number), message: message.into(), help: help.into() });
        }
        let homes = self.homes(steps, &mut mistakes);
        let carried = self.rounds.iter().flat_map(|rounds| &rounds.carried);
        let carried = carried.flat_map(|carry| [carry.first, carry.value, carry.next]);
        let of_kernels = self.kernels.iter().flat_map(|kernel| kernel.inputs.iter().copied().chain([kernel.output]));
        let home = |value: Name| {
            let (_, home) = homes.iter().find(|(array, _)| *array == value.array())?;
            Some((value, home.clone()))
        };
        let all = each_once(of_kernels.chain(carried)).into_iter().filter_map(home).collect();
        if mistakes.is_empty() { Ok(all) } else { Err(mistakes) }
    }

    /// The shardings that steps give, by array, with dimensions by number.
    fn homes(&self, steps: &[Step], mistakes: &mut Vec<BlockMistake>) -> Vec<(Name, Vec<Clause>)> {
        let mut homes: Vec<(Name, Vec<Clause>)> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let Step::Shard { tensor, clauses } = step else { continue };
            let mut wrong = |message, help| mistakes.push(BlockMistake { of: Some(number), message, help });
            if !self.arrays.contains(tensor) {
                let meant = did_you_mean(tensor.as_str(), self.arrays.iter().map(|name| name.as_str()));
                wrong(
                    format!("the block has no array `{tensor}`"),
                    format!("{meant}the arrays are {}", listed(&self.arrays)),
                );
            } else if homes.iter().any(|(other, _)| other == tensor) {
                let help = "give it one: all versions of an array have the same sharding";
                wrong(format!("`{tensor}` has two shardings"), help.to_owned());
            } else {
                let mut all = Vec::with_capacity(clauses.len());
                for clause in clauses {
                    match clause {
                        Clause::Divided { dim: Dim::Var(index), levels } => match self.dim(*tensor, *index) {
                            Some(dim) => all.push(Clause::Divided { dim: Dim::Number(dim), levels: levels.clone() }),
                            None => wrong(
                                format!("`{index}` stands alone in no index of `{tensor}`"),
                                format!("name an index of `{tensor}`, or the dimension by its number: `dim(0) @ x`"),
                            ),
                        },
                        clause => all.push(clause.clone()),
                    }
                }
                homes.push((*tensor, all));
            }
        }
        homes
    }

    /// The dimension of an array that an index runs over alone.
    fn dim(&self, array: Name, index: Name) -> Option<usize> {
        if let Some(found) = self.indices.iter().find(|found| found.array == array && found.index == index) {
            return Some(found.dim);
        }
        let mut accesses = self.kernels.iter().flat_map(|kernel| {
            let all = kernel.kernel.value.accesses().into_iter().chain([&kernel.kernel.target]);
            all.filter(move |access| kernel.tensors().any(|tensor| tensor == (access.tensor, array)))
        });
        accesses.find_map(|access| access.index.iter().position(|one| one.as_variable() == Some(index)))
    }

    /// The mistake of a step that applies to no kernel.
    fn unused(&self, number: usize, step: &Step) -> Option<BlockMistake> {
        let message = match step {
            // Statements that have the loops may all be copies, which are names.
            Step::Distribute { loops, .. } if self.indices.iter().any(|one| loops.contains(&one.index)) => return None,
            Step::Split { i, .. } | Step::Divide { i, .. } => format!("no statement has the loop `{i}`"),
            Step::Distribute { loops, .. } | Step::Reorder { order: loops } => {
                format!("no statement has one of the loops {}", listed(loops))
            }
            Step::Tensorize { loops, .. } => format!("no statement has all of the loops {}", listed(loops)),
            Step::Fuse { i, j, .. } => format!("no statement has both of the loops `{i}` and `{j}`"),
            Step::Rotate { t, .. } => format!("no statement has the loop `{t}`"),
            Step::Pipeline { t, .. } => format!("no statement has a `communicate` at the loop `{t}`"),
            Step::Communicate { tensor, at } => format!("no statement has the array `{tensor}` and the loop `{at}`"),
            Step::Halo { .. } => {
                let (message, help) =
                    ("`halo` is for blocks of one statement".into(), "use `repeat(..) { .. }`".into());
                return Some(BlockMistake { of: Some(number), message, help });
            }
            Step::Of { tensor } => {
                let arrays = each_once(self.kernels.iter().map(|kernel| kernel.output.array()));
                let help = format!("the arrays that statements write are {}", listed(arrays));
                return Some(BlockMistake {
                    of: Some(number),
                    message: format!("no statement writes `{tensor}`"),
                    help,
                });
            }
            Step::Together { tensors, at } => {
                format!("no statement that writes one of {} has the loop `{at}`", listed(tensors))
            }
            Step::Apart { tensor } => format!("no statement writes the array `{tensor}`"),
            Step::InteriorFirst { tensor } => format!("no statement reads the array `{tensor}`"),
            Step::Reassociate { tensor } => format!("no statement writes the array `{tensor}`"),
            Step::Expect { tensor, .. } | Step::ExpectOverlap { tensor, .. } => {
                format!("no statement has the array `{tensor}`")
            }
            // A sharding that is wrong is reported with its clause, and that of an array which is only copied has no use.
            Step::Shard { .. } | Step::Replicate { .. } | Step::OfAll => return None,
        };
        let indices = each_once(self.kernels.iter().flat_map(|kernel| loops(&kernel.kernel)));
        Some(BlockMistake { of: Some(number), message, help: format!("the indices are {}", listed(indices)) })
    }
}

/// The steps of one kernel so far.
struct Divided<'a> {
    block: &'a BlockSpec,
    kernel: &'a BlockKernel,
    loops: Vec<Name>,
    /// The axes over which its indices are distributed.
    axes: Vec<(Name, Name)>,
    /// The axes whose ranks all compute the same.
    copies: Vec<Name>,
    /// The array that statements have to write for the following steps to apply.
    of: Option<Name>,
    steps: KernelSteps,
}

impl<'a> Divided<'a> {
    fn new(block: &'a BlockSpec, kernel: &'a BlockKernel) -> Self {
        let (loops, axes, copies) = (loops(&kernel.kernel), Vec::new(), Vec::new());
        Self { block, kernel, loops, axes, copies, of: None, steps: Vec::new() }
    }

    /// The tensors of the kernel that are versions of an array, or that the statement calls so.
    fn versions(&self, array: Name) -> Vec<Name> {
        let is_of = |(tensor, of): &(Name, Name)| *of == array || tensor.array() == array;
        self.kernel.tensors().filter(is_of).map(|(tensor, _)| tensor).collect()
    }

    fn has(&self, index: Name) -> bool {
        self.loops.contains(&index)
    }

    fn replace(&mut self, old: &[Name], new: &[Name]) {
        self.loops.retain(|index| !old.contains(index));
        self.loops.extend(new);
    }

    /// Adds what a step means for the kernel, and returns whether it means anything.
    fn add(&mut self, step: &Step, number: usize, homes: &[(Name, Vec<Clause>)]) -> bool {
        let at = Some(number);
        let before = self.steps.len();
        let (block, written) = (self.block, self.kernel.output.array());
        let is_of = |tensor: Name| block.is_of(written, tensor);
        match step {
            Step::Of { tensor } => {
                self.of = Some(*tensor);
                return is_of(*tensor);
            }
            Step::OfAll => {
                self.of = None;
                return true;
            }
            // It decides whether kernels join a pass, and adds no step to them.
            Step::Apart { tensor } => return is_of(*tensor),
            Step::Shard { .. } => {}
            _ if self.of.is_some_and(|tensor| !is_of(tensor)) => return false,
            _ => {}
        }
        match step {
            Step::Split { i, outer, inner, .. } | Step::Divide { i, outer, inner, .. } if self.has(*i) => {
                self.replace(&[*i], &[*outer, *inner]);
                self.steps.push((step.clone(), at));
            }
            Step::Reorder { order } => {
                let order: Vec<Name> = order.iter().copied().filter(|index| self.has(*index)).collect();
                match &order[..] {
                    [] => return false,
                    [_] => return true,
                    _ => self.steps.push((Step::Reorder { order }, at)),
                }
            }
            Step::Fuse { i, j, fused } if self.has(*i) && self.has(*j) => {
                self.replace(&[*i, *j], &[*fused]);
                self.steps.push((step.clone(), at));
            }
            Step::Distribute { loops, outer, inner, mesh } => {
                return self.distribute([loops, outer, inner], mesh, number);
            }
            Step::Replicate { mesh } => {
                self.copies.extend(mesh.as_slice().iter().map(|axis| axis.name));
                self.steps.push((step.clone(), at));
            }
            Step::Rotate { t, .. } if self.has(*t) => self.steps.push((step.clone(), at)),
            Step::Tensorize { loops, .. } if loops.iter().all(|index| self.has(*index)) => {
                self.steps.push((step.clone(), at));
            }
            Step::Together { tensors, at: around }
                if self.has(*around) && tensors.iter().any(|tensor| is_of(*tensor)) =>
            {
                self.steps.push((step.clone(), at));
            }
            Step::Pipeline { t, .. } if self.has(*t) => {
                let is_at = |step: &Step| matches!(step, Step::Communicate { at, .. } if at == t);
                if self.steps.iter().any(|(step, _)| is_at(step)) {
                    self.steps.push((step.clone(), at));
                }
            }
            Step::Shard { tensor, .. } => {
                let home = homes.iter().find(|(other, _)| other == tensor);
                for (tensor, _) in self.kernel.tensors().filter(|(_, array)| array == tensor) {
                    if let Some((_, clauses)) = home {
                        self.steps.push((Step::Shard { tensor, clauses: clauses.clone() }, at));
                    }
                }
            }
            Step::Communicate { tensor, at: around } if self.has(*around) => {
                for tensor in self.versions(*tensor) {
                    self.steps.push((Step::Communicate { tensor, at: *around }, at));
                }
            }
            Step::InteriorFirst { tensor }
            | Step::Reassociate { tensor }
            | Step::Expect { tensor, .. }
            | Step::ExpectOverlap { tensor, .. } => {
                for version in self.versions(*tensor) {
                    let is_written = self.kernel.kernel.output.0 == version;
                    let tensor = version;
                    let step = match step {
                        Step::InteriorFirst { .. } if !is_written && self.is_stencil(version) => {
                            Step::InteriorFirst { tensor }
                        }
                        Step::Reassociate { .. } if is_written => Step::Reassociate { tensor },
                        Step::Expect { pattern, .. } => Step::Expect { tensor, pattern: pattern.clone() },
                        Step::ExpectOverlap { share, .. } => Step::ExpectOverlap { tensor, share: *share },
                        _ => continue,
                    };
                    self.steps.push((step, at));
                }
            }
            _ => return false,
        }
        self.steps.len() > before
    }

    /// Whether the kernel reads a version at other indices than its own.
    fn is_stencil(&self, version: Name) -> bool {
        let accesses = self.kernel.kernel.value.accesses().into_iter().filter(|access| access.tensor == version);
        accesses.into_iter().flat_map(|access| &access.index).any(|index| index.as_variable().is_none())
    }

    /// Distributes the loops that the kernel has; ranks along the other axes of the mesh compute the same.
    fn distribute(&mut self, [loops, outer, inner]: [&[Name]; 3], mesh: &Mesh, number: usize) -> bool {
        let (axes, at) = (mesh.as_slice(), Some(number));
        let has: Vec<bool> = loops.iter().map(|index| self.has(*index)).collect();
        // Steps with another number of loops than axes are refused when they are lowered.
        let is_regular = [outer.len(), inner.len(), axes.len()].iter().all(|count| *count == loops.len());
        if has.iter().all(|has| *has) || !is_regular {
            self.steps.push((
                Step::Distribute {
                    loops: loops.to_vec(),
                    outer: outer.to_vec(),
                    inner: inner.to_vec(),
                    mesh: mesh.clone(),
                },
                at,
            ));
        } else {
            let mut begin = 0;
            for same in has.chunk_by(|one, other| one == other) {
                let range = begin..begin + same.len();
                let mesh = Mesh::new(axes[range.clone()].iter().map(|axis| (axis.name, axis.extent)));
                let of = |names: &[Name]| names[range.clone()].to_vec();
                let step = match same[0] {
                    true => Step::Distribute { loops: of(loops), outer: of(outer), inner: of(inner), mesh },
                    false => Step::Replicate { mesh },
                };
                self.steps.push((step, at));
                begin = range.end;
            }
        }
        if is_regular {
            for (nth, has) in has.iter().enumerate() {
                if *has {
                    self.replace(&[loops[nth]], &[outer[nth], inner[nth]]);
                    self.axes.push((loops[nth], axes[nth].name));
                } else {
                    self.copies.push(axes[nth].name);
                }
            }
        }
        has.contains(&true)
    }

    /// Where all ranks along an axis compute the same, none of them alone can own it: the output then stays where it is computed, and is moved
    /// for those that read it.
    fn leave_where_computed(&mut self) {
        let (output, home) = (self.kernel.kernel.output.0, self.home());
        let copies = &self.copies;
        for (step, _) in &mut self.steps {
            if let Step::Shard { tensor, clauses } = step
                && *tensor == output
                && clauses.iter().flat_map(Clause::axes).any(|axis| copies.contains(&axis))
            {
                clauses.clone_from(&home);
            }
        }
    }

    /// The sharding of the kernel's output in which each rank holds what it computes.
    fn home(&self) -> Vec<Clause> {
        let target = &self.kernel.kernel.target.index;
        let of_dim = |(dim, index): (usize, &Affine)| {
            let variable = index.as_variable()?;
            // On a diagonal, an index is in several dimensions.
            let is_first = target[..dim].iter().all(|other| other.as_variable() != Some(variable));
            let (_, axis) = self.axes.iter().find(|(other, _)| is_first && *other == variable)?;
            Some(Dim::Number(dim).at(AxisExpr::Axis(*axis)))
        };
        target.iter().enumerate().filter_map(of_dim).collect()
    }
}
