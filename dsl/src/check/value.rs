//! Values: literals of the element type, scalars captured by name, functions that exist.
//!
//! A name that is neither tensor nor index is a scalar; the surrounding Rust code or `--let` defines its value. An index may be used in a
//! value as a number, `(i + 1) * A[i]`. If the element type is a name of the surrounding code, that code decides whether literals fit and
//! whether `exp` exists.

use super::access::Site;
use crate::checked::Element;
use crate::errors::Errors;
use crate::syntax::Block;
use crate::value::{BinaryOp, FUNCTIONS, Value as Syntax, instead};
use polyshard_layout::{are, counted, did_you_mean};
use polyshard_program::{Affine, Conditional, Function, Number, Value};
use syn::{Ident, Lit};

/// Returns the value, and adds the names of its scalars to `scalars`.
pub(crate) fn check(
    block: &Block,
    element: Option<&Element>,
    sites: &[&Site],
    scalars: &mut Vec<Ident>,
    errors: &mut Errors,
) -> Option<Value> {
    Context { block, element, sites, scalars, errors }.value(&block.statement.value)
}

/// The smallest float that is too large for every integer type.
const TOO_LARGE: f64 = (1u64 << 63) as f64;

/// What names mean, and the results: captured scalars and mistakes.
struct Context<'a> {
    block: &'a Block,
    element: Option<&'a Element>,
    sites: &'a [&'a Site<'a>],
    scalars: &'a mut Vec<Ident>,
    errors: &'a mut Errors,
}

impl Context<'_> {
    /// Both sides of an operator are visited, even if the first has a mistake.
    fn value(&mut self, value: &Syntax) -> Option<Value> {
        match value {
            Syntax::Access(access) => {
                let site = self.sites.iter().find(|site| std::ptr::eq(site.syntax, access))?;
                let read = site.access.clone();
                Some(Value::Access(match &access.outside {
                    None => read,
                    Some(outside) => read.or_else(self.value(outside)?),
                }))
            }
            Syntax::Literal(literal) => self.literal(literal, false),
            Syntax::Name(name) => self.scalar(name),
            Syntax::Neg(inner) => match &**inner {
                Syntax::Literal(literal) => self.literal(literal, true),
                inner => Some(Value::Neg(Box::new(self.value(inner)?))),
            },
            Syntax::Binary(a, op, b) => {
                let (left, right) = (self.value(a), self.value(b));
                if let (BinaryOp::Div, Some(value)) = (op, &right) {
                    self.divisor(b, value);
                }
                let (left, right) = (Box::new(left?), Box::new(right?));
                Some(match op {
                    BinaryOp::Add => Value::Add(left, right),
                    BinaryOp::Sub => Value::Sub(left, right),
                    BinaryOp::Mul => Value::Mul(left, right),
                    BinaryOp::Div => Value::Div(left, right),
                })
            }
            Syntax::Call(name, arguments) => self.call(name, arguments),
            Syntax::If(choice) => {
                let parts = [&choice.left, &choice.right, &choice.then, &choice.otherwise];
                let [left, right, then, otherwise] = parts.map(|part| self.value(part));
                let (left, right, then, otherwise) = (left?, right?, then?, otherwise?);
                Some(Value::If(Box::new(Conditional { compare: choice.compare, left, right, then, otherwise })))
            }
        }
    }

    /// A call of one of the [`FUNCTIONS`], with the right number of arguments, and on floats if it is a function of floats.
    fn call(&mut self, name: &Ident, arguments: &[Syntax]) -> Option<Value> {
        if super::tensors(self.block).any(|tensor| tensor.name == *name) {
            let help = format!("an access is written with brackets: `{name}[..]`");
            self.errors.push(name, format!("the tensor `{name}` is called like a function"), help);
            return None;
        }
        let values: Vec<_> = arguments.iter().map(|argument| self.value(argument)).collect();
        let text = name.to_string();
        let function = Function::ALL.into_iter().find(|function| function.name() == text);
        let takes = match &*text {
            "max" | "min" | "pow" => 2,
            _ if function.is_some() => 1,
            _ => {
                let help = match instead(&text) {
                    Some(instead) => format!("write {instead}"),
                    None => {
                        let meant = did_you_mean(&text, FUNCTIONS.split(['`', ',', ' ']).filter(|name| name.len() > 2));
                        format!(
                            "{meant}the functions are {FUNCTIONS}; bind values that depend on no index first, `let alpha = {name}(..);`, and \
                             write `alpha`"
                        )
                    }
                };
                self.errors.push(name, format!("no function `{name}`"), help);
                return None;
            }
        };
        if values.len() != takes {
            let (takes, given) = (counted(takes, "argument"), values.len());
            let arguments = if function.is_some() { "a" } else { "a, b" };
            let help = format!("write `{text}({arguments})`");
            self.errors.push(name, format!("`{name}` takes {takes}, but {given} {} given", are(given)), help);
            return None;
        }
        let known = self.element.and_then(|element| element.known);
        let is_of_floats = function.map_or(text == "pow", Function::is_of_floats);
        if let Some(dtype) = known
            && is_of_floats
            && !dtype.is_float()
        {
            let message = format!("`{name}` is a function of floats, but the elements are `{dtype}`");
            self.errors.push(name, message, "let the tensors hold `f32` or `f64`");
            return None;
        }
        let mut values = values.into_iter().collect::<Option<Vec<_>>>()?.into_iter().map(Box::new);
        let first = values.next()?;
        match function {
            Some(function) => Some(Value::Call(function, first)),
            None => {
                let both = match &*text {
                    "max" => Value::Max,
                    "min" => Value::Min,
                    _ => Value::Pow,
                };
                Some(both(first, values.next()?))
            }
        }
    }

    /// A name without brackets or parentheses.
    fn scalar(&mut self, name: &Ident) -> Option<Value> {
        if let Some(tensor) = super::tensors(self.block).find(|tensor| tensor.name == *name) {
            let indices = vec![".."; tensor.extents.len()].join(", ");
            let help = format!("write `{name}[{indices}]`");
            self.errors.push(name, format!("the tensor `{name}` is used without indices"), help);
        } else if super::is_index(self.block, self.sites, name) {
            return Some(Value::Index(Affine::new([(crate::name::name(name), 1)], 0)));
        } else if !self.scalars.contains(name) {
            self.scalars.push(name.clone());
        }
        Some(Value::Scalar(crate::name::name(name)))
    }

    /// Rejects division of integers by a literal 0; with floats it gives infinities, and values of scalars are not known yet.
    fn divisor(&mut self, divisor: &Syntax, value: &Value) {
        let integers = self.element.and_then(|element| element.known).is_some_and(|dtype| !dtype.is_float());
        if integers && value.integer(&[]) == Some(0) {
            let at = literal_of(divisor).map_or_else(|| self.block.statement.tokens.clone(), |at| quote::quote!(#at));
            self.errors.push(at, "division by 0 in a kernel of integers", "divide by another number");
        }
    }

    /// A number of the element type, with no other type as its suffix. If the type is not known yet, integers must fit in 64 bits.
    fn literal(&mut self, literal: &Lit, negative: bool) -> Option<Value> {
        let known = self.element.and_then(|element| element.known);
        let suffix = match literal {
            Lit::Int(number) => number.suffix(),
            Lit::Float(number) => number.suffix(),
            _ => "",
        };
        if let (false, Some(dtype)) = (suffix.is_empty(), known)
            && suffix != dtype.name()
        {
            let help = format!("leave out `{suffix}`; numbers in a kernel take its element type");
            self.errors.push(literal, format!("`{literal}` is not of type `{dtype}`", literal = text(literal)), help);
            return None;
        }
        let is_of_integers = known.is_some_and(|dtype| !dtype.is_float());
        let fits = |number: &Number| known.is_none_or(|dtype| number.fits(dtype));
        let integer = |value: i128| i64::try_from(value).ok().map(Number::Int).filter(fits);
        let number = match literal {
            Lit::Int(number) => number.base10_parse::<i128>().ok().and_then(|value| match integer(value) {
                Some(number) => Some((number, negative)),
                // The smallest integer has no positive counterpart, so its sign belongs to it.
                None => integer(value.checked_neg().filter(|_| negative)?).map(|number| (number, false)),
            }),
            // The value of a scalar, which the user may have written as an integer without an exponent.
            Lit::Float(number)
                if is_of_integers && number.base10_parse::<f64>().is_ok_and(|value| value >= TOO_LARGE) =>
            {
                None
            }
            Lit::Float(_) if is_of_integers => {
                let message = format!("`{}` is a float in a kernel of integers", text(literal));
                self.errors.push(literal, message, "write an integer, or let the tensors hold `f32` or `f64`");
                return None;
            }
            Lit::Float(number) => {
                let value = number.base10_parse().ok().filter(|value: &f64| value.is_finite());
                value.map(Number::Float).filter(fits).map(|number| (number, negative))
            }
            _ => {
                let help = "a number in a kernel is an integer or a float";
                self.errors.push(literal, format!("`{}` is not a number", text(literal)), help);
                return None;
            }
        };
        let Some((number, negative)) = number else {
            let dtype = known.map_or("64 bits".into(), |dtype| format!("`{dtype}`"));
            self.errors.push(literal, format!("`{}` does not fit {dtype}", text(literal)), "write a smaller number");
            return None;
        };
        let value = Value::Literal(number);
        Some(if negative { Value::Neg(Box::new(value)) } else { value })
    }
}

fn text(literal: &Lit) -> String {
    quote::quote!(#literal).to_string()
}

fn literal_of(value: &Syntax) -> Option<&Lit> {
    match value {
        Syntax::Literal(literal) => Some(literal),
        Syntax::Neg(value) => literal_of(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::check_kernels as check;
    use expect_test::expect;

    #[test]
    fn values_are_of_one_type_and_keep_their_meaning() {
        check(expect![[r#"
            fn f(A: [f64; n], B: [f64; n]) -> C: [f64; n] { C[i] = alpha * A[i] - (B[i] + 2) * -beta / 4.5 - -alpha }
                C[i] = alpha * A[i] - (B[i] + 2) * (-beta) / 4.5 - -alpha
                scalars: alpha, beta
            fn f(A: [i32; n]) -> C: [i32; n] { C[i] max= A[i] - -2147483648 }
                C[i] max= A[i] - -2147483648
            fn f(A: [i64; n]) -> C: [i64; n] { C[i] = 1.5 * A[i] + 2e3 }
                error on `1.5`: `1.5` is a float in a kernel of integers
                  help: write an integer, or let the tensors hold `f32` or `f64`
                error on `2e3`: `2e3` is a float in a kernel of integers
                  help: write an integer, or let the tensors hold `f32` or `f64`
            fn f(A: [i32; n]) -> C: [i32; n] { C[i] = 2147483648 * A[i] + 1i64 - 99999999999999999999999999999999999999999 }
                error on `2147483648`: `2147483648` does not fit `i32`
                  help: write a smaller number
                error on `1i64`: `1i64` is not of type `i32`
                  help: leave out `i64`; numbers in a kernel take its element type
                error on `99999999999999999999999999999999999999999`: `99999999999999999999999999999999999999999` does not fit `i32`
                  help: write a smaller number
            fn f(A: [f32; n]) -> C: [f32; n] { C[i] = 1e39 * A[i] + 1f64 + 2f32 }
                error on `1e39`: `1e39` does not fit `f32`
                  help: write a smaller number
                error on `1f64`: `1f64` is not of type `f32`
                  help: leave out `f64`; numbers in a kernel take its element type
            fn f(A: [f32; n]) -> C: [f32; n] { C[i] = "one" * A[i] + true + 'c' }
                error on `"one"`: `"one"` is not a number
                  help: a number in a kernel is an integer or a float
                error on `true`: `true` is not a number
                  help: a number in a kernel is an integer or a float
                error on `'c'`: `'c'` is not a number
                  help: a number in a kernel is an integer or a float
        "#]]);
    }

    #[test]
    fn tensors_are_divided_and_have_indices() {
        check(expect![[r#"
            fn f(A: [f32; n], B: [f32; n]) -> C: [f32; n] { C[i] = A[i] / (2 * B[i]) }
                C[i] = A[i] / (2 * B[i])
            fn f(A: [i32; n]) -> C: [i32; n] { C[i] = A[i] / 0 + A[i] / -(0) + A[i] / (2 - 2) }
                error on `0`: division by 0 in a kernel of integers
                  help: divide by another number
                error on `0`: division by 0 in a kernel of integers
                  help: divide by another number
                error on `C[i] = A[i] / 0 + A[i] / -(0) + A[i] / (2 - 2)`: division by 0 in a kernel of integers
                  help: divide by another number
            fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] / 0 }
                C[i] = A[i] / 0
            fn f(A: [f32; n, n], s: f32) -> C: [f32; n, n] { C[i, j] = s * A[i, j] + A }
                error on `A`: the tensor `A` is used without indices
                  help: write `A[.., ..]`
            fn f(A: [f32; n]) -> C: [f32; n] { C[i] = (i + 1) * A[i] + if k > 2 * i { alpha } else { -k } for k in 0..3 }
                C[i] = (i + 1) * A[i] + (if k > 2 * i { alpha } else { -k })
                scalars: alpha
                ranges: k in 0..3
        "#]]);
    }
}
