//! Whatever names the user chooses, emitted source is the same up to the names.

use super::{SourceOptions, module::items, rust_source};
use polyshard_dsl::Var;
use polyshard_layout::{Mesh, Name};
use polyshard_polyhedral::Schedule;
use polyshard_program::{Access, Affine, Assign, DType, KernelSpec, Program, Value};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// The names in a program: two axes, a loop in time, a loop inside, tensors and scalars.
const ROLES: usize = 8;
const PLAIN: [&str; ROLES] = ["p", "q", "ko", "ki", "A", "B", "C", "alpha"];

/// `C[m, n] += alpha * A[m, k] * B[k, n]` over a mesh, with a broadcast, a shift and groups of both axes.
fn program(names: [&str; ROLES]) -> Program {
    let [p, q, ko, ki, a, b, c, alpha] = names.map(Name::new);
    let [m, n, k, mo, mi, no, ni] = ["m_", "n_", "k_", "mo_", "mi_", "no_", "ni_"].map(Name::new);
    let access = |tensor: Name, index: [Name; 2]| {
        Access::new(tensor, index.iter().map(|&name| Affine::new([(name, 1)], 0)).collect())
    };
    let product = Value::Mul(
        Box::new(Value::Mul(Box::new(Value::Scalar(alpha)), Box::new(Value::Access(access(a, [m, k]))))),
        Box::new(Value::Access(access(b, [k, n]))),
    );
    let spec = KernelSpec {
        name: Name::new("f"),
        dtype: DType::I64,
        inputs: vec![(a, vec![6, 8]), (b, vec![8, 5])],
        output: (c, vec![9, 5]),
        ranges: vec![],
        scalars: vec![(alpha, polyshard_program::Number::Int(1))],
        moduli: Vec::new(),
        target: Access::new(c, vec![Affine::new([(m, 1)], 1), Affine::new([(n, 1)], 0)]),
        assign: Assign::Set,
        value: product,
    };
    let var = |name: Name| Var::new(name.as_str());
    let mesh = Mesh::new([(p.as_str(), 2), (q.as_str(), 2)]);
    let axes = mesh.axes();
    let [x, y] = axes;
    Schedule::from_spec(spec)
        .distribute([var(m), var(n)], [var(mo), var(no)], [var(mi), var(ni)], &mesh)
        .divide(var(k), var(ko), var(ki), 2)
        .reorder([var(mo), var(no), var(ko), var(mi), var(ni), var(ki)])
        .shard(a.as_str(), [var(m).at(x), var(k).at(y)])
        .shard(b.as_str(), [var(k).at([x, y])])
        .shard(c.as_str(), [var(m).at(x), var(n).at(y)])
        .communicate(a.as_str(), var(ko))
        .tensorize_as([var(mi), var(ni), var(ki)], polyshard_program::LeafKind::Nest)
        .lower()
        .unwrap_or_else(|error| panic!("{names:?}: {error}"))
}

fn tokens(source: &str) -> TokenStream {
    source.parse().unwrap_or_else(|error| panic!("{error}\n{source}"))
}

/// The tokens one after the other, without the contents of literals, which quote names.
fn flat(tokens: TokenStream, found: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                found.push(format!("{:?}", group.delimiter()));
                flat(group.stream(), found);
                found.push("end".into());
            }
            TokenTree::Ident(ident) => found.push(format!("name {ident}")),
            TokenTree::Literal(_) => found.push("literal".into()),
            TokenTree::Punct(punct) => found.push(punct.as_char().to_string()),
        }
    }
}

fn words(tokens: TokenStream) -> Vec<String> {
    let mut words = Vec::new();
    flat(tokens, &mut words);
    words
}

/// The items of the module, before formatting.
fn named_items(program: &Program) -> TokenStream {
    let (items, names) = items(program);
    names.wanted.chosen(&items).write(items)
}

/// All identifiers of emitted code: those of the golden files, and of this program.
fn identifiers() -> BTreeSet<String> {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden");
    let files = std::fs::read_dir(golden).expect("the golden files are there").map(|file| file.expect("a file").path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let texts = rust.map(|path| std::fs::read_to_string(path).expect("a text"));
    let own = rust_source(&program(PLAIN), &SourceOptions::default());
    let all = texts.chain([own]).flat_map(|text| words(tokens(&text)));
    all.filter_map(|word| word.strip_prefix("name ").map(str::to_owned)).collect()
}

/// Names that the collected identifiers do not include: keywords, names that a pattern would take for a constant, and
/// text that is not an identifier.
const MORE: [&str; 45] = [
    "None",
    "Some",
    "Ok",
    "Err",
    "MESH",
    "SOURCE",
    "schedule",
    "self",
    "Self",
    "super",
    "crate",
    "in",
    "type",
    "match",
    "gen",
    "async",
    "await",
    "dyn",
    "try",
    "yield",
    "box",
    "abstract",
    "static",
    "union",
    "macro",
    "_",
    "__",
    "0",
    "1x",
    "a b",
    "a-b",
    "x_",
    "x__y",
    "__0",
    "__1",
    "α",
    "é",
    "²",
    "x²",
    "p_q",
    "A_tile",
    "v0",
    "v1",
    "min",
    "\u{1f980}",
];

/// Checks that the source for `names` is that for plain names, up to a one-to-one renaming.
fn same_but_for_names(plain: &[String], names: [&str; ROLES]) {
    let program = program(names);
    let text = rust_source(&program, &SourceOptions::default());
    assert!(!text.contains("#["), "{names:?}\n{text}");
    let other_words = words(named_items(&program));
    let (mut there, mut back) = (BTreeMap::new(), BTreeMap::new());
    assert_eq!(plain.len(), other_words.len(), "{names:?}\n{text}");
    for (word, otherwise) in plain.iter().zip(&other_words) {
        let both = (word.strip_prefix("name "), otherwise.strip_prefix("name "));
        let (Some(word), Some(otherwise)) = both else {
            assert_eq!(word, otherwise, "{names:?}\n{text}");
            continue;
        };
        assert_eq!(*there.entry(word).or_insert(otherwise), otherwise, "{names:?} tears `{word}` apart\n{text}");
        assert_eq!(*back.entry(otherwise).or_insert(word), word, "{names:?}: `{otherwise}` is two\n{text}");
        if word != otherwise {
            assert!(!otherwise.contains(char::is_uppercase), "`{otherwise}` could be a constant\n{text}");
        }
    }
    let moved: Vec<_> = there.iter().filter(|(word, otherwise)| word != otherwise).map(|(word, _)| *word).collect();
    let of_user = |word: &str| {
        let bases = PLAIN.map(str::to_lowercase);
        bases.iter().any(|base| word.split('_').any(|part| part == base)) || word.starts_with('v')
    };
    assert!(moved.iter().all(|word| of_user(word)), "{names:?} renames {moved:?}, which are ours\n{text}");
}

/// The invariant of this module: names of the code and of the user never collide, whatever the user's are.
#[test]
fn source_is_the_same_but_for_the_users_names() {
    let known = identifiers();
    // Others cannot be names in a kernel.
    let all = known.iter().map(String::as_str).chain(MORE).filter(|name| Name::new(name).is_identifier());
    let all: BTreeSet<&str> = all.collect();
    let all: Vec<&str> = all.into_iter().collect();
    let plain = words(named_items(&program(PLAIN)));
    assert!(all.len() > 100 && known.contains("coordinates") && known.contains("v0"), "{all:?}");
    for start in (0..all.len()).step_by(ROLES) {
        // Each name takes each role, next to other odd names; the names of a program are distinct.
        for turn in 0..ROLES {
            let names = std::array::from_fn(|role| all[(start + (role + turn) % ROLES) % all.len()]);
            same_but_for_names(&plain, names);
        }
    }
}

#[test]
fn names_that_differ_in_case_or_underscores_stay_apart() {
    let plain = words(named_items(&program(PLAIN)));
    same_but_for_names(&plain, ["x", "X", "x_", "x__", "y", "Y", "y_", "Y_"]);
    same_but_for_names(&plain, ["A_tile", "kernel", "engine", "v0", "A", "a_", "sharding_a", "leaf"]);
}

/// A comment is an attribute until formatting, and an attribute that is too long for a line would be split over
/// several.
#[test]
fn a_comment_is_one_line_however_long_it_is() {
    let long = "a_loop_with_a_name_that_is_longer_than_any_line_of_emitted_source_would_be_without_it_and_longer_still";
    let source = rust_source(&program(["p", "q", long, "ki", "A", "B", "C", "alpha"]), &SourceOptions::default());
    let comment = format!("        // step 2: divide(k_, {long}, ki, 2)");
    assert!(source.lines().any(|line| line == comment), "{source}");
    assert!(source.lines().all(|line| !line.contains("#[")), "{source}");
}

/// A variable that nothing reads would be a warning in the user's crate.
#[test]
fn a_program_that_asks_for_no_coordinates_names_none() {
    let used = |program: &Program| rust_source(program, &SourceOptions::default()).contains("run.coordinates()");
    let everywhere = Schedule::from_spec(polyshard_testing::example::matmul(4, 5, 6)).lower().expect("a program");
    assert!(!used(&everywhere));
    assert!(used(&program(PLAIN)));
}
