//! Identifiers of the emitted source: the user's names, made distinct.

use polyshard_layout::Name;
use polyshard_polyhedral::{Program, Symbol};
use proc_macro2::{Ident, Span};
use std::collections::BTreeSet;

/// The identifiers of one emitted module.
pub(super) struct Names {
    pub axes: Vec<Ident>,
    pub loops: Vec<Ident>,
    /// The inputs, then the output.
    pub tensors: Vec<Ident>,
    pub scalars: Vec<Ident>,
    /// `sharding_a` and the like, per tensor.
    pub shardings: Vec<Ident>,
    /// `a_tile` and the like, per tensor.
    pub tiles: Vec<Ident>,
    /// `a_region` and the like, per tensor.
    pub regions: Vec<Ident>,
}

/// What the emitted code itself names.
const OWN: [&str; 12] =
    ["world", "grid", "at", "mesh", "run", "run_into", "from", "to", "count", "nest", "contract", "pointwise"];

impl Names {
    pub(super) fn new(program: &Program) -> Self {
        let mut taken: BTreeSet<String> = OWN.iter().map(|&name| name.to_owned()).collect();
        let mut fresh = |name: String| distinct(&mut taken, &name);
        let axes = program.mesh().as_slice().iter().map(|axis| fresh(axis.name.to_string())).collect();
        let loops = program.loops().iter().map(|l| fresh(l.name.to_string())).collect();
        let lower = |name: Name| name.as_str().to_lowercase();
        let tensors: Vec<Ident> = program.kernel().tensors().map(|tensor| fresh(lower(tensor.name))).collect();
        let scalars = program.kernel().scalars().iter().map(|scalar| fresh(scalar.0.to_string())).collect();
        let base: Vec<String> =
            tensors.iter().map(|ident| ident.to_string().trim_end_matches('_').to_owned()).collect();
        let shardings = base.iter().map(|name| fresh(format!("sharding_{name}"))).collect();
        let tiles = base.iter().map(|name| fresh(format!("{name}_tile"))).collect();
        let regions = base.iter().map(|name| fresh(format!("{name}_region"))).collect();
        Self { axes, loops, tensors, scalars, shardings, tiles, regions }
    }

    pub(super) fn symbol(&self, symbol: Symbol) -> &Ident {
        match symbol {
            Symbol::Coordinate(axis) => &self.axes[axis],
            Symbol::Counter(number) => &self.loops[number],
        }
    }

    pub(super) fn scalar(&self, program: &Program, name: Name) -> &Ident {
        let found = program.kernel().scalars().iter().position(|scalar| scalar.0 == name);
        &self.scalars[found.expect("a checked kernel declares its scalars; this is a bug of polyshard")]
    }

    /// The group of the ranks that differ along these axes.
    pub(super) fn group(&self, axes: &[usize]) -> Ident {
        let names: Vec<_> = axes.iter().map(|&axis| self.axes[axis].to_string()).collect();
        Ident::new(&format!("along_{}", names.join("_")), Span::call_site())
    }
}

/// `name`, with underscores after it until it is an identifier that is not taken.
fn distinct(taken: &mut BTreeSet<String>, name: &str) -> Ident {
    let mut name: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_numeric()) {
        name.insert(0, 'v');
    }
    loop {
        // Groups are named after axes, and stay distinct because no other name starts like them.
        let free = !taken.contains(&name) && !name.starts_with("along_");
        if free && let Ok(ident) = syn::parse_str::<Ident>(&name) {
            taken.insert(name);
            return ident;
        }
        if name.starts_with("along_") {
            name.insert(0, 'v');
        } else {
            name.push('_');
        }
    }
}
