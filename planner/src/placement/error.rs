//! Errors of placements.

use polyshard_machine::MachineError;
use polyshard_machine::units::counted;
use std::fmt;

/// Why axes cannot be placed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum PlacementError {
    /// A hierarchy without levels or a mesh without axes.
    #[error("no {what} to place; give at least one")]
    Nothing { what: &'static str },
    /// An axis or a level of size 0.
    #[error("{what} {position} has size 0; give 1 or more")]
    Zero { what: &'static str, position: usize },
    /// Axes or levels whose product overflows.
    #[error("the product of the {what} {sizes:?} does not fit in 64 bits; give smaller ones")]
    TooLarge { what: &'static str, sizes: Vec<usize> },
    /// The mesh and the machine differ in size.
    #[error(
        "the axes {axes:?} make {}, but the hierarchy {hierarchy:?} has {}; {}",
        counted(axes.iter().product::<usize>(), "rank"),
        counted(hierarchy.iter().product::<usize>(), "device"),
        fitting(hierarchy, axes)
    )]
    Sizes { hierarchy: Vec<usize>, axes: Vec<usize> },
    /// A matrix whose rows differ in length.
    #[error("row {row} has {} and row 0 has {first}; give each axis one factor per level", counted(columns, "factor"))]
    Ragged { row: usize, columns: usize, first: usize },
    /// A matrix for another machine.
    #[error("the matrix {matrix} is for the hierarchy {given:?}, but `{machine}` has {hierarchy:?}")]
    Machine { matrix: String, given: Vec<usize>, machine: String, hierarchy: Vec<usize> },
    /// A matrix that is not for a mesh and a machine.
    #[error("the mesh ({mesh}) cannot be placed on `{machine}` by {matrix}: {why}; {instead}")]
    Misfit { mesh: String, machine: String, matrix: String, why: String, instead: String },
    /// The machine is unknown or invalid.
    #[error(transparent)]
    NoMachine(#[from] MachineError),
    /// A mesh lacks an axis, given by its name in backticks or its position.
    #[error("no axis {axis}; the axes of the mesh are ({mesh})")]
    UnknownAxis { axis: String, mesh: String },
    /// The matrix lacks an axis.
    #[error("no axis {axis}; the matrix {matrix} has {}, numbered from 0", counted(axes, "axis"))]
    NoAxis { axis: usize, matrix: String, axes: usize },
    /// An axis is named twice.
    #[error("axis {axis} is named twice; name each axis once")]
    AxisTwice { axis: usize },
}

impl fmt::Debug for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A fitting alternative: another size for one of the axes, or the required product.
fn fitting(hierarchy: &[usize], axes: &[usize]) -> String {
    let devices: usize = hierarchy.iter().product();
    let others = |axis: usize| axes.iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, n)| n).product::<usize>();
    let instead = (0..axes.len()).filter(|&axis| devices.is_multiple_of(others(axis)));
    let instead: Vec<_> = instead.map(|axis| format!("{} for axis {axis}", devices / others(axis))).collect();
    match instead.is_empty() {
        true => format!("choose axes that multiply to {devices}"),
        false => format!("{} would fit", instead.join(" or ")),
    }
}
