//! The named form of distributed types: `A[I_X, J_YZ]`, axes major first.
//!
//! After J. Austin et al., "How to Scale Your Model", part 3, Google DeepMind, 2025. Dimensions have names and
//! sizes come from elsewhere, so that the same letter means the same size in several arrays.

use crate::parse::Scanner;
use crate::part::extent;
use crate::{AxisPart, DistDim, DistType, TypeError};
use polyshard_layout::Mesh;
use std::fmt;

/// A distributed type whose dimensions have names in place of sizes.
///
/// Axes of one letter are written one after the other, `J_YZ`; of several letters in braces, `J_{host,core}`.
///
/// ```
/// use polyshard_layout::Mesh;
/// use polyshard_planner::NamedType;
/// let mesh = Mesh::new([("X", 4), ("Y", 2), ("Z", 2)]);
/// let a = NamedType::parse("A[I_X, J_YZ]", &mesh)?;
/// assert_eq!(a.to_string(), "A[I_X, J_YZ]");
/// assert_eq!(a.with_sizes(&[("I", 8), ("J", 16)])?.to_string(), "[2{X}8, 4{Z,Y}16]");
/// # Ok::<(), polyshard_planner::TypeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedType {
    mesh: Mesh,
    tensor: String,
    /// Each dimension's name, and the positions of its axes, major first.
    dims: Vec<(String, Vec<usize>)>,
}

impl NamedType {
    /// Reads `A[I_X, J_YZ]`.
    ///
    /// # Errors
    /// Where the text is not of this form, or an axis that is not there or used twice.
    pub fn parse(text: &str, mesh: &Mesh) -> Result<Self, TypeError> {
        let mut scanner = Scanner::new(text);
        let tensor = scanner.name("a named type begins with the array's name, as in `A[I_X, J]`")?.to_owned();
        scanner.expect('[', "the dimensions follow in `[..]`, as in `A[I_X, J]`")?;
        let mut dims: Vec<(String, Vec<usize>)> = Vec::new();
        if !scanner.takes(']') {
            loop {
                let dim = dims.len();
                let word = scanner.name("a dimension is a name, with its axes below it: `I_X`")?;
                let (name, axes) = match word.split_once('_') {
                    None => (word, Vec::new()),
                    Some((name, "")) => (name, braced(&mut scanner)?),
                    Some((name, axes)) => (name, letters(axes, mesh)),
                };
                if name.is_empty() || dims.iter().any(|(other, _)| other == name) {
                    return Err(scanner.error(format!("two dimensions are named `{word}`; give each its own name")));
                }
                let mut positions = Vec::with_capacity(axes.len());
                for name in axes {
                    let position = mesh.position(name.as_str().into());
                    let unknown = || TypeError::UnknownAxis { dim, name, mesh: mesh.to_string() };
                    positions.push(position.ok_or_else(unknown)?);
                }
                dims.push((name.to_owned(), positions));
                if scanner.takes(']') {
                    break;
                }
                scanner.expect(',', "a `,` or a `]` follows a dimension")?;
            }
        }
        scanner.end()?;
        let mut used: Vec<(usize, usize)> = Vec::new();
        for (second, (_, axes)) in dims.iter().enumerate() {
            for &axis in axes {
                if let Some(&(first, _)) = used.iter().find(|(_, other)| *other == axis) {
                    return Err(TypeError::AxisTwice { axis: mesh.as_slice()[axis].name, first, second });
                }
                used.push((second, axis));
            }
        }
        Ok(Self { mesh: mesh.clone(), tensor, dims })
    }

    /// Returns the array's name.
    #[must_use]
    pub fn tensor(&self) -> &str {
        &self.tensor
    }

    /// Returns the dimensions' names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.dims.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the type with these sizes, each a dimension's name and its number of indices; others are ignored.
    ///
    /// # Errors
    /// If a dimension has no size, or its axes do not divide it.
    pub fn with_sizes(&self, sizes: &[(&str, usize)]) -> Result<DistType, TypeError> {
        let mut dims = Vec::with_capacity(self.dims.len());
        for (dim, (name, axes)) in self.dims.iter().enumerate() {
            let Some(&(_, size)) = sizes.iter().find(|(other, _)| other == name) else {
                return Err(TypeError::Size { name: name.clone() });
            };
            let parts: Vec<_> = axes.iter().rev().map(|&axis| AxisPart::whole(&self.mesh, axis)).collect();
            let pieces = extent(&parts);
            if !size.is_multiple_of(pieces) {
                return Err(TypeError::Indivisible { dim, pieces, size });
            }
            dims.push(DistDim { tile: size / pieces, parts, size });
        }
        DistType::new(&self.mesh, dims)
    }
}

impl DistType {
    /// Returns the type in its named form, if whole axes alone number its tiles.
    ///
    /// # Panics
    /// If there is not one name per dimension.
    #[must_use]
    pub fn named(&self, tensor: &str, names: &[&str]) -> Option<NamedType> {
        assert_eq!(names.len(), self.ndim(), "{self} has {} dimensions; give each a name", self.ndim());
        let whole = |part: &AxisPart| *part == AxisPart::whole(self.mesh(), part.axis);
        if !self.parts().all(|part| whole(&part)) {
            return None;
        }
        let axes = |dim: &DistDim| dim.parts.iter().rev().map(|part| part.axis).collect();
        let dims = names.iter().zip(self.dims()).map(|(name, dim)| (String::from(*name), axes(dim))).collect();
        Some(NamedType { mesh: self.mesh().clone(), tensor: tensor.to_owned(), dims })
    }
}

pub(crate) fn braced(scanner: &mut Scanner<'_>) -> Result<Vec<String>, TypeError> {
    scanner.expect('{', "axes follow the `_`: `I_X`, or `I_{rows,cols}` for longer names")?;
    let mut axes = Vec::new();
    loop {
        axes.push(scanner.name("the name of an axis stands here")?.to_owned());
        if scanner.takes('}') {
            return Ok(axes);
        }
        scanner.expect(',', "a `,` or a `}` follows an axis")?;
    }
}

/// One axis if the mesh has one of this name, else one per letter.
pub(crate) fn letters(axes: &str, mesh: &Mesh) -> Vec<String> {
    if mesh.position(axes.into()).is_some() {
        return vec![axes.to_owned()];
    }
    axes.chars().map(String::from).collect()
}

/// Writes axes as they stand below a dimension: `YZ`, or `{host,core}`.
pub(crate) fn subscript(mesh: &Mesh, axes: &[usize]) -> String {
    let names: Vec<&str> = axes.iter().map(|&axis| mesh.as_slice()[axis].name.as_str()).collect();
    // Letters one after the other may together be the name of another axis.
    let letters = names.iter().all(|name| name.chars().count() == 1);
    if letters && (names.len() == 1 || mesh.axis(&names.concat()).is_none()) {
        return names.concat();
    }
    format!("{{{}}}", names.join(","))
}

impl fmt::Display for NamedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.tensor)?;
        for (nth, (name, axes)) in self.dims.iter().enumerate() {
            write!(f, "{}{name}", if nth == 0 { "" } else { ", " })?;
            if !axes.is_empty() {
                write!(f, "_{}", subscript(&self.mesh, axes))?;
            }
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mesh = Mesh::new([("X", 4), ("Y", 2), ("rows", 3)]);
        let said = match NamedType::parse(text, &mesh) {
            Ok(parsed) => parsed.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn named_types_are_read_and_written() {
        check("A[I_XY, J]", "A[I_XY, J]");
        check("A[I_{X,rows}, J_Y]", "A[I_{X,rows}, J_Y]");
        check("A[I_rows]", "A[I_{rows}]");
        check("A[]", "A[]");
    }

    #[test]
    fn what_is_wrong_is_said() {
        check("A[I_Z]", "dimension 0: no axis `Z`; the mesh is (X: 4, Y: 2, rows: 3)");
        check("A[I_X, J_X]", "axis `X` partitions dimensions 0 and 1; an axis partitions one dimension, once");
        check("A[I_X, I]", "cannot read `A[I_X, I]` at column 9: two dimensions are named `I`; give each its own name");
        check("A[I_X", "cannot read `A[I_X` at column 6: a `,` or a `]` follows a dimension");
        let mesh = Mesh::new([("X", 4)]);
        let a = NamedType::parse("A[I_X, J]", &mesh).expect("a type");
        let said = |sizes: &[(&str, usize)]| a.with_sizes(sizes).expect_err("refused").to_string();
        assert_eq!(said(&[("I", 8)]), "dimension `J` has no size; give one, as `J=64`");
        assert_eq!(
            said(&[("I", 7), ("J", 1)]),
            "dimension 0: a plan is made for equal tiles, and 7 indices cannot be cut into 4 of them; pad to 8, or \
                  choose other axes"
        );
    }
}
