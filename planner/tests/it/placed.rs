//! Meshes on machines: a bijection for every matrix, and refused input.

use expect_test::expect;
use polyshard_layout::Mesh;
use polyshard_machine::Machine;
use polyshard_planner::placement::{ParallelismMatrix, PlacedMesh, matrices};
use proptest::prelude::*;

fn a100(counts: &[usize]) -> Machine {
    Machine::preset("a100").and_then(|machine| machine.with_counts(counts)).expect("a machine")
}

fn matrix(rows: &[&[usize]]) -> ParallelismMatrix {
    ParallelismMatrix::new(rows.iter().map(|row| row.to_vec()).collect()).expect("a matrix")
}

proptest! {
    /// The ranks of the mesh are the devices, each once, at the matrix's coordinates; lines of the mesh are groups in
    /// the order of the coordinates.
    #[test]
    fn each_rank_of_the_mesh_is_one_device(nodes in 1usize..7, gpus in 1usize..9, pick in any::<prop::sample::Index>()) {
        let devices = nodes * gpus;
        let extents = (1..=devices).filter(|x| devices.is_multiple_of(*x)).map(|x| [x, devices / x]);
        for [x, y] in extents {
            let all = matrices(&[nodes, gpus], &[x, y]).expect("as many ranks as devices");
            let mesh = Mesh::new([("x", x), ("y", y)]);
            let placed = PlacedMesh::new(&mesh, &a100(&[nodes, gpus]), pick.get(&all)).expect("the matrix is for both");
            let mut seen = vec![false; devices];
            for (rank, &device) in placed.ranks().iter().enumerate() {
                prop_assert!(!std::mem::replace(&mut seen[device], true));
                prop_assert_eq!(placed.mesh_rank(device), rank);
                prop_assert_eq!(placed.matrix().coordinates(device), mesh.coordinates(rank));
            }
            for group in placed.groups(&["y"]).expect("the axis exists") {
                let line: Vec<_> = group.iter().map(|&device| mesh.coordinates(placed.mesh_rank(device))).collect();
                let expected: Vec<_> = (0..y).map(|at| vec![line[0][0], at]).collect();
                prop_assert_eq!(line, expected);
            }
        }
    }
}

#[test]
fn axes_are_named_by_name_by_position_or_as_values() {
    let mesh = Mesh::new([("x", 2), ("y", 4)]);
    let matrix = matrix(&[&[2, 1], &[1, 4]]);
    let placed = PlacedMesh::new(&mesh, &a100(&[2, 4]), &matrix).expect("the matrix is for both");
    let [x, y] = mesh.axes();
    assert_eq!(placed.positions(&[y, x]).unwrap(), [0, 1]);
    assert_eq!(placed.positions(&["y", "x"]).unwrap(), [0, 1]);
    assert_eq!(placed.positions(&[1]).unwrap(), [1]);
    assert_eq!(placed.positions(&[String::from("x")]).unwrap(), [0]);
    assert_eq!(placed.positions(&["z"]).unwrap_err().to_string(), "no axis `z`; the axes of the mesh are (x: 2, y: 4)");
    assert_eq!(placed.positions(&[x, x]).unwrap_err().to_string(), "axis 0 is named twice; name each axis once");
}

#[test]
fn a_matrix_of_another_machine_or_mesh_is_refused_with_those_that_fit() {
    let cases: [([usize; 2], &[&[usize]]); 4] = [
        ([2, 4], &[&[2, 2], &[2, 1]]),
        ([2, 4], &[&[1, 2], &[2, 2]]),
        ([2, 8], &[&[2, 4], &[1, 2]]),
        ([1, 8], &[&[2, 4]]),
    ];
    let refusals = cases.map(|(counts, rows)| {
        let mesh = Mesh::new([("x", 4), ("y", 2)]);
        format!("{}\n", PlacedMesh::new(&mesh, &a100(&counts), &matrix(rows)).unwrap_err())
    });
    expect![[r#"
        the mesh (x: 4, y: 2) cannot be placed on `a100` by [[2 2] [2 1]]: its columns are for levels of [4, 2], but the machine has [2, 4]; [[1 4] [2 1]] or [[2 2] [1 2]] would fit
        the mesh (x: 4, y: 2) cannot be placed on `a100` by [[1 2] [2 2]]: its rows are for axes of [2, 4], but the mesh has [4, 2]; [[1 4] [2 1]] or [[2 2] [1 2]] would fit
        the mesh (x: 4, y: 2) cannot be placed on `a100` by [[2 4] [1 2]]: its rows are for axes of [8, 2], but the mesh has [4, 2]; no matrix fits both; give the mesh axes that multiply to 16
        the mesh (x: 4, y: 2) cannot be placed on `a100` by [[2 4]]: its columns are for levels of [2, 4], but the machine has [1, 8]; [[1 4] [1 2]] would fit
    "#]]
    .assert_eq(&refusals.concat());
}
