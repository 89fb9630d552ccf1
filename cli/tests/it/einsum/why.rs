//! `--why`: another schedule next to the chosen one.

use super::Files;
use expect_test::expect;
use polyshard::layout::DType;
use polyshard_testing::start::{Ended, Start};
use polyshard_testing::test_folder;

#[test]
fn another_schedule_is_compared_or_said_to_be_impossible() {
    let files = Files::new(test_folder!("einsum_why"), DType::F32, &[&[512, 512], &[512, 512]]);
    let names = ["A.npy", "B.npy"];
    let base = ["--ranks", "6", "--machine", "a100"];
    let why = |text: &str| files.said(Start::Plain, "ij,jk->ik", &names, &[&base[..], &["--why", text]].concat());
    // With and without the dot, with the mesh before and inside the step.
    let rows = why("distribute([i], [io], [ii], mesh(x: 6)).tensorize([ii, k, j])");
    expect![[r#"
                     chosen     other  difference
        computing   2.31 us   2.31 us          +0
        moving      6.24 us   6.26 us   +25.28 ns
        received   880.6 kB  880.6 kB        +0 B
        memory      2.46 MB   5.08 MB    +2.63 MB
        the chosen one is faster, 8.55 us against 8.57 us
    "#]]
    .assert_eq(&rows);
    assert_eq!(why(" .distribute([i], [io], [ii], mesh(x: 6)).tensorize([ii, k, j])"), rows);
    assert_eq!(why("mesh(x: 6).distribute([i], [io], [ii]).tensorize([ii, k, j])"), rows);
    // The chosen schedule ties with itself, as a chain and with its kernel.
    let printed = files.said(Start::Plain, "ij,jk->ik", &names, &[&base[..], &["--print", "chain"]].concat());
    expect![[r#"
        a tie: both take 8.55 us; the chosen one holds 2.46 MB a rank and receives 880.6 kB, the other 2.46 MB and 880.6 kB; ties go to the schedule with the least memory, then to the first by the text of its chain
    "#]].assert_eq(&why(&printed));
    // It begins with a comment, followed by the kernel and its chain.
    for less in 1..3 {
        let chain = printed.splitn(less + 1, '\n').last().expect("more lines");
        assert_eq!(why(chain), why(&printed));
    }
    expect![[r#"
        not possible because of step 1, `split(q, a, b, 2)`: no loop `q`; the loops are i, k, j
    "#]]
    .assert_eq(&why("split(q, a, b, 2)"));
    expect![[r#"
        not possible because its mesh, (x: 8), has 8 ranks, more than the 6 available
    "#]]
    .assert_eq(&why("mesh(x: 8).distribute([i], [io], [ii]).tensorize([ii, k, j])"));
    expect![[r#"
        not possible because of step 2, `tensorize([i, k, jo])`: loop `jo` is bound to mesh axis `x` and cannot be moved or changed; tensorize its inner loop
    "#]].assert_eq(&why("mesh(x: 2).distribute([j], [jo], [ji]).tensorize([i, k, jo])"));
}

#[test]
fn chains_that_cannot_be_read_are_shown() {
    let files = Files::new(test_folder!("einsum_why_refused"), DType::F32, &[&[8, 8], &[8, 8]]);
    let refused = |why: &str| {
        let more = ["--ranks", "2", "--machine", "a100", "--why", why];
        files.refusal("ij,jk->ik", &["A.npy", "B.npy"], &more)
    };
    let other = "fn f(A: [f32; 8]) -> B: [f32; 8] { B[i] = A[i] }\n.split(i, a, b, 2)";
    let refusals = [
        refused("auto"),
        refused("devide(i, a, b, 2).split(j, a, b)"),
        refused("mesh(x: 2)\n.distribute([i], [io], [ii]\n.tensorize([ii, k, j])"),
        refused(other),
    ]
    .concat();
    expect![[r#"
        error: `--why auto` does not name a schedule; write the steps to compare
        error: no schedule step `devide`
         --> --why:1:1
          |
        1 | devide(i, a, b, 2).split(j, a, b)
          | ^^^^^^
          |
          = help: did you mean `divide`? the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect`, `expect_overlap`, `together`, `apart`, `of` and `of_all`

        error: expected `,`
         --> --why:1:33
          |
        1 | devide(i, a, b, 2).split(j, a, b)
          |                                 ^
          |
          = help: write `.split(k, ko, ki, 64)`
        error: `(` is not closed
         --> --why:2:12
          |
        2 | .distribute([i], [io], [ii]
          |            ^
          |
          = help: write `)` where it ends
        error: `--why` is about `fn f(A: [f32; 8]) -> B: [f32; 8] { B[i] = A[i] }`, but the einsum is `fn einsum(A: [f32; 8, 8], B: [f32; 8, 8]) -> out: [f32; 8, 8] { out[i, k] = A[i, j] * B[j, k] }`; give the chain alone
    "#]].assert_eq(&refusals);
}

#[test]
fn what_is_printed_as_a_chain_is_a_file_of_kernels() {
    let files = Files::new(test_folder!("einsum_pasted"), DType::F32, &[&[12, 8], &[8, 10]]);
    let print = |what: &str| {
        let more = ["--ranks", "2", "--machine", "a100", "--print", what];
        files.said(Start::Plain, "ij,jk->ik", &["A.npy", "B.npy"], &more)
    };
    let poly = files.path("pasted.poly");
    std::fs::write(&poly, print("chain")).expect("the folder is ours");
    let Ended { success, stdout, stderr, .. } = super::COMMAND_LINE.run(Start::Plain, &["lower", &poly]);
    assert!(success, "{stderr}");
    assert_eq!(stdout, print("program"));
}
