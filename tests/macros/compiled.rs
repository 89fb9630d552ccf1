//! The compiled form contains the schedule that the methods build, and gives the same numbers.

use polyshard::prelude::*;

kernel! {
    pub fn matmul(A: [f32; 8, 12], B: [f32; 12, 10]) -> C: [f32; 8, 10] {
        C[m, n] += alpha * A[m, k] * B[k, n]
    }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .distribute([mi], [mio], [mii], mesh(z: 1 + 1))
    .divide(k, ko, ki, 2)
    .split(ni, na, nb, 4)
    .fuse(na, nb, nf)
    .reorder([ko, mii, nf, ki])
    .rotate(ko, [mo, no])
    .shard(A, m @ [x, z], k @ ((x + y) % 2))
    .shard(B, n @ cyclic(y, 3), pin(z, 0))
    .shard(C, dim(0) @ x)
    .communicate(A, ko)
    .tensorize_as([ki], nest)
}

kernel! {
    pub fn copy(A: [i32; 8]) -> C: [i32; 8] {
        C[i] = A[i]
    }
    mesh(x: 2)
    .distribute([i], [io], [ii])
    .shard(A)
    .shard(C, i @ x)
    .expect(A, local)
    .tensorize([ii])
}

fn matmul_by_methods(alpha: f32) -> Schedule {
    vars!(m, n, k, mo, mi, no, ni, ko, ki, mio, mii, na, nb, nf);
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let inner = Mesh::new([("z", 2)]);
    let [x, y] = mesh.axes();
    let [z] = inner.axes();
    let matmul = kernel! {
        fn matmul(A: [f32; 8, 12], B: [f32; 12, 10]) -> C: [f32; 8, 10] {
            C[m, n] += alpha * A[m, k] * B[k, n]
        }
    };
    matmul
        .distribute([m, n], [mo, no], [mi, ni], &mesh)
        .distribute([mi], [mio], [mii], &inner)
        .divide(k, ko, ki, 2)
        .split(ni, na, nb, 4)
        .fuse(na, nb, nf)
        .reorder([ko, mii, nf, ki])
        .rotate(ko, [mo, no])
        .shard("A", [m.at([x, z]), k.at((x + y) % 2)])
        .shard("B", [n.cyclic(y, 3), pin(z, 0)])
        .shard("C", [dim(0).at(x)])
        .communicate("A", ko)
        .tensorize_as([ki], polyshard::program::LeafKind::Nest)
}

#[test]
fn the_schedule_is_the_one_that_methods_build() {
    assert_eq!(matmul::schedule(2.0), matmul_by_methods(2.0));
    assert_ne!(matmul::schedule(3.0), matmul_by_methods(2.0));
    assert_eq!(matmul::MESH, [("x", 2), ("y", 2), ("z", 2)]);
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let by_methods = kernel! { fn copy(A: [i32; 8]) -> C: [i32; 8] { C[i] = A[i] } }
        .distribute([i], [io], [ii], &mesh)
        .shard("A", [])
        .shard("C", [i.at(x)])
        .expect("A", Pattern::Local)
        .tensorize([ii]);
    assert_eq!(copy::schedule(), by_methods);
}

#[test]
fn the_emitted_kernel_gives_what_the_program_gives() {
    let program = matmul_by_methods(0.5).lower().unwrap();
    polyshard::spmd(8, |world| {
        let a = DistArray::from_fn(world, &matmul::sharding_a(), |i| (7 * i[0] + 3 * i[1]) as f32 - 20.0)?;
        let b = DistArray::from_fn(world, &matmul::sharding_b(), |i| (5 * i[0] + 2 * i[1]) as f32 - 30.0)?;
        let emitted = matmul::run(world, &a, &b, 0.5)?;
        let executed = program.run(world, &[&a, &b])?;
        assert_eq!(emitted.block(), executed.block());
        let mut twice = executed;
        matmul::run_into(world, &a, &b, &mut twice, 0.5)?;
        let doubled: Vec<_> = emitted.block().iter().map(|value| 2.0 * value).collect();
        assert_eq!(twice.block(), doubled);
        Ok(())
    })
    .unwrap();
}
