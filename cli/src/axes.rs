//! Meshes on a command line: `x=4,y=6`, or `4x6` where the axes need no names.

use crate::error::{CliError, Result};
use polyshard::layout::{Mesh, joined};
use std::fmt;
use std::num::IntErrorKind;
use std::str::FromStr;

/// Limit on ranks: MPI numbers them by a C int, and no machine has more threads than that.
const RANKS: usize = i32::MAX as usize;

/// A mesh as written: the extent of each axis, outermost first, and its name if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axes(Vec<(Option<String>, usize)>);

impl Axes {
    /// Returns axes with these names and extents, outermost first.
    pub(crate) fn named(axes: &[(String, usize)]) -> Result<Self> {
        if let Some((name, _)) = axes.iter().find(|(name, _)| !is_name(name)) {
            let instead = "write letters, digits and `_`, a digit not first";
            return Err(CliError::refused(format!("`{name}` cannot name a mesh axis"), instead));
        }
        Self(axes.iter().map(|(name, extent)| (Some(name.clone()), *extent)).collect()).checked()
    }

    fn checked(self) -> Result<Self> {
        for (nth, (name, extent)) in self.0.iter().enumerate() {
            if *extent == 0 {
                let axis = name.as_ref().map_or_else(|| nth.to_string(), |name| format!("`{name}`"));
                let what = format!("axis {axis} of the mesh `{self}` has extent 0");
                return Err(CliError::refused(what, "an axis has at least one rank"));
            }
            if let Some(name) = name
                && self.0[..nth].iter().any(|(other, _)| other.as_ref() == Some(name))
            {
                let what = format!("the mesh has two axes named `{name}`");
                return Err(CliError::refused(what, "give each axis its own name"));
            }
        }
        let ranks = self.0.iter().try_fold(1usize, |ranks, (_, extent)| ranks.checked_mul(*extent));
        match ranks.filter(|&ranks| ranks <= RANKS) {
            Some(_) => Ok(self),
            None => {
                Err(CliError::refused(format!("the mesh `{self}` has more than {RANKS} ranks"), "give a smaller one"))
            }
        }
    }

    /// Returns the extent of each axis.
    pub(crate) fn extents(&self) -> Vec<usize> {
        self.0.iter().map(|(_, extent)| *extent).collect()
    }

    /// Returns whether the axes have names; then all of them have.
    pub(crate) fn are_named(&self) -> bool {
        self.0.iter().any(|(name, _)| name.is_some())
    }

    /// Returns the mesh; `name` names the axes without a name by their position.
    pub(crate) fn mesh(&self, name: impl Fn(usize) -> String) -> Mesh {
        let named = |(nth, (own, extent)): (usize, &(Option<String>, usize))| {
            (own.clone().unwrap_or_else(|| name(nth)), *extent)
        };
        Mesh::new(self.0.iter().enumerate().map(named))
    }
}

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axis = |(name, extent): &(Option<String>, usize)| match name {
            Some(name) => format!("{name}={extent}"),
            None => extent.to_string(),
        };
        f.write_str(&joined(self.0.iter().map(axis), if self.are_named() { "," } else { "x" }))
    }
}

impl FromStr for Axes {
    type Err = CliError;

    /// Reads `x=4,y=6` or `4x6`.
    fn from_str(text: &str) -> Result<Self> {
        let named = text.contains('=');
        let parts = text.split(if named { ',' } else { 'x' });
        Self(parts.map(|part| axis(part, named, text)).collect::<Result<_>>()?).checked()
    }
}

/// Reads one axis of the mesh `text`.
fn axis(part: &str, named: bool, text: &str) -> Result<(Option<String>, usize)> {
    let wrong = || {
        let what = if named { format!("`{part}` in the mesh `{text}`") } else { format!("the mesh `{text}`") };
        CliError::unreadable(what, "the extent of each axis, such as 4x6, or names too, such as x=4,y=6")
    };
    let (name, extent) = match part.split_once('=') {
        Some((name, extent)) if is_name(name.trim()) => (Some(name.trim().to_owned()), extent),
        Some(_) => return Err(wrong()),
        None if named => return Err(wrong()),
        None => (None, part),
    };
    match extent.trim().parse() {
        Ok(extent) => Ok((name, extent)),
        Err(why) if *why.kind() == IntErrorKind::PosOverflow => {
            Err(CliError::Uncountable { part: part.into(), what: "mesh", text: text.into() })
        }
        Err(_) => Err(wrong()),
    }
}

/// Returns whether an axis can have this name.
pub(crate) fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(is_part) && !text.starts_with(|c: char| c.is_ascii_digit())
}
