//! Rooflines of meshes that are placed on machines.
//!
//! A machine has levels, a roofline one kind of link per axis of the mesh. Where an axis is a whole ring, a line of
//! neighbours, or a dimension of a torus, whose links no other axis uses, its links are those. Anything else is taken as a
//! switch through which every rank gets what it gets when all groups along the axis gather at once, as simulated: the
//! devices of a node share its network card, and an axis on two levels is as fast as the slower one lets it be.
//!
//! Only gathers are looked at. An all-to-all on a part of a ring may be better or worse than the switch says.

use super::{Link, ProductError, Roofline, Wiring};
use crate::placement::ParallelismMatrix;
use polyshard_layout::{Collective, DType, Mesh};
use polyshard_machine::{Algorithm, GroupedCollective, Interconnect, Level, Machine, seconds};

impl Roofline {
    /// Returns what products on `mesh` are planned by on a slice of the torus of this name, one of
    /// [`TPUS`](polyshard_machine::TPUS), with a dimension for each axis of more than one rank.
    ///
    /// ```
    /// use polyshard_layout::{DType, Mesh};
    /// use polyshard_planner::product::{Roofline, Wiring};
    /// let roofline = Roofline::preset("tpu-v5e", &Mesh::new([("X", 4), ("Y", 16)]), DType::Bf16)?;
    /// let wiring: Vec<_> = roofline.links.iter().map(|(_, link)| link.wiring).collect();
    /// assert_eq!(wiring, [Wiring::Line, Wiring::Ring]);
    /// # Ok::<(), polyshard_planner::product::ProductError>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such machine, it has no such mesh, or it states no operations per second for the type.
    pub fn preset(name: &str, mesh: &Mesh, dtype: DType) -> Result<Self, ProductError> {
        let axes = mesh.as_slice().iter().enumerate();
        let long: Vec<_> = axes.clone().filter(|(_, axis)| axis.extent > 1).map(|(axis, _)| axis).collect();
        // One chip is a slice too.
        let levels = if long.is_empty() { vec![0] } else { long };
        let counts: Vec<_> = levels.iter().map(|&axis| mesh.extents()[axis]).collect();
        let row =
            |axis: usize, extent: usize| levels.iter().map(|&level| if level == axis { extent } else { 1 }).collect();
        let rows = axes.map(|(nth, axis)| row(nth, axis.extent)).collect();
        let refused = |why: &dyn std::fmt::Display| ProductError::Machine(why.to_string());
        let machine = Machine::sized(name, &counts).map_err(|why| refused(&why))?;
        let straight = ParallelismMatrix::new(rows).map_err(|why| refused(&why))?;
        Self::on_machine(&machine, &straight, mesh, dtype)
    }

    /// Returns what products on `mesh` are planned by, where `matrix` says how each axis of it lies on the levels of
    /// `machine`.
    ///
    /// ```
    /// use polyshard_layout::{DType, Mesh};
    /// use polyshard_machine::Machine;
    /// use polyshard_planner::placement::ParallelismMatrix;
    /// use polyshard_planner::product::{Roofline};
    /// let machine = Machine::preset("a100")?; // 4 nodes of 16 GPUs
    /// let mesh = Mesh::new([("data", 4), ("tensor", 16)]);
    /// let across = ParallelismMatrix::new(vec![vec![4, 1], vec![1, 16]])?;
    /// let roofline = Roofline::on_machine(&machine, &across, &mesh, DType::Bf16)?;
    /// // 16 GPUs share a network card of 8 GB/s; inside a node each has 270 GB/s.
    /// let bandwidths: Vec<f64> = roofline.links.iter().map(|(_, link)| link.bandwidth).collect();
    /// assert_eq!(bandwidths, [8e9 / 16.0, 270e9]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the matrix is for another machine or for a mesh of other extents, or the machine states no operations per
    /// second for the type.
    pub fn on_machine(
        machine: &Machine,
        matrix: &ParallelismMatrix,
        mesh: &Mesh,
        dtype: DType,
    ) -> Result<Self, ProductError> {
        matrix.check(machine).map_err(|error| ProductError::Machine(error.to_string()))?;
        let extents: Vec<usize> = mesh.as_slice().iter().map(|axis| axis.extent).collect();
        if matrix.axes() != extents {
            let placed = matrix.axes();
            let why = format!(
                "the matrix {matrix} places axes of {placed:?}, but the mesh is ({mesh}); give each axis a row"
            );
            return Err(ProductError::Machine(why));
        }
        let device = machine.device();
        let Some(&flops) = device.flops.get(&dtype.to_string()) else {
            let stated: Vec<&str> = device.flops.keys().map(String::as_str).collect();
            let stated = if stated.is_empty() { "for no type".into() } else { format!("for {}", stated.join(", ")) };
            let name = machine.name();
            let why = format!("{name} states no FLOP/s for {dtype}, but {stated}; plan for such a type, or add it");
            return Err(ProductError::Machine(why));
        };
        let mut links = Vec::new();
        for (axis, described) in mesh.as_slice().iter().enumerate().filter(|(_, axis)| axis.extent > 1) {
            let link = match own_links(machine, matrix, axis) {
                Some(link) => link,
                None => shared_links(machine, matrix, axis)?,
            };
            links.push((described.name, link));
        }
        let (memory_bandwidth, memory_bytes) = (device.memory_bandwidth, u128::from(device.memory_capacity));
        Ok(Self { flops, memory_bandwidth, memory_bytes, links })
    }
}

/// The links of an axis that has a dimension of one level, or neighbours along it, to itself.
fn own_links(machine: &Machine, matrix: &ParallelismMatrix, axis: usize) -> Option<Link> {
    let on = |level: &usize| matrix.rows()[axis][*level] > 1;
    let mut levels = (0..machine.levels().len()).filter(on);
    let (level, None) = (levels.next()?, levels.next()) else { return None };
    let described = &machine.levels()[level];
    if described.shared_ports.is_some() || described.bypass.is_some() {
        return None;
    }
    let extent = matrix.rows()[axis][level];
    // Axes after this one are inner digits of the member's number.
    let stride: usize = matrix.rows()[axis + 1..].iter().map(|row| row[level]).product();
    let (count, wiring) = dimension(described, stride)?;
    let wiring = match wiring {
        wiring if count == extent => wiring,
        _ if count.is_multiple_of(extent) => Wiring::Line,
        _ => return None,
    };
    Some(Link { wiring, bandwidth: described.bandwidth, latency: described.latency })
}

/// The extent and the wiring of a level's ring, line or dimension of a torus whose neighbours are so far apart.
fn dimension(level: &Level, stride: usize) -> Option<(usize, Wiring)> {
    let (extents, wiring) = match &level.interconnect {
        Interconnect::Switch => return None,
        Interconnect::Ring => (vec![level.count], Wiring::Ring),
        Interconnect::Line => (vec![level.count], Wiring::Line),
        Interconnect::Torus(extents) => (extents.clone(), Wiring::Ring),
    };
    let mut inner = 1;
    for extent in extents.into_iter().rev() {
        // Dimensions of one member are passed by.
        if inner == stride && extent > 1 {
            return Some((extent, wiring));
        }
        inner *= extent;
    }
    None
}

/// A switch at which ranks along an axis gather as fast as they do on the machine when all groups do.
fn shared_links(machine: &Machine, matrix: &ParallelismMatrix, axis: usize) -> Result<Link, ProductError> {
    let wrong = |error: &dyn std::fmt::Display| ProductError::Machine(error.to_string());
    let groups = matrix.groups(&[axis]).map_err(|error| wrong(&error))?;
    let others = groups[0].len() as f64 - 1.0;
    // Any amount per rank gives the same rate, as long as rounding is negligible.
    let bytes = 1e9;
    let gather = GroupedCollective { operation: Collective::AllGather, groups, bytes };
    let transfer = seconds(machine, &gather, Algorithm::Ring).map_err(|error| wrong(&error))?.transfer;
    let levels = machine.levels().iter().zip(&matrix.rows()[axis]);
    let latency = levels.filter(|(_, factor)| **factor > 1).map(|(level, _)| level.latency).fold(0.0, f64::max);
    Ok(Link { wiring: Wiring::Switch, bandwidth: others * bytes / transfer, latency })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: &[&[usize]]) -> ParallelismMatrix {
        ParallelismMatrix::new(rows.iter().map(|row| row.to_vec()).collect()).expect("a matrix")
    }

    fn links(machine: &Machine, rows: &[&[usize]]) -> Vec<(Wiring, f64)> {
        let matrix = matrix(rows);
        let mesh = Mesh::new(["X", "Y", "Z"].into_iter().zip(matrix.axes()));
        let dtype = machine.device().flops.keys().find_map(|name| name.parse().ok()).expect("a type that is planned");
        let roofline = Roofline::on_machine(machine, &matrix, &mesh, dtype).expect("it is placed");
        roofline.links.iter().map(|(_, link)| (link.wiring, link.bandwidth)).collect()
    }

    #[test]
    fn axes_that_are_dimensions_of_a_torus_are_as_the_literature_has_them() {
        let mesh = Mesh::new([("X", 8), ("one", 1), ("Y", 16)]);
        let straight = matrix(&[&[8, 1], &[1, 1], &[1, 16]]);
        for (name, dtype, wiring) in [("tpu-v5e", DType::Bf16, Wiring::Line), ("tpu-v4p", DType::I8, Wiring::Ring)] {
            let placed = Roofline::preset(name, &mesh, dtype).expect("it fits");
            let slice = Machine::sized(name, &[8, 16]).expect("a slice");
            assert_eq!(Roofline::on_machine(&slice, &straight, &mesh, dtype).expect("it is placed"), placed);
            let link = |wiring| Link { wiring, bandwidth: 4.5e10, latency: 1e-6 };
            assert_eq!(placed.links, [("X".into(), link(wiring)), ("Y".into(), link(Wiring::Ring))]);
        }
        let alone = Roofline::preset("tpu-v5p", &Mesh::new([("X", 1)]), DType::Bf16).expect("one chip");
        assert_eq!((alone.flops, alone.links), (4.59e14, Vec::new()));
        let v5e = Machine::sized("tpu-v5e", &[8, 16]).expect("a slice");
        // Axes may lie the other way round.
        let crossed = links(&v5e, &[&[1, 16], &[8, 1]]);
        assert_eq!(crossed, [(Wiring::Ring, 4.5e10), (Wiring::Line, 4.5e10)]);
    }

    #[test]
    fn a_torus_in_one_level_is_taken_apart() {
        let level = Level {
            name: "chip".into(),
            count: 32,
            interconnect: Interconnect::Torus(vec![8, 4]),
            bandwidth: 1e10,
            latency: 1e-6,
            shared_ports: None,
            bypass: None,
        };
        let device = Machine::preset("a100").expect("a preset").device().clone();
        let torus = Machine::new("torus", vec![level], device).expect("a machine");
        assert_eq!(links(&torus, &[&[8], &[4]]), [(Wiring::Ring, 1e10); 2]);
        // Two halves of the first dimension: neighbours, but no ring. The outer of the two is a switch with less.
        let [outer, inner, second] = links(&torus, &[&[2], &[4], &[4]])[..] else { panic!("three axes") };
        assert_eq!((inner, second), ((Wiring::Line, 1e10), (Wiring::Ring, 1e10)));
        assert!(outer.0 == Wiring::Switch && outer.1 < 1e10, "{outer:?}");
        // Neither a dimension nor neighbours along one.
        assert_eq!(links(&torus, &[&[16], &[2]])[0].0, Wiring::Switch);
    }

    #[test]
    fn devices_share_what_their_node_has() {
        let a100 = Machine::preset("a100").expect("a preset");
        let switch = |bandwidth| (Wiring::Switch, bandwidth);
        assert_eq!(links(&a100, &[&[4, 1], &[1, 16]]), [switch(8e9 / 16.0), switch(270e9)]);
        // Two of the eight ranks of an axis are in each node, so eight groups share the card, each of which crosses it once.
        assert_eq!(links(&a100, &[&[4, 2], &[1, 8]]), [switch(8e9 / 8.0), switch(270e9)]);
        // Axes of one rank have no links.
        assert_eq!(links(&a100, &[&[4, 16], &[1, 1]]).len(), 1);
    }

    #[test]
    fn what_is_not_placed_is_refused() {
        let machine = Machine::preset("v100").expect("a preset");
        let mesh = Mesh::new([("X", 4), ("Y", 8)]);
        let said = |rows: &[&[usize]], dtype| {
            Roofline::on_machine(&machine, &matrix(rows), &mesh, dtype).expect_err("refused").to_string()
        };
        assert_eq!(
            said(&[&[4, 1], &[1, 16]], DType::F32),
            "the matrix [[4 1] [1 16]] is for the hierarchy [4, 16], but `v100` has [4, 8]"
        );
        assert_eq!(
            said(&[&[2, 8], &[2, 1]], DType::F32),
            "the matrix [[2 8] [2 1]] places axes of [16, 2], but the mesh is (X: 4, Y: 8); give each axis a row"
        );
        assert_eq!(
            said(&[&[4, 1], &[1, 8]], DType::I8),
            "v100 states no FLOP/s for i8, but for f16, f32, f64; plan for such a type, or add it"
        );
    }
}
