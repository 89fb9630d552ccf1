//! Mesh axes and the expressions over them that place a tensor's dimension.

use crate::{Name, joined};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Mul, Rem, Sub};

/// One axis of a mesh: its name and number of coordinates. It is also a value to write placements with: `m.at(x)`.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2), ("y", 3)]);
/// let [x, y] = mesh.axes();
/// assert_eq!((x.name.as_str(), y.extent), ("x", 3));
/// assert_eq!(Var::new("m").at(x).to_string(), "m @ x");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Axis {
    /// The axis' name, unique in its mesh.
    pub name: Name,
    /// The number of coordinates along it.
    pub extent: usize,
}

impl From<Axis> for Name {
    fn from(axis: Axis) -> Self {
        axis.name
    }
}

/// An integer expression over mesh coordinates, such as `(x + y) % 8`.
///
/// ```
/// use polyshard::layout::AxisExpr;
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2), ("y", 3)]);
/// let [x, y] = mesh.axes();
/// assert_eq!(((x + y) % 3).to_string(), "(x + y) % 3");
/// assert_eq!(AxisExpr::from([x, y]).to_string(), "[x, y]");
/// // A name does where the mesh is not at hand.
/// assert_eq!(AxisExpr::from("x"), AxisExpr::from(x));
/// assert_eq!(AxisExpr::from(["x", "y"]), AxisExpr::from([x, y]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AxisExpr {
    /// A constant.
    Const(i64),
    /// The coordinate along one axis.
    Axis(Name),
    /// The row-major number of the coordinates along several axes, major first.
    List(Vec<Name>),
    /// A sum.
    Add(Box<AxisExpr>, Box<AxisExpr>),
    /// A difference.
    Sub(Box<AxisExpr>, Box<AxisExpr>),
    /// A multiple.
    Mul(Box<AxisExpr>, i64),
    /// The remainder in `0..modulus`.
    Mod(Box<AxisExpr>, i64),
}

impl AxisExpr {
    /// Returns the coordinate along the axis named `name`.
    #[must_use]
    pub fn axis(name: &str) -> Self {
        Self::Axis(Name::new(name))
    }

    /// Returns the axes that it names.
    pub(crate) fn axes(&self) -> Vec<Name> {
        match self {
            Self::Const(_) => Vec::new(),
            Self::Axis(name) => vec![*name],
            Self::List(names) => names.clone(),
            Self::Add(left, right) | Self::Sub(left, right) => [left.axes(), right.axes()].concat(),
            Self::Mul(inner, _) | Self::Mod(inner, _) => inner.axes(),
        }
    }

    /// Returns the row-major number of the coordinates along the axes, major first.
    #[must_use]
    pub fn list(names: &[&str]) -> Self {
        Self::List(names.iter().map(|name| Name::new(name)).collect())
    }
}

impl From<Axis> for AxisExpr {
    fn from(axis: Axis) -> Self {
        Self::Axis(axis.name)
    }
}

/// The coordinate along the axis of this name.
impl From<&str> for AxisExpr {
    fn from(name: &str) -> Self {
        Self::axis(name)
    }
}

impl<const N: usize> From<[&str; N]> for AxisExpr {
    fn from(names: [&str; N]) -> Self {
        Self::list(&names)
    }
}

impl<const N: usize> From<[Axis; N]> for AxisExpr {
    fn from(axes: [Axis; N]) -> Self {
        Self::from(&axes[..])
    }
}

impl From<&[Axis]> for AxisExpr {
    fn from(axes: &[Axis]) -> Self {
        Self::List(axes.iter().map(|axis| axis.name).collect())
    }
}

impl From<i64> for AxisExpr {
    fn from(value: i64) -> Self {
        Self::Const(value)
    }
}

macro_rules! binary {
    ($($left:ty),*) => {$(
        impl<R: Into<AxisExpr>> Add<R> for $left {
            type Output = AxisExpr;
            fn add(self, right: R) -> AxisExpr {
                AxisExpr::Add(Box::new(self.into()), Box::new(right.into()))
            }
        }
        impl<R: Into<AxisExpr>> Sub<R> for $left {
            type Output = AxisExpr;
            fn sub(self, right: R) -> AxisExpr {
                AxisExpr::Sub(Box::new(self.into()), Box::new(right.into()))
            }
        }
        impl Mul<i64> for $left {
            type Output = AxisExpr;
            fn mul(self, factor: i64) -> AxisExpr {
                AxisExpr::Mul(Box::new(self.into()), factor)
            }
        }
        impl Rem<i64> for $left {
            type Output = AxisExpr;
            fn rem(self, modulus: i64) -> AxisExpr {
                AxisExpr::Mod(Box::new(self.into()), modulus)
            }
        }
    )*};
}
binary!(Axis, AxisExpr);

impl Mul<Axis> for i64 {
    type Output = AxisExpr;
    fn mul(self, axis: Axis) -> AxisExpr {
        axis * self
    }
}

impl Mul<AxisExpr> for i64 {
    type Output = AxisExpr;
    fn mul(self, expr: AxisExpr) -> AxisExpr {
        expr * self
    }
}

impl Sub<Axis> for i64 {
    type Output = AxisExpr;
    fn sub(self, axis: Axis) -> AxisExpr {
        AxisExpr::Const(self) - axis
    }
}

impl fmt::Display for AxisExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |expr: &AxisExpr| matches!(expr, Self::Add(..) | Self::Sub(..) | Self::Mod(..));
        let grouped = |expr: &AxisExpr| if sum(expr) { format!("({expr})") } else { expr.to_string() };
        match self {
            Self::Const(value) => write!(f, "{value}"),
            Self::Axis(name) => write!(f, "{name}"),
            Self::List(names) => write!(f, "[{}]", joined(names, ", ")),
            Self::Add(left, right) | Self::Sub(left, right) => {
                let sign = if matches!(self, Self::Add(..)) { '+' } else { '-' };
                match **right {
                    Self::Add(..) | Self::Sub(..) => write!(f, "{left} {sign} ({right})"),
                    _ => write!(f, "{left} {sign} {right}"),
                }
            }
            // Of a product of two numbers, the second is read as the factor.
            Self::Mul(axes, -1) if matches!(**axes, Self::Axis(_) | Self::List(_)) => write!(f, "-{axes}"),
            Self::Mul(axes, factor) if matches!(**axes, Self::Axis(_) | Self::List(_)) => {
                write!(f, "{factor} * {axes}")
            }
            Self::Mul(expr, factor) => write!(f, "{} * {factor}", grouped(expr)),
            Self::Mod(expr, modulus) if matches!(**expr, Self::Mul(..)) => write!(f, "({expr}) % {modulus}"),
            Self::Mod(expr, modulus) => write!(f, "{} % {modulus}", grouped(expr)),
        }
    }
}
