//! Groups with staged collectives: in groups along digits of the axes, one after the other.

use super::{Group, World};
use crate::layout::{Mesh, Stages};
use crate::publish::Publisher;
use crate::{GroupError, Result, at_caller};
use smallvec::SmallVec;
use std::rc::Rc;

/// The stages of the collectives of a group.
pub(super) struct InStages {
    pub(super) stages: Stages,
    /// This rank's group in each of them, whose members differ in digits.
    groups: Vec<Rc<Group>>,
    /// By member of the whole group, its number in its group of each stage.
    numbers: Vec<SmallVec<[usize; 4]>>,
}

/// A rank's part in a collective with a root: a group, and the root's number in it.
pub(crate) type Part<'a> = (&'a Group, usize);

impl World {
    /// As [`group`](Self::group), returns the group of the ranks that differ from this one along `axes` only, but its tiles are broadcast,
    /// gathered and summed up in stages.
    ///
    /// ```
    /// use polyshard::layout::{AxisPart, Stages};
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 4)]);
    /// let (inside, between) = AxisPart::whole(&mesh, 0).split(2);
    /// let stages = Stages::new(&mesh, &[0], vec![vec![between], vec![inside]]).expect("they make up the coordinate");
    /// let sizes = spmd(4, |world| Ok(world.group_in_stages(&mesh, &[0], &stages)?.size()))?;
    /// assert_eq!(sizes, [4; 4]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`group`](Self::group), and [`GroupError::Stages`] if the stages are not those of a collective along the axes.
    #[track_caller]
    pub fn group_in_stages(&self, mesh: &Mesh, axes: &[usize], stages: &Stages) -> Result<Rc<Group>> {
        at_caller(self.group_by_stages(mesh, axes, stages))
    }

    fn group_by_stages(&self, mesh: &Mesh, axes: &[usize], stages: &Stages) -> Result<Rc<Group>> {
        self.check_mesh(mesh)?;
        if let Some(group) = self.groups.borrow().iter().find(|group| group.is(mesh, axes, Some(stages))) {
            return Ok(Rc::clone(group));
        }
        let whole = self.group_along(mesh, axes)?;
        stages.check(mesh, axes).map_err(|error| GroupError::Stages { mesh: mesh.clone(), error: Box::new(error) })?;
        let (refined, along) = stages.refined(mesh);
        let groups: Vec<_> = along.iter().map(|axes| self.group_along(&refined, axes)).collect::<Result<_>>()?;
        let numbers = (0..whole.size()).map(|member| {
            let digits = refined.coordinates(whole.world_rank(member));
            groups.iter().map(|group| group.number_at(&digits)).collect()
        });
        let in_stages = InStages { stages: stages.clone(), numbers: numbers.collect(), groups };
        let group = Rc::new(Group {
            comm: Rc::clone(&whole.comm),
            near: whole.near.clone(),
            publisher: Publisher::default(),
            transport: Rc::clone(&whole.transport),
            mesh: whole.mesh.clone(),
            axes: whole.axes.clone(),
            origin: whole.origin.clone(),
            in_stages: Some(in_stages),
        });
        self.groups.borrow_mut().push(Rc::clone(&group));
        Ok(group)
    }
}

impl Group {
    /// Returns whether it is the group of these axes with these stages.
    pub(super) fn is(&self, mesh: &Mesh, axes: &[usize], stages: Option<&Stages>) -> bool {
        let own = self.in_stages.as_ref().map(|in_stages| &in_stages.stages);
        self.axes == axes && self.mesh == *mesh && own == stages
    }

    /// The number of the member at these coordinates on the whole mesh.
    fn number_at(&self, coordinates: &[usize]) -> usize {
        self.rank_of(&self.axes.iter().map(|&axis| coordinates[axis]).collect::<SmallVec<[usize; 6]>>())
    }

    /// Returns whether its collectives are carried out in stages.
    pub(crate) fn is_in_stages(&self) -> bool {
        self.in_stages.is_some()
    }

    /// Returns this rank's groups in the stages of its collectives, the first stage's first; only itself if they are not staged.
    pub(crate) fn stages(&self) -> SmallVec<[&Group; 4]> {
        match &self.in_stages {
            None => SmallVec::from_slice(&[self]),
            Some(in_stages) => in_stages.groups.iter().map(|group| &**group).collect(),
        }
    }

    /// Returns this rank's parts in a broadcast from the member `root`, in the order of the broadcast: of each stage, if a member of its
    /// group has the data.
    pub(crate) fn parts_from(&self, root: usize) -> SmallVec<[Part<'_>; 4]> {
        let Some(InStages { groups, numbers, .. }) = &self.in_stages else {
            return SmallVec::from_slice(&[(self, root)]);
        };
        let (own, root) = (&numbers[self.rank()], &numbers[root]);
        let has_part = |stage: &usize| own[stage + 1..] == root[stage + 1..];
        (0..groups.len()).filter(has_part).map(|stage| (&*groups[stage], root[stage])).collect()
    }

    /// Returns the members in the order in which the stages gather their parts: members with the same number in the last stage follow each
    /// other, among them those with the same number in the stage before, and so on.
    pub(crate) fn gathered(&self) -> SmallVec<[usize; 16]> {
        let mut members: SmallVec<[usize; 16]> = (0..self.size()).collect();
        if let Some(InStages { numbers, .. }) = &self.in_stages {
            members.sort_by(|&a, &b| numbers[a].iter().rev().cmp(numbers[b].iter().rev()));
        }
        members
    }

    /// Returns, by member of this rank's group in a stage, the number of elements that it has when all earlier stages have gathered those
    /// of the members; member `r` contributes `each(r)`.
    pub(crate) fn counts_in(&self, stage: usize, each: impl Fn(usize) -> usize) -> Vec<usize> {
        let Some(InStages { groups, numbers, .. }) = &self.in_stages else {
            return (0..self.size()).map(each).collect();
        };
        let own = &numbers[self.rank()];
        let mut counts = vec![0; groups[stage].size()];
        for (member, numbers) in numbers.iter().enumerate() {
            if numbers[stage + 1..] == own[stage + 1..] {
                counts[numbers[stage]] += each(member);
            }
        }
        counts
    }
}
