//! Kernels that cannot continue their previous version.

use super::{array, by_columns, mesh, program, refusal, sharding};
use expect_test::expect;
use polyshard_dsl::{Clause, Var, parse_kernel, partial};
use polyshard_layout::Placement;
use polyshard_polyhedral::Schedule;
use polyshard_program::{Array, ArrayId, ArrayKind, Body, Continued, DType, LoweredKernel, Program};
use polyshard_testing::example;

/// `C`, sharded by this clause, which begins as the input `D` and to which a product is added.
fn version(home: Clause, changed: impl FnOnce(&mut Vec<Array>, &mut LoweredKernel)) -> (Vec<Array>, Body) {
    let ((mesh, x), k) = (mesh(), Var::new("k"));
    let product = Schedule::from_spec(example::matmul(4, 4, 4)).distribute(["k"], ["ko"], ["ki"], &mesh);
    let product = product.shard("A", [k.at(x)]).shard("B", [k.at(x)]).shard("C", [home]).lower();
    continued(product.expect("a program").body().clone(), changed)
}

fn continued(mut body: Body, changed: impl FnOnce(&mut Vec<Array>, &mut LoweredKernel)) -> (Vec<Array>, Body) {
    let mut arrays = std::mem::take(&mut body.arrays);
    let output = arrays[body.kernels[0].writes().0].sharding.clone();
    body.kernels[0].continues = Some(Continued { array: ArrayId(arrays.len()), adds: true });
    arrays.push(array("D", output, ArrayKind::Input));
    changed(&mut arrays, &mut body.kernels[0]);
    (arrays, body)
}

fn only_keeps(row: &mut LoweredKernel) {
    row.continues = row.continues.map(|continued| Continued { adds: false, ..continued });
}

#[test]
fn arrays_that_cannot_be_continued() {
    let ((_, x), m) = (mesh(), Var::new("m"));
    let rows = || m.at(x);
    let (arrays, body) = version(rows(), |_, _| ());
    let legal = program(DType::F32, arrays, body).expect("a program");
    let file = serde_json::to_string(&legal).expect("it is written");
    assert!(file.contains(r#""continues":{"array":3,"adds":true}"#), "{file}");
    assert_eq!(serde_json::from_str::<Program>(&file).expect("it is read").body(), legal.body());
    let refused = |home: Clause, changed: &dyn Fn(&mut Vec<Array>, &mut LoweredKernel)| {
        let (arrays, body) = version(home, changed);
        refusal(DType::F32, arrays, body)
    };
    let of = |array: usize| {
        move |_: &mut Vec<Array>, row: &mut LoweredKernel| {
            row.continues = Some(Continued { array: ArrayId(array), adds: true });
        }
    };
    let refusals = [
        refused(rows(), &of(4)),
        refused(rows(), &of(2)),
        refused(rows(), &|arrays, _| arrays[3].kind = ArrayKind::Temporary),
        refused(rows(), &|arrays, _| arrays[3].sharding = by_columns()),
        refused(rows(), &|arrays, _| arrays[3].sharding = sharding(&[4, 6], &[Placement::block(0, mesh().1)])),
        refused(partial(x), &|_, _| ()),
    ];
    expect![[r#"
        kernel 0 names array 4, but the program has 4 arrays, numbered from 0
        statement 1 reads `C`, which no statement before it writes
        statement 1 reads `D`, which no statement before it writes
        statement 1: `matmul` continues `D`, [4, 4] [1 @ x], but writes `C`, [4, 4] [0 @ x]; both need the same shape and sharding
        statement 1: `matmul` continues `D`, [4, 6] [0 @ x], but writes `C`, [4, 4] [0 @ x]; both need the same shape and sharding
        statement 1: `matmul` leaves the sums of `C` open, [partial(x)], so it cannot add to `D`; close them first
    "#]].assert_eq(&refusals.concat());
    // Open sums may keep elements of other open sums.
    let (arrays, body) = version(partial(x), |_, row| only_keeps(row));
    program(DType::F32, arrays, body).expect("a program");
}

#[test]
fn kernels_that_cannot_continue() {
    let (mesh, x) = mesh();
    let refused = |steps: usize, changed: fn(&mut LoweredKernel)| {
        let blur = "fn blur(u: [f32; 16]) -> v: [f32; 16] { v[i] = u[i - 1] else 0 + u[i + 1] else 0 }";
        let blur = Schedule::from_spec(parse_kernel(blur).expect("a kernel"));
        let blur = blur.distribute(["i"], ["io"], ["ii"], &mesh).shard("u", [Var::new("i").at(x)]);
        let blur = blur.shard("v", [Var::new("i").at(x)]);
        let blur = if steps > 1 { blur.halo("u", steps) } else { blur };
        let body = blur.lower().expect("a program").body().clone();
        let (arrays, body) = continued(body, |_, row| changed(row));
        refusal(DType::F32, arrays, body)
    };
    let refusals = [refused(1, |_| ()), refused(2, only_keeps)];
    expect![[r#"
        statement 1: `blur` writes by `=`, which adds nothing to `D`; write `+=`, `*=`, `max=` or `min=`
        statement 1: `blur` is applied several times, so it cannot continue `D`
    "#]]
    .assert_eq(&refusals.concat());
}
