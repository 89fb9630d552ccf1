//! The text of distributed types: `[3{x}12, 2{y}12]`.
//!
//! ```text
//! type := "[" (dim ("," dim)*)? "]"
//! dim  := INT | INT "{" (part ("," part)*)? "}" INT         tile, axes minor first, size
//! part := axis (":" INT)? ("/" INT)? ("%" INT)?             extent of the axis; a digit of its coordinate
//! axis := IDENT | "\"" any "\""
//! ```

use crate::{AxisPart, DistDim, DistType, TypeError};
use polyshard_layout::{Mesh, Name, Sharding};

impl DistType {
    /// Reads a type as [`Display`](std::fmt::Display) writes it; `{c:2}` also states the extent of an axis, and
    /// axes may be quoted, as in the literature.
    ///
    /// # Errors
    /// Where the text is not a type, or the rule that the type breaks, with the dimension.
    pub fn parse(text: &str, mesh: &Mesh) -> Result<Self, TypeError> {
        Self::new(mesh, dims(text, mesh)?)
    }

    /// Reads a type whose tiles need not divide the array, as a sharding: the last tiles are short or empty if the tile
    /// is the size over the number of pieces, rounded up.
    ///
    /// ```
    /// use polyshard::planner::DistType;
    /// use polyshard::prelude::*;
    /// let sharding = DistType::parse_uneven("[2{x}5, 3]", &Mesh::new([("x", 4)]))?;
    /// assert_eq!((0..4).map(|x| sharding.local_len(&[x])).collect::<Vec<_>>(), [6, 6, 3, 0]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    pub fn parse_uneven(text: &str, mesh: &Mesh) -> Result<Sharding, TypeError> {
        let mut dims = dims(text, mesh)?;
        let shape: Vec<usize> = dims.iter().map(|dim| dim.size).collect();
        for dim in &mut dims {
            let pieces = dim.parts.iter().map(|part| part.extent).fold(1, usize::saturating_mul);
            if dim.size.div_ceil(pieces.max(1)) == dim.tile {
                dim.size = dim.tile.saturating_mul(pieces);
            }
        }
        Ok(Self::new(mesh, dims)?.cut(&shape))
    }
}

fn dims(text: &str, mesh: &Mesh) -> Result<Vec<DistDim>, TypeError> {
    let mut scanner = Scanner::new(text);
    scanner.expect('[', "a type begins with `[`, as in `[3{x}12, 8]`")?;
    let dims = scanner.list(']', "a `,` or a `]` follows a dimension", |scanner, nth| dim(scanner, nth, mesh))?;
    scanner.end()?;
    Ok(dims)
}

fn dim(scanner: &mut Scanner<'_>, dim: usize, mesh: &Mesh) -> Result<DistDim, TypeError> {
    let tile = scanner.number("a dimension is a size, or a tile, axes and a size, as in `3{x}12`")?;
    if !scanner.takes('{') {
        return Ok(DistDim { tile, parts: Vec::new(), size: tile });
    }
    let parts = scanner.list('}', "a `,` or a `}` follows an axis", |scanner, _| part(scanner, dim, mesh))?;
    let size = scanner.number("the global size follows the axes, as in `3{x}12`")?;
    Ok(DistDim { tile, parts, size })
}

fn part(scanner: &mut Scanner<'_>, dim: usize, mesh: &Mesh) -> Result<AxisPart, TypeError> {
    let name = if scanner.takes('"') {
        let name = scanner.while_true(|c| c != '"').to_owned();
        scanner.expect('"', "the name of an axis ends with `\"`")?;
        name
    } else {
        scanner.name("the axes of a mesh stand here, minor first, as in `3{x,y}12`")?.to_owned()
    };
    let Some(axis) = mesh.position(Name::new(&name)) else {
        return Err(TypeError::UnknownAxis { dim, name, mesh: mesh.to_string() });
    };
    let extent = mesh.as_slice()[axis].extent;
    if scanner.takes(':') {
        let given = scanner.number("the extent of the axis follows the `:`")?;
        if given != extent {
            return Err(TypeError::AxisExtent { dim, axis: mesh.as_slice()[axis].name, extent, given });
        }
    }
    let stride = if scanner.takes('/') { scanner.positive("a divisor follows the `/`, as in `x/2`")? } else { 1 };
    let values = if scanner.takes('%') {
        scanner.positive("a number of values follows the `%`, as in `x%2`")?
    } else {
        extent / stride
    };
    Ok(AxisPart { axis, stride, extent: values })
}

/// Reads a text from left to right, skipping blanks between tokens.
#[doc(hidden)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

#[doc(hidden)]
impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns an error at the current column.
    pub fn error(&self, why: impl Into<String>) -> TypeError {
        let column = self.text[..self.at].chars().count() + 1;
        TypeError::Syntax { text: self.text.to_owned(), column, why: why.into() }
    }

    pub fn takes(&mut self, wanted: char) -> bool {
        self.skip_blanks();
        let there = self.rest().starts_with(wanted);
        if there {
            self.at += wanted.len_utf8();
        }
        there
    }

    pub fn expect(&mut self, wanted: char, why: &str) -> Result<(), TypeError> {
        if self.takes(wanted) { Ok(()) } else { Err(self.error(why)) }
    }

    pub fn name(&mut self, why: &str) -> Result<&'a str, TypeError> {
        self.skip_blanks();
        let name = self.while_true(|c| c.is_alphanumeric() || c == '_');
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            self.at -= name.len();
            return Err(self.error(why));
        }
        Ok(name)
    }

    /// Reads items, each by its number, between commas and up to `end`.
    pub fn list<T>(
        &mut self,
        end: char,
        why: &str,
        mut item: impl FnMut(&mut Self, usize) -> Result<T, TypeError>,
    ) -> Result<Vec<T>, TypeError> {
        let mut items = Vec::new();
        while !self.takes(end) {
            if !items.is_empty() {
                self.expect(',', why)?;
            }
            items.push(item(self, items.len())?);
        }
        Ok(items)
    }

    fn number(&mut self, why: &str) -> Result<usize, TypeError> {
        self.skip_blanks();
        let digits = self.while_true(|c| c.is_ascii_digit());
        digits.parse().map_err(|_| {
            self.at -= digits.len();
            self.error(if digits.is_empty() { why } else { "the number is too large" })
        })
    }

    pub fn end(&mut self) -> Result<(), TypeError> {
        self.skip_blanks();
        if self.rest().is_empty() { Ok(()) } else { Err(self.error("nothing follows the type")) }
    }

    fn while_true(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn positive(&mut self, why: &str) -> Result<usize, TypeError> {
        let number = self.number(why)?;
        if number == 0 { Err(self.error("0 divides nothing")) } else { Ok(number) }
    }

    fn skip_blanks(&mut self) {
        self.while_true(char::is_whitespace);
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh() -> Mesh {
        Mesh::new([("x", 4), ("y", 6)])
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let said = match DistType::parse(text, &mesh()) {
            Ok(parsed) => parsed.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn types_are_read() {
        check("[3{x}12, 2{y}12]", "[3{x}12, 2{y}12]");
        check(" [ 3 { \"x\" : 4 } 12 ,2{y}12 ] ", "[3{x}12, 2{y}12]");
        check("[8{}8, 7]", "[8, 7]");
        check("[]", "[]");
        check("[1{y%3,x}12, 6{y/3}12]", "[1{y%3,x}12, 6{y/3}12]");
        check("[2{x%2,x/2}8]", "[2{x}8]");
        check("[0{x}0]", "[0{x}0]");
    }

    #[test]
    fn broken_rules_are_said_with_the_dimension() {
        check("[12, 3{z}12]", "dimension 1: no axis `z`; the mesh is (x: 4, y: 6)");
        check("[3{x}12, 3{x}12]", "axis `x` partitions dimensions 0 and 1; an axis partitions one dimension, once");
        check("[1{x,x}16]", "axis `x` partitions dimension 0 twice; an axis partitions one dimension, once");
        check("[1{y%3,y/2}9]", "axis `y` partitions dimension 0 twice; an axis partitions one dimension, once");
        check("[12, 4{x}12]", "dimension 1: tiles of 4 in 4 pieces make 16, not 12; write tiles of 3");
        check("[4{x}13]", "dimension 0: tiles of 4 in 4 pieces make 16, not 13");
        check("[3{x:5}15]", "dimension 0: axis `x` has extent 4 in the mesh, not 5");
        check("[3{x/3}15]", "dimension 0: `x/3%1` does not fit axis `x`: divisor and extent of a part must divide 4");
        let long =
            "dimension 0: `x/4294967296%4294967296` does not fit axis `x`: divisor and extent of a part must divide 4";
        check("[1{x/4294967296%4294967296}4]", long);
        // A third of 2^64, rounded up: times 3 it wraps around to 2 in 64 bits.
        let why =
            "dimension 0: `x/6148914691236517206%3` does not fit axis `x`: divisor and extent of a part must divide 4";
        check("[1{x/6148914691236517206%3}3]", why);
        check("[4294967296{}4294967296, 4294967296]", "the array has 2^63 elements or more");
    }

    #[test]
    fn what_is_not_a_type_is_pointed_at() {
        let dim = "a dimension is a size, or a tile, axes and a size, as in `3{x}12`";
        check("[3{x}12, ]", &format!("cannot read `[3{{x}}12, ]` at column 10: {dim}"));
        check("3{x}12", "cannot read `3{x}12` at column 1: a type begins with `[`, as in `[3{x}12, 8]`");
        check("[3{x}]", "cannot read `[3{x}]` at column 6: the global size follows the axes, as in `3{x}12`");
        check("[8] 9", "cannot read `[8] 9` at column 5: nothing follows the type");
        check("[99999999999999999999]", "cannot read `[99999999999999999999]` at column 2: the number is too large");
        check("[3{x/0}12]", "cannot read `[3{x/0}12]` at column 7: 0 divides nothing");
        check("[3{x 12", "cannot read `[3{x 12` at column 6: a `,` or a `}` follows an axis");
    }
}
