//! Meshes as they are written on a command line: `x=4,y=6`, or `4x6` where the axes need no names.
//!
//! The command line, the examples and the benchmarks all read them here, so each of them takes both forms.

use crate::Mesh;
use std::fmt;
use std::num::IntErrorKind;
use std::str::FromStr;

/// The most ranks: MPI numbers them by a C int, and no machine has more threads than that.
const RANKS: usize = i32::MAX as usize;

/// A mesh as it is written: the extent of each axis, outermost first, and its name if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes(Vec<(Option<String>, usize)>);

impl Axes {
    /// Returns axes without names.
    pub fn unnamed(extents: &[usize]) -> Self {
        Self(extents.iter().map(|&extent| (None, extent)).collect())
    }

    /// Returns the extent of each axis.
    pub fn extents(&self) -> Vec<usize> {
        self.0.iter().map(|(_, extent)| *extent).collect()
    }

    /// Returns whether the axes have names; then all of them have.
    pub fn are_named(&self) -> bool {
        self.0.iter().any(|(name, _)| name.is_some())
    }

    /// Returns the mesh; an axis without a name gets that of its position.
    pub fn mesh(&self, name: impl Fn(usize) -> String) -> Mesh {
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
        let axes: Vec<_> = self.0.iter().map(axis).collect();
        f.write_str(&axes.join(if self.are_named() { "," } else { "x" }))
    }
}

impl FromStr for Axes {
    type Err = String;

    /// Reads `x=4,y=6` or `4x6`, also with commas: `4,6`.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = text.contains('=');
        let parts: Vec<&str> = if named { text.split(',').collect() } else { text.split(['x', ',']).collect() };
        let axes = parts.iter().map(|part| axis(part, named, text)).collect::<Result<Vec<_>, _>>()?;
        for (nth, (name, extent)) in axes.iter().enumerate() {
            if *extent == 0 {
                let axis = name.as_ref().map_or_else(|| nth.to_string(), |name| format!("`{name}`"));
                return Err(format!("axis {axis} of the mesh `{text}` has extent 0; an axis has at least one rank"));
            }
            if let Some(name) = name
                && axes[..nth].iter().any(|(other, _)| other.as_ref() == Some(name))
            {
                return Err(format!("the mesh has two axes named `{name}`; give each axis its own name"));
            }
        }
        let ranks = axes.iter().try_fold(1usize, |ranks, (_, extent)| ranks.checked_mul(*extent));
        match ranks.filter(|&ranks| ranks <= RANKS) {
            Some(_) => Ok(Self(axes)),
            None => Err(format!("the mesh `{text}` has more than {RANKS} ranks; give a smaller one")),
        }
    }
}

/// Reads one axis of the mesh `text`.
fn axis(part: &str, named: bool, text: &str) -> Result<(Option<String>, usize), String> {
    let wrong = || {
        let what = if named { format!("`{part}` in the mesh `{text}`") } else { format!("the mesh `{text}`") };
        format!("cannot read {what}; write the extent of each axis, such as 4x6, or names too, such as x=4,y=6")
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
            Err(format!("`{part}` in the mesh `{text}` is more than can be counted; give a smaller number"))
        }
        Err(_) => Err(wrong()),
    }
}

/// Returns whether an axis can have this name.
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(is_part) && !text.starts_with(|c: char| c.is_ascii_digit())
}
