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

/// One line per input and per thing that runs, in order; [`explain`](Sequence::explain) says more of each.
///
/// ```text
/// pipeline over (x: 2), f32
///     input         X: [2{x}4, 4]
///     input         W: [4, 4]
///  1  run           Y = rows(X, W), C[m, n] += A[m, k] * B[k, n]
///  2  redistribute  Y: [2{x}4, 4] to [4, 2{x}4]
///  3  run           Z = columns(Y, W), C[m, n] += A[m, k] * B[k, n]
///     output        Z: [2{x}4, 4]
/// ```
impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pipeline over ({}), {}", self.mesh, self.dtype)?;
        for input in &self.inputs {
            writeln!(f, "    input         {}: {}", input.name, type_of(&input.sharding))?;
        }
        for (number, action) in (1..).zip(&self.actions) {
            match action.what {
                What::Stage(stage) => {
                    let stage = &self.stages[stage];
                    writeln!(f, "{number:>2}  run           {}, {}", stage.call(), stage.program.kernel().statement())?;
                }
                What::Convert(conversion) => {
                    let conversion = &self.conversions[conversion];
                    let (source, target) = (type_of(conversion.source()), type_of(conversion.target()));
                    writeln!(f, "{number:>2}  redistribute  {}: {source} to {target}", conversion.value())?;
                }
            }
        }
        let last = self.stages.last().expect("a pipeline has a stage; this is a bug of polyshard");
        writeln!(f, "    output        {}: {}", last.output, type_of(last.output_sharding()))
    }
}

impl Stage {
    /// The stage as it would be written: `Y = matmul(X, W)`.
    fn call(&self) -> String {
        let values: Vec<_> = self.inputs.iter().map(|name| name.as_str()).collect();
        format!("{} = {}({})", self.output, self.program.kernel().name(), values.join(", "))
    }

    fn write(&self, position: usize, text: &mut String) -> fmt::Result {
        let kernel = self.program.kernel();
        writeln!(text, "stage {}: {}, {}", position + 1, self.call(), kernel.statement())?;
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
