//! Each case runs in a separate process, which its signal ends.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

const CASE: &str = "POLYSHARD_TEST_OF_SIGNALS";

/// Runs `case` in a separate process with the handlers installed, by running this test again.
fn in_process(test: &str, case: impl FnOnce(&Path)) -> Option<Output> {
    if let Some(path) = std::env::var_os(CASE) {
        super::install();
        case(Path::new(&path));
        std::process::exit(3);
    }
    let path = path(test);
    let arguments = ["--exact", &format!("command::signals::tests::{test}"), "--nocapture"];
    let test = std::env::current_exe().expect("a test knows its path");
    Some(Command::new(test).args(arguments).env(CASE, path).output().expect("a process starts"))
}

fn path(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("polyshard-{test}-{}", std::process::id()))
}

/// Maps two pages of a file, truncates it, and reads them, on two threads at once.
fn read_what_is_cut(path: &Path, protection: i32) {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).expect("a file");
    file.set_len(8192).expect("the file is ours");
    // SAFETY: a new mapping does not change memory that is in use.
    let map = unsafe { libc::mmap(std::ptr::null_mut(), 8192, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    file.set_len(100).expect("the file is ours");
    std::fs::remove_file(path).expect("the file is ours");
    let address = map as usize + 4096;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            // SAFETY: the page is mapped; the test is that no file backs it any more.
            scope.spawn(move || unsafe { (address as *const u8).read_volatile() });
        }
    });
}

fn said(ended: Option<Output>) -> (ExitStatus, String) {
    let Output { status, stderr, .. } = ended.expect("this is the process that starts the other");
    (status, String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_named() {
    let name = "a_file_that_is_cut_while_it_is_read_is_named";
    let (status, stderr) = said(in_process(name, |path| read_what_is_cut(path, libc::PROT_READ)));
    let expected = format!(
        "error: cannot read `{} (deleted)`: it has become shorter since it was opened; run again when nothing writes to it\n",
        path(name).display()
    );
    assert_eq!((status.code(), stderr), (Some(1), expected));
}

#[test]
fn shared_memory_that_is_not_there_is_named() {
    let name = "shared_memory_that_is_not_there_is_named";
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    let (status, stderr) = said(in_process(name, |path| read_what_is_cut(path, writable)));
    let expected = format!(
        "error: no memory left for `{} (deleted)`, which processes share; free some in `/dev/shm`, or start fewer ranks\n",
        path(name).display()
    );
    assert_eq!((status.code(), stderr), (Some(1), expected));
}

#[test]
fn what_is_no_mapping_of_a_file_ends_as_without_a_handler() {
    let sent = |_: &Path| {
        // The standard library's handler, which gets the first signal, leaves the next one to the system.
        for _ in 0..2 {
            // SAFETY: it ends the process.
            unsafe { libc::raise(libc::SIGBUS) };
        }
    };
    let (status, stderr) = said(in_process("what_is_no_mapping_of_a_file_ends_as_without_a_handler", sent));
    assert_eq!((status.signal(), &*stderr), (Some(libc::SIGBUS), ""));
}
