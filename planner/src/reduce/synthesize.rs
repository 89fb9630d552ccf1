//! All valid programs up to a number of steps, shortest first.
//!
//! The search runs over states, not over programs: each state is expanded once, a table says from which states a sum
//! can be reached in how many steps, and the programs are then read off. Every level has two devices here. Which
//! instruction may follow another depends on the data that a level holds, not on how many members it has, so the
//! programs are the same; and each can be proved again at its true size.
//!
//! **Which programs count as equal.** An instruction is identified by its collective and by the groups that hold
//! something, so `Parallel` after a `Reduce`, whose other groups are empty, is the `Master` of the same level, and is
//! written as such. With [`AllowedMasters::OthersIdle`] that is the only way to have a `Master`, since the ranks that
//! are left out then have nothing to do. This gives 3 programs for one level, 47 for two and 931 for three, of at most
//! 5 steps, and so the totals of the tables of Xie et al. [`AllowedMasters::Any`] adds programs in which other ranks
//! wait with data of their own, or in which roots gather and broadcast among themselves first: 100 in all for two
//! levels.

use super::Hierarchy;
use super::instruction::{Form, Instruction, ReductionProgram};
use polyshard_program::reduction::{COLLECTIVES, Collective, Context, Effect};
use std::collections::{HashMap, HashSet};

/// Which `Master` instructions a search considers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AllowedMasters {
    /// Those during which all other ranks hold nothing.
    #[default]
    OthersIdle,
    /// All valid ones.
    Any,
}

/// Returns all valid programs of at most `max_steps` instructions, shortest first.
///
/// A hierarchy of one device has one program, the empty one.
///
/// ```
/// use polyshard::planner::reduce::{AllowedMasters, Hierarchy, synthesize};
/// let programs = |levels: &[(&str, usize)]| -> Result<_, polyshard::planner::reduce::ReduceError> {
///     Ok(synthesize(&Hierarchy::new(levels.iter().copied())?, 5, AllowedMasters::OthersIdle))
/// };
/// let one: Vec<_> = programs(&[("gpu", 8)])?.iter().map(ToString::to_string).collect();
/// assert_eq!(one, ["AllReduce", "ReduceScatter-AllGather", "Reduce-Broadcast"]);
/// assert_eq!(programs(&[("node", 4), ("gpu", 16)])?.len(), 47);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[must_use]
pub fn synthesize(hierarchy: &Hierarchy, max_steps: usize, masters: AllowedMasters) -> Vec<ReductionProgram> {
    let mut search = Synthesis::new(hierarchy, masters);
    let mut programs = Vec::new();
    for steps in 0..=max_steps {
        search.collect(0, steps, &mut Vec::new(), &mut programs);
    }
    programs
}

struct Synthesis {
    forms: Vec<Shape>,
    /// States by number; 0 is the first.
    states: Vec<Context>,
    numbers: HashMap<Context, usize>,
    /// The successors of each state, where known.
    follow: Vec<Option<Vec<(Instruction, usize)>>>,
    /// Whether the sum can be reached from a state in exactly this number of steps.
    reaches: HashMap<(usize, usize), bool>,
}

/// A slice and a form, with their groups on the small hierarchy.
struct Shape {
    slice: usize,
    form: Form,
    groups: Vec<Vec<usize>>,
    /// The level of a `Master` of the same slice, and its groups, where these differ.
    master: Option<(usize, Vec<Vec<usize>>)>,
}

impl Synthesis {
    fn new(hierarchy: &Hierarchy, masters: AllowedMasters) -> Self {
        let small =
            Hierarchy::new(hierarchy.names().iter().cloned().zip(hierarchy.counts().iter().map(|n| *n.min(&2))));
        let Ok(small) = small else { panic!("{hierarchy} is a hierarchy, and with fewer members is none: a bug") };
        let devices = small.devices();
        let first = Context::initial(devices, devices);
        let numbers = HashMap::from([(first.clone(), 0)]);
        let forms = shapes(&small, masters);
        Self { forms, states: vec![first], numbers, follow: vec![None], reaches: HashMap::new() }
    }

    /// Adds to `programs` those that begin with `head`, have reached `state`, and take exactly `steps` more.
    fn collect(
        &mut self,
        state: usize,
        steps: usize,
        head: &mut Vec<Instruction>,
        programs: &mut Vec<ReductionProgram>,
    ) {
        if !self.reaches(state, steps) {
            return;
        }
        if steps == 0 {
            programs.push(ReductionProgram { instructions: head.clone() });
            return;
        }
        for (instruction, next) in self.follow(state) {
            head.push(instruction);
            self.collect(next, steps - 1, head, programs);
            head.pop();
        }
    }

    fn reaches(&mut self, state: usize, steps: usize) -> bool {
        if steps == 0 {
            return self.states[state].is_sum();
        }
        if let Some(&known) = self.reaches.get(&(state, steps)) {
            return known;
        }
        let reaches = self.follow(state).into_iter().any(|(_, next)| self.reaches(next, steps - 1));
        self.reaches.insert((state, steps), reaches);
        reaches
    }

    fn follow(&mut self, state: usize) -> Vec<(Instruction, usize)> {
        if let Some(known) = &self.follow[state] {
            return known.clone();
        }
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        for shape in &self.forms {
            for collective in COLLECTIVES {
                let Some((active, next)) = after(&self.states[state], collective, &shape.groups) else { continue };
                let (slice, mut form) = (shape.slice, shape.form);
                if let Some((level, groups)) = &shape.master
                    && active == *groups
                {
                    form = Form::Master(*level);
                }
                if !seen.insert((collective, active)) {
                    continue;
                }
                let number = *self.numbers.entry(next).or_insert_with_key(|next| {
                    self.states.push(next.clone());
                    self.states.len() - 1
                });
                found.push((Instruction { collective, slice, form }, number));
            }
        }
        self.follow.resize(self.states.len(), None);
        self.follow[state] = Some(found.clone());
        found
    }
}

/// The slices and forms of a hierarchy with groups of two or more; of those with equal groups, one.
fn shapes(hierarchy: &Hierarchy, masters: AllowedMasters) -> Vec<Shape> {
    let levels = hierarchy.counts().len();
    let all = |slice: usize| {
        let inside = [Form::InsideGroup].into_iter();
        let outer = inside.chain((0..slice).map(Form::Parallel));
        outer
            .chain((0..slice).filter(move |_| masters == AllowedMasters::Any).map(Form::Master))
            .map(move |form| (slice, form))
    };
    let groups = |slice, form| match (Instruction { collective: Collective::AllReduce, slice, form }.groups(hierarchy))
    {
        Ok(groups) => groups,
        Err(error) => panic!("{error}: a bug in polyshard"),
    };
    let mut seen = HashSet::new();
    let mut shapes = Vec::new();
    for (slice, form) in (0..levels).flat_map(all) {
        let these = groups(slice, form);
        if these[0].len() > 1 && seen.insert(these.clone()) {
            let master = match form {
                Form::Parallel(level) => Some((level, groups(slice, Form::Master(level)))),
                Form::InsideGroup | Form::Master(_) => None,
            };
            let master = master.filter(|(_, groups)| groups.len() < these.len());
            shapes.push(Shape { slice, form, groups: these, master });
        }
    }
    shapes
}

/// The groups that take effect, and the state after; none if the rules forbid it or nothing changes.
fn after(before: &Context, collective: Collective, groups: &[Vec<usize>]) -> Option<(Vec<Vec<usize>>, Context)> {
    let mut context = before.clone();
    let mut active = Vec::new();
    for group in groups {
        if context.apply(collective, group).ok()? == Effect::Done {
            active.push(group.clone());
        }
    }
    // A step whose groups hold different amounts would be two steps at once.
    let held = |group: &Vec<usize>| before.chunks_of(group[0]).len();
    let even = active.windows(2).all(|pair| held(&pair[0]) == held(&pair[1]));
    (even && !active.is_empty()).then_some((active, context))
}
