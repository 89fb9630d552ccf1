//! Files of every kind as output paths.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("polyshard-output-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a new folder");
        Self(folder.canonicalize().expect("it was just made"))
    }

    /// The path of `name` in it.
    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file of this name, whose content is the name.
    fn file(&self, name: &str) -> PathBuf {
        fs::write(self.at(name), name).expect("the folder is ours");
        self.at(name)
    }

    /// The names of its entries.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder is ours");
        let mut names: Vec<_> = entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    /// The error for `path`, with `F` for this folder.
    #[track_caller]
    fn refused(&self, path: impl AsRef<Path>) -> String {
        let message = Output::new(path).map(drop).expect_err("it should be refused").to_string();
        message.replace(&*self.0.to_string_lossy(), "F")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn held(path: &Path) -> String {
    fs::read_to_string(path).expect("it was written")
}

#[test]
fn a_place_that_is_looked_at_is_not_changed() {
    let folder = Folder::new();
    let (new, old) = (folder.at("new"), folder.file("old"));
    let outputs = [&new, &old].map(|path| Output::new(path).expect("it can be written"));
    assert_eq!((folder.names(), held(&old)), (vec!["old".to_owned()], "old".to_owned()));
    outputs.iter().for_each(|output| output.write(b"written").expect("it can be written"));
    assert_eq!((held(&new), held(&old)), ("written".to_owned(), "written".to_owned()));
    assert_eq!(folder.names(), ["new", "old"]);
}

/// A file that is written under a temporary name, as on systems without unnamed files.
fn begun_by_name(path: &Path) -> OutputFile {
    let (file, temporary) = Temporary::with_name(path).expect("the folder is ours");
    OutputFile { path: path.into(), file, temporary: Some(temporary) }
}

#[test]
fn what_is_not_finished_leaves_what_was_there() {
    let folder = Folder::new();
    let old = folder.file("old");
    for name in ["old", "new"] {
        let begun = Output::new(folder.at(name)).and_then(|output| output.create()).expect("it can be written");
        let by_name = begun_by_name(&folder.at(name));
        for (mut file, seen) in [(begun, if cfg!(target_os = "linux") { 2 } else { 3 }), (by_name, 2)] {
            file.write(b"begun").expect("there is room");
            assert_eq!(folder.names().len(), seen, "no other file has a name");
            drop(file.complete().expect("there is room"));
        }
        assert_eq!((folder.names(), held(&old)), (vec!["old".to_owned()], "old".to_owned()));
    }
}

#[test]
fn files_that_are_complete_are_put_in_place_together() {
    let folder = Folder::new();
    let old = folder.file("old");
    let begun = Output::new(&old).and_then(|output| output.create()).expect("it can be written");
    let files = [begun, begun_by_name(&folder.at("new"))].map(|mut file| {
        file.write(b"written").expect("there is room");
        file.complete().expect("there is room")
    });
    assert_eq!(held(&old), "old");
    CompleteFile::commit(files).expect("the folder is ours");
    assert_eq!((folder.names(), held(&old), held(&folder.at("new"))), {
        let written = "written".to_owned();
        (vec!["new".to_owned(), "old".to_owned()], written.clone(), written)
    });
}

/// A file that cannot be put in place keeps those after and before it from being put in place, if that is detected when names are given.
#[cfg(target_os = "linux")]
#[test]
fn files_are_put_in_place_together_or_not_at_all() {
    let folder = Folder::new();
    let gone = folder.at("gone");
    fs::create_dir(&gone).expect("the folder is ours");
    let outputs = [folder.at("a"), gone.join("b")].map(|path| Output::new(path).expect("it can be written"));
    let files = outputs.map(|output| output.create().and_then(OutputFile::complete).expect("it can be written"));
    fs::remove_dir(&gone).expect("the folder is ours");
    CompleteFile::commit(files).expect_err("there is no folder any more");
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn what_a_killed_process_left_over_is_told_from_what_is_written() {
    let folder = Folder::new();
    let output = Output::new(folder.at("c")).expect("it can be written");
    let written = begun_by_name(&folder.at("c"));
    let left = folder.file("c.Ab12Cd.partial");
    for other in ["c.Ab12C.partial", "d.Ab12Cd.partial", "c.Ab12Cd.part"] {
        folder.file(other);
    }
    assert_eq!(folder.names().len(), 5, "one is written under a name");
    assert_eq!(output.left_over(), [left]);
    drop(written);
    assert_eq!(folder.names().len(), 4);
}

#[test]
fn places_that_cannot_be_written_are_refused_with_what_to_do() {
    let folder = Folder::new();
    let file = folder.file("file");
    let gone = folder.at("none").join("c.npy");
    assert_eq!(
        folder.refused(gone),
        "cannot write `F/none/c.npy`: the folder `F/none` does not exist; create it first"
    );
    assert_eq!(folder.refused(&folder.0), "cannot write `F`: it is a folder; name a file in it");
    assert_eq!(folder.refused(folder.at("c/")), "cannot write `F/c/`: it does not name a file");
    assert_eq!(folder.refused(""), "cannot write ``: it does not name a file");
    assert_eq!(folder.refused(file.join("c.npy")), "cannot write `F/file/c.npy`: `F/file` is not a folder");
    let long = folder.refused(folder.at(&"c".repeat(300)));
    assert!(long.contains("ile name too long"), "{long}");
    assert!(Output::new(folder.at(&"c".repeat(250))).is_ok());
    assert_eq!(folder.names(), ["file"]);
}

#[cfg(unix)]
#[test]
fn places_without_permission_are_refused_with_what_to_do() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let folder = Folder::new();
    let file = folder.file("file");
    let sealed = folder.at("sealed");
    fs::create_dir(&sealed).expect("the folder is ours");
    for (path, mode) in [(&file, 0o444), (&sealed, 0o555)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    let why = "write elsewhere, or change the permission";
    // The superuser needs no permission.
    if fs::metadata("/proc/self").map_or(0, |own| own.uid()) == 0 {
        Output::new(&file).expect("it can be written").write(b"new").expect("it can be written");
        assert_eq!(fs::metadata(&file).expect("it is there").mode() & 0o777, 0o444, "permissions are kept");
    } else {
        let message = format!("cannot write `F/file`: no permission to write to it; {why}");
        assert_eq!(folder.refused(&file), message);
        let message = "no permission to write to the folder `F/sealed`";
        assert_eq!(folder.refused(sealed.join("c")), format!("cannot write `F/sealed/c`: {message}; {why}"));
    }
    fs::set_permissions(&sealed, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn more_than_is_free_is_refused() {
    let folder = Folder::new();
    let output = Output::new(folder.at("c")).expect("it can be written").with_room(1).expect("a byte is free");
    let message = output.with_room(1 << 80).expect_err("no disk has it").to_string();
    assert!(
        message.contains("`: it needs 1.21e24 B, but ") && message.ends_with("elsewhere, or make room"),
        "{message}"
    );
}

#[cfg(unix)]
#[test]
fn an_input_is_known_by_whatever_name() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    let (a, b) = (folder.file("a"), folder.file("b"));
    symlink(&a, folder.at("link")).expect("the folder is ours");
    fs::hard_link(&a, folder.at("hard")).expect("the folder is ours");
    let dotted = folder.0.join(".").join("a");
    for out in [&a, &folder.at("link"), &folder.at("hard"), &dotted] {
        let output = Output::new(out).expect("it can be written");
        let message = output.other_than([&*b, &a]).expect_err("it is an input").to_string();
        let expected = format!("it is the input `{}`; write to another file", a.display());
        assert!(message.ends_with(&expected), "{message}");
    }
    assert!(Output::new(folder.at("new")).and_then(|output| output.other_than([&*a, &b])).is_ok());
}

#[cfg(unix)]
#[test]
fn links_are_followed() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    folder.file("old");
    for (link, target) in [("to old", "old"), ("to new", "new"), ("to link", "to new"), ("a", "b"), ("b", "a")] {
        symlink(target, folder.at(link)).expect("the folder is ours");
    }
    let before = folder.names();
    for link in ["to old", "to link"] {
        Output::new(folder.at(link)).expect("it can be written").write(link.as_bytes()).expect("it can be written");
        assert!(folder.at(link).is_symlink(), "`{link}` is still a link");
    }
    assert_eq!((held(&folder.at("old")), held(&folder.at("new"))), ("to old".to_owned(), "to link".to_owned()));
    assert_eq!(folder.names().len(), before.len() + 1);
    assert!(folder.refused(folder.at("a")).starts_with("cannot write `F/a`: "));
    symlink(folder.at("none").join("c"), folder.at("astray")).expect("the folder is ours");
    let message = "cannot write `F/astray`: the folder `F/none` does not exist; create it first";
    assert_eq!(folder.refused(folder.at("astray")), message);
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_no_file_is_written_to_as_it_is() {
    use std::os::unix::fs::FileTypeExt;
    let is_device = || fs::metadata("/dev/null").expect("it is there").file_type().is_char_device();
    assert!(is_device());
    let output = Output::new("/dev/null").and_then(|output| output.with_room(1 << 80)).expect("it takes everything");
    output.write(&[0; 4096]).expect("it takes everything");
    assert!(is_device(), "/dev/null is still a device");

    let full = Output::new("/dev/full").expect("it is there").write(&[0; 4096]).expect_err("it takes nothing");
    let message = "cannot write `/dev/full`: the file system is full; write elsewhere, or make room";
    assert_eq!(full.to_string(), message);

    let folder = Folder::new();
    let pipe = folder.at("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    // Checking a pipe does not wait for its reader.
    let output = Output::new(&pipe).expect("it can be written");
    let reader = std::thread::spawn(move || fs::read(pipe).expect("a pipe"));
    output.write(b"through").expect("somebody reads");
    assert_eq!(reader.join().expect("it reads"), b"through");
    let socket = folder.at("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    assert_eq!(folder.refused(&socket), "cannot write `F/socket`: it is a socket; name a file");
}

/// A file that a process has open, such as standard output, is not replaced.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_a_process_has_open_is_appended_to() {
    use std::os::fd::AsRawFd;
    let folder = Folder::new();
    let file = OpenOptions::new().append(true).open(folder.file("log")).expect("it is there");
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    Output::new(&name).expect("it can be written").write(b" and more").expect("it can be written");
    assert_eq!(held(&folder.at("log")), "log and more");
}
