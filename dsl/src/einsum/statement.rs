//! A kernel from one statement: the arrays define the tensors' extents, and the output's indices define its extents.
//!
//! ```text
//! C[i, k] = A[i, j] * B[j, k]                                           with arrays of 4 x 6 and 6 x 5
//!   fn einsum(A: [f64; 4, 6], B: [f64; 6, 5]) -> C: [f64; 4, 5] {
//!   C[i, k] = A[i, j] * B[j, k]
//!   }
//! ```
//!
//! Only the accesses of the statement are examined before that text is parsed like any kernel. So mistakes in it are found by the
//! same checks, and their places are moved back by the line before it.

use super::{EinsumError, Operand, Result};
use crate::text::{self, parse_kernel};
use polyshard_layout::{DType, Name, joined};
use polyshard_program::KernelSpec;

/// An access as written: a tensor's name, and its indices.
struct Written<'a> {
    name: &'a str,
    index: Vec<&'a str>,
}

/// The kernel of a statement over these arrays.
pub(super) fn kernel(text: &str, operands: &[Operand<'_>], dtype: DType, broadcasts: bool) -> Result<KernelSpec> {
    // If the text has no tokens, apparent accesses are meaningless.
    text::read(text, |_| Ok(())).map_err(EinsumError::Statement)?;
    let repeated = if broadcasts { repeated(text, operands) } else { text.to_owned() };
    let text = &repeated[..];
    // Text after a statement is rejected when it is parsed.
    let accesses = accesses(text.split(';').next().unwrap_or(text));
    let Some((target, read)) = accesses.split_first().filter(|_| text.contains('=')) else {
        return Err(EinsumError::NoStatement);
    };
    let inputs = inputs(target, read);
    if inputs.len() != operands.len() {
        let names = joined(inputs.iter().map(|name| format!("`{name}`")), ", ");
        let names = if names.is_empty() { "no array".to_owned() } else { names };
        return Err(EinsumError::Tensors { names, arrays: operands.len() });
    }
    let of = |access: &Written<'_>| inputs.iter().position(|name| *name == access.name).map(|at| &operands[at]);
    let extent = |wanted: &str| {
        read.iter().find_map(|access| {
            let dim = access.index.iter().position(|index| *index == wanted)?;
            of(access)?.shape.get(dim).copied()
        })
    };
    // The error on two extents of one index quotes the names of files.
    for (nth, access) in read.iter().enumerate() {
        let Some(operand) = of(access) else { continue };
        if operand.shape.len() != access.index.len() {
            let term = format!("{}[{}]", access.name, access.index.join(", "));
            let (indices, ndim) = (access.index.len(), operand.shape.len());
            return Err(EinsumError::Dimensions { term, indices, operand: operand.to_string(), ndim });
        }
        for (index, &second) in access.index.iter().zip(operand.shape).filter(|(index, _)| is_name(index)) {
            let before = read[..nth].iter().find_map(|other| {
                let dim = other.index.iter().position(|other| other == index)?;
                let operand = of(other)?;
                Some((*operand.shape.get(dim)?, operand)).filter(|(first, _)| *first != second)
            });
            // An index with its own range fits several extents.
            if let Some((first, first_in)) = before.filter(|_| !has_range(text, index)) {
                let [first_in, second_in] = [first_in, operand].map(Operand::to_string);
                return Err(EinsumError::Extents { index: (*index).to_owned(), first, first_in, second, second_in });
            }
        }
    }
    let missing = |index: &str| EinsumError::NoExtent { index: index.to_owned() };
    let shape = target.index.iter().map(|index| extent(index).ok_or_else(|| missing(index)));
    let output = declared(target.name, dtype, &shape.collect::<Result<Vec<_>>>()?);
    let declared = inputs.iter().zip(operands).map(|(name, operand)| declared(name, dtype, operand.shape));
    let head = format!("fn einsum({}) -> {output} {{\n", joined(declared, ", "));
    parse_kernel(&format!("{head}{text}\n}}")).map_err(|mut error| {
        // The statement begins on the second line.
        for mistake in &mut error.mistakes {
            mistake.line = mistake.line.saturating_sub(1).max(1);
            let [start, end] =
                [mistake.at.start, mistake.at.end].map(|at| at.saturating_sub(head.len()).min(text.len()));
            mistake.at = start..end;
        }
        EinsumError::Statement(error)
    })
}

fn declared(name: &str, dtype: DType, shape: &[usize]) -> String {
    let extents = joined(shape, ", ");
    if extents.is_empty() { format!("{name}: {dtype}") } else { format!("{name}: [{dtype}; {extents}]") }
}

/// The arrays that are read, in the order of their first accesses.
fn inputs<'a>(target: &Written<'_>, read: &[Written<'a>]) -> Vec<&'a str> {
    let mut inputs: Vec<&str> = Vec::new();
    for access in read {
        if !inputs.contains(&access.name) && access.name != target.name {
            inputs.push(access.name);
        }
    }
    inputs
}

/// The text with 0 for indices along extents of 1 that have another extent elsewhere; the text after them keeps its place.
fn repeated(text: &str, operands: &[Operand<'_>]) -> String {
    let accesses = accesses(text.split(';').next().unwrap_or(text));
    let Some((target, read)) = accesses.split_first() else { return text.to_owned() };
    let inputs = inputs(target, read);
    let dims = read.iter().filter_map(|access| {
        let operand = operands.get(inputs.iter().position(|name| *name == access.name)?)?;
        Some(access.index.iter().copied().zip(operand.shape.iter().copied()))
    });
    let dims: Vec<(&str, usize)> = dims.flatten().filter(|(index, _)| is_name(index)).collect();
    let mut repeated = text.to_owned();
    for &(index, extent) in &dims {
        if extent == 1 && dims.iter().any(|(other, extent)| *other == index && *extent != 1) {
            let at = index.as_ptr() as usize - text.as_ptr() as usize;
            repeated.replace_range(at..at + index.len(), &format!("{:<len$}", 0, len = index.len()));
        }
    }
    repeated
}

/// The accesses of a text, in order: a word, and the contents of the brackets after it. Whether the text is a statement is checked later.
fn accesses(text: &str) -> Vec<Written<'_>> {
    let mut found = Vec::new();
    for (open, _) in text.match_indices('[') {
        let before = text[..open].trim_end();
        let start = before.char_indices().rev().take_while(|(_, letter)| Name::is_part(*letter)).last();
        let Some((start, _)) = start else { continue };
        let Some(close) = text[open..].find(']') else { continue };
        let inside = text[open + 1..open + close].trim();
        let index = if inside.is_empty() { Vec::new() } else { inside.split(',').map(str::trim).collect() };
        found.push(Written { name: &before[start..], index });
    }
    found
}

fn is_name(index: &str) -> bool {
    Name::new(index).is_identifier()
}

/// Whether a text states the range of an index, `for i in 1..5`.
fn has_range(text: &str, index: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(3).any(|words| words[0] == "for" && words[1] == index && words[2] == "in")
}
