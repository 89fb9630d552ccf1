//! The input of `kernel!`: a kernel, optionally followed by the chain of its schedule.
//!
//! ```text
//! definition = block chain?         block: syntax.rs, chain: chain.rs
//! ```
//!
//! With a chain, the kernel is compiled with the user's crate; without one, it is an expression that is lowered at run time.
//! Mistakes of both parts are reported together, since neither is needed to parse the other.

use crate::chain::{self, Chain};
use crate::check::check;
use crate::checked::Checked;
use crate::form::Form;
use crate::syntax::Block;
use syn::Result;
use syn::parse::{Parse, ParseStream};

/// A kernel, optionally with the chain of its schedule.
pub struct Definition {
    /// The kernel.
    pub kernel: Checked,
    /// The chain.
    pub chain: Option<Chain>,
}

impl Parse for Definition {
    fn parse(input: ParseStream) -> Result<Self> {
        let block: Block = input.parse()?;
        if input.is_empty() {
            return Ok(Self { kernel: check(block)?, chain: None });
        }
        match (check(block), chain::parse(input, Form::Macro, None)) {
            (Ok(kernel), Ok(chain)) => Ok(Self { kernel, chain: Some(chain) }),
            (Err(mut errors), Err(others)) => {
                errors.combine(others);
                Err(errors)
            }
            (Err(errors), _) | (_, Err(errors)) => Err(errors),
        }
    }
}
