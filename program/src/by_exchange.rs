//! The same program with every transfer as an exchange: the reference for all other routes.

use crate::ids::KernelId;
use crate::nest::{Direction, Leg};
use crate::program::Body;
use crate::proof::{Proof, Property, SENT};
use polyshard_layout::Reach;

impl Body {
    /// Makes every transfer of a tile an exchange, which is correct for any region and sharding: the reference that other patterns are
    /// tested against.
    ///
    /// Reports claim only what holds for this program: proofs about other routes are dropped, and the bounds are its own. An exchange
    /// needs only that tiles stay inside their tensors and that elements are read from owners, which is already proved.
    ///
    /// # Panics
    /// If ranks would not agree on an exchange: a bug in polyshard.
    pub(crate) fn exchange_all(&mut self) {
        let mut all = Vec::new();
        for number in 0..self.kernels.len() {
            let nest = self.nest(KernelId(number));
            let ranges = nest.ranges();
            for transfer in nest.transfers.iter().filter(|transfer| transfer.reused.is_none()) {
                let own = match transfer.direction {
                    Direction::In => Vec::new(),
                    Direction::Out { .. } => [nest.output_sharding().partial(), &nest.copies].concat(),
                };
                let reach = |axis: usize| if own.contains(&axis) { Reach::OWN } else { Reach::All };
                let along: Vec<_> = (0..nest.mesh.ndim()).map(reach).collect();
                let capacity = transfer.region.max_extents(&ranges).into_iter().product::<i64>() as usize;
                all.push((transfer.id, along, capacity));
            }
        }
        for (id, along, capacity) in all {
            let transfer = &mut self.transfers[id.0];
            transfer.route = Leg::exchange(along).into();
            transfer.interior_first = false;
            transfer.tile.capacity = capacity;
            transfer.tests = vec!["asked for: exchange".into()];
        }
        for id in (0..self.kernels.len()).map(KernelId) {
            let nest = self.nest(id);
            let kept =
                nest.report.proofs.iter().filter(|proof| proof.property != Property::Matching && !proof.of_route);
            let found = nest.matches();
            let found = found.unwrap_or_else(|why| {
                panic!("with exchanges, `{}` {why}; this is a bug in polyshard", nest.kernel.name())
            });
            let kept = kept.cloned().collect::<Vec<_>>();
            let (property, tensor) = (Property::Delivery, Some(nest.kernel.output().name));
            let sent = Proof { property, tensor, claim: SENT.into(), of_route: true };
            self.complete(id, [kept, vec![sent], found].concat());
        }
        self.place();
        self.free_temporaries();
    }
}
