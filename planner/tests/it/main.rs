//! Plans, placements, reductions, and their costs.

mod choices;
mod cost;
mod literature;
mod machine_seconds;
mod machines;
mod one_cost;
mod oracle;
mod placed;
mod placements;
mod plans;
mod reductions;
mod reductions_complete;
mod table3;
