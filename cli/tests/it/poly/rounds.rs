//! Rounds in files of kernels: their programs, and errors.

use super::{COMMAND_LINE, Folder};
use expect_test::expect;
use polyshard_testing::start::Start;
use polyshard_testing::test_folder;
use std::fs;

/// Rounds within rounds.
const ROUNDS: &str = "fn half(A: [T; 8]) -> B: [T; 8] { B[i] = 0.5 * A[i] }
mesh(x: 2).distribute([i], [io], [ii]).shard(A, i @ x).shard(B, i @ x)
repeat(steps, B = C, until s < -1.5) {
    repeat(2, B = D) {
        fn third(B: [T; 8]) -> D: [T; 8] { D[i] = B[i] / 3.0 }
        mesh(x: 2).distribute([i], [io], [ii]).shard(B, i @ x).shard(D, i @ x)
    }
    fn back(B: [T; 8], A: [T; 8]) -> C: [T; 8] { C[i] = B[i] + A[i] }
    mesh(x: 2).distribute([i], [io], [ii]).shard(B, i @ x).shard(A, i @ x).shard(C, i @ x)
    fn sum(C: [T; 8]) -> s: T { s[] += C[i] }
    mesh(x: 2).distribute([i], [io], [ii]).shard(C, i @ x)
}
";

#[test]
fn mistakes_in_rounds_are_shown_where_they_are() {
    let folder = Folder(test_folder!("poly_rounds"));
    let refuse = |text: &str| folder.refusal(&["lower", &folder.poly(text), "--type", "f64"]);
    let kernel =
        "fn half(A: [T; 8]) -> B: [T; 8] { B[i] = 0.5 * A[i] }\nmesh(x: 2).distribute([i], [io], [ii]).shard(A, i @ x)";
    let refusals = [
        refuse(&format!("repeat 5 {{ {kernel} }}")),
        refuse(&format!("repeat(5, A = B)\n{kernel}")),
        refuse(&format!("repeat(5, A: B) {{ {kernel} }}")),
        refuse(&format!("repeat(many, A = B) {{ {kernel} }}")),
        refuse(&format!("repeat(5, A = Q, until r < 1.0) {{ {kernel} }}")),
        refuse(&format!("repeat(5, A = B, until B < 1.0) {{ {kernel} }}")),
        refuse(&format!("repeat(5, A = B, until B < few) {{ {kernel} }}")),
        refuse("repeat(5, A = B) { }"),
        refuse(&format!("{}{kernel}{}", "repeat(1, A = B) {".repeat(9), "}".repeat(9))),
    ]
    .concat();
    expect![[r#"
        error: rounds need parentheses and braces
         --> kernels.poly:1:1
          |
        1 | repeat 5 { fn half(A: [T; 8]) -> B: [T; 8] { B[i] = 0.5 * A[i] }
          | ^^^^^^
          |
          = help: write `repeat(100, A = B) { .. }`, with the kernels of a round in the braces
        error: rounds need parentheses and braces
         --> kernels.poly:1:1
          |
        1 | repeat(5, A = B)
          | ^^^^^^
          |
          = help: write `repeat(100, A = B) { .. }`, with the kernels of a round in the braces
        error: expected `=`
         --> kernels.poly:1:12
          |
        1 | repeat(5, A: B) { fn half(A: [T; 8]) -> B: [T; 8] { B[i] = 0.5 * A[i] }
          |            ^
          |
          = help: write how many rounds, what is carried and what ends them: `repeat(100, A = B, until s < 1e-9)`
        error: the number of rounds is not known
         --> kernels.poly:1:8
          |
        1 | repeat(many, A = B) { fn half(A: [T; 8]) -> B: [T; 8] { B[i] = 0.5 * A[i] }
          |        ^^^^
          |
          = help: write a number, or give it a value: `--let many=5`
        error: no kernel of the round writes `Q`
         --> kernels.poly:1:15
          |
        1 | repeat(5, A = Q, until r < 1.0) { fn half(A: [T; 8]) -> B: [T; 8] { B[i] = 0.5 * A[i] }
          |               ^
          |
          = help: name what one of them writes

        error: no kernel of the round writes `r`
         --> kernels.poly:1:24
          |
        1 | repeat(5, A = Q, until r < 1.0) { fn half(A: [T; 8]) -> B: [T; 8] { B[i] = 0.5 * A[i] }
          |                        ^
          |
          = help: name what one of them writes
        error: `B` has shape [8], and its bound is 1; rounds end when a scalar, of no dimensions, is below a number
         --> kernels.poly:1:1
          |
        1 | repeat(5, A = B, until B < 1.0) { fn half(A: [T; 8]) -> B: [T; 8] { B[i] = 0.5 * A[i] }
          | ^^^^^^
        error: the bound that ends the rounds is not known
         --> kernels.poly:1:28
          |
        1 | repeat(5, A = B, until B < few) { fn half(A: [T; 8]) -> B: [T; 8] { B[i] = 0.5 * A[i] }
          |                            ^^^
          |
          = help: write a number, or give it a value: `--let few=5`
        error: there is no kernel
         --> kernels.poly:1:18
          |
        1 | repeat(5, A = B) { }
          |                  ^
          |
          = help: write `fn f(A: [f32; m, n]) -> B: [f32; m, n] { B[i, j] = A[i, j] }`, and its schedule after it
        error: rounds are nested too deeply
         --> kernels.poly:1:145
          |
        1 | ...A = B) {repeat(1, A = B) {repeat(1, A = B) {repeat(1, A = B) {repeat(1, A = B) {fn half(A: [T; 8]) -> B: [T; 8] { B[i] = 0.5 * A[i] }
          |                                                                  ^^^^^^
          |
          = help: nest at most 8 of them
    "#]].assert_eq(&refusals);
}

#[test]
fn rounds_are_printed_and_read_again() {
    let folder = Folder(test_folder!("poly_rounds_lower"));
    let rounds = folder.poly(ROUNDS);
    let lower_rounds = |file: &str, print: &str| {
        // The printed text has numbers instead of names.
        let values: &[&str] = if file == rounds { &["--let", "steps=4"] } else { &[] };
        COMMAND_LINE.said(Start::Plain, &[&["lower", file, "--type", "f64", "--print", print], values].concat())
    };
    let program = lower_rounds(&rounds, "program");
    expect![[r#"
        program over (x: 2), f64
            input         A[8]: [0 @ x]
         1  run           B = half(A), B[i] = 0.5 * A[i]
         2  repeat        at most 4 rounds, until s < -1.5e0
                          B' is first B, then C of the round before
         3    repeat        2 rounds
                            B'' is first B', then D of the round before
         4      run           D = third(B''), D[i] = B[i] / 3.0
         5    run           C = back(B'', A), C[i] = B[i] + A[i]
         6    run           s = sum(C), s[] += C[i]
            output        B'[8]: [0 @ x]
    "#]]
    .assert_eq(&program);
    expect![[r#"
        // files in this order: A=A.npy
        fn half(A: [f64; 8]) -> B: [f64; 8] { B[i] = 0.5 * A[i] }
        .distribute([i], [io], [ii], mesh(x: 2))
        .shard(A, i @ x)
        .shard(B, i @ x)

        repeat(4, B = C, until s < -1.5) {
            repeat(2, B = D) {
                fn third(B: [f64; 8]) -> D: [f64; 8] { D[i] = B[i] / 3.0 }
                .distribute([i], [io], [ii], mesh(x: 2))
                .shard(B, i @ x)
                .shard(D, i @ x)
            }

            fn back(B: [f64; 8], A: [f64; 8]) -> C: [f64; 8] { C[i] = B[i] + A[i] }
            .distribute([i], [io], [ii], mesh(x: 2))
            .shard(B, i @ x)
            .shard(A, i @ x)
            .shard(C, i @ x)

            fn sum(C: [f64; 8]) -> s: f64 { s[] += C[i] }
            .distribute([i], [io], [ii], mesh(x: 2))
            .shard(C, i @ x)
        }
    "#]]
    .assert_eq(&lower_rounds(&rounds, "chain"));
    let again = folder.path("again.poly");
    fs::write(&again, lower_rounds(&rounds, "chain")).expect("the folder is ours");
    assert_eq!(lower_rounds(&again, "program"), program);
    let main = lower_rounds(&again, "main");
    let repeats = main.split_once("    let program").and_then(|(_, rest)| rest.split_once("    polyshard::spmd"));
    expect![[r#"
        let program = Sequence::new()
                .stage(&half::schedule().lower()?, ["A"], "B")
                .repeat(4, Sequence::new()
                        .repeat(2, Sequence::new()
                                .stage(&third::schedule().lower()?, ["B''"], "D")
                                .carry_from("B'", "D", "B''"))
                        .stage(&back::schedule().lower()?, ["B''", "A"], "C")
                        .stage(&sum::schedule().lower()?, ["C"], "s")
                        .carry_from("B", "C", "B'")
                        .until("s", -1.5))
                .keep("B'")
                .call("B'", "B")
                .build()?;
    "#]]
    .assert_eq(&format!("let program{}", repeats.expect("a program and a run").0));
}

#[test]
fn what_was_to_end_rounds_and_did_not_is_said() {
    let folder = Folder(test_folder!("poly_unended"));
    let (arrays, out) = (folder.arrays("f64", &["8"]), folder.path("out.npy"));
    let text = |value: &str| {
        format!(
            "repeat(3, A = B, until s < 1e-9) {{
                fn half(A: [T; n]) -> B: [T; n] {{ B[i] = {value} }}
                mesh(x: 2).distribute([i], [io], [ii]).shard(A, i @ x).shard(B, i @ x)
                fn count(B: [T; n]) -> s: T {{ s[] += B[i] - B[i] + 2.5 }}
                mesh(x: 2).distribute([i], [io], [ii]).shard(B, i @ x)
            }}"
        )
    };
    for (value, last) in [("0.5 * A[i]", "20.0"), ("A[i] / 0.0", "NaN")] {
        let file = folder.poly(&text(value));
        let said = COMMAND_LINE.said(Start::Plain, &["run", &file, &arrays[0], "--out", &out]);
        let warning = format!("`s` was {last} after 3 rounds, not below 1e-9");
        assert!(said.lines().any(|line| line.starts_with("warning") && line.ends_with(&warning)), "{said}");
    }
}
