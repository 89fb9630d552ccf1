//! The groups in which ranks communicate, made once and looked up by their axes.

use crate::layout::Stages;
use crate::{Group, Result};
use std::rc::Rc;

/// Groups, by the axes along which their members differ and the stages of their collectives.
pub(crate) struct Groups(Vec<Along>);

struct Along {
    axes: Vec<usize>,
    stages: Option<Stages>,
    group: Rc<Group>,
}

impl Groups {
    /// Returns the groups along these axes and in these stages, each of which `make` makes.
    pub(crate) fn new(
        along: impl IntoIterator<Item = (Vec<usize>, Option<Stages>)>,
        make: impl Fn(&[usize], Option<&Stages>) -> Result<Rc<Group>>,
    ) -> Result<Self> {
        let made = along.into_iter().map(|(axes, stages)| {
            let group = make(&axes, stages.as_ref())?;
            Ok(Along { axes, stages, group })
        });
        made.collect::<Result<_>>().map(Self)
    }

    /// Returns the group along these axes, in these stages.
    pub(crate) fn along(&self, axes: &[usize], stages: Option<&Stages>) -> &Group {
        let found = self.0.iter().find(|along| along.axes == axes && along.stages.as_ref() == stages);
        &found.expect("groups are made before legs are carried out; this is a bug in polyshard").group
    }
}
