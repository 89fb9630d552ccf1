//! The input of `kernel!`: a kernel or a block of several statements, optionally followed by the chain of its schedule.
//!
//! ```text
//! definition = reduction* block chain?         reduction: reductions.rs, block: syntax.rs and blocks.rs, chain: chain.rs
//! ```
//!
//! With a chain, the kernel or block is compiled with the user's crate; without one, it is an expression that is lowered at run time.
//! Mistakes of both parts are reported together, since neither is needed to parse the other.

use crate::blocks::spec::{BlockKernel, BlockSpec};
use crate::blocks::{self, Bound, Elaborated, Part, Versions, elaborate, in_names};
use crate::chain::{self, Chain};
use crate::check::check;
use crate::checked::Checked;
use crate::errors::Errors;
use crate::form::Form;
use crate::name::name;
use crate::reductions::{self, Reduction};
use crate::rounds::Repeated;
use crate::spec::literal_once;
use crate::syntax::Function;
use crate::values::Values;
use polyshard_layout::Name;
use polyshard_program::Continued;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Ident, Result, Visibility};

/// A kernel or a block, optionally with the chain of its schedule.
pub struct Definition {
    /// The kernel or the block.
    pub of: Defined,
    /// The chain.
    pub chain: Option<Chain>,
}

/// What a macro defines.
pub enum Defined {
    /// A kernel of one statement.
    Kernel(Box<Checked>),
    /// A block of several statements.
    Block(Box<CheckedBlock>),
}

/// A block whose statements have no mistakes that the macro can see.
pub struct CheckedBlock {
    /// Its documentation.
    pub docs: Vec<Attribute>,
    /// Its visibility.
    pub vis: Visibility,
    /// Its name.
    pub name: Ident,
    /// The kernels, in order.
    pub kernels: Vec<CheckedPart>,
    /// The rounds around kernels, outer ones before inner ones.
    pub rounds: Vec<Repeated>,
    /// The results, each with its version.
    pub results: Vec<(Ident, Ident)>,
    /// Its arrays, of which the first ones are the parameters.
    pub arrays: Vec<Ident>,
    /// The number of parameters.
    pub parameters: usize,
    /// The extents of indices where they stand alone in accesses.
    pub indices: Vec<Bound>,
    /// The rounds, by number, without which an array has no value.
    pub unset: Vec<(usize, Ident)>,
    /// The arrays of records, each with those that a running reduction writes.
    pub records: Vec<(Ident, Vec<Ident>)>,
}

/// A kernel of a block.
pub struct CheckedPart {
    /// The kernel.
    pub kernel: Checked,
    /// The version that it continues.
    pub previous: Option<Continued<Ident>>,
    /// The versions of its inputs.
    pub reads: Vec<Ident>,
    /// The version that it writes.
    pub writes: Ident,
}

impl Parse for Definition {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut known = Vec::new();
        while reductions::begins(input) {
            known.push(input.parse()?);
        }
        let function: Function = input.parse()?;
        let chain = match input.is_empty() {
            true => Ok(None),
            false => chain::parse(input, Form::Macro, None).and_then(|chain| chain.without_auto(AT_RUN_TIME)).map(Some),
        };
        let sharded = chain.as_ref().ok().and_then(Option::as_ref).map_or_else(Vec::new, Chain::sharded);
        match (defined(function, &known, &sharded), chain) {
            (Ok(of), Ok(chain)) => Ok(Self { of, chain }),
            (Err(mut errors), Err(others)) => {
                errors.combine(others);
                Err(errors)
            }
            (Err(errors), _) | (_, Err(errors)) => Err(errors),
        }
    }
}

const AT_RUN_TIME: &str =
    "leave the schedule out, and choose it when the program runs: `kernel.auto(ranks, &machine).on(&mesh).find()?`";

fn defined(function: Function, reductions: &[Reduction], sharded: &[Name]) -> Result<Defined> {
    if function.is_one_statement() {
        return Ok(Defined::Kernel(Box::new(check(function.only_statement()?)?)));
    }
    let (docs, vis, name) = (function.docs.clone(), function.vis.clone(), function.name.clone());
    let parameters = function.inputs.len();
    let Elaborated { kernels, rounds, results, indices, unset, arrays, records } =
        elaborate(function, &[], &mut Versions::default(), reductions, sharded)?;
    let mut errors = Errors::default();
    let checked = kernels.into_iter().filter_map(|Part { block, previous, reads, writes }| {
        let kernel = errors.take(check(block).map_err(|wrong| in_names(&wrong)))?;
        Some(CheckedPart { kernel, previous, reads, writes })
    });
    let kernels = checked.collect();
    let block = CheckedBlock { docs, vis, name, kernels, rounds, results, arrays, parameters, indices, unset, records };
    errors.finish(Defined::Block(Box::new(block)))
}

impl CheckedBlock {
    /// Returns the block as data, whose scalars get their values at run time.
    ///
    /// # Errors
    /// All extents, moduli, types, numbers of rounds and bounds of rounds that are not literals, indices of two extents, and arrays without
    /// a value.
    pub fn spec(&self) -> Result<BlockSpec> {
        // Kernels have the extents of their arrays in common.
        let (mut errors, mut reported) = (Errors::default(), Vec::new());
        let kernels = self.kernels.iter().filter_map(|CheckedPart { kernel, previous, reads, writes }| {
            let of = |Continued { array, adds }: &Continued<Ident>| Continued { array: name(array), adds: *adds };
            let kernel = errors.take(literal_once(kernel, Form::Macro, &mut reported))?;
            let (inputs, output) = (reads.iter().map(name).collect(), name(writes));
            Some(BlockKernel { kernel, inputs, output, previous: previous.as_ref().map(of) })
        });
        let kernels = kernels.collect();
        let rounds = self.rounds.iter().filter_map(|rounds| errors.take(rounds.literal()));
        let rounds: Vec<_> = rounds.collect();
        errors.stop()?;
        blocks::check_set(&self.unset, &rounds, &mut errors);
        let spec = BlockSpec {
            name: name(&self.name),
            kernels,
            rounds,
            results: blocks::pairs(&self.results),
            arrays: self.arrays.iter().map(name).collect(),
            parameters: self.parameters,
            indices: blocks::extents(&self.indices, &Values::default()),
            unset: Vec::new(),
            records: blocks::of_records(&self.records),
        };
        let at = |number: usize| self.indices[number].index.clone();
        errors.take(spec.check().or_else(|mistakes| blocks::in_place(mistakes, &self.name, &at)));
        errors.finish(spec)
    }
}
