//! What `kernel!` takes: a kernel, and perhaps the chain of its schedule behind it.

use crate::chain::{self, Chain};
use crate::check::check;
use crate::checked::Checked;
use crate::form::Form;
use crate::syntax::Block;
use syn::Result;
use syn::parse::{Parse, ParseStream};

/// A kernel, perhaps with the chain of its schedule.
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
