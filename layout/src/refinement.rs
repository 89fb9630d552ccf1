//! Meshes whose axes are digits of others' axes, and shardings written over them.

use crate::placement::{Division, Placement};
use crate::{Axis, AxisExpr, AxisPart, Mesh, Name, Sharding, in_order};

impl Mesh {
    /// Returns the mesh of the same ranks that has an axis for each digit of an axis: axis `a` becomes axes of the extents
    /// `digits[a]`, major first. An axis of one digit keeps its name; the names of others, such as `y/2`, say which digit they are.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2), ("y", 6)]);
    /// let refined = mesh.refined(&[vec![2], vec![3, 2]]);
    /// assert_eq!(refined.to_string(), "x: 2, y/2: 3, y%2: 2");
    /// assert_eq!((mesh.coordinates(9), refined.coordinates(9)), (vec![1, 3], vec![1, 1, 1]));
    /// let by_low_digit = Sharding::new(&refined, &[4], &[Placement::block(0, refined.axes::<3>()[2])])?;
    /// assert_eq!(by_low_digit.to_string(), "[0 @ y%2]");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If there is not one list per axis, or a product is not the axis' extent.
    #[must_use]
    pub fn refined(&self, digits: &[Vec<usize>]) -> Self {
        assert_eq!(digits.len(), self.ndim(), "the mesh ({self}) has one list of digits per axis");
        let axes = self.as_slice().iter().zip(digits).enumerate().flat_map(|(number, (axis, digits))| {
            let product: usize = digits.iter().product();
            assert_eq!(product, axis.extent, "the digits {digits:?} are those of axis {}: {}", axis.name, axis.extent);
            let mut stride = axis.extent;
            digits.iter().map(move |&extent| {
                stride /= extent;
                let digit = AxisPart { axis: number, stride, extent };
                Axis { name: digit.display(self).to_string().into(), extent }
            })
        });
        Self::of(axes.collect())
    }

    /// Returns the coarsest common refinement: the mesh with the smallest number of axes whose coordinates, in the order of the
    /// axes, make up those of either mesh. It may be one of the two. `None` if they have different numbers of ranks, or divide them
    /// in ways that do not nest.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = |extents: &[(&str, usize)]| Mesh::new(extents.iter().copied());
    /// let (tall, flat) = (mesh(&[("x", 4), ("y", 2)]), mesh(&[("p", 2), ("q", 4)]));
    /// let common = tall.common_refinement(&flat).expect("4 is 2 * 2");
    /// assert_eq!(common.to_string(), "x/2: 2, x%2: 2, y: 2");
    /// assert_eq!(common.common_refinement(&flat).as_ref(), Some(&common));
    /// assert_eq!(mesh(&[("x", 2), ("y", 3)]).common_refinement(&mesh(&[("p", 3), ("q", 2)])), None);
    /// ```
    #[must_use]
    pub fn common_refinement(&self, other: &Self) -> Option<Self> {
        let (own, others) = (self.strides(), other.strides());
        let ends = in_order([&own[..], &others].concat());
        let nest = ends.windows(2).all(|pair| pair[1].is_multiple_of(pair[0]));
        if self.size() != other.size() || !nest {
            return None;
        }
        let is_in = |strides: &[usize]| ends.iter().all(|end| strides.contains(end));
        if is_in(&own) || is_in(&others) {
            return Some(if is_in(&own) { self.clone() } else { other.clone() });
        }
        let digits = self.as_slice().iter().zip(&own[1..]).map(|(axis, &stride)| {
            let inside: Vec<_> =
                ends.iter().copied().filter(|end| (stride..=stride * axis.extent).contains(end)).collect();
            let digits: Vec<usize> = inside.windows(2).rev().map(|pair| pair[1] / pair[0]).collect();
            if digits.is_empty() { vec![1] } else { digits }
        });
        Some(self.refined(&digits.collect::<Vec<_>>()))
    }

    /// The number of all ranks, then the stride of each axis in ranks.
    fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1];
        for axis in self.as_slice().iter().rev() {
            strides.push(strides[strides.len() - 1] * axis.extent);
        }
        strides.reverse();
        strides
    }
}

impl Sharding {
    /// Returns the sharding in which each rank owns the same elements, over a mesh whose coordinates, in the order of the axes, make
    /// up those of this one's mesh. `None` if they do not.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2), ("y", 6)]);
    /// let [x, y] = mesh.axes();
    /// let rows = Sharding::new(&mesh, &[24, 10], &[Placement::block(0, y), Placement::pin(x, 1)])?;
    /// let digits = mesh.refined(&[vec![2], vec![2, 3]]);
    /// assert_eq!(rows.over(&digits).expect("digits of y").to_string(), "[0 @ [y/3, y%3], pin(x, 1)]");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If it is placed along an axis that its mesh does not have: a bug in polyshard.
    #[must_use]
    pub fn over(&self, mesh: &Mesh) -> Option<Self> {
        if mesh == self.mesh() {
            return Some(self.clone());
        }
        let (own, finer) = (self.mesh().strides(), mesh.strides());
        if self.mesh().size() != mesh.size() || !own.iter().all(|stride| finer.contains(stride)) {
            return None;
        }
        // Positions of the axes that are digits of an axis.
        let digits_of = |axis: usize| -> Vec<usize> {
            let inside = |&digit: &usize| own[axis + 1] <= finer[digit + 1] && finer[digit] <= own[axis];
            (0..mesh.ndim()).filter(inside).filter(|&digit| mesh.as_slice()[digit].extent > 1).collect()
        };
        let position =
            |axis: Name| self.mesh().position(axis).expect("an axis of the mesh; this is a bug in polyshard");
        let names_of = |axis: Name| mesh.names(&digits_of(position(axis)));
        let placements = self.placements().into_iter().flat_map(|placement| match placement {
            Placement::Divided { dim, levels } => {
                let levels = levels.into_iter().map(|level| match level {
                    Division::Block { at } => Division::Block { at: at.digits(&names_of) },
                    Division::Cyclic { at, block } => Division::Cyclic { at: at.digits(&names_of), block },
                });
                vec![Placement::Divided { dim, levels: levels.collect() }]
            }
            Placement::Pin { axis, coordinate } => {
                let position = position(axis);
                let pin = |digit: usize| {
                    let extent = mesh.as_slice()[digit].extent;
                    let coordinate = coordinate * own[position + 1] / finer[digit + 1] % extent;
                    Placement::Pin { axis: mesh.as_slice()[digit].name, coordinate }
                };
                digits_of(position).into_iter().map(pin).collect()
            }
            Placement::Partial { axis } => names_of(axis).into_iter().map(|axis| Placement::Partial { axis }).collect(),
        });
        Self::new(mesh, self.shape(), &placements.collect::<Vec<_>>()).ok()
    }
}

impl AxisExpr {
    /// The same expression over the axes that are the digits of each axis.
    fn digits(self, of: &impl Fn(Name) -> Vec<Name>) -> Self {
        match self {
            Self::Const(value) => Self::Const(value),
            Self::Axis(name) => Self::List(of(name)),
            Self::List(names) => Self::List(names.into_iter().flat_map(of).collect()),
            Self::Add(left, right) => Self::Add(Box::new(left.digits(of)), Box::new(right.digits(of))),
            Self::Sub(left, right) => Self::Sub(Box::new(left.digits(of)), Box::new(right.digits(of))),
            Self::Mul(inner, by) => Self::Mul(Box::new(inner.digits(of)), by),
            Self::Mod(inner, by) => Self::Mod(Box::new(inner.digits(of)), by),
        }
    }
}
