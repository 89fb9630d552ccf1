//! The same program with every transfer as an exchange: the reference for all other routes.

use crate::matching::Matching;
use crate::nest::{Direction, Leg, Nest};
use crate::proof::{Proof, Property, SENT};
use polyshard_layout::Reach;

impl Nest {
    /// Returns the same program with every transfer as an exchange, which is correct for any region and sharding:
    /// the reference that other patterns are tested against.
    ///
    /// The report claims only what holds for this program: proofs about other routes are dropped, and the bounds
    /// are its own. An exchange needs only that tiles stay inside their tensors and that elements are read from
    /// owners, which is already proved.
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
            transfer.route = Leg::exchange(along).into();
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
