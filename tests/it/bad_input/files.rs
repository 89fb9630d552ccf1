//! `.npy` files that are missing, damaged, or hold the wrong data.

use super::{SOON, refused_everywhere};
use polyshard::prelude::*;
use polyshard_testing::start::{Start, command_line, run};
use polyshard_testing::test_folder;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes a file as a user does, and returns its path.
pub(crate) fn random(folder: &Path, name: &str, shape: &str, dtype: &str) -> PathBuf {
    let path = folder.join(name);
    let out = path.to_str().expect("cargo's folder has a plain name");
    let arguments = ["random", "--shape", shape, "--type", dtype, "--out", out];
    let ended = run(Start::Plain, &command_line(cfg!(feature = "mpi")), &arguments, SOON);
    assert!(ended.success, "{}", ended.stderr);
    path
}

#[test]
fn a_missing_file_is_named() {
    let path = test_folder!("missing").join("A.npy");
    let path = path.display();
    let message = format!("cannot open `{path}`: No such file or directory");
    refused_everywhere(&format!("summa --a {path}"), &message);
}

#[test]
fn a_file_that_is_no_npy_file_is_refused() {
    let path = test_folder!("no_npy").join("A.npy");
    fs::write(&path, "1 2 3\n4 5 6\n").expect("the folder is ours");
    let path = path.display();
    let message = "it is not a `.npy` file: it does not begin with `\\x93NUMPY`; write it with `numpy.save`";
    refused_everywhere(&format!("summa --a {path}"), &format!("cannot read `{path}`: {message}"));
}

#[test]
fn a_truncated_file_is_refused_with_what_is_missing() {
    let path = random(&test_folder!("truncated"), "A.npy", "30,20", "f64");
    let file = fs::OpenOptions::new().write(true).open(&path).expect("it was just made");
    file.set_len(file.metadata().expect("it is open").len() - 100).expect("the file is ours");
    let path = path.display();
    let message = "it is cut short: 4700 bytes of elements instead of 4800; write it again";
    refused_everywhere(&format!("summa --a {path}"), &format!("cannot read `{path}`: {message}"));
}

#[test]
fn files_of_shapes_that_do_not_fit_are_refused() {
    let folder = test_folder!("shapes");
    let (a, b) = (random(&folder, "A.npy", "30,20", "f32"), random(&folder, "B.npy", "21,10", "f32"));
    let cube = random(&folder, "cube.npy", "3,4,5", "f32");
    let (a, b, cube) = (a.display(), b.display(), cube.display());

    let message = format!("cannot use `{b}`: its shape is [21, 10], but [20, 10] is expected");
    refused_everywhere(&format!("summa --a {a} --b {b}"), &message);
    let message = format!("cannot use `{a}`: its shape is [30, 20], but [31, 20] is expected");
    refused_everywhere(&format!("summa --a {a} --size 31,20,10"), &message);
    let message = format!("cannot use `{cube}`: its shape is [3, 4, 5], but [3, 4] is expected");
    refused_everywhere(&format!("summa --a {cube}"), &message);
}

#[test]
fn files_of_types_that_do_not_fit_are_refused() {
    let folder = test_folder!("types");
    let (a, b) = (random(&folder, "A.npy", "30,20", "f64"), random(&folder, "B.npy", "20,10", "i64"));
    let (a, b) = (a.display(), b.display());
    let convert = |file: &dyn std::fmt::Display, found: &str, wanted: &str| {
        format!(
            "cannot use `{file}`: it holds {found}, but {wanted} is expected: convert it with NumPy's `.astype('float"
        )
    };
    refused_everywhere(&format!("summa --type f32 --a {a}"), &convert(&a, "f64", "f32"));
    // A narrower type would be converted.
    refused_everywhere(&format!("summa --type f32 --b {b}"), &convert(&b, "i64", "f32"));
}

#[test]
fn a_folder_and_a_pipe_are_no_files() {
    let folder = test_folder!("no_files");
    refused_everywhere(&format!("summa --a {}", folder.display()), "it is a folder, not a file");
    let pipe = folder.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo starts").success());
    refused_everywhere(&format!("summa --a {}", pipe.display()), "it is a pipe or a device, not a file");
}

#[test]
fn a_program_that_reads_another_shape_or_type_is_told_both() {
    let path = random(&test_folder!("another"), "A.npy", "3,4", "f64");
    let mesh = Mesh::new([("x", 2)]);
    let read = |shape: &[usize]| {
        let sharding = Sharding::new(&mesh, shape, &[]).expect("a sharding");
        let read = polyshard::spmd(2, |world| Ok(DistArray::<f32>::read_npy(world, &path, &sharding)?));
        read.expect_err("the file should be refused").to_string()
    };
    let path = path.display();
    let convert =
        "it holds f64, but f32 is expected: convert it with NumPy's `.astype('float32')`, or compute with f64";
    let transpose = "its shape is [3, 4], but [4, 3] is expected: write its transpose, NumPy's `.T`";
    for (shape, message) in [([3, 4], convert.to_owned()), ([4, 3], format!("{convert}; and {transpose}"))] {
        let said = read(&shape);
        assert!(said.ends_with(&format!("cannot use `{path}`: {message}")), "{said}");
    }
}
