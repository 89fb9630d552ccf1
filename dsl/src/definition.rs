//! The input of `kernel!`: a kernel or a block of several statements, optionally followed by the chain of its schedule.
//!
//! ```text
//! definition = block chain?         block: syntax.rs and blocks.rs, chain: chain.rs
//! ```
//!
//! With a chain, the kernel is compiled with the user's crate; without one, it is an expression that is lowered at run time.
//! Mistakes of both parts are reported together, since neither is needed to parse the other.

use crate::blocks::{Bound, Elaborated, Part, Versions, elaborate, in_names};
use crate::chain::{self, Chain};
use crate::check::check;
use crate::checked::Checked;
use crate::errors::{Errors, error};
use crate::form::Form;
use crate::rounds::Repeated;
use crate::syntax::Function;
use polyshard_program::Continued;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, Result};

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
    Block(CheckedBlock),
}

/// A block whose statements have no mistakes that the macro can see.
pub struct CheckedBlock {
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
        let function: Function = input.parse()?;
        let chain = if input.is_empty() { Ok(None) } else { chain::parse(input, Form::Macro, None).map(Some) };
        match (defined(function), chain) {
            (Ok(Defined::Block(block)), Ok(Some(_))) => {
                let help =
                    "leave out the schedule, and add its steps as methods: `block.distribute([i], [io], [ii], &mesh)`";
                Err(error(&block.name, "a block of several statements is scheduled by methods", help))
            }
            (Ok(of), Ok(chain)) => Ok(Self { of, chain }),
            (Err(mut errors), Err(others)) => {
                errors.combine(others);
                Err(errors)
            }
            (Err(errors), _) | (_, Err(errors)) => Err(errors),
        }
    }
}

fn defined(function: Function) -> Result<Defined> {
    if function.is_one_statement() {
        return Ok(Defined::Kernel(Box::new(check(function.only_statement()?)?)));
    }
    let (name, parameters) = (function.name.clone(), function.inputs.len());
    let Elaborated { kernels, rounds, results, indices, unset, arrays } =
        elaborate(function, &[], &mut Versions::default(), &[])?;
    let mut errors = Errors::default();
    let checked = kernels.into_iter().filter_map(|Part { block, previous, reads, writes }| {
        let kernel = errors.take(check(block).map_err(|wrong| in_names(&wrong)))?;
        Some(CheckedPart { kernel, previous, reads, writes })
    });
    let kernels = checked.collect();
    errors.finish(Defined::Block(CheckedBlock { name, kernels, rounds, results, arrays, parameters, indices, unset }))
}
