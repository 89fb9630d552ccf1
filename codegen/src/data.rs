//! Kernels as expressions that build their data: the expansion of `kernel!`, and the statement that emitted source
//! requires of a registered leaf.
//!
//! ```text
//! A[m, k]              Access::plain("A", &["m", "k"])
//! A[2*m + 1, k % n]    Access::new(Name::new("A"), ::std::vec![
//!                          Affine::new([(Name::new("m"), 2i64)], 1i64),
//!                          Affine::new([(Name::new("k"), 1i64)], 0i64).modulo(Modulus::Captured(Name::new("n"))),
//!                      ])
//! alpha * A[m]         Value::Mul(Box::new(Value::Scalar(Name::new("alpha"))), Box::new(Value::Access(..)))
//! ```

use polyshard_layout::Name;
use polyshard_program::{Access, Affine, Assign, Conditional, Field, Modulus, Number, Running, RunningForm, Value};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

/// Writes expressions that name the types of `polyshard_program` through a path.
///
/// A macro expands where any name may be shadowed, so it uses absolute paths, also for `Box`; emitted source imports
/// the names that it uses, and needs no path.
pub struct Data {
    /// The prefix of a type's name: empty, or `path ::`.
    pub path: TokenStream,
    /// The type `Box`.
    pub boxed: TokenStream,
}

impl Data {
    /// Returns the expression for a name.
    #[must_use]
    pub fn name(&self, name: Name) -> TokenStream {
        let (p, text) = (&self.path, name.as_str());
        quote!(#p Name::new(#text))
    }

    /// Returns the expression for an access.
    #[must_use]
    pub fn access(&self, Access { tensor, index, outside }: &Access) -> TokenStream {
        let p = &self.path;
        let outside = outside.as_ref().map(|outside| {
            let outside = self.value(outside);
            quote!(.or_else(#outside))
        });
        let plain: Option<Vec<_>> = index.iter().map(|index| Some(index.as_variable()?.as_str())).collect();
        match plain {
            Some(names) => {
                let tensor = tensor.as_str();
                quote!(#p Access::plain(#tensor, &[#(#names),*]) #outside)
            }
            None => {
                let (tensor, index) = (self.name(*tensor), index.iter().map(|index| self.affine(index)));
                quote!(#p Access::new(#tensor, ::std::vec![#(#index),*]) #outside)
            }
        }
    }

    /// `Affine::new([(Name::new("m"), 2i64)], 1i64)`, followed by `.modulo(..)` if the index wraps.
    fn affine(&self, Affine { terms, constant, modulus }: &Affine) -> TokenStream {
        let p = &self.path;
        let terms = terms.iter().map(|&(name, factor)| {
            let name = self.name(name);
            quote!((#name, #factor))
        });
        let modulo = modulus.map(|modulus| match modulus {
            Modulus::Number(number) => quote!(.modulo(#p Modulus::Number(#number))),
            Modulus::Captured(name) => {
                let name = self.name(name);
                quote!(.modulo(#p Modulus::Captured(#name)))
            }
        });
        quote!(#p Affine::new([#(#terms),*], #constant) #modulo)
    }

    /// Returns the expression for a statement's assignment operator.
    #[must_use]
    pub fn assign(&self, assign: Assign) -> TokenStream {
        let p = &self.path;
        if let Assign::Running(running) = assign {
            let running = self.running(running);
            return quote!(#p Assign::Running(#running));
        }
        // Variants print as they are named.
        let variant = format_ident!("{assign:?}");
        quote!(#p Assign::#variant)
    }

    /// The expression for a running reduction.
    fn running(&self, running: Running) -> TokenStream {
        let p = &self.path;
        let RunningForm { name, fields, lets, means, row, size } = running.form();
        let fields = fields.iter().map(|Field { name, initial, combined }| {
            let (name, initial, combined) = (self.name(*name), self.value(initial), self.value(combined));
            quote!(#p Field { name: #name, initial: #initial, combined: #combined })
        });
        let lets = lets.iter().map(|(name, value)| {
            let (name, value) = (self.name(*name), self.value(value));
            quote!((#name, #value))
        });
        let (name, means) = (self.name(*name), means.iter().map(|value| self.value(value)));
        quote! {
            #p Running::new(#p RunningForm {
                name: #name,
                fields: ::std::vec![#(#fields),*],
                lets: ::std::vec![#(#lets),*],
                means: ::std::vec![#(#means),*],
                row: #row,
                size: #size,
            }).expect("it was proved when the kernel was compiled")
        }
    }

    /// Returns the expression for a value.
    #[must_use]
    pub fn value(&self, tree: &Value) -> TokenStream {
        let (p, b) = (&self.path, &self.boxed);
        let boxed = |tree: &Value| {
            let tree = self.value(tree);
            quote!(#b::new(#tree))
        };
        let pair = |a: &Value, b: &Value| {
            let (a, b) = (boxed(a), boxed(b));
            quote!((#a, #b))
        };
        let (variant, parts) = match tree {
            Value::Access(read) => {
                let read = self.access(read);
                ("Access", quote!((#read)))
            }
            Value::Index(index) => {
                let index = self.affine(index);
                ("Index", quote!((#index)))
            }
            Value::Literal(Number::Int(number)) => ("Literal", quote!((#p Number::Int(#number)))),
            Value::Literal(Number::Float(number)) => ("Literal", quote!((#p Number::Float(#number)))),
            Value::Scalar(name) => {
                let name = self.name(*name);
                ("Scalar", quote!((#name)))
            }
            Value::Neg(inner) => {
                let inner = boxed(inner);
                ("Neg", quote!((#inner)))
            }
            Value::Add(a, b) => ("Add", pair(a, b)),
            Value::Sub(a, b) => ("Sub", pair(a, b)),
            Value::Mul(a, b) => ("Mul", pair(a, b)),
            Value::Div(a, b) => ("Div", pair(a, b)),
            Value::Max(a, b) => ("Max", pair(a, b)),
            Value::Min(a, b) => ("Min", pair(a, b)),
            Value::Pow(a, b) => ("Pow", pair(a, b)),
            Value::Call(function, inner) => {
                // Variants print as they are named.
                let (function, inner) = (format_ident!("{function:?}"), boxed(inner));
                ("Call", quote!((#p Function::#function, #inner)))
            }
            Value::If(choice) => {
                let Conditional { compare, left, right, then, otherwise } = &**choice;
                let compare = format_ident!("{compare:?}");
                let [left, right, then, otherwise] = [left, right, then, otherwise].map(|part| self.value(part));
                let choice = quote!(#b::new(#p Conditional {
                    compare: #p Comparison::#compare,
                    left: #left,
                    right: #right,
                    then: #then,
                    otherwise: #otherwise,
                }));
                ("If", quote!((#choice)))
            }
        };
        let variant = format_ident!("{variant}");
        quote!(#p Value::#variant #parts)
    }
}
