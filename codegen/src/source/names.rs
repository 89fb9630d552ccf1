//! Identifiers of the emitted source: the user's names, which never collide with those of the code around them.
//!
//! Code is written with placeholders, one unique placeholder per name. When all of it is written, each placeholder gets
//! the user's name if no other identifier of the code has it, otherwise that name with underscores appended. So no list
//! of reserved names is needed: they are the identifiers in the code. A name derived from a user's name, such as
//! `a_tile`, is a placeholder too.
//!
//! ```text
//! wanted         __0: sharding_a, __1: a, __2: x        of a kernel with a tensor `A`, over an axis `x`
//! code           fn run(__1: ..) { let [__2] = ..; }
//! taken          fn, run, let, ..                       all other identifiers of the code
//! chosen         sharding_a, a, x                       or `x_`, if the code says `x` already
//! ```
//!
//! Names are written in lower case, like variables in Rust, so a pattern never means a constant or a variant, such as
//! `None`.

use polyshard_layout::Name;
use polyshard_program::{AxisId, NestView, Symbol, TileId};
use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::format_ident;
use std::collections::{BTreeMap, BTreeSet};

/// The placeholders of one kernel.
pub(super) struct Names {
    /// This rank's coordinates, per axis of the mesh: `x`, `y`.
    pub axes: Vec<Ident>,
    /// The counters, per loop of the nest: `ko`.
    pub loops: Vec<Ident>,
    /// The inputs, then the output.
    pub tensors: Vec<Ident>,
    /// The last parameters of `run`, in the kernel's order.
    pub scalars: Vec<Ident>,
    /// `sharding_a` and the like, per tensor.
    pub shardings: Vec<Ident>,
    /// The function that returns the kernel's table.
    pub table: Ident,
    /// `a_tile` and the like, per transfer.
    pub tiles: Vec<Ident>,
    /// `v0, v1, ..`, the elements that a leaf reads.
    pub elements: Vec<Ident>,
    /// `n0, n1, ..`, the indices that it reads as numbers.
    pub numbers: Vec<Ident>,
    /// The wanted names of all placeholders.
    pub wanted: Wanted,
}

/// The names that placeholders get if they are free, most public first: later ones get the underscores, so that
/// functions and parameters keep the names that a caller expects.
#[derive(Clone)]
pub(super) struct Wanted {
    names: Vec<String>,
    /// What placeholders begin with: other than those of other kernels.
    prefix: String,
}

impl Wanted {
    /// No names yet; their placeholders begin with `prefix`.
    pub(super) fn with_prefix(prefix: &str) -> Self {
        Self { names: Vec::new(), prefix: prefix.into() }
    }

    /// A new placeholder for the name `wanted`.
    pub(super) fn name(&mut self, wanted: &str) -> Ident {
        self.names.push(identifier(wanted));
        self.placeholder(self.names.len() - 1)
    }

    /// A unique identifier: a user's name is never written before it is chosen, and ours begin differently.
    fn placeholder(&self, number: usize) -> Ident {
        format_ident!("__{}{number}", self.prefix)
    }

    fn names<'a>(&mut self, wanted: impl IntoIterator<Item = &'a str>) -> Vec<Ident> {
        wanted.into_iter().map(|wanted| self.name(wanted)).collect()
    }

    /// The names that placeholders get in `code`.
    pub(super) fn chosen(&self, code: &TokenStream) -> Chosen {
        let mut taken = BTreeSet::new();
        identifiers(code, &mut taken);
        let named = self.names.iter().enumerate().map(|(number, wanted)| {
            let mut name = wanted.clone();
            // A keyword is not an identifier, but becomes one with an underscore appended.
            while taken.contains(&name) || !is_identifier(&name) {
                name.push('_');
            }
            taken.insert(name.clone());
            (self.placeholder(number), Ident::new(&name, Span::call_site()))
        });
        Chosen(named.collect())
    }
}

impl Names {
    /// Placeholders in the order of preference: functions, parameters of `run`, variables, then the bindings of a
    /// leaf's closure. The placeholders begin with `prefix`.
    pub(super) fn new(nest: &NestView<'_>, prefix: &str) -> Self {
        let mut wanted = Wanted::with_prefix(prefix);
        let kernel = &nest.kernel;
        let of_tensors = |wanted: &mut Wanted, name: fn(&str) -> String| -> Vec<Ident> {
            kernel.tensors().map(|tensor| wanted.name(&name(tensor.name.as_str()))).collect()
        };
        let shardings = of_tensors(&mut wanted, |tensor| format!("sharding_{tensor}"));
        let table = wanted.name("kernel");
        let tensors = of_tensors(&mut wanted, str::to_owned);
        let scalars = wanted.names(kernel.scalars().iter().map(|scalar| scalar.0.as_str()));
        let loops = wanted.names(nest.loops.iter().map(|l| l.name.as_str()));
        let axes = wanted.names(nest.mesh.as_slice().iter().map(|axis| axis.name.as_str()));
        let tiles: Vec<_> = (0..nest.transfers.len()).map(|number| nest.tile_name(TileId(number))).collect();
        let tiles = wanted.names(tiles.iter().map(String::as_str));
        let elements = (0..kernel.value().accesses().len()).map(|number| wanted.name(&format!("v{number}"))).collect();
        let numbers = (0..kernel.value().indices().len()).map(|number| wanted.name(&format!("n{number}"))).collect();
        Self { axes, loops, tensors, scalars, shardings, table, tiles, elements, numbers, wanted }
    }

    pub(super) fn symbol(&self, symbol: Symbol) -> &Ident {
        match symbol {
            Symbol::Coordinate(AxisId(axis)) => &self.axes[axis],
            Symbol::Counter(number) => &self.loops[number.0],
        }
    }

    pub(super) fn scalar(&self, nest: &NestView<'_>, name: Name) -> &Ident {
        let found = nest.kernel.scalars().iter().position(|scalar| scalar.0 == name);
        &self.scalars[found.expect("a checked kernel declares its scalars; this is a bug in polyshard")]
    }
}

/// The names of a module, by placeholder.
pub(super) struct Chosen(BTreeMap<Ident, Ident>);

impl Chosen {
    /// The name of a placeholder; any other identifier is itself.
    pub(super) fn name<'a>(&'a self, ident: &'a Ident) -> &'a Ident {
        self.0.get(ident).unwrap_or(ident)
    }

    /// The code with placeholders replaced by names.
    pub(super) fn write(&self, code: TokenStream) -> TokenStream {
        let written = code.into_iter().map(|token| match token {
            TokenTree::Ident(ident) => TokenTree::Ident(self.name(&ident).clone()),
            TokenTree::Group(group) => TokenTree::Group(Group::new(group.delimiter(), self.write(group.stream()))),
            other => other,
        });
        written.collect()
    }
}

/// All identifiers of the code.
fn identifiers(code: &TokenStream, found: &mut BTreeSet<String>) {
    for token in code.clone() {
        match token {
            TokenTree::Ident(ident) => {
                found.insert(ident.to_string());
            }
            TokenTree::Group(group) => identifiers(&group.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The name in lower case, with underscores for characters that identifiers cannot have; it may still be a keyword.
fn identifier(name: &str) -> String {
    let mut text = String::new();
    for c in name.to_lowercase().chars() {
        let c = if c.is_alphanumeric() && is_identifier(&format!("xx{c}")) { c } else { '_' };
        // Rust warns of two underscores in a row in a variable's name.
        if c != '_' || !text.ends_with('_') {
            text.push(c);
        }
    }
    let begins = text.chars().next().is_some_and(|c| is_identifier(&format!("{c}xx")));
    if begins && text != "_" { text } else { format!("v{text}") }
}

fn is_identifier(text: &str) -> bool {
    // `gen` is a keyword since the 2024 edition.
    text != "gen" && syn::parse_str::<Ident>(text).is_ok_and(|ident| ident == text)
}
