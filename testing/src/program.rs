//! What programs are compared with in tests: the same ones by exchanges alone, and without proofs.

use polyshard_layout::Reach;
use polyshard_program::{Direction, KernelId, Leg, Priced, Program, Proof, Property, Report, SENT, Unproved};

/// Programs that can be carried out by exchanges.
pub trait ByExchange {
    /// Returns the same program with every transfer of a tile as an exchange, which is correct for any region and sharding: the
    /// reference that other routes are tested against.
    ///
    /// Reports claim only what holds for this program: proofs about other routes are dropped, and the bounds are its own. An exchange
    /// needs only that tiles stay inside their tensors and that elements are read from owners, which is already proved.
    fn by_exchange(&self) -> Program;
}

impl ByExchange for Program {
    fn by_exchange(&self) -> Program {
        let mut body = self.body().clone();
        let mut all = Vec::new();
        for nest in self.nests() {
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
            let transfer = &mut body.transfers[id.0];
            transfer.route = Leg::exchange(along).into();
            transfer.interior_first = false;
            transfer.tile.capacity = capacity;
            transfer.tests = vec!["asked for: exchange".into()];
            transfer.carried_out.clear();
        }
        for id in (0..body.kernels.len()).map(KernelId) {
            let nest = body.nest(id);
            let is_kept = |proof: &&Proof| proof.property != Property::Matching && !proof.of_route;
            let kept: Vec<_> = nest.report.proofs.iter().filter(is_kept).cloned().collect();
            let found = nest.matches().expect("ranks agree on exchanges");
            let (property, tensor) = (Property::Delivery, Some(nest.kernel.output().name));
            let sent = Proof { property, tensor, claim: SENT.into(), of_route: true };
            body.complete(id, [kept, vec![sent], found].concat());
        }
        body.place();
        // Time steps surrounded by exchanges work, but are no legal program.
        match body.kernels.len() == 1 && body.moves().next().is_none() {
            true => Program::lowered(body),
            false => Program::new(body).expect("any program can be carried out by exchanges"),
        }
    }
}

/// Programs without proofs, which can be compared with proved ones.
pub trait IsAs {
    /// Returns whether this is the program, apart from its proofs and counts.
    fn is_as(&self, program: &Program) -> bool;
}

impl IsAs for Unproved {
    fn is_as(&self, program: &Program) -> bool {
        let body = |program: &Program| {
            let mut body = program.body().clone();
            for row in &mut body.kernels {
                row.report = Report { proofs: Vec::new(), traffic_bytes: 0, ..row.report.clone() };
            }
            body
        };
        body(self.priced()) == body(program)
    }
}
