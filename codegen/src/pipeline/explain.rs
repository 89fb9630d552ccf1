//! A pipeline in words.

use super::{Conversion, Sequence, Stage, Way, What};
use polyshard_layout::Sharding;
use polyshard_planner::DistType;
use std::fmt::{self, Write as _};

impl Sequence {
    /// Returns the stages and the redistributions between them: how each value lies, what each redistribution costs
    /// and which steps it takes.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_explanation(&mut text);
        text
    }

    fn write_explanation(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "pipeline over ({}), {}", self.mesh, self.dtype)?;
        for input in &self.inputs {
            writeln!(text, "input {}: {}", input.name, type_of(&input.sharding))?;
        }
        for action in &self.actions {
            match action.what {
                What::Stage(stage) => self.stages[stage].write(stage, text)?,
                What::Convert(conversion) => self.conversions[conversion].write(self.dtype.size(), text)?,
            }
        }
        Ok(())
    }
}

impl Stage {
    fn write(&self, position: usize, text: &mut String) -> fmt::Result {
        let kernel = self.program.kernel();
        let values: Vec<_> = self.inputs.iter().map(|name| name.as_str()).collect();
        let call = format!("{} = {}({})", self.output, kernel.name(), values.join(", "));
        writeln!(text, "stage {}: {call}, {}", position + 1, kernel.statement())?;
        let tensors = kernel.tensors().zip(self.inputs.iter().chain([&self.output])).zip(self.program.shardings());
        for ((tensor, value), sharding) in tensors {
            let pattern = self.program.pattern(tensor.name.as_str());
            let pattern = pattern.map(|pattern| format!(", {pattern}")).unwrap_or_default();
            let known = if tensor.name == *value { String::new() } else { format!(" is {value}") };
            writeln!(text, "    {}{known}: {}{pattern}", tensor.name, type_of(sharding))?;
        }
        Ok(())
    }
}

impl Conversion {
    fn write(&self, element_bytes: usize, text: &mut String) -> fmt::Result {
        let (source, target) = (self.source(), self.target());
        writeln!(
            text,
            "redistribute {} for stage {}: {} to {}",
            self.value(),
            self.stage(),
            type_of(source),
            type_of(target)
        )?;
        match self.way() {
            Way::Plan(plan) => {
                if plan.source().shape() != source.shape() {
                    writeln!(
                        text,
                        "    blocks do not divide {:?}: planned for {:?}, of which tiles are cut off",
                        source.shape(),
                        plan.source().shape()
                    )?;
                }
                plan.explain(element_bytes).lines().try_for_each(|line| writeln!(text, "    {line}"))
            }
            Way::Exchange { why } => writeln!(text, "    by one exchange, each element that a rank lacks once: {why}"),
        }
    }
}

/// A sharding as a type, if it is one.
fn type_of(sharding: &Sharding) -> String {
    match DistType::from_sharding(sharding) {
        Ok(dist_type) => dist_type.to_string(),
        Err(_) => format!("{:?} {sharding}", sharding.shape()),
    }
}
