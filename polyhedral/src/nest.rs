//! The loops of a schedule and how they were made: a forest from index variables to loops.
//!
//! Every step that makes loops adds nodes whose values determine the older ones. The forest is read in
//! two independent ways: as constraints for isl ([`crate::relation`]) and as closed forms of ranges
//! ([`crate::range`]); lowering proves that they agree.

use polyshard_layout::{Name, in_order};
pub(crate) use polyshard_program::Depth;
use polyshard_program::StepId;

/// A loop or former loop; index variables are first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub usize);

/// How a node's value follows from newer nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Definition {
    /// It is a loop itself.
    Loop,
    /// `outer * factor + inner - offset`, with `inner < factor` and the whole in `0..extent`.
    Split { outer: NodeId, inner: NodeId, factor: i64, offset: i64 },
    /// `fused / inner`: the outer of two fused loops.
    FusedOuter { fused: NodeId, inner: i64 },
    /// `fused % inner`: the inner of two fused loops.
    FusedInner { fused: NodeId, inner: i64 },
    /// `(rotated + sum of by) % extent`.
    Rotated { rotated: NodeId, by: Vec<NodeId> },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub name: Name,
    /// Values are `0..extent`.
    pub extent: i64,
    /// The steps that made it.
    pub steps: Vec<StepId>,
    pub definition: Definition,
}

/// The forest and the order of its loops.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Nest {
    pub nodes: Vec<Node>,
    /// The loops, outermost first; the first `distributed` are bound to the mesh axes in order.
    pub loops: Vec<NodeId>,
    pub distributed: usize,
    /// Of those bound to axes, the ones over copies of all iterations: no index variable depends on them.
    pub copies: Vec<NodeId>,
}

impl Nest {
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// The loops that are fixed at a depth: those over the mesh, and the serial ones around it.
    pub(crate) fn around(&self, depth: Depth) -> &[NodeId] {
        &self.loops[..self.distributed + depth.0]
    }

    /// The loops that run at a depth.
    pub(crate) fn inside(&self, depth: Depth) -> &[NodeId] {
        &self.loops[self.distributed + depth.0..]
    }

    /// The depth inside all loops.
    pub(crate) fn innermost(&self) -> Depth {
        Depth(self.loops.len() - self.distributed)
    }

    pub(crate) fn find(&self, name: Name) -> Option<usize> {
        self.loops.iter().position(|&id| self.node(id).name == name)
    }

    /// The loops' names, for messages.
    pub(crate) fn names(&self) -> Vec<Name> {
        self.loops.iter().map(|&id| self.node(id).name).collect()
    }

    pub(crate) fn taken(&self, name: Name) -> bool {
        self.nodes.iter().any(|node| node.name == name)
    }

    fn add(&mut self, name: Name, extent: i64, steps: Vec<StepId>) -> NodeId {
        self.nodes.push(Node { name, extent, steps, definition: Definition::Loop });
        NodeId(self.nodes.len() - 1)
    }

    pub(crate) fn add_variable(&mut self, name: Name, extent: i64) {
        let id = self.add(name, extent, Vec::new());
        self.loops.push(id);
    }

    /// Adds a loop over copies of all iterations, bound to the next mesh axis.
    pub(crate) fn replicate(&mut self, name: Name, copies: i64, step: StepId) {
        let id = self.add(name, copies, vec![step]);
        self.loops.insert(self.distributed, id);
        self.distributed += 1;
        self.copies.push(id);
    }

    /// The mesh axes of copies, where there are several.
    pub(crate) fn axes_of_copies(&self) -> Vec<usize> {
        let bound = self.loops[..self.distributed].iter().enumerate();
        bound.filter(|(_, id)| self.copies.contains(id) && self.node(**id).extent > 1).map(|(axis, _)| axis).collect()
    }

    /// Replaces the loop at `position` by two, `outer * factor + inner - offset`.
    pub(crate) fn split(
        &mut self,
        position: usize,
        (outer, outer_extent): (Name, i64),
        (inner, factor): (Name, i64),
        offset: i64,
        step: StepId,
    ) {
        let id = self.loops[position];
        let outer = self.add(outer, outer_extent, vec![step]);
        let inner = self.add(inner, factor, vec![step]);
        self.nodes[id.0].definition = Definition::Split { outer, inner, factor, offset };
        self.loops.splice(position..=position, [outer, inner]);
    }

    /// Replaces the loops at `position` and `position + 1` by one.
    pub(crate) fn fuse(&mut self, position: usize, name: Name, extent: i64, step: StepId) {
        let (i, j) = (self.loops[position], self.loops[position + 1]);
        let inner = self.node(j).extent.max(1);
        let fused = self.add(name, extent, vec![step]);
        self.nodes[i.0].definition = Definition::FusedOuter { fused, inner };
        self.nodes[j.0].definition = Definition::FusedInner { fused, inner };
        self.loops.splice(position..position + 2, [fused]);
    }

    /// Replaces the loop at `position` by one of the same name that starts from the sum of `by`; if `by` is empty, its start does
    /// not change.
    pub(crate) fn rotate(&mut self, position: usize, by: Vec<NodeId>, step: StepId) {
        let id = self.loops[position];
        if by.is_empty() {
            self.nodes[id.0].steps.push(step);
            return;
        }
        let node = self.node(id).clone();
        let rotated = self.add(node.name, node.extent, [&node.steps[..], &[step]].concat());
        self.nodes[id.0].definition = Definition::Rotated { rotated, by };
        self.loops[position] = rotated;
    }

    /// The loops that each step made and those that they replaced, in pairs.
    pub(crate) fn replacements(&self) -> Vec<(Vec<NodeId>, Vec<NodeId>)> {
        let ids = (0..self.nodes.len()).map(NodeId);
        let pairs = ids.filter_map(|id| match &self.node(id).definition {
            Definition::Loop => None,
            Definition::Split { outer, inner, .. } => Some((vec![*outer, *inner], vec![id])),
            Definition::FusedOuter { fused, .. } => {
                let second =
                    |other: &&Node| matches!(other.definition, Definition::FusedInner { fused: same, .. } if same == *fused);
                let inner = self.nodes.iter().position(|other| second(&other));
                Some((vec![*fused], [id].into_iter().chain(inner.map(NodeId)).collect()))
            }
            // Replaced together with the outer one.
            Definition::FusedInner { .. } => None,
            Definition::Rotated { rotated, by } => {
                let turned = in_order(by.clone());
                Some(([&[*rotated], &turned[..]].concat(), [&[id], &turned[..]].concat()))
            }
        });
        pairs.collect()
    }

    /// Whether each loop was made by one step, and still exists or was replaced by one later step. Loops over copies are never replaced.
    pub(crate) fn is_forest(&self) -> bool {
        let (mut made, mut gone) = (self.copies.clone(), self.loops.clone());
        for (new, old) in self.replacements() {
            // A loop by which another one is rotated exists before and after.
            gone.extend(old.iter().filter(|id| !new.contains(id)));
            made.extend(new.iter().filter(|id| !old.contains(id)));
        }
        made.sort_unstable();
        gone.sort_unstable();
        // Index variables are first, and no step makes them.
        let variables = self.nodes.len() - made.len().min(self.nodes.len());
        made.into_iter().eq((variables..self.nodes.len()).map(NodeId))
            && gone.into_iter().eq((0..self.nodes.len()).map(NodeId))
    }

    /// The first `vars` index variables in groups that share no loop, present or former, except those around `depth`.
    pub(crate) fn components(&self, vars: usize, depth: Depth) -> Vec<Vec<usize>> {
        let mut groups: Vec<(Vec<usize>, Vec<NodeId>)> = Vec::new();
        for var in 0..vars {
            let mut nodes = Vec::new();
            self.visit(NodeId(var), &mut |id| nodes.push(id));
            nodes.retain(|id| !self.around(depth).contains(id));
            let shares = |(_, others): &(Vec<usize>, Vec<NodeId>)| others.iter().any(|id| nodes.contains(id));
            let (joined, apart) = groups.into_iter().partition(shares);
            groups = apart;
            let (mut members, others): (Vec<_>, Vec<_>) = joined.into_iter().unzip();
            members.push(vec![var]);
            nodes.extend(others.into_iter().flatten());
            groups.push((members.concat(), nodes));
        }
        let sorted = |(mut members, _): (Vec<usize>, _)| {
            members.sort_unstable();
            members
        };
        groups.into_iter().map(sorted).collect()
    }

    /// The loops that determine a node's value, by position, and the nodes on the way.
    pub(crate) fn loops_of(&self, id: NodeId) -> Vec<usize> {
        let mut found = Vec::new();
        self.visit(id, &mut |node| {
            if let Some(position) = self.loops.iter().position(|&other| other == node) {
                found.push(position);
            }
        });
        in_order(found)
    }

    /// The position of the outermost loop that steps through a node; those that only rotate it do not.
    pub(crate) fn outermost(&self, id: NodeId) -> Option<usize> {
        match &self.node(id).definition {
            Definition::Loop => self.loops.iter().position(|&other| other == id),
            Definition::Split { outer, inner, .. } => {
                [outer, inner].into_iter().filter_map(|&made| self.outermost(made)).min()
            }
            Definition::FusedOuter { fused, .. } | Definition::FusedInner { fused, .. } => self.outermost(*fused),
            Definition::Rotated { rotated, .. } => self.outermost(*rotated),
        }
    }

    pub(crate) fn visit(&self, id: NodeId, seen: &mut impl FnMut(NodeId)) {
        seen(id);
        match &self.node(id).definition {
            Definition::Loop => {}
            Definition::Split { outer, inner, .. } => {
                self.visit(*outer, seen);
                self.visit(*inner, seen);
            }
            Definition::FusedOuter { fused, .. } | Definition::FusedInner { fused, .. } => self.visit(*fused, seen),
            Definition::Rotated { rotated, by } => {
                self.visit(*rotated, seen);
                by.iter().for_each(|&id| self.visit(id, seen));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Index variables i, j and k; i is split, j and the inner loop of i are fused, k is rotated by the outer loop of i.
    fn nest() -> Nest {
        let mut nest = Nest::default();
        ["i", "j", "k"].into_iter().for_each(|name| nest.add_variable(Name::new(name), 6));
        nest.split(0, (Name::new("io"), 3), (Name::new("ii"), 2), 0, StepId(1));
        nest.fuse(1, Name::new("f"), 12, StepId(2));
        let by = nest.loops[0];
        nest.rotate(2, vec![by], StepId(3));
        nest
    }

    #[test]
    fn each_step_replaces_loops() {
        let nest = nest();
        let name = |ids: &Vec<NodeId>| ids.iter().map(|&id| nest.node(id).name.as_str()).collect::<Vec<_>>().join(" ");
        let pairs: Vec<_> = nest.replacements().iter().map(|(made, old)| (name(made), name(old))).collect();
        let expected = [("io ii", "i"), ("k io", "k io"), ("f", "ii j")];
        let sorted = |mut pairs: Vec<(String, String)>| {
            pairs.sort();
            pairs
        };
        assert_eq!(sorted(pairs), sorted(expected.map(|(made, old)| (made.into(), old.into())).into()));
        assert!(nest.is_forest());
    }

    #[test]
    fn a_loop_that_is_lost_or_used_twice_is_found() {
        let mut lost = nest();
        lost.loops.pop();
        assert!(!lost.is_forest());
        let mut twice = nest();
        twice.nodes[2].definition = Definition::Split { outer: NodeId(3), inner: NodeId(4), factor: 2, offset: 0 };
        assert!(!twice.is_forest());
    }

    #[test]
    fn indices_that_share_loops_are_together() {
        let nest = nest();
        // i and j share f, and k is rotated by io; once io is fixed, k is independent.
        assert_eq!(nest.components(3, Depth(0)), [[0, 1, 2]]);
        assert_eq!(nest.components(3, Depth(1)), [vec![0, 1], vec![2]]);
    }
}
