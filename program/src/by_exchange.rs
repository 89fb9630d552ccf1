//! The program whose transfers are all exchanges: what any other must agree with.

use crate::matching::Matching;
use crate::nest::{Direction, Leg, Nest};
use crate::proof::{Proof, Property, SENT};
use polyshard_layout::{Neighbours, Reach};

impl Nest {
    /// Returns the same program with every transfer by exchange, which is right for any region and sharding: what
    /// other patterns are tested against.
    ///
    /// The report says no more than holds of this program: what was proved of other routes is gone, and the bounds
    /// are its own. That tiles stay inside their tensors and that elements are read from owners is all that an
    /// exchange needs, and was asked already.
    ///
    /// # Panics
    /// If ranks would not agree on an exchange: a bug in polyshard.
    #[doc(hidden)]
    #[must_use]
    pub fn by_exchange(&self) -> Self {
        let mut nest = self.clone();
        let ranges = self.ranges();
        for transfer in &mut nest.transfers {
            let own = match transfer.direction {
                Direction::In => Vec::new(),
                Direction::Out { .. } => [self.output_sharding().partial(), &self.copies].concat(),
            };
            let reach = |axis: usize| if own.contains(&axis) { Reach::OWN } else { Reach::All };
            let along: Vec<_> = (0..self.mesh.ndim()).map(reach).collect();
            transfer.route = Leg::Exchange { reach: Neighbours::in_box(along) }.into();
            transfer.interior_first = false;
            transfer.tile.capacity = transfer.region.max_extents(&ranges).into_iter().product::<i64>() as usize;
            transfer.tests = vec!["asked for: exchange".into()];
        }
        let kept = self.report.proofs.iter().filter(|proof| proof.property != Property::Matching && !proof.of_route);
        let matching = Matching { mesh: &self.mesh, ranges: &ranges, loops: self.loops.len() };
        let found = matching.check(&nest.transfers, |tensor| self.tensor_name(tensor));
        let found = found.unwrap_or_else(|mismatch| {
            panic!("ranks differ on an exchange of {}: {}; this is a bug in polyshard", mismatch.tensor, mismatch.why)
        });
        let kept = kept.cloned().collect::<Vec<_>>();
        let (property, tensor) = (Property::Delivery, Some(self.kernel.output().name));
        let sent = Proof { property, tensor, claim: SENT.into(), of_route: true };
        nest.completed([kept, vec![sent], found].concat())
    }
}
