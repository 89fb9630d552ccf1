//! Statements over tiles, read from text: what a leaf with a name computes.
//!
//! ```text
//! statement := tile op value                              op: += *= max= min=
//! tile      := NAME | NAME "[" (NAME ("," NAME)*)? "]"    a tile has a dimension per index
//! value     := sum | "if" sum compare sum "{" value "}" "else" (value | "{" value "}")
//! sum       := product (("+" | "-") product)*
//! product   := factor (("*" | "/") factor)*
//! factor    := NUMBER | tile | "-" factor | "(" value ")" | function "(" value ("," value)? ")"
//! ```

use super::{Comparison, Expression, Function};
use crate::{Element, Error, LeafError, ReduceOp, Result};

/// A tile by name, with the index of each of its dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) name: String,
    pub(super) indices: Vec<String>,
}

/// `C[m, n] += A[m, k] * B[k, n]`.
#[derive(Clone, Debug)]
pub(super) struct Statement<T> {
    pub(super) text: String,
    pub(super) target: Tile,
    op: ReduceOp,
    /// In the order in which the value names them first, which is how it numbers them.
    pub(super) operands: Vec<Tile>,
    value: Expression<T>,
}

impl<T: Element> Statement<T> {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { text, at: 0, operands: Vec::new(), depth: 0 };
        let target = parser.tile("a statement begins with the output's tile, as in `C[m, n] += A[m, k] * B[k, n]`")?;
        let op = parser.op()?;
        parser.blanks();
        let start = parser.at;
        let value = parser.value()?;
        parser.blanks();
        if !parser.rest().is_empty() {
            return Err(parser.error("an operator or the end of the statement is expected here"));
        }
        if parser.operands.iter().any(|operand| operand.name == target.name) {
            parser.at = start;
            return Err(parser.error(format!(
                "`{}` is the output, which a leaf combines into; give the operand another name",
                target.name
            )));
        }
        Ok(Self { text: text.trim().to_owned(), target, op, operands: parser.operands, value })
    }

    /// For each index of this statement, in the order of its tiles, the one of `other` that it stands for, if both
    /// compute the same. The names of tiles and indices do not count, nor does the order of a tile's dimensions.
    pub(super) fn renamed<'a>(&'a self, other: &'a Self) -> Option<Vec<(&'a str, &'a str)>> {
        if self.op != other.op || self.value != other.value {
            return None;
        }
        let mut free = other.indices();
        let mut renamed = Vec::new();
        for index in self.indices() {
            let place = free.iter().position(|candidate| other.tiles_of(candidate) == self.tiles_of(index))?;
            renamed.push((index, free.remove(place)));
        }
        free.is_empty().then_some(renamed)
    }

    fn tiles(&self) -> impl Iterator<Item = &Tile> {
        [&self.target].into_iter().chain(&self.operands)
    }

    /// All indices, each once.
    fn indices(&self) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        for index in self.tiles().flat_map(|tile| &tile.indices) {
            if !found.contains(&index.as_str()) {
                found.push(index);
            }
        }
        found
    }

    /// Which tiles the index moves.
    fn tiles_of(&self, index: &str) -> Vec<bool> {
        self.tiles().map(|tile| tile.indices.iter().any(|other| other == index)).collect()
    }
}

struct Parser<'a> {
    text: &'a str,
    /// In bytes.
    at: usize,
    operands: Vec<Tile>,
    /// How many values and factors this one is inside of.
    depth: usize,
}

/// Deeper values would need a larger stack than ranks have.
const MAX_DEPTH: usize = 500;

impl<'a> Parser<'a> {
    /// What `read` reads, one deeper.
    fn inside<R>(&mut self, read: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("the value is nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    fn op(&mut self) -> Result<ReduceOp> {
        let ops = [("+=", ReduceOp::Sum), ("*=", ReduceOp::Product), ("max=", ReduceOp::Max), ("min=", ReduceOp::Min)];
        match ops.into_iter().find(|(text, _)| self.takes(text)) {
            Some((_, op)) => Ok(op),
            None => {
                Err(self
                    .error("`+=`, `*=`, `max=` or `min=` follows the output: a leaf combines into what its tile holds"))
            }
        }
    }

    fn value<T: Element>(&mut self) -> Result<Expression<T>> {
        if !self.keyword("if") {
            return self.sum();
        }
        let left = self.sum()?;
        let compare = self.comparison()?;
        let right = self.sum()?;
        let then = self.block()?;
        if !self.keyword("else") {
            return Err(self.error("`else { .. }` follows: a value has to be chosen in any case"));
        }
        let otherwise = if self.next_is("{") { self.block()? } else { self.inside(Self::value)? };
        Ok(Expression::If(compare, Box::new([left, right, then, otherwise])))
    }

    fn block<T: Element>(&mut self) -> Result<Expression<T>> {
        self.expect("{")?;
        let value = self.inside(Self::value)?;
        self.expect("}")?;
        Ok(value)
    }

    fn comparison(&mut self) -> Result<Comparison> {
        let all = [
            ("<=", Comparison::LessEqual),
            (">=", Comparison::GreaterEqual),
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = all.into_iter().find(|(text, _)| self.takes(text));
        found.map(|(_, compare)| compare).ok_or_else(|| self.error("a comparison is expected here"))
    }

    fn sum<T: Element>(&mut self) -> Result<Expression<T>> {
        let mut sum = self.product()?;
        loop {
            sum = if self.takes("+") {
                Expression::Add(Box::new(sum), Box::new(self.product()?))
            } else if self.takes("-") {
                Expression::Sub(Box::new(sum), Box::new(self.product()?))
            } else {
                return Ok(sum);
            };
        }
    }

    fn product<T: Element>(&mut self) -> Result<Expression<T>> {
        let mut product = self.factor()?;
        loop {
            product = if self.takes("*") {
                Expression::Mul(Box::new(product), Box::new(self.factor()?))
            } else if self.takes("/") {
                Expression::Div(Box::new(product), Box::new(self.factor()?))
            } else {
                return Ok(product);
            };
        }
    }

    fn factor<T: Element>(&mut self) -> Result<Expression<T>> {
        self.blanks();
        let start = self.at;
        let negative = self.takes("-");
        if self.next(|c| c.is_ascii_digit()) {
            return self.number(start);
        }
        if negative {
            return Ok(Expression::Neg(Box::new(self.inside(Self::factor)?)));
        }
        if self.takes("(") {
            let value = self.inside(Self::value)?;
            self.expect(")")?;
            return Ok(value);
        }
        let tile = self.tile("a tile, a scalar, a number or a function is expected here")?;
        if tile.indices.is_empty() && self.next_is("(") {
            return self.call(&tile.name, start);
        }
        if let Some(known) = self.operands.iter().position(|operand| operand.name == tile.name) {
            if self.operands[known] == tile {
                return Ok(Expression::Operand(known));
            }
            self.at = start;
            let indices = self.operands[known].indices.join(", ");
            let name = tile.name;
            return Err(self.error(format!("`{name}` is the tile `{name}[{indices}]`; give another tile another name")));
        }
        self.operands.push(tile);
        Ok(Expression::Operand(self.operands.len() - 1))
    }

    fn call<T: Element>(&mut self, function: &str, start: usize) -> Result<Expression<T>> {
        self.expect("(")?;
        let first = Box::new(self.inside(Self::value)?);
        let both: Option<fn(_, _) -> _> = match function {
            "max" => Some(Expression::Max),
            "min" => Some(Expression::Min),
            "pow" => Some(Expression::Pow),
            _ => None,
        };
        let called = if let Some(both) = both {
            self.expect(",")?;
            both(first, Box::new(self.inside(Self::value)?))
        } else if let Some(function) = Function::ALL.into_iter().find(|known| known.name() == function) {
            Expression::Call(function, first)
        } else {
            self.at = start;
            let all = Function::ALL.map(Function::name).join(", ");
            return Err(self.error(format!("no function `{function}`; the functions are {all}, max, min and pow")));
        };
        self.expect(")")?;
        Ok(called)
    }

    /// A number that begins at `start`, with its sign.
    fn number<T: Element>(&mut self, start: usize) -> Result<Expression<T>> {
        self.while_true(|c| c.is_ascii_digit() || c == '.');
        if self.rest().starts_with(['e', 'E']) {
            self.at += 1;
            if self.rest().starts_with(['+', '-']) {
                self.at += 1;
            }
            self.while_true(|c| c.is_ascii_digit());
        }
        let text: String = self.text[start..self.at].split_whitespace().collect();
        let value = match text.parse::<i64>() {
            Ok(number) => T::from(number),
            Err(_) => text.parse::<f64>().ok().and_then(|number| {
                let float = T::DTYPE.is_float();
                float.then(|| T::from(number)).flatten()
            }),
        };
        value.map(Expression::Const).ok_or_else(|| {
            self.at = start;
            self.error(format!("`{text}` is not a number of type {}", T::DTYPE.name()))
        })
    }

    fn tile(&mut self, why: &str) -> Result<Tile> {
        let name = self.name(why)?.to_owned();
        let mut indices: Vec<String> = Vec::new();
        if self.takes("[") {
            while !self.takes("]") {
                if !indices.is_empty() && !self.takes(",") {
                    return Err(self.error("`,` or `]` is expected here: a tile has a dimension per index"));
                }
                self.blanks();
                let start = self.at;
                let index = self.name("an index is expected here: a tile has a dimension per index")?;
                if indices.iter().any(|other| other == index) {
                    self.at = start;
                    return Err(self.error(format!("`{index}` indexes `{name}` twice; list each index once")));
                }
                indices.push(index.to_owned());
            }
        }
        Ok(Tile { name, indices })
    }

    fn name(&mut self, why: &str) -> Result<&'a str> {
        self.blanks();
        let start = self.at;
        let name = self.while_true(|c| c.is_alphanumeric() || c == '_');
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            self.at = start;
            return Err(self.error(why));
        }
        Ok(name)
    }

    fn keyword(&mut self, word: &str) -> bool {
        self.blanks();
        let start = self.at;
        if self.while_true(|c| c.is_alphanumeric() || c == '_') == word && !self.next_is("[") {
            return true;
        }
        self.at = start;
        false
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let there = self.next_is(wanted);
        if there {
            self.at += wanted.len();
        }
        there
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        if self.takes(wanted) { Ok(()) } else { Err(self.error(format!("`{wanted}` is expected here"))) }
    }

    fn next_is(&mut self, wanted: &str) -> bool {
        self.blanks();
        self.rest().starts_with(wanted)
    }

    fn next(&mut self, is: impl Fn(char) -> bool) -> bool {
        self.blanks();
        self.rest().starts_with(is)
    }

    fn blanks(&mut self) {
        self.while_true(char::is_whitespace);
    }

    fn while_true(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, why: impl Into<Box<str>>) -> Error {
        let column = self.text[..self.at].chars().count() + 1;
        LeafError::Syntax { statement: self.text.into(), column, why: why.into() }.into()
    }
}

#[cfg(test)]
mod tests;
