//! The schedules on a grid, as steps. Tests: `search/tests/it/choices.rs`.

use crate::variant::{Grid, Panels, Variant, fresh, names_of};
use polyshard_dsl::{Clause, Dim, Step, dim};
use polyshard_layout::{AxisExpr, Mesh, Name};
use polyshard_polyhedral::Schedule;
use polyshard_program::{Access, Kernel};

/// The space of schedules of a kernel.
pub(crate) struct Space<'a> {
    pub(crate) kernel: &'a Kernel,
    /// The given shardings of tensors.
    pub(crate) homes: &'a [(Name, Vec<Clause>)],
    /// Whether loops in panels may be rotated, and pipelined.
    pub(crate) rotates: bool,
}

impl Space<'_> {
    /// The loops that are divided over several ranks.
    pub(crate) fn divided(grid: &Grid) -> Vec<usize> {
        (0..grid.len()).filter(|&var| grid[var] > 1).collect()
    }

    /// The ways to rotate a loop with one panel for each coordinate of an axis: by all sets of axes along which an
    /// input that is read in panels is replicated.
    pub(crate) fn rotations(&self, whole: &Variant, var: usize, count: usize) -> Vec<Panels> {
        if !self.rotates {
            return Vec::new();
        }
        let replicates = |over: usize| {
            let mut inputs = self.kernel.value().accesses().into_iter().filter(|access| self.indexes(access, var));
            inputs.any(|access| !self.indexes(access, over))
        };
        let axes = whole.mesh.as_slice().iter().enumerate();
        let axes = axes.filter(|(axis, described)| {
            described.extent == count && whole.along.var(*axis).is_some_and(|over| over != var && replicates(over))
        });
        let axes: Vec<usize> = axes.map(|(axis, _)| axis).collect();
        let chosen = |set: usize| axes.iter().enumerate().filter(move |(nth, _)| set >> nth & 1 == 1);
        let rotated = |set| Panels { rotated: chosen(set).map(|(_, &axis)| axis).collect(), ..Panels::new(var, count) };
        (1..1usize << axes.len()).map(rotated).collect()
    }

    /// The minimum number of panels of a loop such that each panel has one owner along every axis along which a tensor
    /// that is read in panels is replicated.
    pub(crate) fn owned_panels(&self, grid: &Grid, var: usize) -> usize {
        let mut panels = 1usize;
        for access in self.kernel.value().accesses() {
            if self.indexes(access, var) {
                let copies = Self::divided(grid).into_iter().filter(|&other| !self.indexes(access, other));
                let copies: usize = copies.map(|other| grid[other]).product();
                panels = (1..=copies)
                    .map(|factor| factor * panels)
                    .find(|panels| panels.is_multiple_of(copies))
                    .unwrap_or(panels);
            }
        }
        panels
    }

    fn indexes(&self, access: &Access, var: usize) -> bool {
        let name = self.kernel.vars()[var].name;
        access.index.iter().any(|index| index.as_variable() == Some(name))
    }

    /// The schedule.
    pub(crate) fn schedule(&self, variant: &Variant) -> Schedule {
        let vars = self.kernel.vars();
        let mut names = Names { taken: names_of(self.kernel).collect() };
        names.taken.extend(variant.mesh.as_slice().iter().map(|axis| axis.name));
        let mut schedule = Schedule::new(self.kernel.clone());
        // The innermost loop of each variable after all divisions so far, and the remainders of others.
        let mut inner: Vec<Name> = vars.iter().map(|var| var.name).collect();
        // Records stay whole, and no step is for the loop over their elements.
        let record = self.kernel.record_index();
        let without = |loops: Vec<Name>| loops.into_iter().filter(|name| Some(*name) != record).collect::<Vec<_>>();
        let mut rest: Vec<Name> = Vec::new();
        let (axes, along) = (variant.mesh.as_slice(), &variant.along);
        // Axes that are not in the order of the mesh get separate loops first.
        let mut apart: Vec<Option<Name>> = vec![None; axes.len()];
        for (var, over) in along.axes.iter().enumerate().filter(|(_, over)| !over.is_sorted()) {
            for &axis in &over[..over.len() - 1] {
                let (outer, inside) = (names.fresh(inner[var], "p"), names.fresh(inner[var], "l"));
                schedule =
                    schedule.apply(Step::Divide { i: inner[var], outer, inner: inside, parts: axes[axis].extent });
                apart[axis] = Some(outer);
                inner[var] = inside;
            }
        }
        let mut outermost: Vec<Option<Name>> = vec![None; axes.len()];
        let mut at = 0;
        while at < axes.len() {
            // As many axes as divide no loop twice.
            let mut loops: Vec<Name> = Vec::new();
            let mut vars = Vec::new();
            while let Some(var) = axes.get(at + loops.len()).and_then(|_| along.var(at + loops.len())) {
                let name = apart[at + loops.len()].unwrap_or(inner[var]);
                if loops.contains(&name) {
                    break;
                }
                loops.push(name);
                vars.push(var);
            }
            let run = at..at + loops.len().max(1);
            let mesh = Mesh::new(axes[run.clone()].iter().map(|axis| (axis.name, axis.extent)));
            if loops.is_empty() {
                schedule = schedule.apply(Step::Replicate { mesh });
            } else {
                let outer: Vec<Name> = loops.iter().map(|name| names.fresh(*name, "o")).collect();
                let inside: Vec<Name> = loops.iter().map(|name| names.fresh(*name, "i")).collect();
                for (((axis, &var), &name), &outer) in run.clone().zip(&vars).zip(&inside).zip(&outer) {
                    outermost[axis] = Some(outer);
                    match apart[axis] {
                        Some(_) => rest.push(name),
                        None => inner[var] = name,
                    }
                }
                schedule = schedule.apply(Step::Distribute { loops, outer, inner: inside, mesh });
            }
            at = run.end;
        }
        let mut panel = None;
        if let Some(Panels { var, count, within, ref rotated, .. }) = variant.panels {
            let mut panels = Vec::new();
            for parts in [count].into_iter().chain((within > 1).then_some(within)) {
                let (outside, inside) = (names.fresh(vars[var].name, "p"), names.fresh(vars[var].name, "l"));
                schedule = schedule.apply(Step::Divide { i: inner[var], outer: outside, inner: inside, parts });
                inner[var] = inside;
                panels.push(outside);
            }
            let order = without(panels.iter().chain(&rest).chain(&inner).copied().collect());
            schedule = schedule.apply(Step::Reorder { order });
            if !rotated.is_empty() {
                let by = rotated.iter().filter_map(|&axis| outermost[axis]).collect();
                schedule = schedule.apply(Step::Rotate { t: panels[0], by });
            }
            panel = panels.last().map(|&innermost| (var, innermost));
        }
        if !axes.is_empty() {
            for tensor in self.kernel.tensors() {
                let given = self.homes.iter().find(|(name, _)| *name == tensor.name);
                let clauses = match given {
                    Some((_, clauses)) => clauses.clone(),
                    None => self.home(self.kernel.accesses_of(tensor.name)[0], variant),
                };
                schedule = schedule.apply(Step::Shard { tensor: tensor.name, clauses });
            }
            if let Some((var, at)) = panel {
                for tensor in self.kernel.tensors() {
                    if self.kernel.accesses_of(tensor.name).iter().any(|access| self.indexes(access, var)) {
                        schedule = schedule.apply(Step::Communicate { tensor: tensor.name, at });
                    }
                }
                if variant.panels.as_ref().is_some_and(|panels| panels.ahead) {
                    schedule = schedule.apply(Step::Pipeline { t: at, depth: 1 });
                }
            }
        }
        schedule.apply(Step::Tensorize { loops: without([rest, inner].concat()), kind: None })
    }

    /// The sharding of a tensor in even shares. Each dimension is divided as the loop that indexes it. Each other axis
    /// further divides the dimension of the panels, or the first dimension that it divides evenly, so that the parts of
    /// a tile are contiguous in it and need no extra memory, otherwise the dimension of which a rank has most.
    fn home(&self, access: &Access, variant: &Variant) -> Vec<Clause> {
        let (vars, axes) = (self.kernel.vars(), variant.mesh.as_slice());
        let variable = |number: usize| {
            let name = access.index[number].as_variable()?;
            vars.iter().position(|var| var.name == name)
        };
        let mut along: Vec<Vec<usize>> = vec![Vec::new(); access.index.len()];
        let mut rest = Vec::new();
        for (var, over) in variant.along.axes.iter().enumerate() {
            // For `A[i, i]`, one dimension is divided.
            match (0..along.len()).find(|&number| variable(number) == Some(var)) {
                Some(number) => along[number].extend(over),
                None => rest.extend(over),
            }
        }
        // Each copy of the work has its own output, but only a share of the inputs.
        if access != self.kernel.target() {
            rest.extend((0..axes.len()).filter(|&axis| variant.along.var(axis).is_none()));
        }
        rest.sort_unstable();
        let shape =
            &self.kernel.tensors().find(|tensor| tensor.name == access.tensor).map_or(&[][..], |tensor| &tensor.shape);
        let of_panels =
            variant.panels.as_ref().and_then(|panels| (0..along.len()).find(|&at| variable(at) == Some(panels.var)));
        // Spread the parts of a panel of sums over ranks, instead of sending all of them to one.
        let (of_panels, spared) =
            if access == self.kernel.target() && along.len() > 1 { (None, of_panels) } else { (of_panels, None) };
        // If panels are rotated along axes other than this one, each rank owns the panel that it begins with.
        let name = |axis: usize| AxisExpr::from(axes[axis].name.as_str());
        let skewed = variant.panels.as_ref().zip(of_panels).and_then(|(panels, _)| {
            let [along] = rest[..] else { return None };
            let others = panels.rotated.iter().filter(|&&axis| axis != along).map(|&axis| name(axis));
            let sum = others.reduce(|sum, other| sum + other)?;
            Some((along, (name(along) + sum) % axes[along].extent as i64))
        });
        for nth in rest {
            // The extent of a dimension that is left on a rank.
            let length = |number: usize| {
                let ranks: usize = along[number].iter().map(|&nth| axes[nth].extent).product();
                shape[number].div_ceil(ranks)
            };
            let record = self.kernel.record_index().filter(|_| access == self.kernel.target());
            let is_whole = |number: usize| record.is_some() && access.index[number].as_variable() == record;
            let others = || (0..along.len()).filter(|&number| Some(number) != spared && !is_whole(number));
            let even = others().find(|&number| length(number) > 0 && length(number).is_multiple_of(axes[nth].extent));
            let longest = || others().max_by_key(|&number| (length(number), usize::MAX - number));
            if let Some(number) = of_panels.or(even).or_else(longest) {
                along[number].push(nth);
            }
        }
        let clause = |(number, along): (usize, &Vec<usize>)| {
            let at = |axis: usize| match &skewed {
                Some((along, at)) if *along == axis => at.clone(),
                _ => name(axis),
            };
            let (first, others) = along.split_first()?;
            let first = self.dim(access, number).at(at(*first));
            Some(others.iter().fold(first, |clause, &nth| clause.at(at(nth))))
        };
        along.iter().enumerate().filter_map(clause).collect()
    }

    /// A dimension, named by the variable that indexes it if that is unambiguous in all accesses of the tensor,
    /// otherwise by its number.
    fn dim(&self, access: &Access, number: usize) -> Dim {
        let Some(name) = access.index[number].as_variable() else { return dim(number) };
        let is_clear = |access: &&Access| {
            let with_it = access.index.iter().enumerate().filter(|(_, index)| index.coefficient(name) != 0);
            with_it.map(|(at, _)| at).eq([number])
        };
        match self.kernel.accesses_of(access.tensor).iter().all(is_clear) {
            true => Dim::Var(name),
            false => dim(number),
        }
    }
}

/// Names that are taken, to choose new ones.
struct Names {
    taken: Vec<Name>,
}

impl Names {
    fn fresh(&mut self, of: Name, suffix: &str) -> Name {
        let name = fresh(&format!("{of}{suffix}"), |name| self.taken.contains(&name));
        self.taken.push(name);
        name
    }
}
