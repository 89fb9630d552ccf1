//! Output paths: their kind, the space on the disk, and the files that remain if it is full.

use super::files::random;
use super::{SOON, refused, refused_everywhere};
use polyshard_testing::start::{self, Ended, Start, run};
use polyshard_testing::{example_path, test_folder};
use std::fs;
use std::path::{Path, PathBuf};

fn polyshard() -> PathBuf {
    start::command_line(cfg!(feature = "mpi"))
}

/// The names of the entries of a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is ours");
    let mut names: Vec<_> = entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into()).collect();
    names.sort();
    names
}

fn text(path: &Path) -> &str {
    path.to_str().expect("cargo's folder has a plain name")
}

/// Runs a program by a shell command, in which `"$0" "$@"` are the program and its arguments.
fn by_shell(line: &str, program: &Path, arguments: &[&str]) -> Ended {
    let arguments = [&["-c", line, text(program)], arguments].concat();
    run(Start::Plain, Path::new("bash"), &arguments, SOON)
}

#[test]
fn a_folder_that_is_not_there_is_said_before_the_work() {
    let none = test_folder!("no_folder").join("none");
    let path = none.join("C.npy");
    let message =
        format!("cannot write `{}`: the folder `{}` does not exist; create it first", path.display(), none.display());
    refused_everywhere(&format!("summa --size 3,4,5 --out {}", path.display()), &message);
    // Inputs that cannot be read are detected later.
    refused_everywhere(
        &format!("summa --size 3,4,5 --out {}", none.parent().expect("a folder").display()),
        "it is a folder",
    );
    let started = run(Start::Plain, &example_path!("summa"), &["--size", "3,4,5", "--out", text(&path)], SOON);
    assert_eq!(started.stdout, "", "nothing was computed");
    for arguments in [
        &["random", "--shape", "3,4", "--out", text(&path)][..],
        &["machine", "measure", "--quick", "--plot", text(&path)],
        &["redistribute", "--mesh", "x=4", "[2{x}8]", "[8]", "--draw", text(&path)],
    ] {
        refused(Start::Plain, &polyshard(), arguments, &message);
    }
}

#[test]
fn an_output_that_is_an_input_is_refused_by_whatever_name() {
    let folder = test_folder!("output_is_input");
    let a = random(&folder, "A.npy", "6,6", "f32");
    std::os::unix::fs::symlink("A.npy", folder.join("link.npy")).expect("the folder is ours");
    let before = fs::read(&a).expect("it was just made");
    for name in ["A.npy", "link.npy", "./A.npy"] {
        let out = folder.join(name);
        let message =
            format!("cannot write `{}`: it is the input `{}`; write to another file", out.display(), a.display());
        refused_everywhere(&format!("summa --size 6,6,6 --a {} --out {}", a.display(), out.display()), &message);
    }
    assert_eq!(fs::read(&a).expect("it is still there"), before);
    assert_eq!(names(&folder), ["A.npy", "link.npy"]);
}

#[test]
fn links_are_followed_and_devices_stay() {
    use std::os::unix::fs::FileTypeExt;
    let folder = test_folder!("links");
    std::os::unix::fs::symlink("C.npy", folder.join("link.npy")).expect("the folder is ours");
    let link = folder.join("link.npy");
    for out in [text(&link), "/dev/null"] {
        let summa = run(Start::Plain, &example_path!("summa"), &["--size", "3,4,5", "--out", out], SOON);
        let arguments = ["random", "--shape", "3,5", "--out", out];
        let random = run(Start::Plain, &polyshard(), &arguments, SOON);
        assert!(summa.success && random.success, "{}{}", summa.stderr, random.stderr);
    }
    assert!(link.is_symlink());
    assert_eq!(names(&folder), ["C.npy", "link.npy"]);
    assert!(fs::metadata("/dev/null").expect("it is there").file_type().is_char_device());
}

/// The limit on file sizes imitates a full disk: full from the start, and after part of the file.
#[test]
fn a_file_that_grows_too_large_leaves_what_was_there() {
    let folder = test_folder!("too_large");
    let old = random(&folder, "old.npy", "3,3", "f64");
    let before = fs::read(&old).expect("it was just made");
    let out = text(&old);
    let summa = example_path!("summa");
    for limit in [0, 1] {
        let line = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\"");
        for (program, arguments) in [
            (&*summa, &["--size", "64,4,64", "--out", out][..]),
            (&polyshard(), &["random", "--shape", "64,64", "--out", out]),
        ] {
            let ended = by_shell(&line, program, arguments);
            let message = format!("cannot write `{out}`: File too large (os error 27)");
            assert!(!ended.success && ended.stderr.matches(&message).count() == 1, "{limit}: {}", ended.stderr);
            assert_eq!(
                (fs::read(&old).expect("it is still there"), names(&folder)),
                (before.clone(), vec!["old.npy".into()])
            );
        }
    }
    refused_everywhere(
        "summa --size 3,4,5 --out /dev/full",
        "cannot write `/dev/full`: the file system is full; write",
    );
}

#[test]
fn a_file_that_no_disk_has_room_for_is_refused_at_once() {
    let out = test_folder!("no_room").join("A.npy");
    let arguments = ["random", "--shape", "1000000000000,1000000", "--out", text(&out)];
    refused(Start::Plain, &polyshard(), &arguments, "`: it needs 4 EB, but ");
    let arguments = ["random", "--shape", "1000000000000,1000000000000", "--out", text(&out)];
    refused(Start::Plain, &polyshard(), &arguments, "does not fit a file; make it smaller");
    assert_eq!(names(out.parent().expect("a folder")), [""; 0]);
}

#[test]
fn arrays_and_threads_that_are_too_many_are_refused_before_they_are_made() {
    for (line, array) in [
        ("summa --size 1000000,1000000,1000000", "[1000000, 1000000]"),
        ("fft3d --size 100000,100000,100000", "[100000, 100000, 100000, 2]"),
        ("chain --size 1000000,1000000,1000000,1000000", "[1000000, 1000000]"),
    ] {
        refused_everywhere_on(4, line, &format!("for a rank's block of an array of shape {array}: "));
    }
    for line in ["summa --mesh 200x200", "ag_gemm --mesh 40000", "megatron --mesh 200x200 --size 1,1,1"] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let message = "40000 ranks cannot be threads of one process, which has at most ";
        refused(Start::Plain, &example_path!(words[0]), &words[1..], message);
    }
    let arguments = ["machine", "detect", "--ranks", "40000"];
    refused(Start::Plain, &polyshard(), &arguments, "40000 ranks cannot be threads of one process, which has");
}

/// Checks the refusal on threads and on this many processes.
#[track_caller]
fn refused_everywhere_on(processes: usize, line: &str, message: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    refused(Start::Plain, &example_path!(words[0]), &words[1..], message);
    #[cfg(feature = "mpi")]
    refused(Start::Mpi(processes), &example_path!(words[0]), &words[1..], message);
    #[cfg(not(feature = "mpi"))]
    let _ = processes;
}

/// Programs that print on request, each with its arguments.
fn printing() -> Vec<(PathBuf, Vec<&'static str>)> {
    let examples = [
        ("summa", &["--print", "program"][..]),
        ("summa", &["--help"]),
        ("megatron", &["--explain"]),
        ("compiled", &["--source"]),
    ];
    let commands = [
        &["redistribute", "--mesh", "x=4", "[2{x}8]", "[8]"][..],
        &["machine", "list"],
        &["--help"],
        &["--version"],
        &["random", "--help"],
    ];
    let examples = examples.iter().map(|(name, arguments)| (example_path!(name), arguments.to_vec()));
    examples.chain(commands.iter().map(|arguments| (polyshard(), arguments.to_vec()))).collect()
}

#[test]
fn standard_output_that_is_full_is_an_error_and_no_panic() {
    for (program, arguments) in printing() {
        let ended = by_shell("exec \"$0\" \"$@\" > /dev/full", &program, &arguments);
        let said = format!("{} {arguments:?}: {}", program.display(), ended.stderr);
        assert!(!ended.success && !ended.stderr.contains("panicked"), "{said}");
        assert_eq!(
            ended.stderr.matches("cannot write to standard output: No space left on device").count(),
            1,
            "{said}"
        );
    }
}

#[test]
fn standard_output_that_nobody_reads_is_no_error() {
    for (program, arguments) in printing() {
        for line in ["\"$0\" \"$@\" | true; exit ${PIPESTATUS[0]}", "exec \"$0\" \"$@\" >&-"] {
            let ended = by_shell(line, &program, &arguments);
            let said = format!("{} {arguments:?}: {}", program.display(), ended.stderr);
            assert!(ended.success && ended.stderr.is_empty(), "{said}");
        }
    }
}

#[test]
fn standard_error_that_is_full_ends_with_the_exit_code_alone() {
    for (program, arguments) in [(example_path!("summa"), "--mesh=0x1"), (polyshard(), "nonsense")] {
        let line = "\"$0\" \"$@\" 2> /dev/full; code=$?; test $code = 1 -o $code = 2 || echo ended with $code";
        let ended = by_shell(line, &program, &[arguments]);
        assert_eq!(ended.stdout, "", "{} {arguments}", program.display());
    }
}
