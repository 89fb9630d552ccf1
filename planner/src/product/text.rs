//! Products as text: `A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K] {U_Y}`.
//!
//! Arrays are read as [`NamedType`] reads them, the axes of open sums as it reads a subscript.

use super::{ProductError, Sharded};
use crate::named::{braced, letters};
use crate::parse::Scanner;
use crate::{NamedType, TypeError};
use polyshard_layout::Mesh;

impl Sharded {
    /// Reads an array such as `C[I_X, K] {U_Y}`; `sizes` gives each dimension its number of indices, others are
    /// ignored.
    ///
    /// # Errors
    /// Where the text is not of this form, an axis or a size that is not there or not divisible, an axis that cuts two
    /// dimensions or is also unreduced, or an array that is too large.
    pub fn parse(text: &str, mesh: &Mesh, sizes: &[(&str, usize)]) -> Result<Self, ProductError> {
        read(text, mesh)?.with_sizes(sizes)
    }
}

/// The two factors and the result.
pub(super) fn arrays(text: &str, mesh: &Mesh, sizes: &[(&str, usize)]) -> Result<[Sharded; 3], ProductError> {
    let syntax = |why: &str| ProductError::Syntax { text: text.to_owned(), why: why.to_owned() };
    let (factors, out) = text.split_once("->").ok_or_else(|| syntax("no `->` before the result"))?;
    let (left, right) = factors.split_once('*').ok_or_else(|| syntax("no `*` between the factors"))?;
    if right.contains('*') {
        return Err(syntax("a product has two factors"));
    }
    let (left, right, out) = (read(left, mesh)?, read(right, mesh)?, read(out, mesh)?);
    for factor in [&left, &right] {
        if !factor.unreduced.is_empty() {
            let why = "is a factor with open sums, and sums of terms are needed to multiply; reduce it first";
            return Err(ProductError::Unreduced { array: factor.text.clone(), why: why.into() });
        }
    }
    let all = [left, right, out];
    for (nth, (name, _)) in sizes.iter().enumerate() {
        let refuse = |why: String| Err(ProductError::Dimension { name: (*name).to_owned(), why });
        if sizes[..nth].iter().any(|(other, _)| other == name) {
            return refuse("has two sizes; give one".into());
        }
        if all.iter().all(|array| array.named.names().all(|other| other != *name)) {
            let mut there: Vec<_> = all.iter().flat_map(|array| array.named.names()).collect();
            there.sort_unstable();
            there.dedup();
            return refuse(format!("has a size but is in no array; the dimensions are {}", there.join(", ")));
        }
    }
    let [left, right, out] = all.map(|array| array.with_sizes(sizes));
    Ok([left?, right?, out?])
}

/// The dimensions of a product, those of the first factor first.
pub(super) fn loops(left: &Sharded, right: &Sharded, out: &Sharded) -> Result<Vec<String>, ProductError> {
    let mut loops = left.names().to_vec();
    loops.extend(right.names().iter().filter(|name| !left.names().contains(name)).cloned());
    for name in &loops {
        let holders = [left, right, out].into_iter().filter(|array| array.names().contains(name));
        if let [only] = holders.collect::<Vec<_>>()[..] {
            let why = format!("is in `{only}` alone; a dimension of a product is in two arrays or in all three");
            return Err(ProductError::Dimension { name: name.clone(), why });
        }
    }
    match out.names().iter().find(|name| !loops.contains(name)) {
        Some(name) => {
            let why = format!("is in the result `{out}` alone; the factors have {}", loops.join(", "));
            Err(ProductError::Dimension { name: name.clone(), why })
        }
        None => Ok(loops),
    }
}

/// An array as written, without sizes.
struct Written {
    text: String,
    named: NamedType,
    unreduced: Vec<usize>,
}

fn read(text: &str, mesh: &Mesh) -> Result<Written, ProductError> {
    let text = text.trim();
    let wrong = |error| ProductError::Array { array: text.to_owned(), error };
    // Open sums follow the last bracket; subscripts in braces stand before it.
    let end = text.rfind(']').map_or(text.len(), |at| at + 1);
    let (array, sums) = text.split_at(end);
    let named = NamedType::parse(array, mesh).map_err(wrong)?;
    let mut unreduced: Vec<usize> = Vec::new();
    for name in open_sums(sums.trim(), mesh).map_err(wrong)? {
        let refuse = |why| Err(ProductError::Unreduced { array: text.to_owned(), why });
        let Some(axis) = mesh.position(name.as_str().into()) else {
            return refuse(format!("is unreduced along `{name}`, which is no axis; the mesh is ({mesh})"));
        };
        if unreduced.contains(&axis) {
            return refuse(format!("is unreduced along `{name}` twice; once says it"));
        }
        unreduced.push(axis);
    }
    unreduced.sort_unstable();
    Ok(Written { text: text.to_owned(), named, unreduced })
}

/// The axes of `{U_XY}`.
fn open_sums(text: &str, mesh: &Mesh) -> Result<Vec<String>, TypeError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let why = "open sums follow an array as in `C[I, K] {U_X}`";
    let mut scanner = Scanner::new(text);
    scanner.expect('{', why)?;
    let axes = match scanner.name(why)?.split_once('_') {
        Some(("U", "")) => braced(&mut scanner)?,
        Some(("U", axes)) => letters(axes, mesh),
        _ => return Err(scanner.error(why)),
    };
    scanner.expect('}', "a `}` ends open sums")?;
    scanner.end()?;
    Ok(axes)
}

impl Written {
    fn with_sizes(&self, sizes: &[(&str, usize)]) -> Result<Sharded, ProductError> {
        let wrong = |error| ProductError::Array { array: self.text.clone(), error };
        let dist_type = self.named.with_sizes(sizes).map_err(wrong)?;
        let names: Vec<String> = self.named.names().map(String::from).collect();
        let mesh = dist_type.mesh().clone();
        // Over one rank there is nothing to sum.
        let unreduced: Vec<_> =
            self.unreduced.iter().copied().filter(|&axis| mesh.as_slice()[axis].extent > 1).collect();
        for &axis in &unreduced {
            let cuts = |dim: &crate::DistDim| dim.parts.iter().any(|part| part.axis == axis);
            if let Some(dim) = dist_type.dims().iter().position(cuts) {
                let (axis, dim) = (mesh.as_slice()[axis].name, &names[dim]);
                let why =
                    format!("is unreduced along `{axis}`, which also cuts `{dim}`; an axis does one or the other");
                return Err(ProductError::Unreduced { array: self.text.clone(), why });
            }
        }
        Ok(Sharded::new(self.named.tensor(), &names, dist_type, unreduced))
    }
}
