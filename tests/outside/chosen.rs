//! The output of `polyshard einsum --print main`, as a program of the crate outside, compiled and run with the others.

use super::STARTS;
use polyshard::ndarray::{Array2, Ix2};
use polyshard::runtime::NpyFile;
use polyshard_testing::start::{self, Ended, Start, run};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn polyshard(arguments: &[&str]) -> String {
    let program = start::command_line(cfg!(feature = "mpi"));
    let Ended { success, stdout, stderr, .. } = run(Start::Plain, &program, arguments, LIMIT);
    assert!(success, "{arguments:?}:\n{stdout}\n{stderr}");
    stdout
}

fn files(folder: &Path) -> [String; 3] {
    ["A.npy", "B.npy", "chosen.npy"].map(|name| folder.join(name).display().to_string())
}

/// Writes two arrays into the folder, and returns the program for their product on two ranks.
pub(crate) fn source(folder: &Path) -> String {
    let [a, b, _] = files(folder);
    polyshard(&["random", "--shape", "9,6", "--type", "f64", "--seed", "1", "--out", &a]);
    polyshard(&["random", "--shape", "6,5", "--type", "f64", "--seed", "2", "--out", &b]);
    let on = ["--machine", "a100", "--ranks", "2", "--all-ranks", "--print", "main"];
    let printed = polyshard(&[&["einsum", "ij,jk->ik", &a, &b][..], &on].concat());
    let (manifest, main) = printed.split_once("\n// src/main.rs\n\n").expect("two files");
    let manifest = manifest.strip_prefix("// Cargo.toml\n\n").expect("the manifest comes first");
    assert!(manifest.starts_with("[package]\nname = \"compute-einsum\"\n"), "{manifest}");
    let checkout = format!("\npolyshard = {{ path = {:?} }}\n", env!("CARGO_MANIFEST_DIR"));
    assert!(manifest.contains(&checkout) && manifest.contains("\n[profile.release.build-override]\n"), "{manifest}");
    assert!(main.contains("//! mpirun -n 2 target/release/compute-einsum A.npy B.npy out.npy\n"), "{main}");
    main.to_owned()
}

/// The program writes the product, on threads and processes, and each rank reports that it is right if the check is
/// enabled.
pub(crate) fn check(folder: &Path, program: &Path) {
    let files = files(folder);
    let read = |file: &str| -> Array2<f64> {
        let array = NpyFile::open(PathBuf::from(file)).and_then(|file| file.read::<f64>()).expect("it was written");
        array.into_dimensionality::<Ix2>().expect("a matrix")
    };
    let expected = read(&files[0]).dot(&read(&files[1]));
    for start in STARTS {
        for (check, checked) in [(None, 0), (Some("--check"), 2)] {
            let arguments: Vec<_> = files.iter().map(String::as_str).chain(check).collect();
            let Ended { success, stdout, stderr, .. } = run(*start, program, &arguments, LIMIT);
            assert!(success, "{start:?}: {stdout}\n{stderr}");
            assert_eq!(stdout.matches(" elements of out in ").count(), 2, "{stdout}");
            assert_eq!(stdout.matches(": largest error ").count(), checked, "{stdout}");
        }
        let found = read(&files[2]);
        assert!((found - &expected).iter().all(|off| off.abs() < 1e-12), "{start:?}");
        std::fs::remove_file(&files[2]).expect("it was written");
    }
}
