//! Random programs whose collectives are carried out in stages.

use super::Choices;
use polyshard::layout::{AxisPart, Stages};
use polyshard::program::{Algorithm, Leg, LegId, Program, StagedLeg};

/// The program with its collectives in stages, as many as its meshes allow and the choices give; none without such a
/// collective.
///
/// # Panics
/// If stages are refused that cover the coordinates.
pub fn staged(program: &Program, choices: &mut Choices<'_>) -> Option<Program> {
    let mut legs = Vec::new();
    for nest in program.nests() {
        let own = nest.transfers.iter().filter(|transfer| transfer.reused.is_none());
        for transfer in own.filter(|transfer| transfer.ahead == 0) {
            for (leg, route) in (0..).map(LegId).zip(&transfer.route.legs) {
                let Leg::Collective { axes, .. } = route else { continue };
                let Some(stages) = stages_of(program, axes, choices) else { continue };
                let (transfer, by) = (transfer.id, Algorithm::Stages(stages));
                legs.push(StagedLeg { transfer, leg, by, why: "at random".into() });
            }
        }
    }
    let staged = (!legs.is_empty()).then(|| program.in_stages(&legs));
    staged.map(|staged| staged.unwrap_or_else(|error| panic!("{error}\n{legs:?}\n{program}")))
}

/// Digits of prime extent, each in its own stage or in a stage with others.
fn stages_of(program: &Program, axes: &[usize], choices: &mut Choices<'_>) -> Option<Stages> {
    let mut digits = Vec::new();
    for &axis in axes {
        let mut rest = AxisPart::whole(program.mesh(), axis);
        while let Some(prime) = (2..=rest.extent).find(|factor| rest.extent.is_multiple_of(*factor)) {
            let (low, high) = rest.split(prime);
            digits.push(low);
            rest = high;
        }
    }
    if digits.len() < 2 {
        return None;
    }
    let mut stages = vec![Vec::new(); 1 + choices.below(3)];
    for (number, digit) in digits.into_iter().enumerate() {
        // The first two are in different stages, so that there are at least two stages.
        let stage = if number == 0 { 0 } else { choices.below(stages.len()) };
        if number == 1 && stage == 0 {
            stages.push(vec![digit]);
        } else {
            stages[stage].push(digit);
        }
    }
    stages.retain(|parts: &Vec<AxisPart>| !parts.is_empty());
    stages.iter_mut().for_each(|parts| parts.sort_by_key(|part| (part.axis, usize::MAX - part.stride)));
    let order: Vec<usize> = choices.shuffled(&(0..stages.len()).collect::<Vec<_>>());
    let stages = order.into_iter().map(|number| stages[number].clone()).collect();
    Some(Stages::new(program.mesh(), axes, stages).expect("they make up the coordinates"))
}
