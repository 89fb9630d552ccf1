//! Arrays with named dimensions, and where they lie: `C[I_X, K_YZ] {U_W}`, axes major first.
//!
//! After J. Austin et al., "How to Scale Your Model", part 3, Google DeepMind, 2025. Dimensions have names and
//! sizes come from elsewhere, so that the same letter means the same size in several arrays. A product over a dimension
//! that is cut leaves every rank with a term of a sum, which the literature writes `{U_X}`, unreduced along `X`: the partial
//! sums of a [`Sharding`].

use crate::TypeError;
use crate::convert::{axes_of_levels, in_blocks};
use crate::parse::Scanner;
use polyshard_layout::{AxisExpr, DType, Mesh, Placement, Sharding, ShardingError};
use std::fmt;

/// An array with named dimensions and its sharding, in blocks that whole axes of the mesh number, those of several axes in blocks
/// of blocks. Where sizes do not divide, the last blocks are short or empty.
///
/// Axes of one letter are written one after the other, `J_YZ`; of several letters in braces, `J_{host,core}`. Axes of one
/// rank cut nothing and sum nothing, and are not kept.
///
/// ```text
/// C[I, K] {U_X}, X: 2      rank 0: p    rank 1: q      C = p + q
/// C[I, K_X]                rank 0: a    rank 1: b      C = a b
/// ```
///
/// ```
/// use polyshard::planner::Sharded;
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("X", 4), ("Y", 2), ("Z", 2)]);
/// let a = Sharded::parse("A[I_X, J_YZ]", &mesh, &[("I", 8), ("J", 16)])?;
/// assert_eq!((a.to_string(), a.sharding().to_string()), ("A[I_X, J_YZ]".into(), "[0 @ X, 1 @ [Y, Z]]".into()));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sharded {
    tensor: String,
    names: Vec<String>,
    sharding: Sharding,
}

impl Sharded {
    /// Reads `C[I_X, K] {U_Y}`; `sizes` gives each dimension its number of indices, others are ignored.
    ///
    /// # Errors
    /// Where the text is not of this form, an axis or a size that is not there, an axis that cuts two dimensions or is also
    /// unreduced, or an array that is too large.
    pub fn parse(text: &str, mesh: &Mesh, sizes: &[(&str, usize)]) -> Result<Self, TypeError> {
        Written::parse(text, mesh)?.with_sizes(sizes)
    }

    /// The array that these axes cut, given for each dimension as positions, major first, with partial sums along others.
    pub(crate) fn new(
        tensor: &str,
        names: &[String],
        mesh: &Mesh,
        shape: &[usize],
        dims: &[Vec<usize>],
        unreduced: &[usize],
    ) -> Result<Self, TypeError> {
        let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size.max(1)));
        if elements.is_none_or(|elements| elements > isize::MAX as usize) {
            return Err(TypeError::TooLarge);
        }
        let long = |axes: &[usize]| -> Vec<usize> {
            axes.iter().copied().filter(|&axis| mesh.as_slice()[axis].extent > 1).collect()
        };
        let levels: Vec<Vec<Vec<usize>>> =
            dims.iter().map(|axes| long(axes).into_iter().map(|axis| vec![axis]).collect()).collect();
        let sharding = in_blocks(mesh, shape, &levels, &long(unreduced)).unwrap_or_else(|error| {
            panic!("axes that cut `{tensor}` make no sharding: {error}; this is a bug in polyshard")
        });
        Ok(Self { tensor: tensor.to_owned(), names: names.to_vec(), sharding })
    }

    /// Returns the array's name.
    #[must_use]
    pub fn tensor(&self) -> &str {
        &self.tensor
    }

    /// Returns the dimensions' names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the sharding, with its partial sums.
    #[must_use]
    pub fn sharding(&self) -> &Sharding {
        &self.sharding
    }

    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        self.sharding.mesh()
    }

    /// Returns the global shape.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.sharding.shape()
    }

    /// Returns the positions in the mesh of the axes along which terms are still to be summed, ascending.
    #[must_use]
    pub fn unreduced(&self) -> &[usize] {
        self.sharding.partial()
    }

    /// Returns the shape of the first rank's tile; none is larger.
    #[must_use]
    pub fn tile_shape(&self) -> Vec<usize> {
        self.sharding.local_shape(&vec![0; self.mesh().ndim()])
    }

    /// Returns the elements of the largest tile.
    #[must_use]
    pub fn tile_len(&self) -> usize {
        self.tile_shape().into_iter().product()
    }

    /// Returns the bytes of the largest tile.
    #[must_use]
    pub fn bytes(&self, dtype: DType) -> u128 {
        self.tile_len() as u128 * dtype.size() as u128
    }

    /// Returns the array with these axes cutting each dimension, given as positions in the mesh, major first, and with open sums along
    /// others.
    ///
    /// # Errors
    /// If an axis is not there, or cuts or sums twice.
    pub fn cut_by(&self, axes: &[Vec<usize>], unreduced: &[usize]) -> Result<Self, ShardingError> {
        let levels: Vec<Vec<Vec<usize>>> =
            axes.iter().map(|axes| axes.iter().map(|&axis| vec![axis]).collect()).collect();
        let sharding = in_blocks(self.mesh(), self.shape(), &levels, unreduced)?;
        Ok(Self { sharding, ..self.clone() })
    }

    /// Returns the array with this sharding, which cuts it into blocks by whole axes; none if it does not.
    #[must_use]
    pub fn with_sharding(&self, sharding: &Sharding) -> Option<Self> {
        axes_of_levels(sharding).filter(|_| sharding.pins().is_empty() && sharding.shape() == self.shape())?;
        Some(Self { sharding: sharding.clone(), ..self.clone() })
    }

    /// Returns the positions in the mesh of the axes that cut each dimension, major first.
    #[must_use]
    pub fn axes(&self) -> Vec<Vec<usize>> {
        let levels = axes_of_levels(&self.sharding).unwrap_or_default();
        levels.into_iter().map(|levels| levels.concat()).collect()
    }
}

/// The clause for a dimension of `size` indices in `pieces` tiles. Blocks of a sharding are as small as they can be; where
/// tiles are larger, each part has one of that size instead.
pub(crate) fn block(dim: usize, at: AxisExpr, size: usize, [tile, pieces]: [usize; 2]) -> Placement {
    if tile == 0 || size.div_ceil(pieces) == tile {
        Placement::block(dim, at)
    } else {
        Placement::block_cyclic(dim, at, tile)
    }
}

/// An array as written, without sizes.
pub(crate) struct Written {
    mesh: Mesh,
    pub(crate) text: String,
    tensor: String,
    pub(crate) names: Vec<String>,
    /// For each dimension the positions of its axes, major first.
    dims: Vec<Vec<usize>>,
    pub(crate) unreduced: Vec<usize>,
}

impl Written {
    pub(crate) fn parse(text: &str, mesh: &Mesh) -> Result<Self, TypeError> {
        let text = text.trim();
        // Open sums follow the last bracket; subscripts in braces stand before it.
        let (array, sums) = text.split_at(text.rfind(']').map_or(text.len(), |at| at + 1));
        let mut scanner = Scanner::new(array);
        let tensor = scanner.name("a named type begins with the array's name, as in `A[I_X, J]`")?.to_owned();
        scanner.expect('[', "the dimensions follow in `[..]`, as in `A[I_X, J]`")?;
        let (mut names, mut dims) = (Vec::<String>::new(), Vec::new());
        if !scanner.takes(']') {
            loop {
                let word = scanner.name("a dimension is a name, with its axes below it: `I_X`")?;
                let (name, axes) = match word.split_once('_') {
                    None => (word, Vec::new()),
                    Some((name, "")) => (name, braced(&mut scanner)?),
                    Some((name, axes)) => (name, letters(axes, mesh)),
                };
                if name.is_empty() || names.iter().any(|other| other == name) {
                    return Err(scanner.error(format!("two dimensions are named `{word}`; give each its own name")));
                }
                let position = |name: String| {
                    let position = mesh.position(name.as_str().into());
                    position.ok_or_else(|| TypeError::UnknownAxis { dim: dims.len(), name, mesh: mesh.to_string() })
                };
                let axes = axes.into_iter().map(position).collect::<Result<Vec<_>, _>>()?;
                names.push(name.to_owned());
                dims.push(axes);
                if scanner.takes(']') {
                    break;
                }
                scanner.expect(',', "a `,` or a `]` follows a dimension")?;
            }
        }
        scanner.end()?;
        let mut used: Vec<(usize, usize)> = Vec::new();
        for (second, axis) in dims.iter().enumerate().flat_map(|(dim, axes)| axes.iter().map(move |&axis| (dim, axis)))
        {
            if let Some(&(first, _)) = used.iter().find(|(_, other)| *other == axis) {
                return Err(TypeError::AxisTwice { axis: mesh.as_slice()[axis].name, first, second });
            }
            used.push((second, axis));
        }
        let unreduced = unreduced(text, sums.trim(), mesh)?;
        Ok(Self { mesh: mesh.clone(), text: text.to_owned(), tensor, names, dims, unreduced })
    }

    pub(crate) fn with_sizes(&self, sizes: &[(&str, usize)]) -> Result<Sharded, TypeError> {
        let size = |name: &String| {
            let size = sizes.iter().find(|(other, _)| other == name);
            size.map(|(_, size)| *size).ok_or_else(|| TypeError::Size { name: name.clone(), array: self.text.clone() })
        };
        let shape = self.names.iter().map(size).collect::<Result<Vec<_>, _>>()?;
        let cuts =
            |axis: &usize| self.mesh.as_slice()[*axis].extent > 1 && self.dims.iter().flatten().any(|cut| cut == axis);
        if let Some(&axis) = self.unreduced.iter().find(|axis| cuts(axis)) {
            let dim = self.dims.iter().position(|axes| axes.contains(&axis)).unwrap_or(0);
            let (axis, name) = (self.mesh.as_slice()[axis].name, &self.names[dim]);
            let why = format!("is unreduced along `{axis}`, which also cuts `{name}`; an axis does one or the other");
            return Err(TypeError::Unreduced { array: self.text.clone(), why });
        }
        Sharded::new(&self.tensor, &self.names, &self.mesh, &shape, &self.dims, &self.unreduced)
    }
}

/// The positions of the axes of `{U_XY}`, ascending.
fn unreduced(array: &str, sums: &str, mesh: &Mesh) -> Result<Vec<usize>, TypeError> {
    if sums.is_empty() {
        return Ok(Vec::new());
    }
    let why = "open sums follow an array as in `C[I, K] {U_X}`";
    let mut scanner = Scanner::new(sums);
    scanner.expect('{', why)?;
    let names = match scanner.name(why)?.split_once('_') {
        Some(("U", "")) => braced(&mut scanner)?,
        Some(("U", axes)) => letters(axes, mesh),
        _ => return Err(scanner.error(why)),
    };
    scanner.expect('}', "a `}` ends open sums")?;
    scanner.end()?;
    let mut axes: Vec<usize> = Vec::with_capacity(names.len());
    for name in names {
        let refuse = |why| Err(TypeError::Unreduced { array: array.to_owned(), why });
        match mesh.position(name.as_str().into()) {
            None => return refuse(format!("is unreduced along `{name}`, which is not an axis; the mesh is ({mesh})")),
            Some(axis) if axes.contains(&axis) => {
                return refuse(format!("is unreduced along `{name}` twice; name it once"));
            }
            Some(axis) => axes.push(axis),
        }
    }
    axes.sort_unstable();
    Ok(axes)
}

fn braced(scanner: &mut Scanner<'_>) -> Result<Vec<String>, TypeError> {
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
fn letters(axes: &str, mesh: &Mesh) -> Vec<String> {
    if mesh.position(axes.into()).is_some() {
        return vec![axes.to_owned()];
    }
    axes.chars().map(String::from).collect()
}

/// Returns axes, given as positions, as they stand below a dimension: `YZ`, or `{host,core}`.
#[must_use]
pub fn subscript(mesh: &Mesh, axes: &[usize]) -> String {
    let names: Vec<&str> = axes.iter().map(|&axis| mesh.as_slice()[axis].name.as_str()).collect();
    // Letters one after the other may together be the name of another axis.
    let letters = names.iter().all(|name| name.chars().count() == 1);
    if letters && (names.len() == 1 || mesh.axis(&names.concat()).is_none()) {
        return names.concat();
    }
    format!("{{{}}}", names.join(","))
}

impl fmt::Display for Sharded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.tensor)?;
        for (nth, (name, axes)) in self.names.iter().zip(self.axes()).enumerate() {
            write!(f, "{}{name}", if nth == 0 { "" } else { ", " })?;
            if !axes.is_empty() {
                write!(f, "_{}", subscript(self.mesh(), &axes))?;
            }
        }
        f.write_str("]")?;
        match self.unreduced() {
            [] => Ok(()),
            unreduced => write!(f, " {{U_{}}}", subscript(self.mesh(), unreduced)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mesh = Mesh::new([("X", 4), ("Y", 2), ("rows", 3), ("one", 1)]);
        let said = match Sharded::parse(text, &mesh, &[("I", 24), ("J", 12)]) {
            Ok(parsed) => parsed.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn named_arrays_are_read_and_written() {
        check("A[I_XY, J]", "A[I_XY, J]");
        check("A[I_YX, J]", "A[I_YX, J]");
        check("A[I_{X,rows}, J_Y]", "A[I_{X,rows}, J_Y]");
        check("A[I_rows]", "A[I_{rows}]");
        check("A[I_{one,X}] {U_{one,Y}}", "A[I_X] {U_Y}");
        check("A[]", "A[]");
        check("A[] {U_XY}", "A[] {U_XY}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        check("A[I_Z]", "dimension 0: no axis `Z`; the mesh is (X: 4, Y: 2, rows: 3, one: 1)");
        check("A[I_X, J_X]", "axis `X` partitions dimensions 0 and 1; an axis partitions one dimension, once");
        check("A[I_X, I]", "cannot read `A[I_X, I]` at column 9: two dimensions are named `I`; give each its own name");
        check("A[I_X", "cannot read `A[I_X` at column 6: a `,` or a `]` follows a dimension");
        check("A[I_X, K]", "dimension `K` has no size; give one, as `K=64`");
    }

    #[test]
    fn tiles_are_the_blocks_of_the_sharding() {
        let mesh = Mesh::new([("X", 2), ("Y", 3)]);
        let array = Sharded::parse("C[I_YX, K] {U_Y}", &mesh, &[("I", 12), ("K", 4)]);
        assert!(matches!(array, Err(TypeError::Unreduced { .. })));
        let array = Sharded::parse("C[I_YX, K]", &mesh, &[("I", 12), ("K", 4)]).expect("an array");
        assert_eq!((array.tile_shape(), array.tile_len(), array.bytes(DType::Bf16)), (vec![2, 4], 8, 16));
        let short = Sharded::parse("C[I_YX, K]", &mesh, &[("I", 5), ("K", 4)]).expect("an array").sharding;
        let lens: Vec<_> = (0..6).map(|rank| short.local_len(&mesh.coordinates(rank))).collect();
        assert_eq!(lens, [4, 4, 4, 4, 4, 0], "{short}");
        let empty = Sharded::parse("C[I_X, K]", &mesh, &[("I", 0), ("K", 4)]).expect("an array");
        assert_eq!((empty.tile_shape(), empty.sharding.to_string()), (vec![0, 4], "[0 @ X]".into()));
    }
}
