//! Meshes: named axes over which ranks are laid out.

use crate::{Axis, Name, Neighbours, Reach, Stencil, joined};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

/// A grid of ranks with named axes; ranks are row-major, the last axis fastest.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2), ("y", 3)]);
/// assert_eq!(mesh.size(), 6);
/// assert_eq!(mesh.coordinates(4), [1, 1]);
/// assert_eq!(mesh.rank(&[1, 1]), 4);
/// assert_eq!(mesh.to_string(), "x: 2, y: 3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mesh {
    #[serde(deserialize_with = "checked")]
    axes: Vec<Axis>,
}

fn checked<'de, D: Deserializer<'de>>(file: D) -> Result<Vec<Axis>, D::Error> {
    let axes = Vec::<Axis>::deserialize(file)?.into_iter().map(|axis| (axis.name, axis.extent));
    Mesh::try_new(axes).map(|mesh| mesh.axes).map_err(D::Error::custom)
}

/// Why a mesh is invalid.
///
/// ```
/// use polyshard::layout::MeshError;
/// use polyshard::prelude::*;
/// assert!(matches!(Mesh::try_new([("x", 2), ("x", 3)]), Err(MeshError::AxisTwice { .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum MeshError {
    /// An axis without coordinates.
    #[error("mesh axis `{axis}` has extent 0; an axis has at least one coordinate")]
    EmptyAxis { axis: Name },
    /// Two axes of one name.
    #[error("mesh has two axes named `{axis}`; give each axis its own name")]
    AxisTwice { axis: Name },
    /// More than 2^62 ranks.
    #[error("the number of ranks of the mesh overflows: {product}; make an axis smaller")]
    TooLarge {
        /// The extents.
        product: String,
    },
    /// A text that is not a mesh.
    #[error("cannot read {what}; write the extent of each axis, such as 4x6, or names too, such as x=4,y=6")]
    Unreadable {
        /// The text, or the part of it that cannot be read.
        what: String,
    },
    /// A number in a text has too many digits.
    #[error("`{part}` in the mesh `{text}` does not fit in 64 bits; give a smaller number")]
    Uncountable { part: String, text: String },
    /// A text that is a mesh with another number of axes.
    #[error("the mesh takes an extent for each of {}, but `{text}` has {found}", .axes.join(", "))]
    Axes {
        /// The text.
        text: String,
        /// How many axes it has.
        found: usize,
        /// The axes that are needed.
        axes: Vec<String>,
    },
}

impl Mesh {
    /// Returns the mesh with these axes, each a name and an extent.
    ///
    /// # Panics
    /// If two axes have one name, an extent is 0, or there are more than 2^62 ranks.
    #[track_caller]
    #[must_use]
    pub fn new<N: Into<Name>>(axes: impl IntoIterator<Item = (N, usize)>) -> Self {
        match Self::try_new(axes) {
            Ok(mesh) => mesh,
            Err(error) => panic!("{error}"),
        }
    }

    /// The mesh with these axes, which have been checked.
    pub(crate) fn of(axes: Vec<Axis>) -> Self {
        Self { axes }
    }

    /// Returns the mesh with these axes, each a name and an extent, such as those read from a file or a command line.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// assert!(Mesh::try_new([("x", 2), ("y", 3)]).is_ok());
    /// let error = Mesh::try_new([("x", 2), ("x", 3)]).unwrap_err();
    /// assert_eq!(error.to_string(), "mesh has two axes named `x`; give each axis its own name");
    /// ```
    ///
    /// # Errors
    /// If two axes have one name, an extent is 0, or the number of ranks is beyond 2^62.
    pub fn try_new<N: Into<Name>>(axes: impl IntoIterator<Item = (N, usize)>) -> Result<Self, MeshError> {
        let axes: Vec<_> = axes.into_iter().map(|(name, extent)| Axis { name: name.into(), extent }).collect();
        for (i, axis) in axes.iter().enumerate() {
            if axis.extent == 0 {
                return Err(MeshError::EmptyAxis { axis: axis.name });
            }
            if axes[..i].iter().any(|other| other.name == axis.name) {
                return Err(MeshError::AxisTwice { axis: axis.name });
            }
        }
        if !countable(&axes) {
            return Err(MeshError::TooLarge { product: joined(axes.iter().map(|axis| axis.extent), " * ") });
        }
        Ok(Self { axes })
    }

    /// Parses a mesh with as many axes as `names` has: `2x3`, or `rows=2,columns=3`, which has its own names.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// assert_eq!(Mesh::parse("2x3", ["x", "y"])?.to_string(), "x: 2, y: 3");
    /// assert_eq!(Mesh::parse("rows=2,columns=3", ["x", "y"])?.to_string(), "rows: 2, columns: 3");
    /// let error = Mesh::parse("2x2x2", ["x", "y"]).unwrap_err();
    /// assert_eq!(error.to_string(), "the mesh takes an extent for each of x, y, but `2x2x2` has 3");
    /// # Ok::<(), polyshard::layout::MeshError>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not a mesh or has another number of axes; otherwise as [`try_new`](Self::try_new).
    pub fn parse<const N: usize>(text: &str, names: [&str; N]) -> Result<Self, MeshError> {
        let axes = read(text)?;
        if axes.len() != N {
            return Err(MeshError::Axes { text: text.into(), found: axes.len(), axes: names.map(Into::into).into() });
        }
        Self::try_new(axes.into_iter().zip(names).map(|((own, extent), name)| (own.unwrap_or(name), extent)))
    }

    /// Parses a mesh, `4x6` or `x=4,y=6`; `name` gives the names of axes by position if the text has none.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// assert_eq!(Mesh::parse_with("2x3", |nth| format!("a{nth}"))?.to_string(), "a0: 2, a1: 3");
    /// # Ok::<(), polyshard::layout::MeshError>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not a mesh; otherwise as [`try_new`](Self::try_new).
    pub fn parse_with(text: &str, name: impl Fn(usize) -> String) -> Result<Self, MeshError> {
        let axes = read(text)?.into_iter().enumerate();
        Self::try_new(axes.map(|(nth, (own, extent))| (own.map_or_else(|| name(nth), Into::into), extent)))
    }

    /// Returns a mesh of `ranks` ranks whose extents are as equal as their number allows, smaller ones first.
    ///
    /// `MPI_Dims_create` does the same, larger ones first (MPI 3.1, section 7.5.2).
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// assert_eq!(Mesh::balanced(["x", "y"], 6).to_string(), "x: 2, y: 3");
    /// assert_eq!(Mesh::balanced(["x", "y", "z"], 8).extents(), [2, 2, 2]);
    /// assert_eq!(Mesh::balanced(["x", "y"], 7).extents(), [1, 7]);
    /// ```
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[track_caller]
    #[must_use]
    pub fn balanced<const N: usize>(names: [&str; N], ranks: usize) -> Self {
        let mut left = ranks;
        let mut extents: [usize; N] = std::array::from_fn(|nth| {
            let axes = (N - nth) as u32;
            let fits = |extent: &usize| {
                left.is_multiple_of(*extent) && extent.checked_pow(axes).is_some_and(|ranks| ranks <= left)
            };
            let extent = (1..=left).rev().find(fits).unwrap_or(left);
            left /= extent.max(1);
            extent
        });
        extents.sort_unstable();
        Self::new(names.into_iter().zip(extents))
    }

    /// Returns the axes, outermost first.
    #[must_use]
    pub fn as_slice(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the axes as values to write placements with.
    ///
    /// # Panics
    /// If the mesh has not exactly `N` axes.
    #[track_caller]
    #[must_use]
    pub fn axes<const N: usize>(&self) -> [Axis; N] {
        let Ok(axes) = self.axes.clone().try_into() else { panic!("mesh ({self}) has {} axes, not {N}", self.ndim()) };
        axes
    }

    /// Returns the axis named `name`, if the mesh has it.
    #[must_use]
    pub fn axis(&self, name: &str) -> Option<Axis> {
        self.axes.iter().find(|axis| axis.name == *name).copied()
    }

    /// Returns the position of the axis named `name`, if the mesh has it.
    #[must_use]
    pub fn position(&self, name: Name) -> Option<usize> {
        self.axes.iter().position(|axis| axis.name == name)
    }

    /// Returns the names of the axes at these positions.
    ///
    /// # Panics
    /// If there is no such axis.
    #[must_use]
    pub fn names(&self, axes: &[usize]) -> Vec<Name> {
        axes.iter().map(|&axis| self.axes[axis].name).collect()
    }

    /// Returns the number of axes.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.axes.len()
    }

    /// Returns the extents, outermost first.
    #[must_use]
    pub fn extents(&self) -> Vec<usize> {
        self.axes.iter().map(|axis| axis.extent).collect()
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.axes.iter().map(|axis| axis.extent).product()
    }

    /// Returns the coordinates of `rank`.
    ///
    /// # Panics
    /// If `rank` is not in `0..self.size()`.
    #[track_caller]
    #[must_use]
    pub fn coordinates(&self, rank: usize) -> Vec<usize> {
        assert!(rank < self.size(), "rank {rank} is not on the mesh ({self})");
        let mut rest = rank;
        let mut coordinates = vec![0; self.ndim()];
        for (coordinate, axis) in coordinates.iter_mut().zip(&self.axes).rev() {
            *coordinate = rest % axis.extent;
            rest /= axis.extent;
        }
        coordinates
    }

    /// Returns the rank at `coordinates`.
    ///
    /// # Panics
    /// If there is not one coordinate per axis, each inside its axis.
    #[track_caller]
    #[must_use]
    pub fn rank(&self, coordinates: &[usize]) -> usize {
        assert_eq!(coordinates.len(), self.ndim(), "a rank of the mesh ({self}) has one coordinate per axis");
        let mut rank = 0;
        for (axis, &coordinate) in self.axes.iter().zip(coordinates) {
            assert!(coordinate < axis.extent, "coordinate {coordinate} is outside axis {}: {}", axis.name, axis.extent);
            rank = rank * axis.extent + coordinate;
        }
        rank
    }

    /// Returns the coordinates of the ranks within reach of the one at `own`, in the order of the ranks.
    ///
    /// ```
    /// use polyshard::layout::{Neighbours, Reach};
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 3), ("y", 4)]);
    /// let reach = [Reach::Within { low: -1, high: 0 }, Reach::Around { low: 0, high: 1 }];
    /// let found = |neighbours| mesh.in_reach(&[1, 3], &neighbours).collect::<Vec<_>>();
    /// assert_eq!(found(Neighbours::in_box(reach)), [[0, 0], [0, 3], [1, 0], [1, 3]]);
    /// assert_eq!(found(Neighbours::in_star(reach)), [[0, 3], [1, 0], [1, 3]]);
    /// ```
    ///
    /// # Panics
    /// If there is not one coordinate and one reach per axis.
    #[track_caller]
    pub fn in_reach(&self, own: &[usize], neighbours: &Neighbours) -> impl Iterator<Item = Vec<usize>> + use<> {
        assert_eq!(own.len(), self.ndim(), "a rank of the mesh ({self}) has one coordinate per axis");
        assert_eq!(neighbours.along.len(), self.ndim(), "a rank of the mesh ({self}) has one reach per axis");
        let axes = neighbours.along.iter().zip(own).zip(&self.axes);
        let along: Vec<Vec<usize>> =
            axes.map(|((reach, &own), axis)| reach.coordinates(own, axis.extent).collect()).collect();
        let (all, star) = match neighbours.stencil {
            Stencil::Box => (along.iter().map(Vec::len).product(), Vec::new()),
            Stencil::Star => (0, star(own, &along)),
        };
        let in_box = (0..all).map(move |mut number: usize| {
            let mut coordinates = vec![0; along.len()];
            for (coordinate, along) in coordinates.iter_mut().zip(&along).rev() {
                *coordinate = along[number % along.len()];
                number /= along.len();
            }
            coordinates
        });
        in_box.chain(star)
    }

    /// Returns the maximum number of other ranks that a rank has in reach.
    ///
    /// ```
    /// use polyshard::layout::{Neighbours, Reach};
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 8), ("y", 8), ("z", 8)]);
    /// let near = [Reach::Around { low: -1, high: 1 }; 3];
    /// assert_eq!(mesh.others_in_reach(&Neighbours::in_box(near)), 26);
    /// assert_eq!(mesh.others_in_reach(&Neighbours::in_star(near)), 6);
    /// ```
    #[must_use]
    pub fn others_in_reach(&self, neighbours: &Neighbours) -> usize {
        let along = || neighbours.along.iter().zip(&self.axes);
        let hold_own = |but: Option<usize>| {
            let mut axes = along().enumerate().filter(|(axis, _)| Some(*axis) != but);
            axes.all(|(_, (reach, axis))| reach.holds_own(axis.extent))
        };
        match neighbours.stencil {
            Stencil::Box => {
                let all = along().map(|(reach, axis)| reach.count(axis.extent)).fold(1, usize::saturating_mul);
                all.saturating_sub(hold_own(None).into())
            }
            Stencil::Star => {
                let alone = along().enumerate().filter(|(number, _)| hold_own(Some(*number)));
                alone
                    .map(|(_, (reach, axis))| reach.count(axis.extent) - usize::from(reach.holds_own(axis.extent)))
                    .sum()
            }
        }
    }

    /// Returns the coordinates of the ranks that differ from the one at `own` along `axes` alone, including itself, in rank order.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 3), ("y", 4)]);
    /// assert_eq!(mesh.members(&[1, 3], &[0]).collect::<Vec<_>>(), [[0, 3], [1, 3], [2, 3]]);
    /// ```
    ///
    /// # Panics
    /// If there is not one coordinate per axis.
    #[track_caller]
    pub fn members(&self, own: &[usize], axes: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
        let along = |axis: usize| if axes.contains(&axis) { Reach::All } else { Reach::OWN };
        self.in_reach(own, &Neighbours::in_box((0..self.ndim()).map(along).collect::<Vec<_>>()))
    }

    /// Returns the ranks of all groups along `axes`, each in rank order.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2), ("y", 3)]);
    /// assert_eq!(mesh.groups_along(&[0]), [[0, 3], [1, 4], [2, 5]]);
    /// ```
    #[must_use]
    pub fn groups_along(&self, axes: &[usize]) -> Vec<Vec<usize>> {
        let firsts = (0..self.size()).map(|rank| self.coordinates(rank));
        let firsts = firsts.filter(|at| axes.iter().all(|&axis| at[axis] == 0));
        firsts.map(|at| self.members(&at, axes).map(|member| self.rank(&member)).collect()).collect()
    }

    /// Returns the number of ranks in a group along `axes`.
    #[must_use]
    pub fn group_size(&self, axes: &[usize]) -> u64 {
        axes.iter().map(|&axis| self.axes[axis].extent as u64).product()
    }

    /// Returns this mesh with the axes of `inner` appended.
    ///
    /// # Errors
    /// As [`try_new`](Self::try_new).
    pub fn product(&self, inner: &Mesh) -> Result<Mesh, MeshError> {
        Self::try_new(self.axes.iter().chain(&inner.axes).map(|axis| (axis.name, axis.extent)))
    }
}

/// The coordinates that differ from `own` along one axis alone and are in `along`, and `own` if it is in `along`; ascending.
fn star(own: &[usize], along: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let hold_own =
        |but: usize| along.iter().zip(own).enumerate().all(|(axis, (along, own))| axis == but || along.contains(own));
    let moved = |axis: usize| {
        along[axis].iter().filter(move |&&at| at != own[axis]).map(move |&at| {
            let mut coordinates = own.to_vec();
            coordinates[axis] = at;
            coordinates
        })
    };
    let itself = hold_own(own.len()).then(|| own.to_vec());
    let mut all: Vec<_> = (0..own.len()).filter(|&axis| hold_own(axis)).flat_map(moved).chain(itself).collect();
    all.sort_unstable();
    all
}

/// Whether there are at most 2^62 ranks, so that sums of a few coordinates fit 64 bits.
fn countable(axes: &[Axis]) -> bool {
    let size = axes.iter().try_fold(1usize, |size, axis| size.checked_mul(axis.extent));
    size.is_some_and(|size| size as u64 <= 1 << 62)
}

/// Parses the axes of a mesh, with their names if the text gives them.
fn read(text: &str) -> Result<Vec<(Option<&str>, usize)>, MeshError> {
    let is_named = text.contains('=');
    let axis = |part| {
        let what = if is_named { format!("`{part}` in the mesh `{text}`") } else { format!("the mesh `{text}`") };
        let unreadable = MeshError::Unreadable { what };
        let (name, extent) = match str::split_once(part, '=') {
            Some((name, extent)) if Name::new(name.trim()).is_identifier() => (Some(name.trim()), extent),
            None if !is_named => (None, part),
            _ => return Err(unreadable),
        };
        let extent = extent.trim().parse().map_err(|why: ParseIntError| match why.kind() {
            IntErrorKind::PosOverflow => MeshError::Uncountable { part: part.into(), text: text.into() },
            _ => unreadable,
        })?;
        Ok((name, extent))
    };
    text.split(if is_named { ',' } else { 'x' }).map(axis).collect()
}

impl FromStr for Mesh {
    type Err = MeshError;

    /// Reads `x=2,y=3`, or `2x3`, whose axes are called `p0` and `p1`.
    fn from_str(text: &str) -> Result<Self, MeshError> {
        Self::parse_with(text, |nth| format!("p{nth}"))
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axis = |axis: &Axis| format!("{}: {}", axis.name, axis.extent);
        f.write_str(&joined(self.axes.iter().map(axis), ", "))
    }
}

#[cfg(test)]
mod tests {
    use super::{Mesh, MeshError};
    use expect_test::{Expect, expect};

    fn check(json: &str, expect: Expect) {
        let read = serde_json::from_str::<Mesh>(json);
        let shown = read.map_or_else(|error| error.to_string(), |mesh| mesh.to_string());
        // The rest is the position in the text.
        expect.assert_eq(shown.split(" at line ").next().unwrap_or_default());
    }

    fn axes(axes: &[(&str, usize)]) -> String {
        let axes: Vec<_> =
            axes.iter().map(|(name, extent)| format!(r#"{{"name":"{name}","extent":{extent}}}"#)).collect();
        format!(r#"{{"axes":[{}]}}"#, axes.join(","))
    }

    #[test]
    fn a_mesh_is_read_as_it_is_written() {
        let mesh = Mesh::new([("x", 2), ("y", 3)]);
        assert_eq!(serde_json::to_string(&mesh).unwrap(), axes(&[("x", 2), ("y", 3)]));
        check(&axes(&[("x", 2), ("y", 3)]), expect!["x: 2, y: 3"]);
    }

    #[test]
    fn what_is_read_is_checked_as_what_is_made() {
        check(&axes(&[("x", 0)]), expect!["mesh axis `x` has extent 0; an axis has at least one coordinate"]);
        check(&axes(&[("x", 2), ("x", 3)]), expect!["mesh has two axes named `x`; give each axis its own name"]);
        check(
            &axes(&[("x", 1 << 40), ("y", 1 << 40)]),
            expect!["the number of ranks of the mesh overflows: 1099511627776 * 1099511627776; make an axis smaller"],
        );
        check(r#"{"axis":[]}"#, expect!["unknown field `axis`, expected `axes`"]);
    }

    #[test]
    fn a_mesh_is_read_as_people_write_it() {
        let check = |text: &str, expect: Expect| {
            let read = text.parse::<Mesh>();
            expect.assert_eq(&read.map_or_else(|error| error.to_string(), |mesh| mesh.to_string()));
        };
        check("2x3", expect!["p0: 2, p1: 3"]);
        check("data=4, tensor = 2", expect!["data: 4, tensor: 2"]);
        check("7", expect!["p0: 7"]);
        for text in ["", "four", "2x", "-1", "x=2,3", "2=x", "=2", "1a=2", "a b=2"] {
            let read = text.parse::<Mesh>();
            assert!(matches!(&read, Err(MeshError::Unreadable { what }) if what.contains(text)), "{text}: {read:?}");
        }
        let like = "write the extent of each axis, such as 4x6, or names too, such as x=4,y=6";
        let unreadable = |text: &str| text.parse::<Mesh>().unwrap_err().to_string();
        assert_eq!(unreadable("2x"), format!("cannot read the mesh `2x`; {like}"));
        assert_eq!(unreadable("x=2,3"), format!("cannot read `3` in the mesh `x=2,3`; {like}"));
        let many = "99999999999999999999";
        let large = format!("`{many}` in the mesh `2x{many}` does not fit in 64 bits; give a smaller number");
        assert_eq!(unreadable(&format!("2x{many}")), large);
        check("x=2,x=3", expect!["mesh has two axes named `x`; give each axis its own name"]);
        check("2x0", expect!["mesh axis `p1` has extent 0; an axis has at least one coordinate"]);
        let error = Mesh::parse("x=2,y=2", ["x"]).unwrap_err();
        assert_eq!(error.to_string(), "the mesh takes an extent for each of x, but `x=2,y=2` has 2");
    }

    #[test]
    fn balanced_extents_make_the_ranks() {
        for ranks in 1..200 {
            let extents = Mesh::balanced(["x", "y", "z"], ranks).extents();
            assert_eq!(extents.iter().product::<usize>(), ranks);
            assert!(extents.is_sorted(), "{extents:?}");
        }
    }

    #[test]
    #[should_panic(expected = "mesh axis `y` has extent 0; an axis has at least one coordinate")]
    fn a_mesh_in_the_source_panics_with_the_same_words() {
        let _ = Mesh::new([("x", 2), ("y", 0)]);
    }
}
