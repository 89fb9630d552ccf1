//! The problem: from texts to a mesh and two shardings on it.

use crate::command::mesh::{mesh, named_mesh, pairs};
use crate::error::{CliError, Result};
use crate::notation::NamedArray;
use polyshard::layout::{Mesh, Sharding};
use polyshard::planner::{DistType, TypeError};
use serde::Deserialize;

/// A redistribution as the user writes it, unchecked.
#[derive(Deserialize)]
pub(crate) struct Problem {
    /// Names and extents of the axes, outermost first.
    mesh: Vec<(String, usize)>,
    source: String,
    target: String,
    /// Sizes of the dimensions, for shardings of the form `A[I_X, J]`.
    #[serde(default)]
    size: Vec<(String, usize)>,
}

/// A sharding as written: `[3{x}12, 8]`; `[2{x}5]`, whose tiles do not divide the array; or `A[I_X, J]`.
struct Written {
    sharding: Sharding,
    /// The type, if its tiles are equal.
    sized: Option<DistType>,
    /// The names of the array and of its dimensions, if it has names.
    names: Option<(String, Vec<String>)>,
}

/// Source and target.
pub(crate) enum Types {
    /// Both are in equal tiles.
    Equal([DistType; 2]),
    /// Some tiles are short, or empty.
    Uneven([Sharding; 2]),
}

impl Problem {
    /// Returns the problem of these arguments; an empty `size` means none.
    pub(crate) fn from_texts(mesh: &str, source: String, target: String, size: &str) -> Result<Self> {
        let size = if size.is_empty() { Vec::new() } else { pairs("size", size, "I=8,J=16")? };
        // The axes of `A[I_X, J]` are written in capitals.
        let names = if is_named(&source) { ["X", "Y", "Z"] } else { ["x", "y", "z"] };
        let mesh = named_mesh(mesh, names)?;
        let mesh = mesh.as_slice().iter().map(|axis| (axis.name.to_string(), axis.extent)).collect();
        Ok(Self { mesh, source, target, size })
    }

    /// Returns the types of source and target.
    pub(crate) fn types(&self) -> Result<Types> {
        let mesh = mesh(&self.mesh)?;
        let [source, target] = [&self.source, &self.target].map(|text| self.written(text, &mesh));
        // A syntax error is reported before a missing size.
        let (source, target) = match (source, target) {
            (Err(CliError::Missing { .. }), Err(why)) if !matches!(why, CliError::Missing { .. }) => return Err(why),
            (source, target) => (source?, target?),
        };
        if let (Some(from), Some(to)) = (&source.names, &target.names)
            && from != to
        {
            let what = format!("the source {} and the target {} are not the same array", self.source, self.target);
            return Err(CliError::refused(what, "give both the same name, and the same dimensions in the same order"));
        }
        self.check_sizes(source.names.as_ref().or(target.names.as_ref()))?;
        Ok(match (source.sized, target.sized) {
            (Some(source), Some(target)) => Types::Equal([source, target]),
            _ => Types::Uneven([source.sharding, target.sharding]),
        })
    }

    /// Checks that each size is for a dimension, one for each.
    fn check_sizes(&self, named: Option<&(String, Vec<String>)>) -> Result<()> {
        for (nth, (name, _)) in self.size.iter().enumerate() {
            let Some((_, names)) = named else {
                let what = format!("a size is given for `{name}`, but the shardings state their sizes");
                return Err(CliError::refused(what, "leave it out"));
            };
            if !names.contains(name) {
                let what = format!("a size is given for `{name}`, which is not a dimension");
                return Err(CliError::refused(what, format!("the dimensions are {}", names.join(", "))));
            }
            if self.size[..nth].iter().any(|(other, _)| other == name) {
                return Err(CliError::Twice { what: "sizes", subject: format!("`{name}`") });
            }
        }
        Ok(())
    }

    fn written(&self, text: &str, mesh: &Mesh) -> Result<Written> {
        let sizes: Vec<_> = self.size.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        let whole = |sized: DistType| Written { sharding: sized.cut(&sized.shape()), sized: Some(sized), names: None };
        let written = match is_named(text) {
            true => NamedArray::parse(text, mesh, &sizes).and_then(|NamedArray { tensor, names, sharding, .. }| {
                let sized = match DistType::try_from(&sharding) {
                    Err(TypeError::Indivisible { .. }) => None,
                    sized => Some(sized?),
                };
                Ok(Written { sharding, sized, names: Some((tensor, names)) })
            }),
            false => DistType::parse(text, mesh).map(whole).or_else(|why| match why {
                TypeError::Arithmetic { .. } => {
                    let uneven = DistType::parse_uneven(text, mesh).map_err(|_| why)?;
                    Ok(Written { sharding: uneven, sized: None, names: None })
                }
                why => Err(why),
            }),
        };
        written.map_err(|why| match why {
            TypeError::Size { name, array } => {
                let what = format!("`{name}` of {array} has no size");
                CliError::missing(what, "give one for each dimension, as `--size I=8,J=16`")
            }
            // These errors quote the text already.
            TypeError::Syntax { .. } | TypeError::Unreduced { .. } => why.into(),
            why => CliError::invalid(text, why),
        })
    }
}

/// Returns whether a type is of the form `A[I_X, J]`: a name comes first in that form only.
fn is_named(text: &str) -> bool {
    text.trim_start().starts_with(|first: char| first.is_alphabetic() || first == '_')
}
