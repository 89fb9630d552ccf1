//! Plans as text.

use super::plan::Plan;
use super::step::PlanStep;
use polyshard_layout::Collective;
use polyshard_machine::units::counted;
use std::fmt::{self, Write as _};

/// The number of groups to list before the rest is only counted.
const LISTED: usize = 4;

impl Plan {
    /// Returns the plan with the types, groups, elements and bytes of each step, and the costs of alternatives.
    ///
    /// ```
    /// use polyshard::planner::{DistType, Plan, PlanOptions};
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("a", 2)]);
    /// let [rows, columns] = ["[4{a}8, 8]", "[8, 4{a}8]"].map(|text| DistType::parse(text, &mesh).expect("a type"));
    /// let plan = Plan::new(&rows, &columns, &PlanOptions::default())?;
    /// assert_eq!(plan.explain(8), "\
    /// redistribution over (a: 2), 8 bytes per element
    ///   [4{a}8, 8]
    /// 1 AllToAll of a, in groups {0 1}: costs 256 bytes per device, receives at most 128, tiles of at most 256 bytes
    ///   [8, 4{a}8]
    /// cost 256 bytes per device: the tiles of all steps
    /// without fixed target ranks, the cost would be 256
    /// received 128 bytes per device, 256 in all; no plan receives less than 256 in all
    /// peak 256 bytes per device; the source tile has 256 and the target tile 256
    /// all-gather and slice would cost 512 bytes per device, with a peak of 512
    /// ");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn explain(&self, element_bytes: usize) -> String {
        // In one unit throughout, so that transfer and memory can be compared.
        let bytes = |elements: u128| elements * element_bytes as u128;
        let mut text = format!(
            "redistribution over ({}), {} per element\n  {}\n",
            self.source.mesh(),
            counted(element_bytes, "byte"),
            self.source
        );
        for (nth, step) in self.steps.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{} {step}: costs {} bytes per device, receives at most {}, tiles of at most {} bytes\n  {}",
                nth + 1,
                bytes(step.elements()),
                bytes(step.received_at_most()),
                bytes(step.peak() as u128),
                step.to()
            );
        }
        if self.steps.is_empty() {
            text += "nothing to do: every rank has its tile\n";
        }
        let [min, max] = self.received_range().map(|elements| bytes(elements as u128));
        let received = if min == max { max.to_string() } else { format!("{min} to {max}") };
        let counted_as = match self.steps.first().map(PlanStep::op) {
            Some(Collective::Exchange) => "the largest amount that one device receives",
            _ => "the tiles of all steps",
        };
        let _ = write!(
            text,
            "cost {} bytes per device: {counted_as}\n\
             without fixed target ranks, the cost would be {}\n\
             received {received} bytes per device, {} in all; no plan receives less than {} in all\n\
             peak {} bytes per device; the source tile has {} and the target tile {}\n\
             all-gather and slice would cost {} bytes per device, with a peak of {}\n",
            bytes(self.total_cost()),
            bytes(self.weak_cost()),
            bytes(self.received_by_all()),
            bytes(self.exchange_total()),
            bytes(self.peak() as u128),
            bytes(self.source.tile_len() as u128),
            bytes(self.target.tile_len() as u128),
            bytes(self.naive_cost()),
            bytes(self.source.len() as u128),
        );
        text
    }
}

impl fmt::Display for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op())?;
        let axes = self.axis_names();
        if !axes.is_empty() {
            write!(f, " of {}", axes.join(", "))?;
        }
        let groups = self.groups();
        if groups.is_empty() {
            return Ok(());
        }
        f.write_str(if self.op() == Collective::Permute { ", in cycles" } else { ", in groups" })?;
        for group in groups.iter().take(LISTED) {
            let ranks: Vec<_> = group.iter().take(4 * LISTED).map(usize::to_string).collect();
            let more = if group.len() > 4 * LISTED { " .." } else { "" };
            write!(f, " {{{}{more}}}", ranks.join(" "))?;
        }
        if groups.len() > LISTED { write!(f, " .. {} in all", groups.len()) } else { Ok(()) }
    }
}
