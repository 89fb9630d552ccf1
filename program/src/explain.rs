//! Why each transfer has its pattern, what it moves, and what was proved.

use crate::nest::{Direction, LeafOp, Leg, Nest, Transfer};
use std::fmt::Write;

impl Nest {
    /// Writes, for each transfer, the pattern found, the tests that led to it and the bytes per rank and step.
    pub(crate) fn explain_transfers(&self, text: &mut String) -> std::fmt::Result {
        for (transfer, volume) in self.transfers.iter().zip(self.volumes()) {
            let Transfer { route, region, tile, .. } = transfer;
            let (name, moved) = (self.tensor_name(transfer.tensor), self.show_moved(transfer));
            writeln!(text, "{moved}: {}, {}", self.pattern_of(transfer), self.place(transfer.level))?;
            if !route.is_in_place() {
                writeln!(text, "    {}", self.show_route(transfer))?;
            }
            if !route.is_in_place() || transfer.direction == Direction::In {
                writeln!(text, "    tile {} of {name}{}", self.show_extents(region), self.show_region(region))?;
            }
            if !route.is_local() {
                // Of too many steps, what a rank has of them itself is not counted.
                let own = match volume.is_counted || transfer.direction != Direction::In {
                    true => "",
                    false => ", counting what it owns itself",
                };
                writeln!(text, "    at most {} bytes received per rank and step{own}", volume.each)?;
            }
            if transfer.direction == Direction::In
                && matches!(route.legs[..], [Leg::Halo { .. } | Leg::Exchange { .. }])
            {
                writeln!(text, "    messages with at most {} other ranks", route.partners(&self.mesh))?;
            }
            if tile.own_in_place {
                writeln!(text, "    what a rank owns itself is read in place")?;
            }
            transfer.tests.iter().try_for_each(|test| writeln!(text, "    - {test}"))?;
        }
        if let LeafOp::Named { name, statement, .. } = &self.leaf.op {
            writeln!(text, "leaf: {name}, to be registered as {statement}")?;
        }
        Ok(())
    }

    fn place(&self, level: usize) -> String {
        match level.checked_sub(1) {
            None => "once, outside all serial loops".into(),
            Some(counter) => format!("in each iteration of {}", self.loops[counter].name),
        }
    }
}
