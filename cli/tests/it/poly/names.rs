//! Texts on blocks of several statements name arrays as their files do, however many versions of them there are.

use super::*;
use std::collections::BTreeSet;

/// The examples that are one block, but for `kmeans`: texts name the array of its records, `least_own`.
const BLOCKS: [&str; 11] =
    ["heat", "tucker", "cg", "power", "jacobi", "restarted", "wave", "mlp", "attention", "layernorm", "ring"];

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !(character.is_alphanumeric() || character == '_' || character == '·'))
}

/// The words of a text that are not in the file, but would be names of versions or of their kernels: an array with a number, or the name
/// of the block with that of an array; and names that only the compiler gives.
fn internal(file: &str, text: &str) -> Vec<String> {
    let known: BTreeSet<&str> = words_of(file).chain(["f64"]).collect();
    let is_internal = |word: &&str| {
        let stem = word.trim_end_matches(|character: char| character.is_ascii_digit());
        let is_numbered = stem.len() < word.len() && !stem.is_empty() && known.contains(stem);
        let is_of_block =
            stem.split_once('_').is_some_and(|(block, array)| known.contains(block) && known.contains(array));
        let is_ours = *word == "unmet" || word.contains('·');
        !known.contains(word) && (is_numbered || is_of_block || is_ours)
    };
    let found: BTreeSet<_> = words_of(text).filter(is_internal).map(str::to_owned).collect();
    found.into_iter().collect()
}

#[test]
fn versions_of_arrays_are_found_in_texts() {
    let file = "fn cg(B: [T; n]) -> rr: T { let R[i] = B[i]; rr = R[i] }";
    assert_eq!(internal(file, "rr'' = cg(R'), rr[] = R[i] * R[i], 12 B"), [] as [&str; 0]);
    assert_eq!(internal(file, "`cg_rr` reads R2, R·3, unmet"), ["R2", "R·3", "cg_rr", "unmet"]);
}

#[test]
fn texts_on_blocks_have_the_names_of_their_files() {
    for (name, shapes, ranks) in EXAMPLES.into_iter().filter(|(name, ..)| BLOCKS.contains(name)) {
        let folder = Folder(test_folder!(&format!("poly_names_{name}")));
        let (file, arrays) = (example(name), folder.arrays("f64", shapes));
        let text = fs::read_to_string(&file).expect("an example");
        let count = ranks.to_string();
        let check = |said: &str| assert_eq!(internal(&text, said), [] as [&str; 0], "{name}:\n{said}");
        let lower = |file: &str, more: &[&str]| {
            let all = words(&["lower", file], &arrays, &[values(name), &["--ranks", &count], more].concat());
            COMMAND_LINE.said(Start::Plain, &all)
        };
        let picture = folder.path("picture.svg");
        check(&lower(&file, &["--print", "explain", "--draw", &picture]));
        // Indices and panels of pictures are numbered, and so are names in source, of which comments and texts are checked.
        check(fs::read_to_string(picture).expect("it was drawn").split_once("</desc>").expect("a description").0);
        for form in ["source", "main"] {
            let source = lower(&file, &["--print", form]);
            source.lines().filter(|line| line.contains("//") || line.contains("`")).for_each(check);
        }
        let relations = lower(&file, &["--print", "relations"]);
        check(&relations.replace("d0", "").replace("d1", "").replace("d2", ""));
        // Few rounds end before the condition holds.
        let out = folder.path("out.npy");
        let run =
            words(&["run", &file], &arrays, &[values(name), &["--out", &out, "--check", "--ranks", &count]].concat());
        check(&COMMAND_LINE.said(Start::Plain, &run));
        // Another schedule is chosen, or none fits.
        let block = text.split_inclusive("\n}\n").next().expect("a block");
        let chosen = folder.poly(&format!("{block}auto\n"));
        check(&lower(&chosen, &["--print", "explain", "--machine", "a100"]));
        let all = [values(name), &["--ranks", &count, "--machine", "a100", "--memory", "1B"]].concat();
        check(&folder.refusal(&words(&["lower", &chosen], &arrays, &all)));
    }
}

#[test]
fn refused_schedules_of_blocks_name_arrays_as_their_files_do() {
    let folder = Folder(test_folder!("poly_names_refused"));
    let text = fs::read_to_string(example("cg")).expect("an example");
    let numbers =
        ["--type", "f64", "--let", "rows=8", "--let", "columns=8", "--let", "rounds=3", "--let", "tolerance=1e-9"];
    let mut said = String::new();
    for step in
        ["expect(D, local)", "shard(R, partial(x))", "shard(X, q @ x)", "reassociate(rr)", "of(D).tensorize([ii])"]
    {
        let file = folder.poly(&format!("{text}.{step}\n"));
        let refusal = folder.refusal(&[&["lower", &file], &numbers[..]].concat());
        said += refusal.lines().next().expect("a message");
        said.push('\n');
    }
    expect![[r#"
        error: the transfer of `D` is halo(x: -1..=1, y: -1..=1), not local
        error: `R` would be read as partial sums along x
        error: `q` stands alone in no index of `X`
        error: rounds end by `rr`, but the terms of `rr` are added in any order, so ranks might end after different rounds; leave `reassociate(rr)` out of the schedule
        error: the loops ii are not the innermost ones: `ji` is inside
    "#]].assert_eq(&said);
    let condition = text.replace("until rr < tolerance", "until tolerance >= rr * rr");
    let (file, out, arrays) = (folder.poly(&condition), folder.path("out.npy"), folder.arrays("f64", &["8,8"]));
    let said =
        COMMAND_LINE.said(Start::Plain, &words(&["run", &file], &arrays, &[&numbers[6..], &["--out", &out]].concat()));
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("repeat") || line.starts_with("warning")).collect();
    expect![[r#"
        repeat   at most 3 rounds, until 1e-9 >= rr[] * rr[]
        warning  `1e-9 >= rr[] * rr[]` did not hold after 3 rounds"#]]
    .assert_eq(&lines.join("\n"));
}
