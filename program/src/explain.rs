//! Why each transfer has its pattern, what it moves, and what was proved.

use crate::nest::{LeafOp, Nest, OutputRoute, Route, TransferId};
use crate::traffic;
use std::fmt::Write;

impl Nest {
    /// Writes, for each transfer, the pattern found, the tests that led to it and the bytes per rank and step.
    pub(crate) fn explain_transfers(&self, text: &mut String) -> std::fmt::Result {
        let size = self.kernel.dtype().size();
        let busiest = traffic::of_busiest(self);
        for (number, transfer) in self.transfers.iter().enumerate() {
            let name = self.kernel.inputs()[transfer.tensor].name;
            let read = self.show_read(transfer);
            let pattern = transfer.route.pattern(&self.mesh);
            writeln!(text, "{read}: {pattern}, {}", self.place(transfer.level))?;
            if !matches!(transfer.route, Route::Hold) {
                writeln!(text, "    {}", self.show_route(&transfer.route))?;
            }
            writeln!(
                text,
                "    tile {} of {name}{}",
                self.show_extents(&transfer.region),
                self.show_region(&transfer.region)
            )?;
            if !matches!(transfer.route, Route::Hold | Route::Copy) {
                match &busiest {
                    Some(busiest) => {
                        writeln!(text, "    at most {} bytes received per rank and step", busiest.inputs[number])?;
                    }
                    // Too many steps to count what a rank has of them itself.
                    None => {
                        let distinct: i64 = transfer.region.max_distinct(&self.ranges()).into_iter().product();
                        let bytes = (distinct as usize * size) as u64 * transfer.route.tiles_received();
                        writeln!(
                            text,
                            "    at most {bytes} bytes received per rank and step, counting what it owns itself"
                        )?;
                    }
                }
            }
            if let Route::Halo { .. } | Route::Exchange { .. } = &transfer.route {
                writeln!(text, "    messages with at most {} other ranks", transfer.route.partners(&self.mesh))?;
            }
            if self.reads_in_place(TransferId(number)) {
                writeln!(text, "    what a rank owns itself is read in place")?;
            }
            transfer.tests.iter().try_for_each(|test| writeln!(text, "    - {test}"))?;
        }
        let (name, output) = (self.kernel.output().name, &self.output);
        writeln!(text, "{name}: {}, {}", output.route.pattern(&self.mesh), self.place(output.level))?;
        if output.route != OutputRoute::InPlace {
            writeln!(text, "    {}", self.show_output_route(&output.route))?;
            writeln!(
                text,
                "    tile {} of {name}{}",
                self.show_extents(&output.region),
                self.show_region(&output.region)
            )?;
            if let (Some(busiest), false) = (&busiest, output.route == OutputRoute::Combine) {
                writeln!(text, "    at most {} bytes received per rank and step", busiest.output)?;
            }
        }
        output.tests.iter().try_for_each(|test| writeln!(text, "    - {test}"))?;
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
