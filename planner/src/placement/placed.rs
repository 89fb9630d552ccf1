//! Placed meshes: a mesh, a machine, and which rank of the mesh is which device.
//!
//! A [`Mesh`] has no devices, so [`PlacedMesh::new`] adds them and checks the result once; a [`PlacedMesh`] is valid
//! and need not be checked again. It is data: the runtime renumbers its ranks by it and reduces along its axes. It
//! decides nothing: [`best`](super::best) chooses the matrix.

use super::{ParallelismMatrix, PlacementError, matrices};
use polyshard_layout::{Axis, Mesh, Name};
use polyshard_machine::{Device, Interconnect, Level, Machine};
use std::fmt;

/// A mesh on a machine.
///
/// ```
/// use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[2, 4])?; // 2 nodes of 4 GPUs
/// let matrix = ParallelismMatrix::new(vec![vec![2, 1], vec![1, 4]])?; // an axis across nodes, one inside
/// let placed = PlacedMesh::new(&Mesh::new([("data", 2), ("model", 4)]), &machine, &matrix)?;
/// assert_eq!(placed.groups(&["data"])?[0], [0, 4]);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedMesh {
    mesh: Mesh,
    machine: Machine,
    matrix: ParallelismMatrix,
    /// The machine's rank of each rank of the mesh.
    ranks: Vec<usize>,
}

impl PlacedMesh {
    /// Places a mesh on a machine: rank `r` of the mesh is the device `matrix.ranks()[r]`.
    ///
    /// ```text
    /// mesh (x: 2, y: 2)      matrix [[1 2] [2 1]]: x inside nodes, y across
    ///
    /// rank   0 1 2 3         device 0 2 1 3        node 0: (0, 0) (1, 0)      node 1: (0, 1) (1, 1)
    /// ```
    ///
    /// ```
    /// use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?.with_counts(&[2, 2])?;
    /// let mesh = Mesh::new([("x", 2), ("y", 2)]);
    /// let placed = PlacedMesh::new(&mesh, &machine, &ParallelismMatrix::new(vec![vec![1, 2], vec![2, 1]])?)?;
    /// assert_eq!(placed.ranks(), [0, 2, 1, 3]);
    /// assert_eq!(placed.groups(&["x"])?, [[0, 1], [2, 3]]);
    /// assert_eq!(placed.to_string(), "(x: 2, y: 2) as [[1 2] [2 1]] on a100: 2 nodes x 2 gpus");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the matrix is not for this machine, or its axes do not have the mesh's extents; the error says which matrices
    /// would fit.
    pub fn new(mesh: &Mesh, machine: &Machine, matrix: &ParallelismMatrix) -> Result<Self, PlacementError> {
        let [hierarchy, axes] = [machine.hierarchy(), mesh.extents()];
        let why = if matrix.hierarchy() != hierarchy {
            format!("its columns are for levels of {:?}, but the machine has {hierarchy:?}", matrix.hierarchy())
        } else if matrix.axes() != axes {
            format!("its rows are for axes of {:?}, but the mesh has {axes:?}", matrix.axes())
        } else {
            let (mesh, machine, matrix) = (mesh.clone(), machine.clone(), matrix.clone());
            return Ok(Self { ranks: matrix.ranks(), mesh, machine, matrix });
        };
        let [mesh, matrix] = [mesh.to_string(), matrix.to_string()];
        let instead = fitting(&hierarchy, &axes);
        Err(PlacementError::Misfit { mesh, machine: machine.name().into(), matrix, why, instead })
    }

    /// Places a mesh on a machine that has one level per axis of more than one rank, in the same order: rank `r` of the
    /// mesh is device `r`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn straight(mesh: &Mesh, machine: &Machine) -> Result<Self, PlacementError> {
        let long = levels(mesh);
        let row = |(axis, extent): (usize, usize)| {
            let factor = |&level: &usize| if level == axis { extent } else { 1 };
            if long.is_empty() { vec![1] } else { long.iter().map(factor).collect() }
        };
        let rows = mesh.extents().into_iter().enumerate().map(row).collect();
        Self::new(mesh, machine, &ParallelismMatrix::new(rows)?)
    }

    /// Places a mesh on a machine of devices like `device` with one level per axis of more than one rank. Name and
    /// count of the level are the axis'; `level` returns the other properties for each axis, by its position.
    ///
    /// ```
    /// use polyshard::machine::{Device, Interconnect, Level};
    /// use polyshard::planner::placement::PlacedMesh;
    /// use polyshard::prelude::*;
    /// let device = Device { memory_bandwidth: 1e10, memory_capacity: 1 << 30, ..Device::default() };
    /// let switch = |bandwidth| Level::new("", 1, Interconnect::Switch, bandwidth, 1e-6);
    /// let mesh = Mesh::new([("X", 4), ("one", 1), ("Y", 2)]);
    /// let placed = PlacedMesh::along_axes(&mesh, "mine", device, |axis| switch(if axis == 0 { 1e9 } else { 1e10 }))?;
    /// assert_eq!(placed.machine().to_string(), "mine: 4 X, 2 Y");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a level or the device is invalid.
    pub fn along_axes(
        mesh: &Mesh,
        name: &str,
        device: Device,
        level: impl Fn(usize) -> Level,
    ) -> Result<Self, PlacementError> {
        let of_axis = |axis: usize| {
            let described = mesh.as_slice()[axis];
            Level { name: described.name.to_string(), count: described.extent, ..level(axis) }
        };
        let mut all: Vec<Level> = levels(mesh).into_iter().map(of_axis).collect();
        if all.is_empty() {
            all.push(Level::new("device", 1, Interconnect::Switch, 1.0, 0.0));
        }
        Self::straight(mesh, &Machine::new(name, all, device)?)
    }

    /// Places a mesh on a slice of the torus of this name, one of [`TPUS`](polyshard_machine::TPUS), with one dimension
    /// per axis of more than one rank.
    ///
    /// ```
    /// use polyshard::machine::Interconnect;
    /// use polyshard::planner::placement::PlacedMesh;
    /// use polyshard::prelude::*;
    /// let placed = PlacedMesh::on_torus(&Mesh::new([("X", 4), ("Y", 16)]), "tpu-v5e")?;
    /// let wires: Vec<_> = placed.machine().levels().iter().map(|level| &level.interconnect).collect();
    /// assert_eq!(wires, [&Interconnect::Line, &Interconnect::Ring]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such torus, or it has too few dimensions.
    pub fn on_torus(mesh: &Mesh, name: &str) -> Result<Self, PlacementError> {
        let extents = mesh.extents();
        let long: Vec<usize> = levels(mesh).into_iter().map(|axis| extents[axis]).collect();
        // A single chip is a slice too.
        let counts = if long.is_empty() { vec![1] } else { long };
        Self::straight(mesh, &Machine::sized(name, &counts)?)
    }

    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the matrix.
    #[must_use]
    pub fn matrix(&self) -> &ParallelismMatrix {
        &self.matrix
    }

    /// Returns the machine's rank of each rank of the mesh.
    #[must_use]
    pub fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    /// Returns the mesh's rank of the machine's rank `device`.
    ///
    /// # Panics
    /// If the machine has no such rank.
    #[must_use]
    pub fn mesh_rank(&self, device: usize) -> usize {
        self.mesh.rank(&self.matrix.coordinates(device))
    }

    /// Returns the positions of axes, ascending.
    ///
    /// # Errors
    /// If the mesh lacks one, or one is named twice.
    pub fn positions(&self, axes: &[impl AxisRef]) -> Result<Vec<usize>, PlacementError> {
        let positions = axes.iter().map(|axis| axis.position(&self.mesh));
        let mut positions = positions.collect::<Result<Vec<_>, _>>()?;
        self.matrix.check_axes(&positions)?;
        positions.sort_unstable();
        Ok(positions)
    }

    /// Returns the groups of the machine's ranks that differ along `axes` only, by their first rank; inside a group in
    /// mesh order, which need not be ascending.
    ///
    /// # Errors
    /// As [`positions`](Self::positions).
    pub fn groups(&self, axes: &[impl AxisRef]) -> Result<Vec<Vec<usize>>, PlacementError> {
        let mut groups = self.matrix.groups(&self.positions(axes)?)?;
        groups.iter_mut().for_each(|group| group.sort_unstable_by_key(|&device| self.mesh_rank(device)));
        Ok(groups)
    }
}

/// The axes of more than one rank.
fn levels(mesh: &Mesh) -> Vec<usize> {
    (0..mesh.ndim()).filter(|&axis| mesh.as_slice()[axis].extent > 1).collect()
}

/// Names one axis of a mesh: by its name, by its position, or as the [`Axis`] itself.
pub trait AxisRef {
    /// Returns the axis' position in the mesh.
    ///
    /// # Errors
    /// If the mesh has no such axis.
    fn position(&self, mesh: &Mesh) -> Result<usize, PlacementError>;
}

impl AxisRef for usize {
    fn position(&self, mesh: &Mesh) -> Result<usize, PlacementError> {
        if *self < mesh.ndim() { Ok(*self) } else { Err(unknown(self.to_string(), mesh)) }
    }
}

impl AxisRef for &str {
    fn position(&self, mesh: &Mesh) -> Result<usize, PlacementError> {
        let position = mesh.as_slice().iter().position(|axis| axis.name == *self);
        position.ok_or_else(|| unknown(format!("`{self}`"), mesh))
    }
}

impl AxisRef for String {
    fn position(&self, mesh: &Mesh) -> Result<usize, PlacementError> {
        self.as_str().position(mesh)
    }
}

impl AxisRef for Name {
    fn position(&self, mesh: &Mesh) -> Result<usize, PlacementError> {
        self.as_str().position(mesh)
    }
}

impl AxisRef for Axis {
    fn position(&self, mesh: &Mesh) -> Result<usize, PlacementError> {
        self.name.position(mesh)
    }
}

impl fmt::Display for PlacedMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}) as {} on {}", self.mesh, self.matrix, self.machine)
    }
}

fn unknown(axis: String, mesh: &Mesh) -> PlacementError {
    PlacementError::UnknownAxis { axis, mesh: mesh.to_string() }
}

/// Returns, as text, the matrices that would fit a hierarchy and axes; the first few, as there may be thousands.
fn fitting(hierarchy: &[usize], axes: &[usize]) -> String {
    const SHOWN: usize = 3;
    match matrices(hierarchy, axes) {
        Ok(all) => {
            let mut shown: Vec<_> = all.iter().take(SHOWN).map(ToString::to_string).collect();
            if all.len() > SHOWN {
                shown.push(format!("one of {} more", all.len() - SHOWN));
            }
            format!("{} would fit", shown.join(" or "))
        }
        Err(_) => {
            let devices: usize = hierarchy.iter().product();
            format!("no matrix fits both; give the mesh axes that multiply to {devices}")
        }
    }
}
