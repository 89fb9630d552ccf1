//! Arrays with named dimensions, and the axes of a mesh that divide them: `C[I_X, K_YZ] {U_W}`, axes major first; and
//! products of two of them (`product.rs`).
//!
//! The notation of J. Austin et al., "How to Scale Your Model", part 3, Google DeepMind, 2025. Sizes are given separately,
//! so that a letter means the same size in several arrays. `{U_W}` says that every rank along `W` holds a term of a sum,
//! unreduced: the partial sums of a [`Sharding`].

pub(crate) mod product;

use polyshard::layout::{AxisExpr, Division, Mesh, Placement, Sharding};
use polyshard::planner::{Scanner, TypeError};
use std::fmt;

/// An array in blocks that whole axes number, those of several axes in blocks of blocks. Where sizes do not divide, the last
/// blocks are short or empty.
///
/// Axes of one letter are written one after the other, `J_YZ`; those of several letters in braces, `J_{host,core}`. Axes of
/// one rank divide nothing and sum nothing, and are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedArray {
    pub(crate) tensor: String,
    pub(crate) names: Vec<String>,
    /// The positions of the axes of each dimension.
    pub(crate) axes: Vec<Vec<usize>>,
    /// The positions of the axes along which terms are still to be summed, ascending.
    pub(crate) unreduced: Vec<usize>,
    pub(crate) sharding: Sharding,
}

impl NamedArray {
    /// Reads `C[I_X, K] {U_Y}`; `sizes` gives each dimension its number of indices, others are ignored.
    ///
    /// # Errors
    /// Where the text is not of this form, an axis or a size that is missing, an axis that divides two dimensions or is also
    /// unreduced, or an array that is too large.
    pub fn parse(text: &str, mesh: &Mesh, sizes: &[(&str, usize)]) -> Result<Self, TypeError> {
        let text = text.trim();
        // Open sums follow the last bracket; subscripts in braces stand before it.
        let (array, sums) = text.split_at(text.rfind(']').map_or(text.len(), |at| at + 1));
        let (tensor, names, mut axes) = dimensions(array, mesh)?;
        let all: Vec<(usize, usize)> =
            axes.iter().enumerate().flat_map(|(dim, axes)| axes.iter().map(move |&axis| (axis, dim))).collect();
        for (nth, &(axis, second)) in all.iter().enumerate() {
            if let Some(&(_, first)) = all[..nth].iter().find(|(other, _)| *other == axis) {
                return Err(TypeError::AxisTwice { axis: mesh.as_slice()[axis].name, first, second });
            }
        }
        let mut unreduced = unreduced(text, sums.trim(), mesh)?;
        let size = |name: &String| {
            let size = sizes.iter().find(|(other, _)| other == name);
            size.map(|(_, size)| *size).ok_or_else(|| TypeError::Size { name: name.clone(), array: text.to_owned() })
        };
        let shape = names.iter().map(size).collect::<Result<Vec<_>, _>>()?;
        let is_long = |axis: &usize| mesh.as_slice()[*axis].extent > 1;
        if let Some((axis, dim)) = all.iter().find(|(axis, _)| is_long(axis) && unreduced.contains(axis)) {
            let (axis, name) = (mesh.as_slice()[*axis].name, &names[*dim]);
            let why = format!("is unreduced along `{axis}`, which also cuts `{name}`; an axis does one or the other");
            return Err(TypeError::Unreduced { array: text.to_owned(), why });
        }
        let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size.max(1)));
        if elements.is_none_or(|elements| elements > isize::MAX as usize) {
            return Err(TypeError::TooLarge);
        }
        axes.iter_mut().for_each(|axes| axes.retain(is_long));
        unreduced.retain(is_long);
        let sharding = Sharding::replicated(mesh, &shape);
        Ok(Self { tensor, names, axes: Vec::new(), unreduced: Vec::new(), sharding }.laid(axes, unreduced))
    }

    /// The same array with other axes.
    pub(crate) fn laid(&self, axes: Vec<Vec<usize>>, unreduced: Vec<usize>) -> Self {
        let mesh = self.sharding.mesh();
        let level = |&axis: &usize| Division::Block { at: AxisExpr::List(mesh.names(&[axis])) };
        let divided = axes.iter().enumerate().filter(|(_, axes)| !axes.is_empty());
        let divided = divided.map(|(dim, axes)| Placement::Divided { dim, levels: axes.iter().map(level).collect() });
        let placements: Vec<_> = divided.chain(mesh.names(&unreduced).into_iter().map(Placement::partial)).collect();
        let sharding = Sharding::new(mesh, self.sharding.shape(), &placements)
            .unwrap_or_else(|error| panic!("axes of `{}` make no sharding: {error}; this is a bug", self.tensor));
        Self { axes, unreduced, sharding, ..self.clone() }
    }
}

/// An array's name, the names of its dimensions, and the positions of their axes.
type Dimensions = (String, Vec<String>, Vec<Vec<usize>>);

fn dimensions(text: &str, mesh: &Mesh) -> Result<Dimensions, TypeError> {
    let mut scanner = Scanner::new(text);
    let tensor = scanner.name("a named type begins with the array's name, as in `A[I_X, J]`")?.to_owned();
    scanner.expect('[', "the dimensions follow in `[..]`, as in `A[I_X, J]`")?;
    let mut names = Vec::<String>::new();
    let dims = scanner.list(']', "a `,` or a `]` follows a dimension", |scanner, dim| {
        let word = scanner.name("a dimension is a name, with its axes below it: `I_X`")?;
        let (name, axes) = match word.split_once('_') {
            None => (word, Vec::new()),
            Some((name, "")) => (name, braced(scanner)?),
            Some((name, axes)) => (name, letters(axes, mesh)),
        };
        if name.is_empty() || names.iter().any(|other| other == name) {
            return Err(scanner.error(format!("two dimensions are named `{word}`; give each its own name")));
        }
        names.push(name.to_owned());
        let position = |name: String| {
            let position = mesh.position(name.as_str().into());
            position.ok_or_else(|| TypeError::UnknownAxis { dim, name, mesh: mesh.to_string() })
        };
        axes.into_iter().map(position).collect::<Result<Vec<_>, _>>()
    })?;
    scanner.end()?;
    Ok((tensor, names, dims))
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
fn subscript(mesh: &Mesh, axes: &[usize]) -> String {
    let names: Vec<&str> = axes.iter().map(|&axis| mesh.as_slice()[axis].name.as_str()).collect();
    // Letters one after the other may together be the name of another axis.
    let letters = names.iter().all(|name| name.chars().count() == 1);
    if letters && (names.len() == 1 || mesh.axis(&names.concat()).is_none()) {
        return names.concat();
    }
    format!("{{{}}}", names.join(","))
}

/// Returns dimensions with the axes below them: `I_X`, `J`.
pub(crate) fn subscripted(mesh: &Mesh, names: &[String], axes: &[Vec<usize>]) -> Vec<String> {
    let dim = |(name, axes): (&String, &Vec<usize>)| match &axes[..] {
        [] => name.clone(),
        axes => format!("{name}_{}", subscript(mesh, axes)),
    };
    names.iter().zip(axes).map(dim).collect()
}

impl fmt::Display for NamedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mesh = self.sharding.mesh();
        write!(f, "{}[{}]", self.tensor, subscripted(mesh, &self.names, &self.axes).join(", "))?;
        match &self.unreduced[..] {
            [] => Ok(()),
            unreduced => write!(f, " {{U_{}}}", subscript(mesh, unreduced)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mesh = Mesh::new([("X", 4), ("Y", 2), ("rows", 3), ("one", 1)]);
        let said = match NamedArray::parse(text, &mesh, &[("I", 24), ("J", 12)]) {
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
        check("A[I] {X}", "cannot read `{X}` at column 3: open sums follow an array as in `C[I, K] {U_X}`");
        let unreduced = "`A[I_X] {U_X}` is unreduced along `X`, which also cuts `I`; an axis does one or the other";
        check("A[I_X] {U_X}", unreduced);
        check("A[I] {U_XX}", "`A[I] {U_XX}` is unreduced along `X` twice; name it once");
    }
}
