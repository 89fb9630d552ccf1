//! Kernels in einsum notation, `ij,jk->ik`, or written like a kernel's statement, `C[i, k] = A[i, j] * B[j, k]`; the arrays define the
//! extents.
//!
//! ```text
//! einsum    = term ("," term)* ("->" term)?
//! term      = (letter | "...")*                 "..." at most once
//! statement = the contents of the braces of a kernel
//! ```
//!
//! The first form is parsed here: each letter is an index, `...` stands for indices `batch0`, `batch1`, .. counted from the right, so that
//! operands of different ndim are aligned at their last dimensions. The second is put into a kernel with the extents of the arrays and
//! parsed as a kernel.

mod statement;
#[cfg(test)]
mod tests;

use crate::text::ParseError;
use polyshard_layout::{DType, Name, are, counted, joined};
use polyshard_program::{Access, Affine, KernelError, KernelSpec};
use std::fmt;

/// An array that an einsum reads.
///
/// ```
/// use polyshard::text::Operand;
/// assert_eq!(Operand { source: "A.npy", shape: &[4, 6] }.to_string(), "A.npy (4 x 6)");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Its name in messages: its file.
    pub source: &'a str,
    /// Its extents.
    pub shape: &'a [usize],
}

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = if self.shape.is_empty() { "no dimensions".to_owned() } else { joined(self.shape, " x ") };
        write!(f, "{} ({shape})", self.source)
    }
}

/// Why a text is not an einsum over these arrays.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::text::{EinsumError, Operand, einsum};
/// let a = Operand { source: "A.npy", shape: &[4, 6] };
/// let error = einsum("ij,jk->ik", &[a, a], DType::F32, "C").unwrap_err();
/// assert!(matches!(error, EinsumError::Extents { first: 6, second: 4, .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum EinsumError {
    /// The numbers of terms and arrays differ.
    #[error("{} for {}; write one term for each array, such as `ij,jk->ik` for two", counted(*terms, "term"), counted(*arrays, "array"))]
    Terms { terms: usize, arrays: usize },
    /// An arrow of another kind.
    #[error("`{found}` is not an einsum arrow; write `->` between the terms and the output")]
    WrongArrow { found: &'static str },
    /// A character that is not an index.
    #[error("`{found}` in the term `{term}` is not an index; write a letter for each dimension, or `...`")]
    NotAnIndex { found: char, term: String },
    /// More than one arrow.
    #[error("two `->`; write one, between the terms and the output")]
    Arrows,
    /// `...` is in a term twice.
    #[error("`...` is twice in the term `{term}`; write it once")]
    EllipsisTwice { term: String },
    /// Words are used as indices; `letters` is the same einsum in letters.
    #[error("indices are letters, not words; write `{letters}`")]
    Words { letters: String },
    /// The number of indices in a term is not the number of dimensions.
    #[error(
        "the term `{term}` has {}, but {operand} has {}; write one index for each",
        counted(*indices, "index"), counted(*ndim, "dimension")
    )]
    Dimensions { term: String, indices: usize, operand: String, ndim: usize },
    /// An index has two extents.
    #[error(
        "{}`{index}` is {first} in {first_in} and {second} in {second_in}; {}",
        if index == "..." { "" } else { "index " }, one_extent([*first, *second])
    )]
    Extents { index: String, first: usize, first_in: String, second: usize, second_in: String },
    /// An index is only in the output.
    #[error("index `{index}` is only in the output; the operands have {there}")]
    OutputAlone { index: String, there: String },
    /// An index is in the output twice.
    #[error("index `{index}` is twice in the output; write it once")]
    OutputTwice { index: String },
    /// The output lacks `...`, which inputs have; `letters` is the same einsum with letters in its place.
    #[error(
        "the operands have `...`, but the output has not; write it there too, or letters to sum over them: `{letters}`"
    )]
    NoEllipsis { letters: String },
    /// A statement without `=`, or without accesses.
    #[error("no statement; write one such as `C[i, k] = A[i, j] * B[j, k]`, or `ij,jk->ik`")]
    NoStatement,
    /// The number of arrays given is not the number that the statement reads.
    #[error(
        "the statement reads {names}, and {} {} given; give one for each, in this order", counted(*arrays, "array"), are(*arrays)
    )]
    Tensors { names: String, arrays: usize },
    /// An index of the output whose extent no input defines.
    #[error("the extent of index `{index}` of the output is unknown; it must be alone in a dimension of an input")]
    NoExtent { index: String },
    /// A mistake in a statement.
    #[error("{0}")]
    Statement(ParseError),
    /// The kernel is invalid.
    #[error("{0}")]
    Kernel(Box<KernelError>),
}

fn one_extent(extents: [usize; 2]) -> &'static str {
    match extents.contains(&1) {
        true => "extents of 1 are broadcast only with `--broadcast`, in Rust by `einsum_broadcast`",
        false => "an index has one extent",
    }
}

/// Returns the kernel of an einsum over arrays in the order of its terms, in numpy's notation, or of one statement in index
/// notation, over arrays in the order in which it reads them first.
///
/// Spaces are ignored, any letter is an index, and an index twice in a term takes the diagonal. Without `->` the output has the indices
/// that occur once, in alphabetical order; `...` stands for leading dimensions. Unlike in numpy, extents of 1 do not broadcast; with
/// [`einsum_broadcast`] they do. One array given twice is one tensor.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::text::{Operand, einsum};
/// let [a, b] = [Operand { source: "A.npy", shape: &[4, 6] }, Operand { source: "B.npy", shape: &[6, 5] }];
/// let kernel = einsum("ij,jk->ik", &[a, b], DType::F64, "C")?.check()?;
/// assert_eq!(kernel.statement(), "C[i, k] = A[i, j] * B[j, k]");
/// assert_eq!(einsum("C[i, k] = A[i, j] * B[j, k]", &[a, b], DType::F64, "out")?.check()?.statement(), kernel.statement());
///
/// let error = einsum("ij,jk->ik", &[a, a], DType::F64, "C").unwrap_err();
/// assert_eq!(error.to_string(), "index `j` is 6 in A.npy (4 x 6) and 4 in A.npy (4 x 6); an index has one extent");
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// If the text has a mistake or does not fit the arrays.
pub fn einsum(text: &str, operands: &[Operand<'_>], dtype: DType, output: &str) -> Result<KernelSpec, EinsumError> {
    kernel(text, operands, dtype, output, false)
}

/// Returns the kernel of an einsum as [`einsum`] does, with broadcasting as in numpy: where an index has several extents of which one is 1,
/// element 0 is read along that dimension.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::text::{Operand, einsum_broadcast};
/// let [a, b] = [Operand { source: "A.npy", shape: &[1, 2, 3] }, Operand { source: "B.npy", shape: &[5, 3, 4] }];
/// let kernel = einsum_broadcast("...ij,...jk->...ik", &[a, b], DType::F64, "C")?.check()?;
/// assert_eq!(kernel.statement(), "C[batch0, i, k] = A[0, i, j] * B[batch0, j, k]");
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// If the text has a mistake or does not fit the arrays.
pub fn einsum_broadcast(
    text: &str,
    operands: &[Operand<'_>],
    dtype: DType,
    output: &str,
) -> Result<KernelSpec, EinsumError> {
    kernel(text, operands, dtype, output, true)
}

type Result<T, E = EinsumError> = std::result::Result<T, E>;

fn kernel(text: &str, operands: &[Operand<'_>], dtype: DType, output: &str, broadcasts: bool) -> Result<KernelSpec> {
    if !text.contains('[') {
        // A correct text has no such sign outside of its arrow.
        let without = text.replace("->", "");
        if let Some(found) = ["=>", "-", ">"].into_iter().find(|sign| without.contains(sign)) {
            return Err(EinsumError::WrongArrow { found });
        }
    }
    if text.contains(['[', '=']) {
        return statement::kernel(text, operands, dtype, broadcasts);
    }
    let (terms, wanted) = text.split_once("->").map_or((text, None), |(terms, wanted)| (terms, Some(wanted)));
    if wanted.is_some_and(|wanted| wanted.contains("->")) {
        return Err(EinsumError::Arrows);
    }
    let terms: Vec<&str> = terms.split(',').collect();
    if terms.len() != operands.len() {
        // A sign instead of a comma makes one term of two.
        terms.iter().try_for_each(|term| letters(term))?;
        return Err(EinsumError::Terms { terms: terms.len(), arrays: operands.len() });
    }
    let mut taken: Vec<char> = text.chars().filter(|letter| letter.is_alphabetic()).collect();
    taken.sort_unstable();
    taken.dedup();
    let read = terms.iter().zip(operands).map(|(term, operand)| indices(term, Some(operand)));
    let read = read.collect::<Result<Vec<_>>>().map_err(|why| match in_letters(text, operands) {
        Some(letters) if matches!(why, EinsumError::Dimensions { .. }) => EinsumError::Words { letters },
        _ => why,
    })?;
    let extents = extents(&read, operands, broadcasts)?;
    let written = wanted.map_or_else(|| Ok(implied(&read)), |term| written(term, &read, &taken))?;
    let mut taken: Vec<Name> = taken.into_iter().map(Index::Letter).chain(leading(&read)).map(Index::name).collect();
    let shape = |operand: &Operand<'_>| operand.shape.iter().map(|&extent| extent as i128).collect();
    let mut factors: Vec<(Access, Vec<i128>)> = Vec::new();
    for (nth, (operand, term)) in operands.iter().zip(&read).enumerate() {
        let same = operands[..nth].iter().position(|other| other.source == operand.source);
        let name = same.map_or_else(|| tensor(&mut taken, stem(operand.source), nth), |first| factors[first].0.tensor);
        let extent = |index| extents.iter().find(|(known, _)| *known == index).map(|(_, extent)| *extent);
        let index = term.iter().zip(operand.shape).map(|(&index, &own)| match extent(index) {
            // Broadcast dimensions have one element.
            Some(extent) if extent != own => Affine::new([], 0),
            _ => plain(&index),
        });
        factors.push((Access::new(name, index.collect()), shape(operand)));
    }
    let name = tensor(&mut taken, output, operands.len());
    let target = Access::new(name, written.iter().map(plain).collect());
    let shape =
        written.iter().map(|of| extents.iter().find(|(known, _)| known == of).map_or(0, |(_, extent)| *extent as i128));
    let spec = KernelSpec::product(Name::new("einsum"), dtype, factors, (target, shape.collect()));
    spec.ok_or(EinsumError::Terms { terms: 1, arrays: 0 })
}

/// The index alone, as in an access.
fn plain(index: &Index) -> Affine {
    Affine::new([(index.name(), 1)], 0)
}

/// An index of a term: a letter, or a dimension that `...` stands for, counted from the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Index {
    Letter(char),
    Leading(usize),
}

impl Index {
    /// Its name in the kernel; no letter has the name of a leading dimension.
    fn name(self) -> Name {
        match self {
            Self::Letter(letter) => Name::new(&letter.to_string()),
            Self::Leading(number) => Name::new(&format!("batch{number}")),
        }
    }

    fn letter(&self) -> Option<char> {
        if let Self::Letter(letter) = self { Some(*letter) } else { None }
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Letter(letter) => write!(f, "{letter}"),
            Self::Leading(_) => f.write_str("..."),
        }
    }
}

/// Checks that a term consists of letters and `...`.
fn letters(term: &str) -> Result<()> {
    let wrong = term.replace("...", "").chars().find(|letter| !letter.is_alphabetic() && !letter.is_whitespace());
    wrong.map_or(Ok(()), |found| Err(EinsumError::NotAnIndex { found, term: term.trim().to_owned() }))
}

/// The einsum with a letter for each word, if it has one word for each dimension: `bs,sd->bd` of `batch seq, seq dim -> batch dim`.
fn in_letters(text: &str, operands: &[Operand<'_>]) -> Option<String> {
    let mut known: Vec<(&str, char)> = Vec::new();
    let mut parts = Vec::new();
    for part in text.split("->") {
        let mut terms = Vec::new();
        for term in part.split(',') {
            let mut letters = String::new();
            for word in term.split_whitespace() {
                let is_free = |letter: &char| known.iter().all(|(_, other)| other != letter);
                let letter = known.iter().find(|(other, _)| *other == word).map(|(_, letter)| *letter);
                let letter = letter.or_else(|| word.chars().chain('a'..='z').find(is_free))?;
                known.push((word, letter));
                letters.push(letter);
            }
            terms.push(letters);
        }
        parts.push(terms);
    }
    let fits = parts[0].iter().zip(operands).all(|(term, operand)| term.chars().count() == operand.shape.len());
    let are_words = known.iter().all(|(word, _)| word.chars().all(char::is_alphabetic));
    let parts: Vec<String> = parts.iter().map(|terms| terms.join(",")).collect();
    // Two or three letters are more likely indices of an array of another number of dimensions.
    let is_spaced = text.split("->").flat_map(|part| part.split(',')).any(|term| term.split_whitespace().count() > 1);
    let is_word = |word: &str| word.chars().count() > if is_spaced { 1 } else { 3 };
    (fits && are_words && known.iter().any(|(word, _)| is_word(word))).then(|| parts.join("->"))
}

/// The indices of a term, one for each dimension of the operand. The output's number of dimensions is not known, and `...` is one index.
fn indices(term: &str, operand: Option<&Operand<'_>>) -> Result<Vec<Index>> {
    let said = || term.trim().to_owned();
    let dense: String = term.chars().filter(|letter| !letter.is_whitespace()).collect();
    let (before, after) = dense.split_once("...").map_or((&*dense, None), |(before, after)| (before, Some(after)));
    if after.is_some_and(|after| after.contains("...")) {
        return Err(EinsumError::EllipsisTwice { term: said() });
    }
    letters(term)?;
    let letters = |part: &str| part.chars().map(Index::Letter).collect::<Vec<_>>();
    let (before, after) = (letters(before), after.map(letters));
    let given = before.len() + after.as_ref().map_or(0, Vec::len);
    let ndim = operand.map_or(given + usize::from(after.is_some()), |operand| operand.shape.len());
    if ndim < given || (after.is_none() && ndim != given) {
        let operand = operand.map_or_else(String::new, Operand::to_string);
        return Err(EinsumError::Dimensions { term: said(), indices: given, operand, ndim });
    }
    let leading = (0..ndim - given).rev().map(Index::Leading);
    Ok(before.into_iter().chain(leading).chain(after.into_iter().flatten()).collect())
}

/// The extent of each index, on which all operands agree, except for extents of 1 that are broadcast; messages name the first operand with
/// the index.
fn extents(read: &[Vec<Index>], operands: &[Operand<'_>], broadcasts: bool) -> Result<Vec<(Index, usize)>> {
    let mut known: Vec<(Index, usize, String)> = Vec::new();
    for (term, operand) in read.iter().zip(operands) {
        for (dim, (&index, &second)) in term.iter().zip(operand.shape).enumerate() {
            let second_in = match index {
                Index::Letter(_) => operand.to_string(),
                Index::Leading(_) => format!("dimension {dim} of {operand}"),
            };
            match known.iter_mut().find(|(other, ..)| *other == index) {
                Some((_, first, first_in)) if broadcasts && *first == 1 => (*first, *first_in) = (second, second_in),
                Some((_, first, first_in)) if *first != second && !(broadcasts && second == 1) => {
                    let (index, first, first_in) = (index.to_string(), *first, first_in.clone());
                    return Err(EinsumError::Extents { index, first, first_in, second, second_in });
                }
                Some(_) => {}
                None => known.push((index, second, second_in)),
            }
        }
    }
    Ok(known.into_iter().map(|(index, extent, _)| (index, extent)).collect())
}

/// The einsum with letters that are not `taken` in place of `...`, which the output lacks.
fn without_ellipsis(read: &[Vec<Index>], output: &str, taken: &[char]) -> String {
    let free: Vec<char> = ('a'..='z').chain('A'..='Z').filter(|letter| !taken.contains(letter)).collect();
    // Letters after those of the text come first: `ijk->i` of `i...->i`.
    let last = taken.last().copied().unwrap_or_default();
    let (after, before): (Vec<char>, Vec<char>) = free.into_iter().partition(|letter| *letter > last);
    let leading = leading(read);
    let free: Vec<char> = after.into_iter().chain(before).collect();
    let letter = |index: &Index| match *index {
        Index::Letter(letter) => letter,
        index => leading.iter().position(|other| *other == index).and_then(|nth| free.get(nth)).copied().unwrap_or('?'),
    };
    let terms: Vec<String> = read.iter().map(|term| term.iter().map(letter).collect()).collect();
    format!("{}->{}", terms.join(","), output.trim())
}

/// The dimensions that `...` stands for in the operands, outermost first.
fn leading(read: &[Vec<Index>]) -> Vec<Index> {
    let numbers = read.iter().flatten().filter_map(|index| match index {
        Index::Leading(number) => Some(number + 1),
        Index::Letter(_) => None,
    });
    (0..numbers.max().unwrap_or(0)).rev().map(Index::Leading).collect()
}

/// The indices of an explicit output.
fn written(term: &str, read: &[Vec<Index>], taken: &[char]) -> Result<Vec<Index>> {
    let leading = leading(read);
    let mut found = Vec::new();
    for index in indices(term, None)? {
        match index {
            Index::Leading(_) => found.extend(leading.iter().copied()),
            Index::Letter(_) if !read.iter().flatten().any(|other| *other == index) => {
                let mut there: Vec<char> = read.iter().flatten().filter_map(Index::letter).collect();
                there.sort_unstable();
                there.dedup();
                return Err(EinsumError::OutputAlone { index: index.to_string(), there: joined(there, ", ") });
            }
            Index::Letter(_) if found.contains(&index) => {
                return Err(EinsumError::OutputTwice { index: index.to_string() });
            }
            Index::Letter(_) => found.push(index),
        }
    }
    match leading.iter().all(|index| found.contains(index)) {
        true => Ok(found),
        false => Err(EinsumError::NoEllipsis { letters: without_ellipsis(read, term, taken) }),
    }
}

/// The indices of an implied output: leading dimensions, and the letters that occur once.
fn implied(read: &[Vec<Index>]) -> Vec<Index> {
    let letters: Vec<char> = read.iter().flatten().filter_map(Index::letter).collect();
    let mut once = letters.clone();
    once.retain(|letter| letters.iter().filter(|other| *other == letter).count() == 1);
    once.sort_unstable();
    leading(read).into_iter().chain(once.into_iter().map(Index::Letter)).collect()
}

/// The file's name without folders and extension.
fn stem(source: &str) -> &str {
    std::path::Path::new(source).file_stem().and_then(|stem| stem.to_str()).unwrap_or("")
}

/// The name of a tensor, which is then taken: that of its file, `A` for `data/A.npy`, if it is an identifier and free, and otherwise `T0` by
/// its position among the operands.
fn tensor(taken: &mut Vec<Name>, called: &str, nth: usize) -> Name {
    let called = Name::new(called);
    let is_free = |name: &Name| !taken.contains(name) && name.is_identifier() && is_word(*name);
    let numbered = || (nth..).map(|nth| Name::new(&format!("T{nth}"))).find(is_free);
    let name = Some(called).filter(is_free).or_else(numbered).unwrap_or(called);
    taken.push(name);
    name
}

/// Whether a name is not a keyword of Rust, so that source can be emitted.
fn is_word(name: Name) -> bool {
    syn::parse_str::<syn::Ident>(name.as_str()).is_ok()
}
