//! Files of kernels, each with its schedule: the input of `polyshard run` and `polyshard lower`.
//!
//! ```text
//! fn summa(A: [f64; m, k], B: [f64; k, n]) -> C: [f64; m, n] {
//!     C[m, n] += A[m, k] * B[k, n]
//! }
//! mesh(x: 2, y: 2)
//! .distribute([m, n], [mo, no], [mi, ni])
//! ..                                          or `auto` alone or at the end, and optionally more kernels
//! ```
//!
//! Kernels may be in rounds: `repeat(100, A = B, until s < 1e-9) { .. }` repeats those in the braces, and the value of `B` in one round is
//! that of `A` in the next.
//!
//! ```text
//! file   = (reduction | block ("auto" | chain) | rounds)+        reduction: reductions.rs, block: syntax.rs and blocks.rs, chain: chain.rs
//! rounds = "repeat" "(" number ("," (name "=" name | "until" name "<" number))* ")" "{" file "}"
//! ```
//!
//! A file is read in two passes. [`Definitions::parse`] finds the kernels, the steps and all mistakes that do not depend on extents. Once
//! the arrays are known, [`Definitions::bind`] replaces names by numbers and checks the kernels like kernels of literals.
//!
//! The grammar of a kernel is that of `kernel!`. A kernel reads, by name, arrays that earlier kernels have written and input arrays. The
//! extents of input arrays give the names in extents their values, the same in the whole file.

use crate::blocks::spec::{BlockKernel, BlockSpec, Statement};
use crate::blocks::{self, Bound, Elaborated, Versions, elaborate, extents, in_names, in_place, pairs};
use crate::chain::{self, Chain, ChainEnd};
use crate::check::check;
use crate::check::index::alone;
use crate::einsum::Operand;
use crate::errors::{Errors, error, error_at, listed};
use crate::form::Form;
use crate::name::{moved, name};
use crate::reductions::{self, Reduction};
use crate::rounds::{self, DEEPEST, Repeated, Rounds};
use crate::spec;
use crate::step::{Clause, Step};
use crate::syntax::{Block, Function, Tensor};
use crate::text::{ParseError, limited, of_names, placed, read};
use crate::values::{Unknown, Values, open, written};
use polyshard_layout::{DType, Mesh, Name, counted, nearest};
use polyshard_program::{Continued, KernelSpec, Number};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use syn::spanned::Spanned;
use syn::{Result, Type};

/// The kernels of a file as written, before their extents are known.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::text::{Definitions, Given};
/// let text = "fn twice(A: [f32; 8]) -> B: [f32; 8] { B[i] = 2 * A[i] }
/// .distribute([i], [io], [ii], mesh(x: 2))";
/// let file = Definitions::parse(text)?;
/// assert_eq!(file.inputs()[0].as_str(), "A");
/// let stages = file.bind(&Given::default())?;
/// let program = Schedule::from(&stages[0]).lower()?;
/// assert_eq!(program.mesh().size(), 2);
/// # Ok::<(), polyshard::Error>(())
/// ```
pub struct Definitions {
    /// The text, for the lines of mistakes that `bind` finds.
    text: String,
    kernels: Vec<Written>,
    /// Outer rounds precede inner ones.
    rounds: Vec<Repeated>,
    blocks: Vec<OfBlock>,
}

/// A kernel as written, and its schedule.
struct Written {
    block: Block,
    schedule: Scheduled,
    previous: Option<Continued<Ident>>,
    /// The values of its inputs.
    reads: Vec<Ident>,
    /// The value that it writes.
    writes: Ident,
}

/// Facts about a block of several statements that are not those of one of its kernels.
struct OfBlock {
    name: Ident,
    /// Its kernels, by number.
    kernels: Range<usize>,
    /// Its parameters, by the names of the values that it reads.
    inputs: Vec<Tensor>,
    /// Its arrays, parameters first.
    arrays: Vec<Ident>,
    /// Its results, each with the version that it leaves.
    results: Vec<(Ident, Ident)>,
    /// The extents of its indices.
    indices: Vec<Bound>,
    /// The rounds, by number, without which an array has no value.
    unset: Vec<(usize, Ident)>,
    /// The arrays of records, each with those that a running reduction writes.
    records: Vec<(Ident, Vec<Ident>)>,
    /// Its schedule.
    chain: Chain,
}

/// A kernel of a file, whose extents and element type are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The kernel.
    pub kernel: KernelSpec,
    /// The values of its inputs: arrays, or versions of them.
    pub inputs: Vec<Name>,
    /// The value of its output.
    pub output: Name,
    /// Its schedule.
    pub schedule: Scheduled,
    /// The version of its output before it, if it writes a part of it or adds to it.
    pub previous: Option<Continued<Name>>,
    /// Its place in a block of several statements.
    pub statement: Statement,
    /// Where the kernel's name, or that of the array that a statement of a block writes, is in the text, in bytes.
    pub at: Range<usize>,
}

/// An array that a file leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its name in the file.
    pub name: Name,
    /// The value that it has at the end: the output of a kernel, or carried by rounds.
    pub value: Name,
    /// The number of the last kernel that writes it; a round may begin with the value of another array.
    pub writer: Option<usize>,
}

/// The schedule of a kernel of a file.
///
/// ```
/// use polyshard::text::{Definitions, Given, Scheduled};
/// let file = Definitions::parse("fn twice(A: [f32; 8]) -> B: [f32; 8] { B[i] = 2 * A[i] }\nauto")?;
/// assert!(matches!(file.bind(&Given::default())?[0].schedule, Scheduled::Auto(_)));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Scheduled {
    /// `auto`: the schedule is still to be chosen, and keeps these.
    Auto(Kept),
    /// These steps, each with the place of its name in the text, in bytes.
    Steps(Vec<(Step, Range<usize>)>),
}

/// The parts of a schedule that the search keeps: those before `.auto`.
///
/// ```
/// use polyshard::text::{Definitions, Given, Scheduled};
/// let text = "fn twice(A: [f32; 8]) -> B: [f32; 8] { B[i] = 2 * A[i] }\nmesh(x: 2).shard(A, i @ x).auto";
/// let stages = Definitions::parse(text)?.bind(&Given::default())?;
/// let Scheduled::Auto(kept) = &stages[0].schedule else { panic!("steps") };
/// assert_eq!(kept.mesh.as_ref().map(|mesh| mesh.size()), Some(2));
/// assert_eq!(kept.shards[0].0.as_str(), "A");
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// The mesh.
    pub mesh: Option<Mesh>,
    /// The shardings of arrays that the kernel reads or writes.
    pub shards: Vec<(Name, Vec<Clause>)>,
    /// Where `auto` is in the text, in bytes.
    pub at: Range<usize>,
}

/// Values that a file is bound to.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::program::Number;
/// use polyshard::text::{Definitions, Given};
/// let file = Definitions::parse("fn scale(A: [T; n]) -> B: [T; n] { B[i] = alpha * A[i] }\nauto")?;
/// let values = [("n".into(), Number::Int(8)), ("alpha".into(), Number::Float(0.5))];
/// let stages = file.bind(&Given { arrays: None, values: &values, dtype: Some(DType::F64) })?;
/// assert_eq!(stages[0].kernel.output.1, [8]);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    /// The arrays that it reads, in the order of [`Definitions::inputs`]; `None` if [`values`](Self::values) has the values of all names.
    pub arrays: Option<&'a [Operand<'a>]>,
    /// Values of names: extents, moduli and scalars.
    pub values: &'a [(Name, Number)],
    /// The element type that names such as `T` stand for.
    pub dtype: Option<DType>,
}

impl Definitions {
    /// Parses the kernels of a text and their schedules.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::text::{Definitions, Given, Operand, Scheduled};
    /// let text = "fn twice(A: [T; n, 3]) -> B: [T; n, 3] { B[i, j] = alpha * A[i, j] }\nauto";
    /// let file = Definitions::parse(text)?;
    /// assert_eq!(file.inputs()[0].as_str(), "A");
    /// let array = Operand { source: "A.npy", shape: &[5, 3] };
    /// let values = [("alpha".into(), polyshard::program::Number::Int(2))];
    /// let stages = file.bind(&Given { arrays: Some(&[array]), values: &values, dtype: Some(DType::F32) })?;
    /// assert_eq!(stages[0].kernel.output.1, [5, 3]);
    /// assert!(matches!(stages[0].schedule, Scheduled::Auto(_)));
    ///
    /// let wide = Operand { source: "A.npy", shape: &[5, 4] };
    /// let error = file.bind(&Given { arrays: Some(&[wide]), values: &values, dtype: Some(DType::F32) }).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "line 1, column 20: dimension 1 of `A` is 3, but 4 in A.npy (5 x 4)\n\
    ///      help: give an array of this extent, or declare the extent by a name"
    /// );
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// All mistakes of the text that do not depend on extents.
    pub fn parse(text: &str) -> std::result::Result<Self, ParseError> {
        let (kernels, rounds, blocks) = read(text, |tokens| {
            let mut found = Found::default();
            found.add(tokens, Span::call_site(), 0);
            let Found { mut errors, kernels, rounds, blocks, .. } = found;
            errors.stop()?;
            distinct(&kernels, &blocks)?;
            rounds::check(&kernels.iter().map(|kernel| &kernel.writes).collect::<Vec<_>>(), &rounds)?;
            for value in Flow::new(&kernels, &rounds, &blocks).unknown {
                let message = format!(
                    "`{value}` has no value before the rounds: no kernel writes it before them, and none in them reads it from outside"
                );
                let help = format!("write or read `{value}` first, or leave `{value} = ..` out");
                errors.push(value, message, help);
            }
            errors.finish((kernels, rounds, blocks))
        })?;
        Ok(Self { text: text.to_owned(), kernels, rounds, blocks })
    }

    /// Returns the names of the input arrays, in the order in which kernels first declare them.
    #[must_use]
    pub fn inputs(&self) -> Vec<Name> {
        self.declared().into_iter().map(|tensor| name(&tensor.name)).collect()
    }

    /// Returns the arrays that exist at the end: outputs of kernels outside of rounds, carried arrays, and the results of blocks.
    ///
    /// ```
    /// let text = "fn f(A: [f32; 8]) -> s: f32 { let B[i] = 2 * A[i]; s = B[i] }\nauto";
    /// let left = polyshard::text::Definitions::parse(text)?.results();
    /// assert_eq!(left.iter().map(|left| left.name.as_str()).collect::<Vec<_>>(), ["s"]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn results(&self) -> Vec<Left> {
        let written = Flow::new(&self.kernels, &self.rounds, &self.blocks).written;
        let results = self.blocks.iter().flat_map(|block| &block.results);
        let results: HashMap<Name, Name> = results.map(|(array, version)| (name(version), name(array))).collect();
        let mut found: Vec<Left> = Vec::new();
        for (value, writer) in written {
            let value = name(value);
            let array = if value == value.array() { Some(value) } else { results.get(&value).copied() };
            if let Some(name) = array {
                found.retain(|other| other.name != name);
                found.push(Left { name, value, writer });
            }
        }
        found
    }

    /// Returns whether a block of the file has several statements, which are kernels on versions of their arrays.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Returns the names that numbers can replace, each once, and whether the number must be an integer: yes for extents, bounds, moduli
    /// and numbers of rounds, no for scalars and the bounds that end rounds. The extents of arrays give some of them.
    ///
    /// ```
    /// let text = "fn f(A: [f64; n]) -> B: [f64; n] { B[i] = alpha * A[(i + 1) % p] }\nauto";
    /// let file = polyshard::text::Definitions::parse(text)?;
    /// assert_eq!(file.open(), [("n".into(), true), ("p".into(), true), ("alpha".into(), false)]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn open(&self) -> Vec<(Name, bool)> {
        let of_kernels = self.kernels.iter().flat_map(|kernel| open(&kernel.block));
        let of_rounds = self.rounds.iter().flat_map(Repeated::open);
        let mut found: Vec<(Name, bool)> = Vec::new();
        for (ident, is_whole) in of_kernels.chain(of_rounds) {
            let ident = name(&ident);
            match found.iter_mut().find(|(other, _)| *other == ident) {
                Some((_, whole)) => *whole |= is_whole,
                None => found.push((ident, is_whole)),
            }
        }
        found
    }

    /// The first declaration of each input array.
    fn declared(&self) -> Vec<&Tensor> {
        Flow::new(&self.kernels, &self.rounds, &self.blocks).inputs
    }

    /// Returns the kernels with the extents and the element type of the arrays.
    ///
    /// # Errors
    /// All mistakes: arrays that do not fit their declarations, names without a value, and all that `kernel!` rejects.
    pub fn bind(&self, given: &Given<'_>) -> std::result::Result<Vec<Stage>, ParseError> {
        let mut stages = self.bound(given, &self.kernels, |kernel, values| {
            kernel.bound(values, given.dtype).map_err(|errors| in_names(&errors))
        })?;
        let finished = self.values(given).and_then(|values| {
            let mut errors = Errors::default();
            for block in &self.blocks {
                errors.take(block.finish(&mut stages, &values));
            }
            errors.finish(stages)
        });
        placed(&self.text, finished)
    }

    /// Returns the rounds, outer ones before inner ones.
    ///
    /// # Errors
    /// If a number of rounds or a bound has no value.
    pub fn rounds(&self, given: &Given<'_>) -> std::result::Result<Vec<Rounds>, ParseError> {
        let rounds = self.bound(given, &self.rounds, Repeated::bound)?;
        let mut errors = Errors::default();
        self.blocks.iter().for_each(|block| blocks::check_set(&block.unset, &rounds, &mut errors));
        placed(&self.text, errors.finish(rounds))
    }

    /// The parts with the given values, or all mistakes.
    fn bound<P, T>(
        &self,
        given: &Given<'_>,
        parts: &[P],
        bind: impl Fn(&P, &Values) -> Result<T>,
    ) -> std::result::Result<Vec<T>, ParseError> {
        let all = |values: Values| {
            let mut errors = Errors::default();
            let bound: Vec<_> = parts.iter().map(|part| errors.take(bind(part, &values))).collect();
            Ok(errors.finish(bound)?.into_iter().flatten().collect())
        };
        placed(&self.text, self.values(given).and_then(all))
    }

    /// The values of names: those given, and the extents of arrays. A name takes its value from an extent that is the name alone, as in
    /// `A: [f64; n, n + 1]`; other extents, and the same name again, are compared with those of the arrays.
    fn values(&self, given: &Given<'_>) -> Result<Values> {
        let mut values = Values::new(given.values);
        let Some(arrays) = given.arrays else { return Ok(values) };
        let declared = self.declared();
        if arrays.len() != declared.len() {
            return Err(self.arrays(&declared, arrays.len()));
        }
        let mut errors = Errors::default();
        let both = || declared.iter().zip(arrays);
        for (tensor, array) in both().filter(|(tensor, array)| tensor.extents.len() != array.shape.len()) {
            let dimensions = counted(tensor.extents.len(), "dimension");
            let message = format!("`{}` has {dimensions}, but {array} has {}", tensor.name, array.shape.len());
            errors.push(&tensor.name, message, "declare an extent for each dimension of the array");
        }
        errors.stop()?;
        // A name takes its value from its first array, which messages quote.
        let mut from: Vec<(Name, &Operand<'_>)> = Vec::new();
        let dims =
            || both().flat_map(|(tensor, array)| tensor.extents.iter().zip(array.shape).map(move |dim| (dim, array)));
        for ((extent, &found), array) in dims() {
            let Some(ident) = alone(extent).map(name) else { continue };
            if values.get(ident).is_none() {
                values.set(ident, found);
                from.push((ident, array));
            }
        }
        for (tensor, array) in both() {
            for (dim, (extent, &found)) in tensor.extents.iter().zip(array.shape).enumerate() {
                let Some(value) = values.evaluate(extent).filter(|value| *value != found as i128) else { continue };
                let first = alone(extent).and_then(|ident| from.iter().find(|(other, _)| *other == name(ident)));
                match first {
                    Some((name, first)) => {
                        let message = format!("`{name}` is {value} in {first} and {found} in {array}");
                        let help = match [value, found as i128].contains(&1) {
                            // Extents of 1 are not broadcast.
                            true => {
                                "extents of 1 do not broadcast: declare that dimension as 1, and write 0 for its index, `A[0, j]`"
                            }
                            false => "give arrays that match, or use two names",
                        };
                        errors.push(extent, message, help);
                    }
                    None => {
                        let is = match written(extent) {
                            text if text == value.to_string() => text,
                            text => format!("{text} = {value}"),
                        };
                        let message = format!("dimension {dim} of `{}` is {is}, but {found} in {array}", tensor.name);
                        let help = match alone(extent) {
                            Some(ident) => format!("give an array of this extent, or do not set `{ident}`"),
                            None => "give an array of this extent, or declare the extent by a name".to_owned(),
                        };
                        errors.push(extent, message, help);
                    }
                }
            }
        }
        errors.finish(values)
    }

    /// The error on a wrong number of arrays.
    fn arrays(&self, declared: &[&Tensor], given: usize) -> syn::Error {
        let names = listed(declared.iter().map(|tensor| &tensor.name));
        let given = match given {
            1 => "1 array is given".to_owned(),
            given => format!("{given} arrays are given"),
        };
        let (at, message) = match self.kernels.first() {
            _ if declared.is_empty() => (Span::call_site(), format!("the kernels read no array, but {given}")),
            Some(first) => (first.block.name.span(), format!("the kernels read {names}, but {given}")),
            None => (Span::call_site(), given),
        };
        error_at(at, message, "give one array for each, in this order")
    }
}

impl Written {
    /// The kernel with numbers in place of names. Names without a value are found in three places, in this order: extents and ranges,
    /// scalars of the value, moduli of indices.
    fn bound(&self, values: &Values, dtype: Option<DType>) -> Result<Stage> {
        let mut block = self.block.clone();
        let mut unknown = Unknown::default();
        values.fill(&mut block, &mut unknown);
        for tensor in block.inputs.iter_mut().chain([&mut block.output]) {
            if let Some(dtype) = dtype.filter(|_| is_open(&tensor.element)) {
                let at = tensor.element.span();
                tensor.element = syn::parse_str(dtype.name())?;
                if let Type::Path(path) = &mut tensor.element {
                    path.path.segments.iter_mut().for_each(|segment| segment.ident.set_span(at));
                }
            }
        }
        unknown.stop()?;
        let at = block.name.span().byte_range();
        let checked = check(block)?;
        for scalar in &checked.scalars {
            unknown.name(scalar, &format!("write a number, or set it: `--let {scalar}=0.5`"));
        }
        checked.moduli.iter().for_each(|(_, modulus)| unknown.add(modulus, values));
        unknown.stop()?;
        if checked.element.known.is_none() {
            let (written, name) = (&checked.element.written, &checked.name);
            let message = format!("no array gives the type `{}` of `{name}`", quote::quote!(#written));
            return Err(error(written, message, "write `f32`, `f64`, `i32` or `i64`, or set it: `--type f32`"));
        }
        let kernel = spec::literal(&checked, Form::Text)?;
        let of = |previous: &Continued<Ident>| Continued { array: name(&previous.array), adds: previous.adds };
        let (inputs, output) = (self.reads.iter().map(name).collect(), name(&self.writes));
        let (schedule, previous) = (self.schedule.clone(), self.previous.as_ref().map(of));
        Ok(Stage { kernel, inputs, output, schedule, previous, statement: Statement::default(), at })
    }
}

impl OfBlock {
    /// Checks the block as a whole, and divides its schedule into those of its kernels.
    fn finish(&self, stages: &mut [Stage], values: &Values) -> Result<()> {
        let kernel = |stage: &Stage| BlockKernel {
            kernel: stage.kernel.clone(),
            inputs: stage.inputs.clone(),
            output: stage.output,
            previous: stage.previous,
        };
        let spec = BlockSpec {
            name: name(&self.name),
            kernels: stages[self.kernels.clone()].iter().map(kernel).collect(),
            rounds: Vec::new(),
            arrays: self.arrays.iter().map(name).collect(),
            parameters: self.inputs.len(),
            results: pairs(&self.results),
            indices: extents(&self.indices, values),
            unset: Vec::new(),
            records: blocks::of_records(&self.records),
        };
        let block = Some(self.kernels.start);
        stages[self.kernels.clone()].iter_mut().for_each(|stage| stage.statement.block = block);
        let in_place = |mistakes, at: &dyn Fn(usize) -> Ident| in_place(mistakes, &self.name, at);
        spec.check().or_else(|mistakes| in_place(mistakes, &|number| self.indices[number].index.clone()))?;
        let Chain { calls, auto } = &self.chain;
        let steps: Vec<_> = calls.iter().map(|call| call.step.clone()).collect();
        let wrong = |mistakes| in_place(mistakes, &|number| calls[number].method.clone());
        let own = stages[self.kernels.clone()].iter_mut();
        if let Some(auto) = auto {
            let shards = spec.kept(&steps).or_else(|mistakes| wrong(mistakes).map(|()| Vec::new()))?;
            own.for_each(|stage| {
                let is_own = |name: &Name| stage.inputs.contains(name) || stage.output == *name;
                let shards = shards.iter().filter(|(name, _)| is_own(name)).cloned().collect();
                stage.schedule = Scheduled::Auto(auto.kept(shards));
            });
            return Ok(());
        }
        let divided = spec.divided(&steps).or_else(|mistakes| wrong(mistakes).map(|()| Vec::new()))?;
        for ((stage, steps), apart) in own.zip(divided).zip(spec.apart(&steps)) {
            stage.statement.apart = apart;
            let place = |number: Option<usize>| {
                number.map_or(stage.at.clone(), |number| calls[number].method.span().byte_range())
            };
            let steps = steps.into_iter().map(|(step, number)| (step, place(number)));
            stage.schedule = Scheduled::Steps(steps.collect());
        }
        Ok(())
    }
}

impl ChainEnd {
    /// What the search keeps, with these shardings.
    fn kept(&self, shards: Vec<(Name, Vec<Clause>)>) -> Kept {
        Kept { mesh: self.mesh.clone(), shards, at: self.at.span().byte_range() }
    }
}

impl Chain {
    /// The schedule of a kernel of one statement.
    fn scheduled(self) -> Scheduled {
        let steps = self.calls.into_iter();
        match self.auto {
            None => Scheduled::Steps(steps.map(|call| (call.step, call.method.span().byte_range())).collect()),
            Some(auto) => Scheduled::Auto(auto.kept(steps.filter_map(|call| call.step.sharding()).collect())),
        }
    }
}

/// The arrays that a file reads and leaves.
struct Flow<'a> {
    /// The first declaration of each input array.
    inputs: Vec<&'a Tensor>,
    /// What exists at the end, in the order in which it is written, with the number of the kernel that writes it.
    written: Vec<(&'a Ident, Option<usize>)>,
    /// The names that rounds carry but no kernel declares.
    unknown: Vec<&'a Ident>,
}

impl<'a> Flow<'a> {
    fn new(kernels: &'a [Written], rounds: &'a [Repeated], blocks: &'a [OfBlock]) -> Self {
        let mut inputs: Vec<&Tensor> = Vec::new();
        let (mut written, mut unknown) = (Vec::<(&Ident, _)>::new(), Vec::new());
        // How often each is written.
        let mut known: HashMap<&Ident, usize> = HashMap::new();
        // The rounds around a kernel, outermost first, each with the number of values written before it.
        let mut before: Vec<(&Repeated, usize)> = Vec::new();
        for (number, Written { block, reads, writes, .. }) in kernels.iter().enumerate() {
            let begun = rounds.iter().filter(|rounds| rounds.kernels.start == number);
            before.extend(begun.map(|rounds| (rounds, written.len())));
            // The kernels of a block read its parameters and versions of its arrays.
            let declared: Vec<(&Tensor, &Ident)> = match blocks.iter().find(|block| block.kernels.contains(&number)) {
                Some(block) if block.kernels.start == number => {
                    block.inputs.iter().map(|tensor| (tensor, &tensor.name)).collect()
                }
                Some(_) => Vec::new(),
                None => block.inputs.iter().zip(reads).collect(),
            };
            for (tensor, value) in declared {
                if !known.contains_key(value) && !inputs.iter().any(|other| other.name == *value) {
                    inputs.push(tensor);
                }
            }
            written.push((writes, Some(number)));
            *known.entry(writes).or_default() += 1;
            // After the rounds, only carried values exist.
            while let Some((rounds, len)) = before.pop_if(|(rounds, _)| rounds.kernels.end == number + 1) {
                let inside = written.split_off(len);
                for (name, _) in &inside {
                    if let Some(count) = known.remove(*name).filter(|count| *count > 1) {
                        known.insert(name, count - 1);
                    }
                }
                // Where `A = B` and `B = C` are carried, no kernel writes B under this name.
                let writer = |next: &Ident| inside.iter().rev().find(|(name, _)| *name == next)?.1;
                let is_declared = |value: &Ident| {
                    let is_input = inputs.iter().any(|tensor| tensor.name == *value);
                    is_input || known.contains_key(value)
                };
                let values = rounds.carried.iter().map(|(value, _)| value);
                unknown.extend(values.filter(|value| !rounds.has_first(value) && !is_declared(value)));
                for (value, next) in &rounds.carried {
                    written.push((value, writer(next)));
                    *known.entry(value).or_default() += 1;
                }
            }
        }
        Self { inputs, written, unknown }
    }
}

/// Whether a type is a name whose meaning the arrays decide.
fn is_open(element: &Type) -> bool {
    let Type::Path(path) = element else { return false };
    path.path.get_ident().is_some_and(|ident| ident.to_string().parse::<DType>().is_err())
}

/// A kernel's tokens, and those after it up to the next kernel.
#[derive(Clone, Default)]
struct Part {
    kernel: TokenStream,
    chain: TokenStream,
}

/// The help for a file without a kernel.
const KERNEL: &str = "write `fn f(A: [f32; m, n]) -> B: [f32; m, n] { B[i, j] = A[i, j] }`, and its schedule after it";

/// The contents of a file, and all its mistakes.
#[derive(Default)]
struct Found {
    errors: Errors,
    /// Whether some rounds could not be parsed, so that their kernels are not known.
    is_broken: bool,
    kernels: Vec<Written>,
    rounds: Vec<Repeated>,
    blocks: Vec<OfBlock>,
    /// The versions that blocks leave of the arrays that they return, where these have other names.
    left: Vec<(Ident, Ident)>,
    versions: Versions,
    reductions: Vec<Reduction>,
    /// Whether a reduction has mistakes, so that blocks which use it cannot be read.
    lacks_reductions: bool,
}

impl Found {
    /// Adds the kernels of a file or of rounds. A kernel ends with its braces, and its schedule where the next kernel begins.
    ///
    /// ```text
    /// fn f(..) -> .. { .. }   mesh(x: 2) .split(..)   fn g(..) -> .. { .. }   auto
    /// ----- kernel --------   ------ chain --------   ----- kernel --------   chain
    /// ```
    ///
    /// The tokens are divided into parts before any is parsed, so that a mistake in one kernel does not hide those of the next. `fn`,
    /// `pub`, `#` and `repeat` begin a part; after a dot, `repeat` is an unknown step and rejected as such.
    fn add(&mut self, tokens: TokenStream, around: Span, depth: usize) {
        let is_empty = |found: &Self| [found.kernels.len(), found.rounds.len()];
        let before = is_empty(self);
        let (mut part, mut in_chain, mut is_step, mut is_skipped) = (Part::default(), false, false, false);
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let repeats = !is_step && matches!(&token, TokenTree::Ident(word) if word == "repeat");
            let reduces = !is_step && matches!(&token, TokenTree::Ident(word) if word == "reduction");
            let begins = match &token {
                TokenTree::Ident(word) => word == "fn" || word == "pub" || repeats || reduces,
                TokenTree::Punct(sign) => sign.as_char() == '#',
                _ => false,
            };
            is_step = matches!(&token, TokenTree::Punct(sign) if sign.as_char() == '.');
            // The chain after the kernel of rounds that cannot be parsed belongs to no part.
            is_skipped &= !begins;
            if in_chain && begins {
                self.read(std::mem::take(&mut part));
                in_chain = false;
            }
            if reduces && part.kernel.is_empty() {
                let reduction = reductions::tokens(token, &mut tokens);
                let reduction = self.errors.take(syn::parse2(reduction));
                self.lacks_reductions |= reduction.is_none();
                self.reductions.extend(reduction);
            } else if repeats && part.kernel.is_empty() {
                let [header, body] = [Delimiter::Parenthesis, Delimiter::Brace].map(|delimiter| {
                    let is_next =
                        |next: &TokenTree| matches!(next, TokenTree::Group(group) if group.delimiter() == delimiter);
                    match tokens.next_if(is_next) {
                        Some(TokenTree::Group(group)) => Some(group),
                        _ => None,
                    }
                });
                if header.is_none() || body.is_none() {
                    // The kernels meant to be in the braces are skipped.
                    tokens.by_ref().find(
                        |token| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace),
                    );
                    is_skipped = true;
                }
                self.repeat(&token, header, body, depth + 1);
            } else if is_skipped {
                continue;
            } else if in_chain {
                part.chain.extend([token]);
            } else {
                in_chain = matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
                part.kernel.extend([token]);
            }
        }
        if !part.kernel.is_empty() {
            self.read(part);
        } else if is_empty(self) == before && !self.is_broken {
            self.errors.add(error_at(around, "there is no kernel", KERNEL));
        }
    }

    /// Adds rounds and the kernels in them.
    fn repeat(&mut self, word: &TokenTree, header: Option<Group>, body: Option<Group>, depth: usize) {
        let (Some(header), Some(body)) = (header, body) else {
            let help = "write `repeat(100, A = B) { .. }`, with the kernels of a round in the braces";
            self.is_broken = true;
            return self.errors.push(word, "rounds need parentheses and braces", help);
        };
        if depth > DEEPEST {
            let help = format!("nest at most {DEEPEST} of them");
            self.is_broken = true;
            return self.errors.push(word, "rounds are nested too deeply", help);
        }
        let repeated = self.errors.take(Repeated::parse(word.span(), &header, self.kernels.len()));
        let number = self.rounds.len();
        let is_read = repeated.is_some();
        self.rounds.extend(repeated);
        let before = self.left.clone();
        self.add(body.stream(), body.span_open(), depth);
        // What a round leaves has its name within the round only, unless it is carried.
        let left = std::mem::replace(&mut self.left, before);
        if is_read {
            self.rounds[number].kernels.end = self.kernels.len();
            self.rounds[number].rename(&self.left, &left);
        }
    }

    /// Adds the kernels of a part.
    fn read(&mut self, part: Part) {
        let added = part.read().and_then(|(function, chain)| match function.is_one_statement() {
            true => self.one_statement(function, chain),
            false => self.block(function, chain),
        });
        self.errors.take(added);
    }

    fn one_statement(&mut self, function: Function, chain: Chain) -> Result<()> {
        let mut block = function.only_statement()?;
        let output = &block.output.name;
        if self.blocks.iter().any(|block| block.results.iter().any(|(result, _)| result == output)) {
            let message = format!("`{output}` is returned by an earlier block");
            return Err(error(output, message, "give it a name of its own"));
        }
        let is_scalar =
            |name: &Ident| block.inputs.iter().any(|tensor| tensor.name == *name && tensor.extents.is_empty());
        block.statement.value.read_scalars(&is_scalar);
        let value = |tensor: &Tensor| {
            let left = self.left.iter().find(|(array, _)| *array == tensor.name);
            left.map_or(&tensor.name, |(_, version)| version).clone()
        };
        let (reads, writes) = (block.inputs.iter().map(value).collect(), block.output.name.clone());
        self.kernels.push(Written { block, schedule: chain.scheduled(), previous: None, reads, writes });
        Ok(())
    }

    fn block(&mut self, function: Function, chain: Chain) -> Result<()> {
        if self.lacks_reductions {
            return Ok(());
        }
        let name = function.name.clone();
        let mut inputs = function.inputs.clone();
        for tensor in &mut inputs {
            if let Some((_, version)) = self.left.iter().find(|(array, _)| *array == tensor.name) {
                tensor.name = moved(version, tensor.name.span());
            }
        }
        let block = elaborate(function, &self.left, &mut self.versions, &self.reductions, &chain.sharded())?;
        let Elaborated { kernels, rounds, results, indices, unset, arrays, records } = block;
        let (first, row) = (self.kernels.len(), self.rounds.len());
        self.kernels.extend(kernels.into_iter().map(|part| {
            let blocks::Part { block, previous, reads, writes } = part;
            Written { block, schedule: Scheduled::Auto(Kept::default()), previous, reads, writes }
        }));
        self.rounds.extend(rounds.into_iter().map(|rounds| rounds.after(first)));
        self.left.retain(|(array, _)| results.iter().all(|(result, _)| result != array));
        self.left.extend(results.iter().cloned());
        let unset = unset.into_iter().map(|(number, array)| (number + row, array)).collect();
        let kernels = first..self.kernels.len();
        self.blocks.push(OfBlock { name, kernels, inputs, arrays, results, indices, unset, records, chain });
        Ok(())
    }
}

impl Part {
    /// The block and its schedule. A mistake at the end of either is reported on its last token, since more text follows it.
    fn read(&self) -> Result<(Function, Chain)> {
        let Self { kernel, chain } = self.clone();
        let kernel_ends = end(&kernel);
        if let Some(TokenTree::Ident(first)) = kernel.clone().into_iter().next()
            && first != "fn"
            && first != "pub"
        {
            return Err(error(&first, format!("expected a kernel, found `{first}`"), KERNEL));
        }
        let mut tokens = kernel.clone().into_iter();
        if let (Some(TokenTree::Punct(first)), next) = (tokens.next(), tokens.next())
            && !matches!(next, Some(TokenTree::Group(_)))
        {
            return Err(error(&first, format!("a kernel cannot begin with `{first}`"), "comments begin with `//`"));
        }
        let block: Function = syn::parse2(limited(kernel)?).map_err(|error| at_end(error, kernel_ends))?;
        let (first, rest) = {
            let mut tokens = chain.clone().into_iter();
            (tokens.next(), tokens.next())
        };
        let schedule = match (first, rest) {
            (None, _) => {
                let message = format!("`{}` has no mesh and no schedule", block.name);
                return Err(error(&block.name, message, "write `mesh(x: 2)` and steps after it, or `auto`"));
            }
            (Some(TokenTree::Ident(word)), None) if word == "auto" => {
                Chain { calls: Vec::new(), auto: Some(ChainEnd { at: word, mesh: None }) }
            }
            (Some(TokenTree::Ident(word)), None) if nearest(&word.to_string(), ["auto"]).is_some() => {
                return Err(error(&word, format!("no schedule `{word}`"), "did you mean `auto`?"));
            }
            (Some(TokenTree::Ident(word)), Some(rest)) if word == "auto" => {
                let help = "write what it keeps before it: `mesh(x: 2).shard(A, i @ x).auto`";
                return Err(error(rest, "unexpected tokens after `auto`", help));
            }
            _ => {
                let chain_ends = end(&chain);
                let parser = |input: syn::parse::ParseStream| chain::parse(input, Form::Text, None);
                syn::parse::Parser::parse2(parser, of_names(chain)?).map_err(|error| at_end(error, chain_ends))?
            }
        };
        Ok((block, schedule))
    }
}

/// The last token of a part, for errors at its end.
fn end(tokens: &TokenStream) -> Span {
    tokens.clone().into_iter().last().map_or_else(Span::call_site, |token| match token {
        TokenTree::Group(group) => group.span_close(),
        token => token.span(),
    })
}

/// The errors, those at the end of the tokens moved to the last token.
fn at_end(errors: syn::Error, end: Span) -> syn::Error {
    let placed = errors.into_iter().map(|error| match error.span().byte_range().is_empty() {
        true => syn::Error::new(end, error.to_string()),
        false => error,
    });
    let mut all = Errors::default();
    placed.for_each(|error| all.add(error));
    all.finish(()).err().unwrap_or_else(|| syn::Error::new(end, "unexpected end"))
}

/// Checks that kernels and blocks have different names, for messages and emitted modules.
fn distinct(kernels: &[Written], blocks: &[OfBlock]) -> Result<()> {
    let (mut errors, mut known) = (Errors::default(), HashSet::new());
    let mut blocks = blocks.iter().peekable();
    for (number, kernel) in kernels.iter().enumerate() {
        blocks.next_if(|block| block.kernels.end <= number);
        // The kernels of a block have its name.
        let is_later = blocks.peek().is_some_and(|block| block.kernels.start < number);
        let name =
            blocks.peek().filter(|block| block.kernels.start == number).map_or(&kernel.block.name, |block| &block.name);
        if !is_later && !known.insert(name) {
            errors.push(name, format!("two kernels have the name `{name}`"), "give each kernel a name of its own");
        }
    }
    errors.finish(())
}

#[cfg(test)]
mod tests;
