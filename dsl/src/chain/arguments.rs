//! Arguments of schedule steps: names, lists of names, numbers and meshes.
//!
//! Each function parses one argument and leaves the comma after it to the caller. Numbers are expressions of literals, `2 * 64`.

use crate::constant::evaluate;
use crate::errors::error;
use crate::form::Form;
use crate::name::name;
use polyshard_layout::{Mesh, Name};
use proc_macro2::TokenStream;
use syn::parse::{ParseBuffer, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, Result, Token, bracketed, parenthesized};

/// Parses the contents of parentheses.
pub(crate) fn inside<'a>(input: ParseStream<'a>) -> Result<ParseBuffer<'a>> {
    let content;
    parenthesized!(content in input);
    Ok(content)
}

/// Parses all that stands in parentheses.
pub(crate) fn enclosed<T>(input: ParseStream, parse: impl FnOnce(ParseStream) -> Result<T>) -> Result<T> {
    let content = inside(input)?;
    let parsed = parse(&content)?;
    end(&content)?;
    Ok(parsed)
}

/// Reads a name.
pub(crate) fn ident(input: ParseStream) -> Result<Name> {
    Ok(name(&input.parse::<Ident>()?))
}

/// Reads a name and the comma after it.
pub(crate) fn first(input: ParseStream) -> Result<Name> {
    let name = ident(input)?;
    comma(input)?;
    Ok(name)
}

/// Parses the items that follow, each after a comma.
pub(crate) fn rest<T>(input: ParseStream, parse: impl Fn(ParseStream) -> Result<T>) -> Result<Vec<T>> {
    let mut items = Vec::new();
    while input.peek(Token![,]) {
        comma(input)?;
        if !input.is_empty() {
            items.push(parse(input)?);
        }
    }
    Ok(items)
}

/// Reads `[mo, no]`.
pub(crate) fn list(input: ParseStream) -> Result<Vec<Name>> {
    let content;
    bracketed!(content in input);
    names(&content)
}

/// Reads `x, y` to the end.
pub(crate) fn names(input: ParseStream) -> Result<Vec<Name>> {
    let names = Punctuated::<Ident, Token![,]>::parse_terminated(input)?;
    Ok(names.iter().map(name).collect())
}

/// Parses a number that is not negative.
pub(crate) fn size(input: ParseStream, form: Form) -> Result<usize> {
    let expr: Expr = input.parse()?;
    let value = constant(&expr, form)?;
    usize::try_from(value).map_err(|_| {
        let message = if value < 0 { format!("{value} is negative") } else { format!("{value} does not fit 64 bits") };
        error(&expr, message, "write a number of at least 0")
    })
}

/// Reads a number.
pub(crate) fn integer(input: ParseStream, form: Form) -> Result<i64> {
    let expr: Expr = input.parse()?;
    small(&expr, constant(&expr, form)?)
}

/// Returns the number if it can be a coordinate, or a factor of one: products of them must not overflow.
pub(crate) fn small(expr: &Expr, value: i128) -> Result<i64> {
    let number = i32::try_from(value).map(i64::from);
    number.map_err(|_| error(expr, format!("{value} does not fit 32 bits"), "use smaller numbers"))
}

/// Reads a comma between two arguments.
pub(crate) fn comma(input: ParseStream) -> Result<()> {
    input.parse::<Token![,]>().map(drop)
}

/// Reads the end, after an optional comma.
pub(crate) fn end(input: ParseStream) -> Result<()> {
    input.parse::<Option<Token![,]>>()?;
    if input.is_empty() {
        return Ok(());
    }
    Err(syn::Error::new_spanned(input.parse::<TokenStream>()?, "unexpected argument"))
}

/// Reads `x: 2, y: 2` to the end.
pub(crate) fn mesh(input: ParseStream, form: Form) -> Result<Mesh> {
    let mut axes: Vec<(Name, usize)> = Vec::new();
    let mut ranks: usize = 1;
    while !input.is_empty() {
        let axis: Ident = input.parse()?;
        if !input.peek(Token![:]) {
            return Err(error(&axis, format!("axis `{axis}` has no extent"), "write the mesh as `mesh(x: 2, y: 2)`"));
        }
        input.parse::<Token![:]>()?;
        let at = input.fork().parse::<Expr>()?;
        let extent = size(input, form)?;
        if axes.iter().any(|other| other.0 == name(&axis)) {
            return Err(error(&axis, format!("two axes are named `{axis}`"), "give each axis a name of its own"));
        }
        if extent == 0 {
            return Err(error(&at, format!("axis `{axis}` has extent 0"), "an axis has at least one coordinate"));
        }
        let product = ranks.checked_mul(extent).filter(|&ranks| i32::try_from(ranks).is_ok());
        ranks = product.ok_or_else(|| error(&at, "the mesh has more than 2^31 ranks", "use a smaller mesh"))?;
        axes.push((name(&axis), extent));
        if !input.is_empty() {
            comma(input)?;
        }
    }
    Ok(Mesh::new(axes))
}

pub(crate) fn constant(expr: &Expr, form: Form) -> Result<i128> {
    evaluate(expr).ok_or_else(|| form.not_a_number(expr))
}
