//! The checks of a sequence, and its program: its statements, and the redistributions between kernels.

use super::{Carry, Item, Sequence, SequenceError, Stage};
use crate::PlanOptions;
use crate::redistribute::redistribution_with;
use polyshard_layout::{DType, Name, Sharding, each_once};
use polyshard_program::{
    Array, ArrayId, ArrayKind, Assign, Body, Carried, Continued, End, MOST_ROUNDS, Program, ProgramError, Rounds,
    Statement, Transfer, Until,
};
use std::collections::HashMap;

type Result<T> = std::result::Result<T, Box<SequenceError>>;

/// Checks the sequence and puts its program together.
pub(super) fn build(sequence: Sequence) -> Result<Program> {
    let (mesh, dtype) = check(&sequence)?;
    let Sequence { items, carried, until, kept, inputs, outputs, called, order, options } = sequence;
    if !carried.is_empty() || until.is_some() {
        let step = if carried.is_empty() { "until" } else { "carry" };
        let help = "pass the sequence that has it to `repeat` of another";
        return Err(Box::new(SequenceError::Place { step, of: "rounds", help }));
    }
    let written = || items.iter().flat_map(Item::leaves);
    let mut named = kept.iter().chain(outputs.iter().map(|(name, _)| name));
    if let Some(&value) = named.find(|&&output| written().all(|other| other != output)) {
        return Err(Box::new(SequenceError::Output { value, written: listed(written()) }));
    }
    let options = PlanOptions { dtype, ..options };
    // The last stage's output is an output of the program, as it is left unless a sharding is given; of the values that
    // rounds leave, all, or those named.
    let is_given = |name: &Name| outputs.iter().any(|(other, _)| other == name);
    let mut last = items.last().map(Item::leaves).unwrap_or_default();
    if matches!(items.last(), Some(Item::Rounds(..))) && last.iter().any(|name| kept.contains(name) || is_given(name)) {
        last.clear();
    }
    let kept = kept.into_iter().chain(last.into_iter().filter(|name| !is_given(name))).collect();
    let mut builder = Builder {
        options,
        kept,
        outputs,
        values: Vec::new(),
        scope: Vec::new(),
        named: HashMap::new(),
        body: Body::new(&mesh, dtype),
        around: Vec::new(),
        stages: 0,
        last: items
            .iter()
            .enumerate()
            .flat_map(|(nth, item)| item.leaves().into_iter().map(move |name| (name, nth)))
            .collect(),
        item: 0,
    };
    builder.add_inputs(&items, &inputs)?;
    builder.add_items(&items)?;
    builder.call(&called)?;
    let of_kinds = [ArrayKind::Input, ArrayKind::Output].into_iter().zip(&order);
    of_kinds.for_each(|(kind, names)| builder.body.arrange(kind, names));
    match Program::new(builder.body.with_kept_tiles()) {
        Ok(program) => Ok(program),
        Err(ProgramError::LostRim { kernel, value, carried }) => {
            Err(Box::new(SequenceError::LostRim { kernel, value, carried }))
        }
        Err(ProgramError::AnyOrder { scalar, of, .. }) => Err(Box::new(SequenceError::AnyOrder { value: scalar, of })),
        Err(error) => panic!("stages that fit make no program: {error}; this is a bug in polyshard"),
    }
}

/// Checks stages and rounds individually; returns the common mesh and element type.
fn check(sequence: &Sequence) -> Result<(polyshard_layout::Mesh, DType)> {
    fn check_items<'a>(sequence: &'a Sequence, all: &mut Vec<&'a Stage>) -> Result<()> {
        if sequence.items.is_empty() {
            return Err(Box::new(SequenceError::Empty));
        }
        for item in &sequence.items {
            match item {
                Item::Stage(stage) => {
                    all.push(stage);
                    check_stage(stage, all.len() - 1, all[0])?;
                }
                Item::Rounds(times, round) => {
                    check_rounds(*times, round)?;
                    check_items(round, all)?;
                }
            }
        }
        Ok(())
    }
    let mut stages = Vec::new();
    check_items(sequence, &mut stages)?;
    let first = stages.first().ok_or(SequenceError::Empty)?;
    Ok((first.program.mesh().clone(), first.program.dtype()))
}

fn check_rounds(times: u64, round: &Sequence) -> Result<()> {
    let Sequence { carried, kept, inputs, outputs, called, order, .. } = round;
    let of_whole = [
        ("keep", !kept.is_empty()),
        ("input", !inputs.is_empty()),
        ("output", !outputs.is_empty()),
        ("call", !called.is_empty()),
        ("in_order", order.iter().any(|names| !names.is_empty())),
    ];
    if let Some((step, _)) = of_whole.into_iter().find(|(_, is_said)| *is_said) {
        let help = "call it on the sequence that repeats the rounds";
        return Err(Box::new(SequenceError::Place { step, of: "the whole, not for its rounds", help }));
    }
    if times > MOST_ROUNDS {
        return Err(Box::new(SequenceError::Rounds { times, most: MOST_ROUNDS }));
    }
    if carried.is_empty() && !round.items.is_empty() {
        let written = listed(round.items.iter().flat_map(Item::leaves));
        return Err(Box::new(SequenceError::NothingCarried { written }));
    }
    for (nth, Carry { next, value, .. }) in carried.iter().enumerate() {
        let before = &carried[..nth];
        let twice = [
            (value, before.iter().any(|other| other.value == *value)),
            (next, before.iter().any(|other| other.next == *next)),
        ];
        if let Some((value, _)) = twice.into_iter().find(|(_, is_twice)| *is_twice) {
            return Err(Box::new(SequenceError::CarriedTwice { value: *value }));
        }
    }
    Ok(())
}

/// Checks a stage individually, and that its mesh and element type are the first stage's.
fn check_stage(stage: &Stage, position: usize, first: &Stage) -> Result<()> {
    let Some(nest) = stage.program.body().only_nest() else {
        let statements = stage.program.nests().len() + stage.program.moves().count();
        return Err(Box::new(SequenceError::NotAKernel { number: position + 1, statements }));
    };
    let kernel = &nest.kernel;
    if stage.inputs.len() != kernel.inputs().len() {
        let tensors: Vec<_> = kernel.inputs().iter().map(|tensor| tensor.name).collect();
        return Err(Box::new(SequenceError::Inputs {
            stage: stage.label(position),
            expected: tensors.len(),
            tensors: listed(tensors),
            given: stage.inputs.len(),
            values: listed(stage.inputs.iter().copied()),
        }));
    }
    if stage.program.mesh() != first.program.mesh() {
        return Err(Box::new(SequenceError::Mesh {
            stage: stage.label(position),
            mesh: stage.program.mesh().to_string(),
            other: first.label(0),
            other_mesh: first.program.mesh().to_string(),
        }));
    }
    if kernel.dtype() != first.program.dtype() {
        return Err(Box::new(SequenceError::Type {
            stage: stage.label(position),
            dtype: kernel.dtype(),
            other: first.label(0),
            other_dtype: first.program.dtype(),
        }));
    }
    let Some(Continued { array: value, adds }) = stage.continues() else { return Ok(()) };
    let sharding = nest.output_sharding();
    let why = if adds && kernel.assign() == Assign::Set {
        format!("`{}` adds nothing; write `+=`, `*=`, `max=` or `min=`", kernel.statement())
    } else if adds && !sharding.partial().is_empty() {
        format!("its sums are left open, {sharding}, and each rank would add to the value; leave out `partial`")
    } else {
        return Ok(());
    };
    let (what, value) = (if adds { "add to" } else { "continue" }, value.array());
    Err(Box::new(SequenceError::Continues { stage: stage.label(position), what, value, why }))
}

impl Item {
    /// The values that exist after it and did not before.
    fn leaves(&self) -> Vec<Name> {
        match self {
            Self::Stage(stage) => vec![stage.output],
            Self::Rounds(_, round) => round.carried.iter().map(|carry| carry.value).collect(),
        }
    }
}

impl Sequence {
    /// The sharding in which a round leaves a value, if one of its stages does.
    fn left(&self, value: Name) -> Option<&Sharding> {
        let mut value = value;
        // A value that is itself carried has the sharding of its source; in a cycle of names, nothing is written.
        for _ in 0..=self.carried.len() {
            let written = self.items.iter().find(|item| item.leaves().contains(&value));
            match written {
                Some(Item::Stage(stage)) => return stage.program.outputs().next().map(|output| &output.sharding),
                Some(Item::Rounds(_, round)) => {
                    return round.left(round.carried.iter().find(|carry| carry.value == value)?.next);
                }
                None => value = self.carried.iter().find(|carry| carry.value == value)?.next,
            }
        }
        None
    }
}

/// A value that stages read and write by one name, in one or several shardings.
struct Value {
    name: Name,
    /// The array as it was given or written, then those that it was moved to.
    arrays: Vec<ArrayId>,
    /// Its origin, for messages.
    origin: String,
    /// The number of nested rounds around the statement that writes it.
    depth: usize,
}

/// The state of the search for values that are inputs of the sequence.
struct Outside<'a> {
    /// The shardings given for some of them.
    given: &'a [(Name, Sharding)],
    written: Vec<Name>,
    /// How often each is among them.
    counts: HashMap<Name, usize>,
    /// The values that rounds around a stage carry, the outermost first, in the shardings in which they leave them.
    carried: Vec<(Name, Sharding)>,
    stages: usize,
}

impl Outside<'_> {
    fn note(&mut self, written: Name) {
        self.written.push(written);
        *self.counts.entry(written).or_default() += 1;
    }

    /// Forgets all but the first ones that are written.
    fn forget(&mut self, first: usize) {
        for name in self.written.drain(first..) {
            self.counts.entry(name).and_modify(|count| *count -= 1);
        }
    }
}

/// The number of a value.
type ValueId = usize;

/// The program so far.
struct Builder {
    options: PlanOptions,
    /// Values that are outputs in the sharding in which they are left.
    kept: Vec<Name>,
    /// Values that are outputs in a sharding of their own.
    outputs: Vec<(Name, Sharding)>,
    values: Vec<Value>,
    /// The values that names currently stand for; of two with the same name, the last one.
    scope: Vec<ValueId>,
    /// By name, the numbers of its values in scope.
    named: HashMap<Name, Vec<ValueId>>,
    /// Its arrays are the inputs first.
    body: Body,
    /// The statements so far around the rounds under construction.
    around: Vec<Vec<Statement>>,
    /// The stages so far.
    stages: usize,
    /// By name, the last item outside of rounds that leaves a value, and the number of the current one.
    last: HashMap<Name, usize>,
    item: usize,
}

impl Builder {
    fn add(&mut self, name: Name, sharding: &Sharding, kind: ArrayKind) -> ArrayId {
        // Versions of an array have its name.
        self.body.arrays.push(Array { name: name.array(), sharding: sharding.clone(), kind });
        ArrayId(self.body.arrays.len() - 1)
    }

    fn add_value(&mut self, name: Name, sharding: &Sharding, kind: ArrayKind, origin: String) -> ValueId {
        let array = self.add(name, sharding, kind);
        self.values.push(Value { name, arrays: vec![array], origin, depth: self.around.len() });
        self.enter(self.values.len() - 1);
        self.values.len() - 1
    }

    fn enter(&mut self, value: ValueId) {
        self.scope.push(value);
        self.named.entry(self.values[value].name).or_default().push(value);
    }

    /// The value that a name stands for.
    fn find(&self, name: Name) -> Option<ValueId> {
        self.named.get(&name)?.last().copied()
    }

    /// The array of a value as it was given or written.
    fn home(&self, value: ValueId) -> &Array {
        &self.body.arrays[self.values[value].arrays[0].0]
    }

    /// Adds the values that stages read before any writes them, in the shardings given for them, if any.
    fn add_inputs(&mut self, items: &[Item], given: &[(Name, Sharding)]) -> Result<()> {
        self.add_read(
            items,
            &mut Outside { given, written: Vec::new(), counts: HashMap::new(), carried: Vec::new(), stages: 0 },
        );
        for (nth, (value, sharding)) in given.iter().enumerate() {
            if self.find(*value).is_none() {
                return Err(Box::new(SequenceError::Input { value: *value, inputs: listed(self.names()) }));
            }
            if let Some((_, first)) = given[..nth].iter().find(|(name, _)| name == value) {
                let [first, second] = [first, sharding].map(Sharding::to_string);
                return Err(Box::new(SequenceError::InputTwice { value: *value, first, second }));
            }
        }
        Ok(())
    }

    fn add_read(&mut self, items: &[Item], outside: &mut Outside<'_>) {
        for item in items {
            match item {
                Item::Stage(stage) => {
                    let label = stage.label(outside.stages);
                    for (&value, read) in stage.inputs.iter().zip(stage.program.nest().shardings) {
                        let left =
                            outside.carried.iter().find(|(name, _)| *name == value).map(|(_, left)| left.clone());
                        let sharding = left.unwrap_or_else(|| read.clone());
                        self.add_input(value, &sharding, outside, || format!("an input that {label} reads first"));
                    }
                    if let Some(Continued { array: value, .. }) = stage.continues() {
                        let left = outside.carried.iter().find(|(name, _)| *name == value);
                        let sharding = left.map_or(stage.program.nest().output_sharding(), |(_, left)| left).clone();
                        self.add_input(value, &sharding, outside, || format!("an input that {label} continues"));
                    }
                    outside.stages += 1;
                }
                Item::Rounds(_, round) => {
                    let (written, carried) = (outside.written.len(), outside.carried.len());
                    let left =
                        round.carried.iter().filter_map(|carry| Some((carry.first, round.left(carry.next)?.clone())));
                    outside.carried.extend(left);
                    let begun = round.carried.iter().filter(|carry| carry.first != carry.value);
                    begun.for_each(|carry| outside.note(carry.value));
                    self.add_read(&round.items, outside);
                    outside.forget(written);
                    // Carried values are inputs even if no stage reads them.
                    for Carry { first, .. } in &round.carried {
                        let left = outside.carried.iter().find(|(name, _)| name == first).map(|(_, left)| left.clone());
                        let Some(left) = left else { continue };
                        self.add_input(*first, &left, outside, || "an input that rounds begin with".to_owned());
                    }
                    outside.carried.truncate(carried);
                }
            }
            item.leaves().into_iter().for_each(|name| outside.note(name));
        }
    }

    fn add_input(&mut self, name: Name, sharding: &Sharding, outside: &Outside<'_>, origin: impl FnOnce() -> String) {
        if outside.counts.get(&name).is_none_or(|count| *count == 0) && self.find(name).is_none() {
            let given = outside.given.iter().find(|(other, _)| *other == name);
            self.add_value(name, given.map_or(sharding, |(_, given)| given), ArrayKind::Input, origin());
        }
    }

    fn add_items(&mut self, items: &[Item]) -> Result<()> {
        for (nth, item) in items.iter().enumerate() {
            if self.around.is_empty() {
                self.item = nth;
            }
            match item {
                Item::Stage(stage) => self.add_stage(stage)?,
                Item::Rounds(times, round) => self.add_rounds(*times, round)?,
            }
        }
        Ok(())
    }

    fn add_stage(&mut self, stage: &Stage) -> Result<()> {
        let label = stage.label(self.stages);
        self.stages += 1;
        let nest = stage.program.nest();
        let (mut arrays, mut is_constant) = (Vec::with_capacity(nest.arrays.len()), Vec::new());
        for ((&name, tensor), read) in stage.inputs.iter().zip(nest.kernel.inputs()).zip(&nest.shardings) {
            let value = self.find(name).expect("a value that no stage wrote is an input; this is a bug in polyshard");
            self.fits(&label, tensor.name, read, value)?;
            is_constant.push(self.values[value].depth < self.around.len());
            arrays.push(self.in_sharding(value, read, ArrayKind::Temporary, || label.clone())?);
        }
        let sharding = nest.output_sharding();
        let continues = stage.continues().map(|Continued { array: value, adds }| {
            let value = self.find(value).expect("a value that no stage wrote is an input; this is a bug in polyshard");
            self.fits(&label, nest.kernel.output().name, sharding, value)?;
            let array = self.in_sharding(value, sharding, ArrayKind::Temporary, || label.clone())?;
            Ok::<_, Box<SequenceError>>(Continued { array, adds })
        });
        let continues = continues.transpose()?;
        self.is_new(&label, stage.output)?;
        let kind = self.kind(stage.output, sharding);
        let output = self.add_value(stage.output, &sharding.clone(), kind, format!("the output of {label}"));
        arrays.push(self.values[output].arrays[0]);
        // A tile of a value that no round writes is reused.
        let mut own = stage.program.body().clone();
        own.fetch_once(|id| {
            let mut transfers = nest.transfers.iter();
            transfers.any(|one| one.id == id && is_constant.get(one.tensor.0) == Some(&true) && one.can_stay())
        });
        self.body.run(&own, &arrays);
        self.body.kernels.last_mut().expect("it runs a kernel; this is a bug in polyshard").continues = continues;
        self.add_outputs(output)
    }

    /// Refuses a value of another shape than the tensor, in this sharding, that a stage reads or writes it as.
    fn fits(&self, stage: &str, tensor: Name, sharding: &Sharding, value: ValueId) -> Result<()> {
        let (expected, found) = (sharding.shape(), self.home(value).sharding.shape());
        if found == expected {
            return Ok(());
        }
        Err(Box::new(SequenceError::Shape {
            stage: stage.to_owned(),
            tensor,
            expected: expected.to_vec(),
            value: self.values[value].name,
            found: found.to_vec(),
            origin: self.values[value].origin.clone(),
        }))
    }

    /// Refuses to write a value that exists.
    fn is_new(&self, stage: &str, value: Name) -> Result<()> {
        match self.find(value) {
            None => Ok(()),
            Some(found) => Err(Box::new(SequenceError::Taken {
                stage: stage.to_owned(),
                value,
                origin: self.values[found].origin.clone(),
                existing: listed(self.names()),
            })),
        }
    }

    /// The kind of array that holds a value written here in this sharding.
    fn kind(&self, value: Name, sharding: &Sharding) -> ArrayKind {
        let is_asked = self.kept.contains(&value) || self.shardings_of(value).contains(sharding);
        if is_asked && self.is_last(value) { ArrayKind::Output } else { ArrayKind::Temporary }
    }

    /// Whether a value written here by this name is the one that the name stands for at the end.
    fn is_last(&self, value: Name) -> bool {
        self.around.is_empty() && self.last.get(&value).is_none_or(|last| *last <= self.item)
    }

    /// Adds rounds, with the values that they carry.
    fn add_rounds(&mut self, times: u64, round: &Sequence) -> Result<()> {
        let mut carried = Vec::with_capacity(round.carried.len());
        let visible = self.scope.len();
        for Carry { first, next, value: name } in &round.carried {
            let not_written = || self.not_of_round(round, *next, "carried to the next round");
            let outside = self.find(*first).ok_or_else(not_written)?;
            let sharding = round.left(*next).unwrap_or(&self.home(outside).sharding).clone();
            let wanted = self.home(outside).sharding.shape().to_vec();
            if sharding.shape() != wanted {
                let found = sharding.shape().to_vec();
                return Err(Box::new(SequenceError::CarriedShape { next: *next, found, value: *name, wanted }));
            }
            let first = self.in_sharding(outside, &sharding, ArrayKind::Temporary, || "its rounds".into())?;
            let kind = self.kind(*name, &sharding);
            carried.push((first, self.add(*name, &sharding, kind), sharding));
        }
        self.around.push(std::mem::take(&mut self.body.statements));
        let depth = self.around.len();
        let mut values = Vec::with_capacity(carried.len());
        for (Carry { value: name, .. }, (_, array, _)) in round.carried.iter().zip(&carried) {
            let origin = "carried from round to round".to_owned();
            self.values.push(Value { name: *name, arrays: vec![*array], origin, depth });
            values.push(self.values.len() - 1);
        }
        values.iter().for_each(|value| self.enter(*value));
        self.add_items(&round.items)?;
        let mut all = Vec::with_capacity(carried.len());
        for (Carry { next, .. }, (first, value, sharding)) in round.carried.iter().zip(carried) {
            let next = self.of_round(round, *next, "carried to the next round")?;
            let next = self.in_sharding(next, &sharding, ArrayKind::Temporary, || "the next round".into())?;
            all.push(Carried { first, value, next });
        }
        let until = round.until.map(|(scalar, below)| self.add_until(round, scalar, below)).transpose()?;
        let outside = self.around.pop().unwrap_or_default();
        let statements = std::mem::replace(&mut self.body.statements, outside);
        self.body.repeat(Rounds { times, until, carried: all }, statements);
        // After the rounds, the names stand for the values that the rounds leave.
        for value in self.scope.drain(visible..) {
            self.named.get_mut(&self.values[value].name).and_then(Vec::pop);
        }
        for value in values {
            let left = &mut self.values[value];
            left.depth -= 1;
            left.arrays.truncate(1);
            self.enter(value);
            self.add_outputs(value)?;
        }
        Ok(())
    }

    fn add_until(&mut self, round: &Sequence, scalar: Name, below: f64) -> Result<Until> {
        let value = self.of_round(round, scalar, "the value that ends the rounds")?;
        let sharding = self.home(value).sharding.clone();
        if !sharding.shape().is_empty() || below.is_nan() {
            let (shape, below) = (sharding.shape().to_vec(), below.to_string());
            return Err(Box::new(SequenceError::NoScalar { value: scalar, shape, below }));
        }
        let everywhere = Sharding::replicated(sharding.mesh(), &[]);
        let scalar =
            self.in_sharding(value, &everywhere, ArrayKind::Temporary, || "all ranks, whose rounds it ends".into())?;
        Ok(Until { scalar, below })
    }

    /// The value that a stage of the round writes or the round carries by this name.
    fn of_round(&self, round: &Sequence, name: Name, what: &'static str) -> Result<ValueId> {
        let found = self.find(name).filter(|value| self.values[*value].depth == self.around.len());
        found.ok_or_else(|| self.not_of_round(round, name, what))
    }

    fn not_of_round(&self, round: &Sequence, value: Name, what: &'static str) -> Box<SequenceError> {
        let written = listed(round.items.iter().flat_map(Item::leaves));
        Box::new(SequenceError::NotOfRound { value, what, written })
    }

    /// Gives outputs the names that they are called by, each after the value that it holds.
    fn call(&mut self, called: &[(Name, Name)]) -> Result<()> {
        let outputs = |body: &Body, arrays: &[ArrayId]| {
            arrays.iter().copied().filter(|id| body.arrays[id.0].kind == ArrayKind::Output).collect::<Vec<_>>()
        };
        let all = outputs(&self.body, &(0..self.body.arrays.len()).map(ArrayId).collect::<Vec<_>>());
        let names = listed(all.iter().map(|id| self.body.arrays[id.0].name));
        let mut own = Vec::with_capacity(called.len());
        for (nth, (value, name)) in called.iter().enumerate() {
            let found = self.find(*value).map(|found| outputs(&self.body, &self.values[found].arrays));
            match found.filter(|found| !found.is_empty() && called[..nth].iter().all(|(other, _)| other != value)) {
                Some(found) => own.push((*name, found)),
                None => return Err(Box::new(SequenceError::Called { value: *value, outputs: names })),
            }
        }
        for (name, found) in &own {
            found.iter().for_each(|id| self.body.arrays[id.0].name = *name);
        }
        let is_twice = |(name, own): &&(Name, Vec<ArrayId>)| {
            all.iter().any(|id| !own.contains(id) && self.body.arrays[id.0].name == *name)
        };
        match own.iter().find(is_twice) {
            Some((name, _)) => Err(Box::new(SequenceError::CalledTwice { name: *name })),
            None => Ok(()),
        }
    }

    /// The shardings given for a value that is an output.
    fn shardings_of(&self, value: Name) -> Vec<Sharding> {
        self.outputs.iter().filter(|(name, _)| *name == value).map(|(_, sharding)| sharding.clone()).collect()
    }

    /// Makes a value an output in the shardings given for it, if nothing takes its name later.
    fn add_outputs(&mut self, value: ValueId) -> Result<()> {
        let name = self.values[value].name;
        if !self.is_last(name) {
            return Ok(());
        }
        let shardings = self.shardings_of(name);
        shardings.iter().try_for_each(|sharding| self.add_output(value, sharding))
    }

    /// Makes a value that a stage leaves an output in this sharding.
    fn add_output(&mut self, value: ValueId, sharding: &Sharding) -> Result<()> {
        let Array { name, sharding: left, .. } = self.home(value);
        if left.shape() != sharding.shape() {
            let (found, wanted) = (left.shape().to_vec(), sharding.shape().to_vec());
            return Err(Box::new(SequenceError::OutputShape { value: *name, found, wanted }));
        }
        if sharding.partial().iter().any(|axis| !left.partial().contains(axis)) {
            let [source_sharding, target_sharding] = [left, sharding].map(Sharding::to_string);
            return Err(Box::new(SequenceError::Opened { value: *name, source_sharding, target_sharding }));
        }
        self.in_sharding(value, sharding, ArrayKind::Output, || "the output".into()).map(drop)
    }

    /// Returns the array that holds a value in a sharding. If no array does, adds one of this kind, and a move to it in
    /// the rounds in which the value is written.
    fn in_sharding(
        &mut self,
        value: ValueId,
        wanted: &Sharding,
        kind: ArrayKind,
        reader: impl FnOnce() -> String,
    ) -> Result<ArrayId> {
        let Value { name, ref arrays, depth, .. } = self.values[value];
        if let Some(found) = arrays.iter().find(|id| self.body.arrays[id.0].sharding == *wanted) {
            return Ok(*found);
        }
        let home = arrays[0];
        let source = self.body.arrays[home.0].sharding.clone();
        let program = redistribution_with(&source, wanted, self.body.dtype, &self.options).map_err(|why| {
            let (source_sharding, target_sharding) = (source.to_string(), wanted.to_string());
            Box::new(SequenceError::Plan {
                reader: reader(),
                value: name.array(),
                source_sharding,
                target_sharding,
                why,
            })
        })?;
        // The program's first array is `home`, and its last is the requested one.
        let mut ids = vec![home];
        for array in &program.arrays()[1..] {
            let kind = if array.kind == ArrayKind::Output { kind } else { array.kind };
            ids.push(self.add(name, &array.sharding, kind));
        }
        self.values[value].arrays.extend(&ids[1..]);
        self.swap_statements(depth);
        for moved in program.moves() {
            let (source, target) = (ids[moved.source.0], ids[moved.target.0]);
            self.body.transfer(Transfer { from: End::Array(source), to: End::Array(target), ..moved.row.clone() });
        }
        self.swap_statements(depth);
        Ok(*ids.last().unwrap_or(&home))
    }

    /// Swaps the body's statements with those of the rounds at this depth; a second call swaps them back.
    fn swap_statements(&mut self, depth: usize) {
        if let Some(around) = self.around.get_mut(depth) {
            std::mem::swap(&mut self.body.statements, around);
        }
    }

    /// All names, without repetitions.
    fn names(&self) -> Vec<Name> {
        each_once(self.scope.iter().map(|value| self.values[*value].name))
    }
}

fn listed(names: impl IntoIterator<Item = Name>) -> String {
    names.into_iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}
