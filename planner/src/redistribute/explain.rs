//! Plans in words.

use super::plan::Plan;
use super::step::{Op, Step};
use std::fmt::{self, Write as _};

/// Groups that are listed before the rest is only counted.
const LISTED: usize = 4;

impl Plan {
    /// Returns the plan with the types, groups, elements and bytes of each step, and what other ways would cost.
    ///
    /// ```
    /// use polyshard_layout::Mesh;
    /// use polyshard_planner::{DistType, Options, Plan};
    /// let mesh = Mesh::new([("a", 2)]);
    /// let [rows, columns] = ["[4{a}8, 8]", "[8, 4{a}8]"].map(|text| DistType::parse(text, &mesh).expect("a type"));
    /// let plan = Plan::new(&rows, &columns, &Options::default())?;
    /// assert_eq!(plan.explain(8), "\
    /// redistribution over (a: 2), 8 bytes per element
    ///   [4{a}8, 8]
    /// 1 alltoall of a, in groups {0 1}: 32 elements per device, at most 256 bytes per tile
    ///   [8, 4{a}8]
    /// cost 32 elements per device; without regard to which rank gets which tile 32
    /// peak 256 bytes per device, of which the source tile 256 and the target tile 256
    /// all-gather and slice would cost 64 elements per device and take 512 bytes
    /// devices lack 32 elements in all, less cannot move; this plan moves 32
    /// ");
    /// # Ok::<(), polyshard_planner::PlanError>(())
    /// ```
    #[must_use]
    pub fn explain(&self, element_bytes: usize) -> String {
        let bytes = |elements: usize| elements as u128 * element_bytes as u128;
        let mut text = format!(
            "redistribution over ({}), {element_bytes} bytes per element\n  {}\n",
            self.source.mesh(),
            self.source
        );
        for (nth, step) in self.steps.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{} {step}: {} elements per device, at most {} bytes per tile\n  {}",
                nth + 1,
                step.elements(),
                bytes(step.peak()),
                step.to()
            );
        }
        if self.steps.is_empty() {
            text += "nothing to do: every rank has its tile\n";
        }
        let moved: u128 = self.steps.iter().map(Step::received_by_all).sum();
        let _ = write!(
            text,
            "cost {} elements per device; without regard to which rank gets which tile {}\n\
             peak {} bytes per device, of which the source tile {} and the target tile {}\n\
             all-gather and slice would cost {} elements per device and take {} bytes\n\
             devices lack {} elements in all, less cannot move; this plan moves {moved}\n",
            self.total_cost(),
            self.weak_cost(),
            bytes(self.peak()),
            bytes(self.source.tile_len()),
            bytes(self.target.tile_len()),
            self.naive_cost(),
            bytes(self.source.len()),
            self.exchange_total(),
        );
        text
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op())?;
        let axes: Vec<_> = self.axes().iter().map(|part| part.display(self.from().mesh()).to_string()).collect();
        if !axes.is_empty() {
            write!(f, " of {}", axes.join(", "))?;
        }
        let groups = self.groups();
        if groups.is_empty() {
            return Ok(());
        }
        f.write_str(if self.op() == Op::AllPermute { ", in cycles" } else { ", in groups" })?;
        for group in groups.iter().take(LISTED) {
            let ranks: Vec<_> = group.iter().take(4 * LISTED).map(usize::to_string).collect();
            let more = if group.len() > 4 * LISTED { " .." } else { "" };
            write!(f, " {{{}{more}}}", ranks.join(" "))?;
        }
        if groups.len() > LISTED { write!(f, " .. {} in all", groups.len()) } else { Ok(()) }
    }
}
