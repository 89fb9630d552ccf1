//! Temporary files: written before they are put in place.
//!
//! On Linux, if the file system supports it, the file has no name and disappears with the process that writes it, however that ends; it
//! gets a name for the moment before it replaces the old file. Elsewhere it has a name that ends in `.partial` and is locked while it is
//! written: if no process holds the lock, its process was killed.

use super::folder_of;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::{Builder, NamedTempFile, TempPath};

const SUFFIX: &str = ".partial";

/// The number of random characters between prefix and suffix.
const RANDOM: usize = 6;

/// Files with such names that this process may have made and not put in place.
static NAMED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The place and the name of a file that is removed when they are dropped, unless it is put in place.
#[derive(Debug)]
pub(super) struct Temporary {
    pub(super) place: PathBuf,
    name: Option<TempPath>,
}

impl Temporary {
    /// Makes a file for `place`, with the permissions of a new one; with `POLYSHARD_PARTIAL=named` it has a name.
    pub(super) fn new(place: &Path) -> io::Result<(File, Self)> {
        // File systems report in several ways that they do not support files without a name; other errors are reported by the other way.
        #[cfg(target_os = "linux")]
        if std::env::var_os("POLYSHARD_PARTIAL").is_none_or(|value| value != "named")
            && let Ok(file) = unnamed(folder_of(place))
        {
            return Ok((file, Self { place: place.into(), name: None }));
        }
        Self::with_name(place)
    }

    pub(super) fn with_name(place: &Path) -> io::Result<(File, Self)> {
        let (file, name) = beside(place, |builder, folder| builder.tempfile_in(folder))?.into_parts();
        // Not all file systems have locks; without them, left-over files cannot be recognised.
        let _ = file.try_lock();
        Ok((file, Self { place: place.into(), name: Some(name) }))
    }

    /// Gives the file a name beside its place, from which it can be put there.
    pub(super) fn named(self, file: &File) -> io::Result<(TempPath, PathBuf)> {
        let Self { place, name } = self;
        let name = match name {
            #[cfg(target_os = "linux")]
            None => {
                use rustix::fs::{AtFlags, CWD, linkat};
                let (link, at) = (link_to(file), AtFlags::SYMLINK_FOLLOW);
                let link = |name: &Path| Ok(linkat(CWD, &link, CWD, name, at)?);
                beside(&place, |builder, folder| builder.make_in(folder, link))?.into_temp_path()
            }
            name => name.expect("files without a name are made on Linux alone; this is a bug in polyshard"),
        };
        Ok((name, place))
    }
}

/// Makes a file without a name that can be given one later.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
    let file = File::from(rustix::fs::open(folder, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode)?);
    fs::symlink_metadata(link_to(&file)).map(|_| file)
}

#[cfg(target_os = "linux")]
fn link_to(file: &File) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Calls `make` to make a file beside `place`, whose name is recorded.
fn beside<R>(
    place: &Path,
    make: impl FnOnce(&Builder<'_, '_>, &Path) -> io::Result<NamedTempFile<R>>,
) -> io::Result<NamedTempFile<R>> {
    let prefix = prefix(place);
    let mut builder = Builder::new();
    builder.prefix(&prefix).rand_bytes(RANDOM).suffix(SUFFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut named = named();
    named.retain(|name| name.exists());
    let made = make(&builder, folder_of(place))?;
    named.push(made.path().to_owned());
    Ok(made)
}

/// The prefix of the names.
fn prefix(place: &Path) -> std::ffi::OsString {
    let mut prefix = place.file_name().unwrap_or_default().to_owned();
    prefix.push(".");
    // Names have 255 bytes at most on most file systems.
    if prefix.len() <= 200 { prefix } else { "polyshard.".into() }
}

/// Returns the files for `place` that no process writes any more.
pub(super) fn left_over(place: &Path) -> Vec<PathBuf> {
    let prefix = prefix(place);
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.len() == prefix.len() + RANDOM + SUFFIX.len()
            && name.starts_with(prefix.as_encoded_bytes())
            && name.ends_with(SUFFIX.as_bytes())
            && File::open(path).is_ok_and(|file| file.try_lock().is_ok())
    };
    let Ok(entries) = fs::read_dir(folder_of(place)) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_one).collect()
}

fn named() -> MutexGuard<'static, Vec<PathBuf>> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the files that this process writes under names that end in `.partial`, for a process that is about to end because of a signal.
///
/// Writers are not stopped, and may fail; so the process should end immediately.
pub fn remove_partial_files() {
    for name in &*named() {
        let _ = fs::remove_file(name);
    }
}
