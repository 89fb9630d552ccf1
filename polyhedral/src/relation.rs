//! The relations of a schedule, built for isl from the steps' own definitions.
//!
//! ```text
//! iterations at a level     [p.., t_1..t_level]                the first loops, fixed
//! exact(..)                 iteration -> element, of the statement instances that exist
//! needed(..)                the same, with the indices that the tensor lacks unbounded
//! ```
//!
//! `needed` makes short and empty tiles take part: a rank without rows of `C` still passes on the
//! columns of `B` that its neighbours use.

use crate::expr::Expr;
use crate::kernel::{Affine, Kernel};
use crate::nest::{Made, Nest, NodeId};
use crate::range::{position, symbol};
use polyshard_layout::{LevelLayout, LinearAxes, Sharding};
use std::collections::{BTreeMap, BTreeSet};

/// Writes relations of one schedule.
pub(crate) struct Relations<'a> {
    pub kernel: &'a Kernel,
    pub nest: &'a Nest,
}

impl Relations<'_> {
    /// Iterations of the first `fixed` loops to what `tuple` is of all statement instances.
    pub(crate) fn exact(&self, fixed: usize, tuple: &[Affine]) -> String {
        let all: Vec<_> = (0..self.kernel.vars().len()).collect();
        self.write(fixed, tuple, &all)
    }

    /// As [`exact`](Self::exact), but indices that `tuple` lacks may take any value, as long as they have one.
    pub(crate) fn needed(&self, fixed: usize, tuple: &[Affine]) -> String {
        if self.kernel.is_empty() {
            return self.exact(fixed, tuple);
        }
        let used: Vec<_> = (0..self.kernel.vars().len())
            .filter(|&var| tuple.iter().any(|index| index.coefficient(self.kernel.vars()[var].name) != 0))
            .collect();
        self.write(fixed, tuple, &used)
    }

    /// Iterations of the first `fixed` loops to the boxes given by half-open ranges and steps, where `when` holds.
    pub(crate) fn boxes(&self, fixed: usize, ranges: &[(Expr, Expr, i64)], when: &[(Expr, Expr)]) -> String {
        let outputs: Vec<_> = (0..ranges.len()).map(|dim| format!("e{dim}")).collect();
        let mut parts = vec![self.counters(fixed)];
        parts.extend(when.iter().map(|(a, b)| format!("{} < {}", self.isl(a), self.isl(b))));
        let mut witnesses = Vec::new();
        for (dim, (low, high, step)) in ranges.iter().enumerate() {
            parts.push(self.between_bounds(&format!("e{dim}"), low, high));
            if *step > 1 {
                witnesses.push(format!("s{dim}"));
                parts.push(format!("e{dim} = {} + {step}*s{dim}", self.isl(low)));
            }
        }
        self.close(fixed, &outputs, &witnesses, &parts)
    }

    /// `low <= name < high`, with `low` written once if the length is constant: its remainders cost time.
    pub(crate) fn between_bounds(&self, name: &str, low: &Expr, high: &Expr) -> String {
        match high.minus(low).as_constant() {
            Some(1) => format!("{name} = {}", self.isl(low)),
            Some(length) => format!("0 <= {name} - ({}) < {length}", self.isl(low)),
            None => format!("{} <= {name} < {}", self.isl(low), self.isl(high)),
        }
    }

    /// Iterations of the first `fixed` loops to the tuple of these values, where `when` holds.
    pub(crate) fn points(&self, fixed: usize, values: &[Expr], when: &[(Expr, Expr)]) -> String {
        let ranges: Vec<_> = values.iter().map(|value| (value.clone(), value.offset_by(1), 1)).collect();
        self.boxes(fixed, &ranges, when)
    }

    /// Iterations of the first `fixed` loops to those with the last loop one further on.
    pub(crate) fn next(&self, fixed: usize) -> String {
        format!("{{ {} }}", self.shifted(fixed, fixed - 1, 1, ""))
    }

    /// Iterations of the first `fixed` loops to those of the neighbour `by` further along axis `axis`.
    ///
    /// Inside the mesh and around its end are two pieces, since a remainder would cost isl more than they do.
    pub(crate) fn neighbour(&self, fixed: usize, axis: usize, by: i64) -> String {
        let extent = self.nest.node(self.nest.loops[axis]).extent;
        let by = by.rem_euclid(extent);
        let inside = self.shifted(fixed, axis, by, &format!(" and i{axis} + {by} < {extent}"));
        let around = self.shifted(fixed, axis, by - extent, &format!(" and i{axis} + {by} >= {extent}"));
        format!("{{ {inside}; {around} }}")
    }

    fn shifted(&self, fixed: usize, which: usize, by: i64, and: &str) -> String {
        let to = |dim: usize| if dim == which { format!("i{dim} + {by}") } else { format!("i{dim}") };
        let to: Vec<_> = (0..fixed).map(to).collect();
        format!("[{}] -> [{}] : {}{and}", self.inputs(fixed), to.join(", "), self.counters(fixed))
    }

    /// Iterations of the first `fixed` loops to the rank that runs them.
    pub(crate) fn ranks(&self, fixed: usize) -> String {
        let ranks: Vec<_> = (0..self.nest.distributed).map(|axis| format!("i{axis}")).collect();
        format!("{{ [{}] -> [{}] : {} }}", self.inputs(fixed), ranks.join(", "), self.counters(fixed))
    }

    pub(crate) fn inputs(&self, fixed: usize) -> String {
        let inputs: Vec<_> = (0..fixed).map(|dim| format!("i{dim}")).collect();
        inputs.join(", ")
    }

    pub(crate) fn counters(&self, fixed: usize) -> String {
        let bound = |dim: usize| format!("0 <= i{dim} < {}", self.nest.node(self.nest.loops[dim]).extent);
        let bounds: Vec<_> = (0..fixed).map(bound).collect();
        if bounds.is_empty() { "0 = 0".into() } else { bounds.join(" and ") }
    }

    pub(crate) fn isl(&self, expr: &Expr) -> String {
        let number = |symbol_of| (0..self.nest.loops.len()).find(|&dim| symbol(self.nest, dim) == symbol_of);
        expr.isl(&|symbol| format!("i{}", number(symbol).expect("a symbol is a loop; this is a bug of polyshard")))
    }

    fn close(&self, fixed: usize, outputs: &[String], witnesses: &[String], parts: &[String]) -> String {
        let exists = exists(witnesses);
        format!("{{ [{}] -> [{}] : {exists}{} }}", self.inputs(fixed), outputs.join(", "), parts.join(" and "))
    }

    fn write(&self, fixed: usize, tuple: &[Affine], vars: &[usize]) -> String {
        // A variable that is an output on its own goes by the output's name, which saves a projection.
        let mut alone = BTreeMap::new();
        for (dim, index) in tuple.iter().enumerate() {
            if let Some(name) = index.as_variable() {
                alone.entry(NodeId(position(self.kernel, name))).or_insert(format!("e{dim}"));
            }
        }
        let mut writer =
            Writer { relations: self, fixed, alone, parts: vec![self.counters(fixed)], witnesses: BTreeSet::new() };
        for &var in vars {
            let name = writer.name(NodeId(var));
            writer.say(format!("0 <= {name} < {}", self.kernel.vars()[var].extent));
        }
        let mut nodes = BTreeSet::new();
        for &var in vars {
            self.nest.visit(NodeId(var), &mut |id| {
                nodes.insert(id);
            });
        }
        nodes.into_iter().for_each(|id| writer.constrain(id));
        for (dim, index) in tuple.iter().enumerate() {
            let terms: Vec<_> = index
                .terms
                .iter()
                .map(|&(name, factor)| format!("{factor}*{}", writer.name(NodeId(position(self.kernel, name)))))
                .chain([index.constant.to_string()])
                .collect();
            let out = format!("e{dim}");
            if terms.len() != 2 || terms[0] != format!("1*{out}") || index.constant != 0 {
                writer.say(format!("{out} = {}", terms.join(" + ")));
            }
        }
        let outputs: Vec<_> = (0..tuple.len()).map(|dim| format!("e{dim}")).collect();
        let witnesses: Vec<_> = writer.witnesses.into_iter().collect();
        self.close(fixed, &outputs, &witnesses, &writer.parts)
    }
}

/// Writes the constraints that tie loops to the values of index variables.
struct Writer<'a> {
    relations: &'a Relations<'a>,
    fixed: usize,
    alone: BTreeMap<NodeId, String>,
    parts: Vec<String>,
    witnesses: BTreeSet<String>,
}

impl Writer<'_> {
    /// isl intersects one constraint after the other, so none is said twice.
    fn say(&mut self, constraint: String) {
        if !self.parts.contains(&constraint) {
            self.parts.push(constraint);
        }
    }

    /// A fixed loop is an input; a variable may be an output; all other nodes are projected out.
    fn name(&mut self, id: NodeId) -> String {
        if let Some(dim) = self.relations.nest.loops[..self.fixed].iter().position(|&other| other == id) {
            return format!("i{dim}");
        }
        if let Some(output) = self.alone.get(&id) {
            return output.clone();
        }
        let name = format!("n{}", id.0);
        self.witnesses.insert(name.clone());
        name
    }

    fn constrain(&mut self, id: NodeId) {
        let node = self.relations.nest.node(id);
        let this = self.name(id);
        match &node.made {
            // An input's range is said once, for all inputs.
            Made::Loop if this.starts_with('i') => {}
            Made::Loop => self.say(format!("0 <= {this} < {}", node.extent)),
            Made::Split { outer, inner, factor } => {
                let (outer, inner) = (self.name(*outer), self.name(*inner));
                self.say(format!("{this} = {factor}*{outer} + {inner}"));
                self.say(format!("0 <= {inner} < {factor}"));
            }
            Made::FusedOuter { fused, inner } => {
                let (fused, extent) = (self.name(*fused), self.relations.nest.node(*fused).extent);
                self.say(format!("0 <= {fused} - {inner}*{this} < {inner}"));
                self.say(format!("0 <= {fused} < {extent}"));
            }
            Made::FusedInner { fused, inner } => {
                let (fused, extent) = (self.name(*fused), self.relations.nest.node(*fused).extent);
                self.say(format!("0 <= {fused} < {extent}"));
                let row = format!("r{}", id.0);
                self.say(format!("{this} = {fused} - {inner}*{row}"));
                self.say(format!("0 <= {this} < {inner}"));
                self.witnesses.insert(row);
            }
            Made::Rotated { rotated, by } => {
                let terms: Vec<_> = [rotated].into_iter().chain(by).map(|&id| self.name(id)).collect();
                let turns = format!("q{}", id.0);
                let extent = node.extent.max(1);
                // The remainder hides the end of what it is taken of, which short tiles anywhere below go by.
                for &summand in [rotated].into_iter().chain(by) {
                    let of = self.relations.nest.node(summand);
                    if matches!(of.made, Made::Split { .. }) {
                        let name = self.name(summand);
                        self.say(format!("{name} < {}", of.extent));
                    }
                }
                self.say(format!("{this} = {} - {extent}*{turns}", terms.join(" + ")));
                self.say(format!("0 <= {this} < {extent}"));
                self.witnesses.insert(turns);
            }
        }
    }
}

/// Elements of a sharded array to the ranks that own them.
pub(crate) fn owners(sharding: &Sharding) -> String {
    let elements: Vec<_> = (0..sharding.shape().len()).map(|dim| format!("e{dim}")).collect();
    let ranks: Vec<_> = (0..sharding.mesh().ndim()).map(|axis| format!("q{axis}")).collect();
    let (witnesses, parts) = owned(sharding, &|axis| format!("q{axis}"));
    let exists = exists(&witnesses);
    format!("{{ [{}] -> [{}] : {exists}{parts} }}", elements.join(", "), ranks.join(", "))
}

/// Elements of a sharded array to the ranks that own one of their terms, as if the array had no others.
pub(crate) fn owners_of_one_term(sharding: &Sharding) -> String {
    owners(&sharding.pinned(&sharding.partial().iter().map(|&axis| (axis, 0)).collect::<Vec<_>>()))
}

/// The condition that the rank at the coordinates that `rank` names owns the element `e0, ..`, and the
/// witnesses it needs.
pub(crate) fn owned(sharding: &Sharding, rank: &dyn Fn(usize) -> String) -> (Vec<String>, String) {
    let mut parts = vec!["0 = 0".to_owned()];
    parts.extend(sharding.shape().iter().enumerate().map(|(dim, extent)| format!("0 <= e{dim} < {extent}")));
    let extents = sharding.mesh().extents();
    parts.extend(extents.iter().enumerate().map(|(axis, extent)| format!("0 <= {} < {extent}", rank(axis))));
    parts.extend(sharding.pins().iter().map(|&(axis, at)| format!("{} = {at}", rank(axis))));
    let mut witnesses = Vec::new();
    for (dim, layout) in sharding.dims().iter().enumerate() {
        // What each level divides is counted from its own beginning.
        let mut index = format!("e{dim}");
        for (number, level) in layout.levels().iter().enumerate() {
            let LevelLayout { at, parts: digits, block, cyclic } = level;
            index = format!("{index} - {block}*{}", linear(at, rank));
            if *cyclic {
                let turn = format!("c{dim}_{number}");
                parts.push(format!("0 <= {turn}"));
                index = format!("{index} - {}*{turn}", *block as u128 * *digits as u128);
                witnesses.push(turn);
            }
            parts.push(format!("0 <= {index} < {block}"));
        }
    }
    (witnesses, parts.join(" and "))
}

pub(crate) fn linear(at: &LinearAxes, rank: &dyn Fn(usize) -> String) -> String {
    let terms = at.terms.iter().map(|&(axis, factor)| format!("{factor}*{}", rank(axis)));
    let sum: Vec<_> = terms.chain([at.constant.to_string()]).collect();
    match at.modulus {
        Some(modulus) => format!("(({}) mod {modulus})", sum.join(" + ")),
        None => format!("({})", sum.join(" + ")),
    }
}

/// The quantifier over witnesses, if there are any.
pub(crate) fn exists(witnesses: &[String]) -> String {
    if witnesses.is_empty() { String::new() } else { format!("exists {} : ", witnesses.join(", ")) }
}

#[cfg(test)]
mod tests;
