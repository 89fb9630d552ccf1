//! The relations of a schedule, built for isl from the steps' own definitions.
//!
//! ```text
//! iterations at a depth     [p.., t_1..t_depth]                the loops around it
//! exact(..)                 iteration -> element, of the statement instances that exist
//! needed(..)                the same, with the indices that the tensor lacks unbounded
//! ```
//!
//! `needed` makes short and empty tiles take part: a rank without rows of `C` still forwards the columns of `B` that
//! its neighbours use.

use crate::conditions::{Conditions, Form};
use crate::nest::{Definition, Depth, Nest, NodeId};
use crate::range::position;
use polyshard_layout::{LevelLayout, LinearAxes, Sharding};
use polyshard_program::{Affine, Atom, AxisId, Blocks, Expr, Kernel, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// Builds the relations of one schedule.
pub(crate) struct Relations<'a> {
    pub kernel: &'a Kernel,
    pub nest: &'a Nest,
}

impl Relations<'_> {
    /// Iterations at `depth` to the values of `tuple` in all statement instances.
    pub(crate) fn exact(&self, depth: Depth, tuple: &[Affine]) -> Conditions {
        let all: Vec<_> = (0..self.kernel.vars().len()).collect();
        self.write(depth, tuple, &all)
    }

    /// As [`exact`](Self::exact), but indices that `tuple` lacks may take any value, as long as they have one.
    pub(crate) fn needed(&self, depth: Depth, tuple: &[Affine]) -> Conditions {
        if self.kernel.is_empty() {
            return self.exact(depth, tuple);
        }
        let used: Vec<_> = (0..self.kernel.vars().len())
            .filter(|&var| tuple.iter().any(|index| index.coefficient(self.kernel.vars()[var].name) != 0))
            .collect();
        self.write(depth, tuple, &used)
    }

    /// Iterations at `depth` to any tuple of `outputs` numbers.
    pub(crate) fn iterations(&self, depth: Depth, outputs: usize) -> Conditions {
        let loops = self.nest.around(depth);
        let mut conditions = Conditions::new(loops.len(), outputs);
        for (dim, &id) in loops.iter().enumerate() {
            conditions.within(&Form::input(dim), self.nest.node(id).extent);
        }
        conditions
    }

    /// Adds that `value`, which is not below `low`, is in one of the blocks that start there.
    pub(crate) fn in_blocks(&self, conditions: &mut Conditions, value: &Form, low: &Expr, blocks: Option<&Blocks>) {
        let Some(Blocks { size, stride }) = blocks else { return };
        let (low, size) = (self.value(conditions, low), self.value(conditions, size));
        let number = conditions.witness();
        let within = value.subtract(&low).subtract(&number.multiply(*stride));
        if size == Form::constant(1) {
            return conditions.equal(&within, &Form::default());
        }
        conditions.at_most(&Form::default(), &within);
        conditions.below(&within, &size);
    }

    /// Adds `a < b` for each pair.
    pub(crate) fn when(&self, conditions: &mut Conditions, below: &[(Expr, Expr)]) {
        for (a, b) in below {
            let (a, b) = (self.value(conditions, a), self.value(conditions, b));
            conditions.below(&a, &b);
        }
    }

    /// Adds `low <= value < high`; a bound that is a minimum or a maximum makes one condition per operand.
    pub(crate) fn between(&self, conditions: &mut Conditions, value: &Form, low: &Expr, high: &Expr) {
        for low in low.operands(true) {
            let low = self.value(conditions, &low);
            conditions.at_most(&low, value);
        }
        for high in high.operands(false) {
            let high = self.value(conditions, &high);
            conditions.below(value, &high);
        }
    }

    /// Returns an expression as a form of the loops that are inputs.
    pub(crate) fn value(&self, conditions: &mut Conditions, expr: &Expr) -> Form {
        expr.terms().fold(Form::constant(expr.offset()), |sum, (atom, factor)| {
            let value = match atom {
                Atom::Symbol(Symbol::Coordinate(AxisId(axis))) => Form::input(*axis),
                Atom::Symbol(Symbol::Counter(number)) => Form::input(self.nest.distributed + number.0),
                Atom::Div(of, by) => {
                    let of = self.value(conditions, of);
                    conditions.quotient(&of, *by)
                }
                Atom::Mod(of, by) => {
                    let of = self.value(conditions, of);
                    conditions.remainder(&of, *by)
                }
                Atom::Min(a, b) | Atom::Max(a, b) => {
                    let (a, b) = (self.value(conditions, a), self.value(conditions, b));
                    conditions.choice(&a, &b, matches!(atom, Atom::Min(..)))
                }
            };
            sum.add(&value.multiply(factor))
        })
    }

    /// Iterations at `depth` to the tuple of these values, where `when` holds.
    pub(crate) fn points(&self, depth: Depth, values: &[Expr], when: &[(Expr, Expr)]) -> Conditions {
        let mut conditions = self.iterations(depth, values.len());
        self.when(&mut conditions, when);
        for (dim, value) in values.iter().enumerate() {
            let value = self.value(&mut conditions, value);
            conditions.equal(&Form::output(dim), &value);
        }
        conditions
    }

    /// Iterations at `depth` to those with the last loop one iteration later.
    pub(crate) fn next(&self, depth: Depth) -> Conditions {
        self.shifted(depth, self.nest.around(depth).len() - 1, 1)
    }

    /// Iterations at `depth` to those of the neighbour `by` further along axis `axis`.
    ///
    /// Inside the mesh and around its end are two cases, since a remainder would cost isl more than they do.
    pub(crate) fn neighbour(&self, depth: Depth, axis: usize, by: i64) -> Conditions {
        let extent = self.nest.node(self.nest.loops[axis]).extent;
        let by = by.rem_euclid(extent);
        let (here, last) = (Form::input(axis).offset(by), Form::constant(extent - 1));
        let mut inside = self.shifted(depth, axis, by);
        inside.at_most(&here, &last);
        let mut around = self.shifted(depth, axis, by - extent);
        around.below(&last, &here);
        inside.or(around)
    }

    fn shifted(&self, depth: Depth, which: usize, by: i64) -> Conditions {
        let loops = self.nest.around(depth).len();
        let mut conditions = self.iterations(depth, loops);
        for dim in 0..loops {
            let by = if dim == which { by } else { 0 };
            conditions.equal(&Form::output(dim), &Form::input(dim).offset(by));
        }
        conditions
    }

    /// Iterations at `depth` to the rank that runs them.
    pub(crate) fn ranks(&self, depth: Depth) -> Conditions {
        let mut conditions = self.iterations(depth, self.nest.distributed);
        (0..self.nest.distributed).for_each(|axis| conditions.equal(&Form::output(axis), &Form::input(axis)));
        conditions
    }

    /// The relation of each step that makes loops, from the loops made to those that they replace, and all iterations
    /// of the latter. Composed in the order of the steps, they map iterations to statement instances.
    pub(crate) fn steps(&self) -> Vec<(Conditions, Conditions)> {
        self.nest.replacements().into_iter().map(|(made, replaced)| self.step(&made, &replaced)).collect()
    }

    fn step(&self, made: &[NodeId], replaced: &[NodeId]) -> (Conditions, Conditions) {
        let mut all = Conditions::new(0, replaced.len());
        let mut conditions = Conditions::new(made.len(), replaced.len());
        for (dim, &id) in made.iter().enumerate() {
            conditions.within(&Form::input(dim), self.nest.node(id).extent);
        }
        for (dim, &id) in replaced.iter().enumerate() {
            conditions.within(&Form::output(dim), self.nest.node(id).extent);
            all.within(&Form::output(dim), self.nest.node(id).extent);
        }
        let forms = replaced.iter().enumerate().map(|(dim, &id)| (id, Form::output(dim)));
        let mut writer = Writer { nest: self.nest, inputs: made, known: forms.collect(), conditions };
        for (dim, &id) in replaced.iter().enumerate() {
            match writer.input(id) {
                // A loop by which another one is rotated exists before and after.
                Some(input) => writer.conditions.equal(&Form::output(dim), &input),
                None => writer.constrain(id),
            }
        }
        (writer.conditions, all)
    }

    fn write(&self, depth: Depth, tuple: &[Affine], vars: &[usize]) -> Conditions {
        // A variable that is an output on its own is that output, which saves a projection.
        let mut known = BTreeMap::new();
        for (dim, index) in tuple.iter().enumerate() {
            if let Some(name) = index.as_variable() {
                known.entry(NodeId(position(self.kernel, name))).or_insert(Form::output(dim));
            }
        }
        let inputs = self.nest.around(depth);
        let mut writer = Writer { nest: self.nest, inputs, known, conditions: self.iterations(depth, tuple.len()) };
        let mut nodes = BTreeSet::new();
        for &var in vars {
            let value = writer.value(NodeId(var));
            writer.conditions.within(&value, self.kernel.vars()[var].extent as i64);
            self.nest.visit(NodeId(var), &mut |id| {
                nodes.insert(id);
            });
        }
        nodes.into_iter().for_each(|id| writer.constrain(id));
        for (dim, index) in tuple.iter().enumerate() {
            let sum = index.terms.iter().fold(Form::constant(index.constant), |sum, &(name, factor)| {
                sum.add(&writer.value(NodeId(position(self.kernel, name))).multiply(factor))
            });
            writer.conditions.equal(&Form::output(dim), &sum);
        }
        writer.conditions
    }
}

/// Writes the conditions that tie loops to the values of index variables.
struct Writer<'a> {
    nest: &'a Nest,
    inputs: &'a [NodeId],
    /// The forms of outputs, and of nodes used so far.
    known: BTreeMap<NodeId, Form>,
    conditions: Conditions,
}

impl Writer<'_> {
    fn input(&self, id: NodeId) -> Option<Form> {
        self.inputs.iter().position(|&other| other == id).map(Form::input)
    }

    /// A fixed loop is an input; a variable may be an output; all other nodes are existentially quantified.
    fn value(&mut self, id: NodeId) -> Form {
        if let Some(input) = self.input(id) {
            return input;
        }
        self.known.entry(id).or_insert_with(|| self.conditions.witness()).clone()
    }

    fn constrain(&mut self, id: NodeId) {
        let node = self.nest.node(id);
        let extent_of = |id: NodeId| self.nest.node(id).extent;
        let this = self.value(id);
        match &node.definition {
            Definition::Loop => self.conditions.within(&this, node.extent),
            Definition::Split { outer, inner, factor, offset } => {
                let (outer, inner) = (self.value(*outer), self.value(*inner));
                self.conditions.equal(&this.offset(*offset), &outer.multiply(*factor).add(&inner));
                self.conditions.within(&inner, *factor);
            }
            Definition::FusedOuter { fused, inner } => {
                let extent = extent_of(*fused);
                let fused = self.value(*fused);
                self.conditions.within(&fused.subtract(&this.multiply(*inner)), *inner);
                self.conditions.within(&fused, extent);
            }
            Definition::FusedInner { fused, inner } => {
                let extent = extent_of(*fused);
                let fused = self.value(*fused);
                self.conditions.within(&fused, extent);
                let row = self.conditions.witness();
                self.conditions.equal(&this, &fused.subtract(&row.multiply(*inner)));
                self.conditions.within(&this, *inner);
            }
            Definition::Rotated { rotated, by } => {
                let mut sum = Form::default();
                for &summand in [rotated].into_iter().chain(by) {
                    let value = self.value(summand);
                    // The remainder hides the bounds of its summands, on which short tiles further down depend.
                    if matches!(self.nest.node(summand).definition, Definition::Split { .. }) {
                        self.conditions.within(&value, extent_of(summand));
                    }
                    sum = sum.add(&value);
                }
                let (turns, extent) = (self.conditions.witness(), node.extent.max(1));
                self.conditions.equal(&this, &sum.subtract(&turns.multiply(extent)));
                self.conditions.within(&this, extent);
            }
        }
    }
}

/// Elements of a sharded array to the ranks that own them.
pub(crate) fn owners(sharding: &Sharding) -> Conditions {
    let (elements, axes) = (sharding.shape().len(), sharding.mesh().ndim());
    let mut conditions = Conditions::new(elements, axes);
    let elements: Vec<_> = (0..elements).map(Form::input).collect();
    let rank: Vec<_> = (0..axes).map(Form::output).collect();
    inside_mesh(&mut conditions, sharding, &rank);
    owned(&mut conditions, sharding, &elements, &rank);
    conditions
}

/// Elements of a sharded array to the ranks that own one of their terms, as if the array had no others.
pub(crate) fn owners_of_one_term(sharding: &Sharding) -> Conditions {
    owners(&sharding.pinned(&sharding.partial().iter().map(|&axis| (axis, 0)).collect::<Vec<_>>()))
}

/// Adds that these are the coordinates of a rank.
pub(crate) fn inside_mesh(conditions: &mut Conditions, sharding: &Sharding, rank: &[Form]) {
    for (coordinate, &extent) in rank.iter().zip(sharding.mesh().extents().iter()) {
        conditions.within(coordinate, extent as i64);
    }
}

/// Adds that the rank at these coordinates, if it exists, owns the element.
pub(crate) fn owned(conditions: &mut Conditions, sharding: &Sharding, element: &[Form], rank: &[Form]) {
    for (index, &extent) in element.iter().zip(sharding.shape()) {
        conditions.within(index, extent as i64);
    }
    for &(axis, at) in sharding.pins() {
        conditions.equal(&rank[axis], &Form::constant(at as i64));
    }
    for (index, layout) in element.iter().zip(sharding.dims()) {
        // The indices that a level divides are counted from their own beginning.
        let mut index = index.clone();
        for LevelLayout { at, parts, block, cyclic } in layout.levels() {
            let mut number = linear(conditions, at, rank);
            if *cyclic {
                let turn = conditions.witness();
                conditions.at_most(&Form::default(), &turn);
                number = number.add(&turn.multiply(*parts as i64));
            }
            index = index.subtract(&number.multiply(*block as i64));
            conditions.within(&index, *block as i64);
        }
    }
}

/// Returns the number of the block that the rank at these coordinates owns.
pub(crate) fn linear(conditions: &mut Conditions, at: &LinearAxes, rank: &[Form]) -> Form {
    let terms = at.terms.iter().map(|&(axis, factor)| rank[axis].multiply(factor));
    let sum = terms.fold(Form::constant(at.constant), |sum, term| sum.add(&term));
    match at.modulus {
        Some(modulus) => conditions.remainder(&sum, modulus),
        None => sum,
    }
}

#[cfg(test)]
mod tests;
