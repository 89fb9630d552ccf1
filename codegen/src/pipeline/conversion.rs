//! One redistribution between two stages: from which sharding to which, and how.

use polyshard_layout::{Name, Sharding};
use polyshard_planner::{DistType, Options, Plan, PlanError};
use polyshard_runtime::{Redistribution, Result, World};

/// A redistribution that a pipeline puts in before a stage.
#[derive(Clone, Debug)]
pub struct Conversion {
    value: Name,
    stage: usize,
    source: Sharding,
    target: Sharding,
    way: Way,
}

/// How a redistribution gets its elements from rank to rank.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// By a plan's steps.
    Plan(Box<Plan>),
    /// By one exchange, because the shardings are not in blocks that a plan could be for.
    Exchange {
        /// What keeps them from being so.
        why: String,
    },
}

impl Conversion {
    /// Plans the way of `value` from one sharding to another of the same shape and mesh, for the stage with this
    /// position.
    pub(super) fn new(
        value: Name,
        stage: usize,
        [source, target]: [&Sharding; 2],
        options: &Options,
    ) -> std::result::Result<Self, PlanError> {
        let way = match DistType::covering(source, target) {
            Some([from, to]) => Way::Plan(Box::new(Plan::new(&from, &to, options)?)),
            None => Way::Exchange { why: why(source, target) },
        };
        Ok(Self { value, stage, source: source.clone(), target: target.clone(), way })
    }

    /// Returns the name of the value that is redistributed.
    #[must_use]
    pub fn value(&self) -> Name {
        self.value
    }

    /// Returns the number, from 1, of the stage that reads the result first.
    #[must_use]
    pub fn stage(&self) -> usize {
        self.stage + 1
    }

    /// Returns how the value lies before.
    #[must_use]
    pub fn source(&self) -> &Sharding {
        &self.source
    }

    /// Returns how it lies afterwards.
    #[must_use]
    pub fn target(&self) -> &Sharding {
        &self.target
    }

    /// Returns how it gets there.
    #[must_use]
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// Makes what moves the elements, and its groups; collective over the world.
    pub(super) fn prepare(&self, world: &World) -> Result<Redistribution> {
        match &self.way {
            Way::Plan(plan) => Redistribution::with_plan_between(world, &self.source, &self.target, plan),
            Way::Exchange { .. } => Redistribution::new(world, &self.source, &self.target),
        }
    }
}

/// Returns why the two shardings have no types that cover them both.
fn why(source: &Sharding, target: &Sharding) -> String {
    let refused = [source, target].into_iter().find_map(|sharding| DistType::from_sharding(sharding).err());
    refused.map_or_else(|| "the blocks of both do not end together".into(), |why| why.to_string())
}
